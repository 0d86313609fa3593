"""Outdated facts by a scripted revision model: closed or suspected when retained, ranked and marked when recalled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from builders import NOON, exported, said

from databases import store_at
from vmemo import Fact, Memory
from vmemo.errors import InvalidInput
from vmemo.models import MessageId, Role
from vmemo.models.search import ClaimPair, StatementPair
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.samples import a_batch, a_fact

STORES = ("sqlite",)

CLOSED, SUSPECTED = 0.97, 0.31
DAY = 24 * 60


class ScriptedModel:
    """Finds a statement outdated if both hold the words of a rule; notes the pairs that it compares."""

    name = "scripted"
    encoder = "hash"

    def __init__(self, rules: dict[tuple[str, str], float]) -> None:
        self._rules = rules
        self.compared: list[tuple[str, str]] = []

    async def score(self, pairs: Sequence[StatementPair]) -> list[float]:
        """Return the probability of the first rule that holds, or 0."""
        texts = [(pair.earlier, pair.later) for pair in pairs]
        self.compared += texts
        return [self._probability(*text) for text in texts]

    async def score_claims(self, claims: Sequence[ClaimPair]) -> list[float]:
        """Return the same for each claim."""
        return [self._probability(claim.claim, claim.later) for claim in claims]

    def _probability(self, earlier: str, later: str) -> float:
        return next((p for (a, b), p in self._rules.items() if a in earlier and b in later), 0.0)


RULES = {("at the bakery", "at the library"): CLOSED, ("tea every", "coffee every"): SUSPECTED}
OLD_JOB, NEW_JOB = "I work at the bakery in town.", "Correction: I work at the library in town."


def open_with(url: str, rules: dict[tuple[str, str], float] = RULES) -> tuple[Memory, ScriptedModel]:
    model = ScriptedModel(rules)
    return Memory(url, embedder=HashEmbedder(), revision_model=model), model


def tell(memory: Memory, text: str, days: float, role: Role = "user", tags: Sequence[str] = ()) -> MessageId:
    """Retain a message of Ana's, some days after noon."""
    message = said(text, days * DAY, speaker="Ana", role=role).model_copy(update={"tags": tuple(tags)})
    memory.retain_sync(message)
    return message.id


def stored(memory: Memory) -> dict[str, Fact]:
    return {fact.text.removeprefix("Ana: "): fact for fact in memory.facts_sync(limit=100)}


def recalled(memory: Memory, question: str, at_time: datetime | None = None) -> list[tuple[str, str]]:
    hits = memory.recall_sync(question, at_time=at_time).hits
    return [(hit.text.removeprefix("Ana: "), hit.status) for hit in hits]


def after(days: float) -> datetime:
    return NOON + timedelta(days=days)


def test_a_correction_in_words_closes_the_older_fact_when_it_was_stated(url: str) -> None:
    memory, _ = open_with(url)
    with memory:
        tell(memory, OLD_JOB, 0)
        tell(memory, NEW_JOB, 5)
        facts = stored(memory)
        old, new = facts[OLD_JOB], facts[NEW_JOB]
        assert (old.invalid_at, new.supersedes, new.invalid_at) == (after(5), old.id, None)
        assert old.expired_at == new.recorded_at
        assert recalled(memory, "Where does Ana work?") == [(NEW_JOB, "current")]
        assert recalled(memory, "Where does Ana work?", at_time=after(2)) == [(OLD_JOB, "current")]


NOT_ANAS_OWN: tuple[tuple[str | None, Role, str], ...] = (
    ("Ben", "user", NEW_JOB),
    ("Ben", "user", "Ana works at the library in town now."),
    (None, "user", NEW_JOB),
    ("Ana", "assistant", NEW_JOB),
    ("Ana", "tool", NEW_JOB),
    ("Ana", "user", f"> {NEW_JOB}\nThat's from the poem."),
    ("Ana", "user", f"Ben wrote:\n{NEW_JOB}"),
    ("Ana", "user", f"Ben: {NEW_JOB}\nBen: So there."),
    ("Ana", "user", f'My cousin\'s mail: "{NEW_JOB}"'),
    ("Ana", "user", f"Look:\n```\n{NEW_JOB}\n```"),
    ("Ana", "user", f"<letter>\n{NEW_JOB}\n</letter>"),
    ("Ana", "user", f"From: Ben\nSubject: News\n\n{NEW_JOB}"),
    ("Ana", "user", "And I work at the library in town, ha ha."),
    ("Ana", "user", f"{NEW_JOB} Just kidding!"),
    ("Ana", "user", "I work at the library in town now ;)"),
)
"""Words that change Ana's job and that she does not say herself and in earnest."""


