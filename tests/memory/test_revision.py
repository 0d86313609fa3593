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
from vmemo.models.search import StatementPair
from vmemo.testing import HashEmbedder
from vmemo_conformance.samples import a_batch, a_fact

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
        return [next((p for (a, b), p in self._rules.items() if a in old and b in new), 0.0) for old, new in texts]


RULES = {("at the bakery", "at the library"): CLOSED, ("tea every", "coffee every"): SUSPECTED}
OLD_JOB, NEW_JOB = "I work at the bakery in town.", "I work at the library in town."


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


def test_a_probable_change_closes_the_older_fact_when_the_newer_was_stated(url: str) -> None:
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


@pytest.mark.parametrize(("speaker", "closed"), [("Ana", True), ("Ben", False), (None, False)])
def test_a_claim_replaces_those_of_its_own_speaker(speaker: str | None, closed: bool) -> None:
    with Memory("sqlite:///:memory:", embedder=HashEmbedder(), revision_model=ScriptedModel({})) as memory:
        memory.retain_sync([said("I live in Rome.", speaker="Ana"), said("I live in Oslo now.", DAY, speaker=speaker)])
        assert [fact.invalid_at is not None for fact in memory.facts_sync()] == [closed, False]


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


def test_a_possible_change_closes_nothing_and_the_newer_fact_ranks_first(url: str) -> None:
    memory, _ = open_with(url)
    with memory:
        old, new = "I drink green tea every morning.", "It is coffee every day since the move."
        tell(memory, old, 0)
        tell(memory, new, 5)
        assert stored(memory)[old].invalid_at is None
        assert recalled(memory, "Does Ana drink green tea every morning?") == [
            (new, "current"),
            (old, "maybe_outdated"),
        ]
        assert recalled(memory, "Does Ana drink green tea every morning?", at_time=after(2)) == [(old, "current")]
        assert recalled(memory, "Did Ana drink green tea every morning before?")[0] == (old, "maybe_outdated")
        hits = memory.recall_sync("Does Ana drink green tea every morning?", explain=True).hits
        assert [[newer.fact for newer in hit.newer] for hit in hits] == [[], [hits[0].id]]


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


def test_the_rest_of_a_statement_with_two_claims_stays_current(url: str) -> None:
    memory, _ = open_with(url)
    with memory:
        whole = "I work at the bakery in town, and my sister is a nurse."
        first = tell(memory, whole, 0)
        second = tell(memory, NEW_JOB, 5)
        facts = stored(memory)
        rest = facts["my sister is a nurse."]
        assert facts[whole].invalid_at == after(5)
        assert (rest.supersedes, rest.messages, rest.mentioned_at) == (facts[whole].id, (first,), after(0))
        assert rest.invalid_at is None
        assert recalled(memory, "Is my sister a nurse?")[0] == ("my sister is a nurse.", "current")
        assert {fact.id for fact in memory.why_sync(facts[whole].id).superseded_by} == {rest.id, facts[NEW_JOB].id}
        memory.forget_sync(messages=[second])
        memory.process_sync()
        assert {text: fact.invalid_at for text, fact in stored(memory).items()} == {whole: None}


def test_a_fact_whose_statements_all_seem_to_hold_is_only_suspected(sqlite_url: str) -> None:
    rules = {("the bakery. My", "library"): CLOSED}
    memory, _ = open_with(sqlite_url, rules)
    with memory:
        whole = "I work at the bakery. My sister is a nurse in town."
        tell(memory, whole, 0)
        tell(memory, NEW_JOB, 5)
        assert stored(memory)[whole].invalid_at is None
        assert [newer.kind for newer in memory.why_sync(stored(memory)[whole].id).newer] == ["outdates"]


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