def test_only_a_speakers_own_words_close_or_mark_what_that_speaker_said() -> None:
    memory, model = open_with("sqlite:///:memory:")
    with memory:
        for number, (speaker, role, text) in enumerate(NOT_ANAS_OWN):
            bank = memory.bank(f"bank{number}")
            bank.retain_sync(said(OLD_JOB, speaker="Ana"))
            bank.retain_sync(said(text, DAY, speaker=speaker, role=role))
            kept = next(fact for fact in bank.facts_sync() if fact.text == f"Ana: {OLD_JOB}")
            assert (kept.invalid_at, kept.expired_at) == (None, None), text
            assert [hit.status for hit in bank.recall_sync("Where is the bakery?").hits if hit.id == kept.id] == [
                "current"
            ]
        assert not [pair for pair in model.compared if "the library" in pair[1]]
        own = memory.bank("own")
        own.retain_sync([said(OLD_JOB, speaker="Ana"), said(f'"{OLD_JOB}" is over. {NEW_JOB}', DAY, speaker="ANA")])
        assert [fact.invalid_at is None for fact in own.facts_sync()] == [False, True]


def test_a_pasted_text_of_several_facts_closes_nothing() -> None:
    memory, _ = open_with("sqlite:///:memory:")
    with memory:
        tell(memory, OLD_JOB, 0)
        tell(memory, f"From: Ben\nSubject: News\n\n{'Much has happened since we met. ' * 60}\n\n{NEW_JOB}", 1)
        assert len(memory.facts_sync()) > 2
        assert stored(memory)[OLD_JOB].invalid_at is None


def test_without_a_correction_in_words_a_probable_change_is_only_marked(url: str) -> None:
    memory, _ = open_with(url)
    with memory:
        new = "I work at the library in town."
        tell(memory, OLD_JOB, 0)
        tell(memory, new, 5)
        old = stored(memory)[OLD_JOB]
        assert (old.invalid_at, old.expired_at) == (None, None)
        assert recalled(memory, "Where does Ana work?") == [(new, "current"), (OLD_JOB, "maybe_outdated")]
        assert [newer.kind for newer in memory.why_sync(old.id).newer] == ["outdates"]


def test_an_observation_closes_with_the_fact_behind_it(sqlite_url: str) -> None:
    memory, _ = open_with(sqlite_url)
    with memory:
        tell(memory, OLD_JOB, 0)
        old = stored(memory)[OLD_JOB]

    async def observe() -> None:
        store = store_at(sqlite_url)
        await store.open()
        about = a_fact("Ana is a baker.", bank=old.bank, network="observation", basis=[old.id])
        assert await store.commit(await a_batch(store, [about], bank=old.bank))
        await store.close()

    asyncio.run(observe())
    memory, _ = open_with(sqlite_url)
    with memory:
        assert [fact.text for fact in memory.observations_sync()] == ["Ana is a baker."]
        tell(memory, NEW_JOB, 5)
        assert memory.observations_sync() == []


def test_why_shows_the_replacement_and_its_probability(url: str) -> None:
    memory, _ = open_with(url)
    with memory:
        tell(memory, OLD_JOB, 0)
        tell(memory, NEW_JOB, 5)
        facts = stored(memory)
        why = memory.why_sync(facts[OLD_JOB].id)
        assert [fact.id for fact in why.superseded_by] == [facts[NEW_JOB].id]
        [newer] = why.newer
        assert (newer.fact, newer.kind, round(newer.probability, 4)) == (facts[NEW_JOB].id, "replaces", CLOSED)
        assert memory.why_sync(facts[NEW_JOB].id).newer == ()


def test_a_possible_change_closes_nothing_and_marks_the_older_fact(url: str) -> None:
    memory, _ = open_with(url)
    with memory:
        old, new = "I drink green tea every morning.", "It is coffee every day since the move."
        tell(memory, old, 0)
        tell(memory, new, 5)
        assert stored(memory)[old].invalid_at is None
        # The newer one has too little to do with the question to rank first, and marks the older one.
        assert recalled(memory, "Does Ana drink green tea every morning?") == [
            (old, "maybe_outdated"),
            (new, "current"),
        ]
        assert recalled(memory, "Does Ana drink green tea every morning?", at_time=after(2)) == [(old, "current")]
        assert recalled(memory, "Did Ana drink green tea every morning before?")[0] == (old, "maybe_outdated")
        hits = memory.recall_sync("Does Ana drink green tea every morning?", explain=True).hits
        assert [[newer.fact for newer in hit.newer] for hit in hits] == [[hits[1].id], []]


def test_a_question_for_the_former_state_finds_closed_facts(url: str) -> None:
    memory, _ = open_with(url)
    with memory:
        tell(memory, OLD_JOB, 0)
        tell(memory, NEW_JOB, 5)
        for question in (
            "Where did Ana work before?",
            "Where did Ana use to work?",
            "How did Ana's work change?",
            "Where did Ana work originally?",
            "Where was Ana's work on 9 May 2023?",
        ):
            assert (OLD_JOB, "former") in recalled(memory, question), question
        assert (OLD_JOB, "former") not in recalled(memory, "Where was Ana's work in April 2023?")
        explained = memory.recall_sync("Where did Ana work before?", explain=True).explanation
        assert explained is not None
        assert explained.tense == "former"


def test_late_news_of_an_earlier_time_does_not_close_a_newer_fact(url: str) -> None:
    memory, _ = open_with(url)
    with memory:
        tell(memory, NEW_JOB, 5)
        tell(memory, OLD_JOB, 0)
        facts = stored(memory)
        old, new = facts[OLD_JOB], facts[NEW_JOB]
        assert (new.invalid_at, new.expired_at, new.supersedes) == (None, None, old.id)
        assert (old.invalid_at, old.expired_at) == (after(5), None)
        assert recalled(memory, "Where does Ana work?") == [(NEW_JOB, "current")]


def test_messages_of_one_batch_revise_each_other(url: str) -> None:
    memory, _ = open_with(url)
    with memory:
        memory.retain_sync([said(OLD_JOB, 0, speaker="Ana"), said(NEW_JOB, 5 * DAY, speaker="Ana")])
        assert stored(memory)[OLD_JOB].invalid_at == after(5)
        assert recalled(memory, "Where does Ana work?") == [(NEW_JOB, "current")]


@pytest.mark.parametrize(("old_role", "new_role"), [("user", "assistant"), ("assistant", "user")])
def test_what_an_assistant_says_is_neither_outdated_nor_makes_outdated(
    sqlite_url: str, old_role: Role, new_role: Role
) -> None:
    memory, model = open_with(sqlite_url)
    with memory:
        tell(memory, OLD_JOB, 0, old_role)
        tell(memory, NEW_JOB, 5, new_role)
        assert stored(memory)[OLD_JOB].invalid_at is None
        assert not model.compared


def test_facts_of_other_tags_are_not_compared(sqlite_url: str) -> None:
    memory, model = open_with(sqlite_url)
    with memory:
        tell(memory, OLD_JOB, 0, tags=["ana"])
        tell(memory, NEW_JOB, 5, tags=["bo"])
        assert not model.compared


TWO_CLAIMS = "I work at the bakery in town, and my sister is a nurse."


@pytest.mark.parametrize(
    ("later", "invalid_at", "mark"),
    [(NEW_JOB, after(5), "former"), ("I work at the library in town.", None, "maybe outdated")],
)
def test_only_the_claim_that_changed_is_marked_or_ends(
    url: str, tmp_path: Path, later: str, invalid_at: datetime | None, mark: str
) -> None:
    memory, _ = open_with(url)
    with memory:
        tell(memory, TWO_CLAIMS, 0)
        newer = tell(memory, later, 5)
        facts = stored(memory)
        old = facts[TWO_CLAIMS]
        assert (old.invalid_at, old.expired_at) == (None, None)
        [claim] = old.claims
        assert (claim.text, claim.invalid_at, claim.replaced_by) == (
            "I work at the bakery in town",
            invalid_at,
            facts[later].id,
        )
        assert old.text[claim.start : claim.end] == claim.text
        assert claim.outdated == (CLOSED if invalid_at is None else 1)
        prompt = memory.recall_sync("Where does Ana work in town?").to_prompt()
        assert f"Ana: [{mark}: I work at the bakery in town], and my sister is a nurse." in prompt
        assert f"{mark}: " in prompt.partition("\n")[0]
        [newer_fact] = memory.why_sync(old.id).newer
        assert newer_fact.fact == facts[later].id

        exported(memory, tmp_path)
        other = memory.bank("copy")
        other.import_bank_sync(tmp_path / "look.jsonl")
        assert [fact.claims for fact in other.facts_sync() if fact.claims] == [old.claims]
        memory.reprocess_sync()
        assert [each.text for each in stored(memory)[TWO_CLAIMS].claims] == [claim.text]
        memory.forget_sync(messages=[newer])
        assert stored(memory)[TWO_CLAIMS].claims == ()


@pytest.mark.parametrize("together", [True, False])
def test_the_packaged_model_marks_alike_in_one_batch_one_by_one_and_reprocessed(tmp_path: Path, together: bool) -> None:
    told = [
        "The Petrie rewire in Broughty Ferry starts on Monday, quoted at 6,840 pounds.",
        "Callum Reid is a third year apprentice and drives the van.",
        "New price for the Petrie rewire in Broughty Ferry is 7,210 pounds, and the rewire starts a week later.",
        "Sorry, I meant 7,310 pounds for the Petrie rewire.",
    ]
    messages = [said(text, n * DAY, speaker="Rhona") for n, text in enumerate(told)]
    with Memory("sqlite:///:memory:") as memory:
        for batch in [messages] if together else [[message] for message in messages]:
            memory.retain_sync(batch)

        def marks() -> list[tuple[str, bool, list[tuple[str, float]]]]:
            return [
                (
                    fact.text,
                    fact.invalid_at is not None,
                    [(each.kind, round(each.probability, 1)) for each in memory.why_sync(fact.id).newer],
                )
                for fact in sorted(memory.facts_sync(), key=lambda fact: fact.mentioned_at)
            ]

        first = marks()
        assert len(first) == len(told)
        memory.reprocess_sync()
        assert marks() == first
        hits = memory.recall_sync("What does the Petrie rewire cost?").hits
        assert hits[0].status == "current"
        assert "7,310" in hits[0].text


def test_forgetting_the_newer_fact_reopens_the_older_ones(url: str) -> None:
    rules = {("at the bakery", "library"): CLOSED, ("as a baker", "library"): CLOSED}
    memory, _ = open_with(url, rules)
    with memory:
        tell(memory, OLD_JOB, 0)
        tell(memory, "In town I work as a baker.", 1)
        newer = tell(memory, NEW_JOB, 5)
        closed = [text for text, fact in stored(memory).items() if fact.invalid_at is not None]
        # A newer fact closes only the one that it most probably replaces.
        assert len(closed) == 1
        memory.forget_sync(messages=[newer])
        assert all(fact.invalid_at is None and fact.expired_at is None for fact in stored(memory).values())


def test_revisions_are_exported_and_derived_again(url: str, tmp_path: Path) -> None:
    memory, _ = open_with(url)
    with memory:
        for n, text in enumerate((OLD_JOB, NEW_JOB, "I drink tea every day.", "I drink coffee every day.")):
            tell(memory, text, n)
        before = exported(memory, tmp_path)
        assert sum('"replaces"' in line for line in before) == 1
        assert sum('"outdates"' in line for line in before) == 1
        other = memory.bank("copy")
        other.import_bank_sync(tmp_path / "look.jsonl")
        assert recalled(other, "Do I drink tea every day?")[1] == ("I drink tea every day.", "maybe_outdated")
        memory.reprocess_sync()
        assert recalled(memory, "Do I drink tea every day?")[1] == ("I drink tea every day.", "maybe_outdated")
        assert stored(memory)[OLD_JOB].invalid_at == after(1)


def test_a_revision_model_for_another_embedder_is_refused(sqlite_url: str) -> None:
    with pytest.raises(InvalidInput, match="takes cosines of 'hash', but the embedder is 'other'"):
        Memory(sqlite_url, embedder=HashEmbedder("other"), revision_model=ScriptedModel({}))
    with pytest.raises(InvalidInput, match='A revision model is "none" or an object'):
        Memory(sqlite_url, revision_model="packaged")
    Memory(sqlite_url, revision_model="none")
