"""Memories as one block for a system prompt: sections, budget, users and banks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile

import hypothesis
import pytest
from builders import WordEmbedder, open_memory, write_facts
from hypothesis import given, strategies as st

from databases import store_at
from vmemo import Fact, Hit, InvalidInput, Memory, Message, PromptContext, Settings
from vmemo.embedding.token_counter import count_tokens
from vmemo.models import BankId, FactId, Mention
from vmemo.models.prompt_context import SECTIONS, ContextPrompt, Section
from vmemo.models.records import new_id
from vmemo.models.search import ClaimPair, StatementPair
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.samples import a_fact, an_entity, store_entities

STORES = ("sqlite",)

START = datetime(2024, 2, 6, tzinfo=UTC)
HEADINGS = ("# About", "# Standing", "# Constraints", "# Pinned", "# Open changes", "# Relevant", "# Recent")
DATES = "Always give dates as MM/DD/YYYY."


def said(text: str, days: float = 0, speaker: str | None = "Maya", **fields: object) -> Message:
    return Message.of({"content": text, "speaker": speaker, "timestamp": START + timedelta(days=days), **fields})


CONVERSATION = [
    said(f"I'm a data analyst at Brightwater Energy. {DATES}"),
    said("What do you do after work?", 0.001, None, role="assistant"),
    said("I climb, and I cook. I'm allergic to peanuts.", 0.002),
    said("I work at Fernhill Robotics now!", 150),
]


def memory_with(messages: Sequence[Message], url: str = ":memory:", settings: Settings | None = None) -> Memory:
    memory = Memory(url, embedder=WordEmbedder(), settings=settings)
    for message in messages:
        memory.retain_sync(message)
    return memory


def texts(facts: Sequence[Fact]) -> list[str]:
    return [fact.text for fact in facts]


# Layout and budget


WORDS = st.lists(st.sampled_from("tea kettle Oslo\nrain 7 é 東京 # [x]".split(" ")), min_size=1, max_size=40)
FACTS = st.lists(st.tuples(st.integers(0, 12), WORDS), max_size=6)


@hypothesis.settings(max_examples=40)
@given(st.fixed_dictionaries(dict.fromkeys(SECTIONS, FACTS)), st.integers(1, 300))
def test_a_context_never_exceeds_its_budget_and_shows_each_fact_once(
    drawn: dict[Section, list[tuple[int, list[str]]]], max_tokens: int
) -> None:
    made: dict[int, Hit] = {}
    candidates: dict[Section, list[Hit]] = {}
    for name, facts in drawn.items():
        for number, words in facts:
            text = f"{number} {' '.join(words)}"
            fact = a_fact(text, id=f"f{number}", tokens=count_tokens(text), mentioned_at=START)
            made.setdefault(number, Hit(fact=fact, score=1.0, status="former" if number % 3 else "current"))
        candidates[name] = [made[number] for number, _ in facts]
    context = ContextPrompt(candidates=candidates, user="Ana\n# Pinned", query="q").fit(max_tokens, count_tokens)
    assert context.tokens == count_tokens(context.text) <= max_tokens
    shown = [line.partition("[")[2].partition("]")[0] for line in context.text.split("\n") if line.startswith("- [")]
    assert sorted(shown) == sorted(fact.id for fact in context.facts)
    assert len(shown) == len(set(shown))
    headings = [line for line in context.text.split("\n") if line.startswith("# ")]
    assert [any(h.startswith(each) for h in headings) for each in HEADINGS] == [
        bool(getattr(context, name)) for name in SECTIONS
    ]
    assert context.text.count("former") == 0 or "former: no longer true." in context.text or max_tokens < 300


def crowded(tokens_each: int, *names: Section) -> ContextPrompt:
    """Return a prompt whose sections have more facts than fit."""

    def hits(name: Section) -> list[Hit]:
        lines = [f"{name} {n}" + " tea" * tokens_each for n in range(60)]
        facts = [a_fact(text, id=f"{name}-{n}", tokens=count_tokens(text)) for n, text in enumerate(lines)]
        return [Hit(fact=fact, score=1.0) for fact in facts]

    return ContextPrompt(candidates={name: hits(name) for name in names})


def test_relevant_facts_have_the_largest_share_and_unused_shares_flow_on() -> None:
    full = crowded(8, *SECTIONS).fit(1000, count_tokens)
    shares = [len(full.profile), len(full.instructions), len(full.pinned), len(full.recent)]
    assert min(shares) >= 2
    assert len(full.relevant) > max(shares)
    assert full.tokens > 900
    alone = crowded(8, "relevant", "pinned").fit(1000, count_tokens)
    assert len(alone.relevant) > 2 * len(full.relevant) - 5
    assert len(alone.pinned) == pytest.approx(len(full.pinned), abs=1)
    for name in SECTIONS:
        assert crowded(8, name).fit(1000, count_tokens).tokens > 900


def test_marks_ids_and_sections_of_a_context() -> None:
    with memory_with(CONVERSATION) as memory:
        context = memory.context_sync("Where did Maya work before Fernhill?", precise=False)
        assert str(context) == context.text
        assert context.text.startswith("Facts from memory")
        assert texts(context.instructions) == [f"Maya: {DATES}"]
        assert texts(context.recent) == ["Maya: I work at Fernhill Robotics now!"]
        assert {hit.text for hit in context.relevant} >= {"Maya: I climb, and I cook. I'm allergic to peanuts."}
        assert context.text.count("Fernhill") == 1
        assert context.text.count(DATES) == 1
        for fact in context.facts:
            assert memory.why_sync(fact.short_id).fact.id == fact.id
            assert f"- [{fact.short_id}] " in context.text
        small = memory.context_sync("Where did Maya work before Fernhill?", max_tokens=40)
        assert 0 < small.tokens <= 40
        assert small.relevant


def test_former_facts_are_marked() -> None:
    url_facts = [
        a_fact("Maya works at Initech.", id="old", expired_at=START, invalid_at=START, mentioned_at=START),
        a_fact("Maya works at Globex.", id="new", supersedes="old", mentioned_at=START + timedelta(days=400)),
    ]
    candidates: dict[Section, list[Hit]] = {
        "recent": [Hit(fact=url_facts[1], score=0)],
        "relevant": [Hit(fact=url_facts[0], score=1, status="former")],
    }
    text = ContextPrompt(candidates=candidates).fit(500, count_tokens).text
    assert "former: no longer true." in text
    assert "- [old] (former, until 6 February 2024) Maya works at Initech." in text
    assert "- [new] (current) Maya works at Globex." in text


@pytest.mark.parametrize("query", [None, "", "  "])
def test_without_a_query_no_relevant_facts_are_searched(query: str | None) -> None:
    with memory_with(CONVERSATION) as memory:
        context = memory.context_sync(query)
        assert (context.query, context.relevant) == (None, ())
        assert "# Relevant" not in context.text
        assert texts(context.recent) == ["Maya: I work at Fernhill Robotics now!"]
        assert context.instructions


def test_an_empty_bank_has_an_empty_context_and_a_query_an_honest_one() -> None:
    with memory_with([]) as memory:
        assert memory.context_sync().text == ""
        assert memory.context_sync("tea?", user="Maya").text == "Memory holds nothing about this."
        assert memory.context_sync("tea?", max_tokens=2).text == ""


def test_recent_facts_end_with_the_session_before() -> None:
    talk = [said(f"Remark number {n}.", 0.001 * n) for n in range(3)]
    with memory_with([said("An older remark.", -1), *talk]) as memory:
        assert texts(memory.context_sync().recent) == [f"Maya: Remark number {n}." for n in (2, 1, 0)]


def test_pinned_facts_are_in_every_context_until_they_are_closed_or_unpinned() -> None:
    with memory_with(CONVERSATION) as memory:
        [pinned] = [fact.id for fact in memory.facts_sync() if "peanuts" in fact.text]
        memory.pin_sync(pinned)
        for query in (None, "Who is allergic to peanuts?"):
            context = memory.context_sync(query)
            assert [fact.id for fact in context.pinned] == [pinned]
            assert context.text.count("peanuts") == 1
            assert f"# Pinned\n- [{context.pinned[0].short_id}] (said 6 February 2024) Maya: I climb" in context.text
        memory.pin_sync(pinned, False)
        assert memory.context_sync().pinned == ()


# Users and banks


def test_the_user_is_the_only_one_who_speaks_or_the_one_named() -> None:
    orders = {"Maya": DATES, "Ben": "Always answer in French.", None: "Always be brief."}
    each = [said(text, n, speaker, role="user", document=f"{n}") for n, (speaker, text) in enumerate(orders.items())]
    with memory_with(each[:1]) as memory:
        assert memory.context_sync().user == "Maya"
    with memory_with(each) as memory:
        everyone = memory.context_sync()
        assert everyone.user is None
        assert len(everyone.instructions) == 3
        assert texts(memory.context_sync(user="maya").instructions) == ["User: Always be brief.", f"Maya: {DATES}"]
        ben = memory.context_sync(user="Ben")
        assert texts(ben.instructions) == ["User: Always be brief.", "Ben: Always answer in French."]
        assert texts(memory.context_sync(user="Nobody").instructions) == ["User: Always be brief."]


def test_the_profile_has_the_observations_about_the_user(sqlite_url: str) -> None:
    with memory_with([*CONVERSATION, said("Ben sails to Norway every summer.", 151)], sqlite_url) as memory:
        people = {entity.name: entity for entity in memory.entities_sync()}
        observed = [
            a_fact(
                f"{name} likes tea.",
                network="observation",
                entities=[Mention(id=people[name].id, name=name, type=people[name].type)],
                messages=[],
            )
            for name in ("Maya", "Ben")
        ]
        asyncio.run(write_facts(sqlite_url, observed, WordEmbedder()))
        for user in (None, "Maya", people["Maya"].id):
            context = memory.context_sync(user=user)
            assert (context.user, texts(context.profile)) == ("Maya", ["Maya likes tea.", "Ben likes tea."])
        assert f"# About Maya\n- [{observed[0].short_id}] Maya likes tea.\n" in context.text


def test_a_name_that_two_people_have_needs_an_id_only_if_the_caller_gives_it(sqlite_url: str) -> None:
    async def add_namesake() -> None:
        store = store_at(sqlite_url)
        await store.open()
        await store_entities(store, an_entity("Maya", id=new_id(), type="PERSON"), bank=BankId("default"))
        await store.close()

    with memory_with(CONVERSATION, sqlite_url) as memory:
        asyncio.run(add_namesake())
        context = memory.context_sync()
        assert (context.user, context.profile) == ("Maya", ())
        assert texts(context.instructions) == [f"Maya: {DATES}"]
        ids = [entity.id for entity in memory.entities_sync() if entity.name == "Maya"]
        with pytest.raises(InvalidInput, match=f"2 entities are called 'Maya'; give the id .*{ids[0]}, {ids[1]}"):
            memory.context_sync(user="Maya")
        assert [memory.context_sync(user=id).user for id in ids] == ["Maya", "Maya"]


def test_contexts_hold_nothing_of_other_banks(url: str) -> None:
    with open_memory(url) as memory:
        memory.retain_sync(CONVERSATION)
        other = memory.bank("other")
        other.retain_sync(said("Ben: I sail. Always answer in French.", 0, "Ben"))
        found = other.context_sync("Where does Maya work?", user="Maya")
        assert {fact.bank for fact in found.facts} == {"other"}
        assert "Maya" not in found.text
        assert "Ben" not in memory.context_sync("Who sails?").text
        assert memory.context_sync("Who cooks?").relevant


def test_settings_limit_the_instructions_of_a_context() -> None:
    with memory_with(CONVERSATION, settings=Settings(instruction_tokens=0)) as memory:
        assert memory.context_sync("Where does Maya work?").instructions == ()


@pytest.mark.parametrize(("values", "rule"), [({"max_tokens": 0}, "greater"), ({"user": " "}, "blank")])
def test_invalid_arguments_are_refused(values: dict[str, object], rule: str) -> None:
    with memory_with([]) as memory, pytest.raises(InvalidInput, match=rule):
        memory.context_sync(**values)  # pyright: ignore[reportArgumentType]


def test_a_context_survives_json() -> None:
    with memory_with(CONVERSATION) as memory:
        context = memory.context_sync("Where does Maya work?")
        assert PromptContext.model_validate_json(context.model_dump_json()) == context
        assert FactId(context.facts[0].id)


# Precision, constraints and sessions


HOME = [
    said("I'm allergic to cashews, badly.", 0),
    said("We have been vegetarian at home since March.", 1),
    said("Daniel is my brother, he lives in Leeds.", 2),
    said("I work at the harbour office as a clerk.", 3),
    said("The kitchen tap leaks, the plumber comes on Friday.", 4),
    said("My sister Ruth teaches physics in Bristol.", 5),
    said("The car failed its inspection because of the brakes.", 6),
    said("We painted the hall green.", 7),
]


@pytest.fixture(scope="module")
def home() -> Iterator[Memory]:
    with Memory(":memory:") as memory:
        memory.retain_sync(HOME)
        yield memory


def test_constraints_are_in_the_context_of_a_question_for_advice_alone(home: Memory) -> None:
    advised = home.context_sync("Plan a dinner for my family on Sunday, what should I cook?")
    assert "Maya: I'm allergic to cashews, badly." in texts(advised.constraints)
    assert "vegetarian" in advised.text
    assert advised.text.index("# Constraints") < advised.text.index("cashews")
    assert advised.text.count("cashews") == 1
    assert home.context_sync("Where does Daniel live?").constraints == ()
    others = [
        "Ruth has a bad hip and takes no stairs.",
        "The boiler was serviced in May.",
        "We painted the hall green.",
    ]
    question = "Ruth looks at a cheap flat on the fourth floor of an old house, should she view it?"
    with Memory(":memory:") as memory:
        memory.retain_sync([said(text, n) for n, text in enumerate(others)])
        assert "Maya: Ruth has a bad hip and takes no stairs." in texts(memory.context_sync(question).constraints)


def test_a_precise_recall_returns_what_suffices_and_nothing_for_an_unrelated_question(home: Memory) -> None:
    [hit] = home.recall_sync("Where does Daniel live?", precise=True).hits
    assert "Leeds" in hit.text
    assert len(home.recall_sync("Where does Daniel live?").hits) == len(HOME)
    unrelated = "How do I grade a penny of 1909 without sending it in?"
    assert home.recall_sync(unrelated, precise=True).hits == ()
    for several in ("What is broken or leaking?", "Which repairs are due at home and on the car?"):
        found = home.recall_sync(several, precise=True).hits
        assert {word for hit in found for word in ("tap", "brakes") if word in hit.text} == {"tap", "brakes"}
        assert len(found) <= 3
    both = home.recall_sync("Who are my brother and my sister, and what do they do?", precise=True).hits
    assert {town for hit in both for town in ("Leeds", "Bristol") if town in hit.text} == {"Leeds", "Bristol"}
    repeated = [said("The red kettle broke.", n, document=f"{n}") for n in range(3)]
    with memory_with([*repeated, said("Got it", 4)]) as memory:
        assert len(memory.recall_sync("Which red kettle broke?", precise=True).hits) == 1


def test_answerable_is_low_for_what_memory_does_not_hold(home: Memory) -> None:
    known, unknown = "Where does Daniel live?", "What is Daniel's favourite film?"
    high, low = home.recall_sync(known).answerable, home.recall_sync(unknown).answerable
    assert high is not None
    assert low is not None
    assert low < 0.5 < 0.7 < high
    assert home.recall_sync(unknown, min_answerable=0.5).hits == ()
    assert home.recall_sync(known, min_answerable=0.5).hits
    assert home.reflect_sync(known).found
    answer = home.reflect_sync(unknown)
    assert (answer.found, "does not seem to hold" in answer.text) == (False, True)
    assert not home.reflect_sync(unknown, min_answerable=0.5).citations
    with memory_with(HOME) as other:
        assert other.recall_sync(known).answerable is None
        with pytest.raises(InvalidInput, match="only the packaged embedder"):
            other.recall_sync(known, min_answerable=0.5)


@dataclass(frozen=True)
class DoubtfulModel:
    """Holds every earlier statement for outdated, with the same probability."""

    name: str = "doubtful"
    encoder: str = "hash"

    async def score(self, pairs: Sequence[StatementPair]) -> list[float]:
        return [0.6 for _ in pairs]

    async def score_claims(self, claims: Sequence[ClaimPair]) -> list[float]:
        return [claim.probability for claim in claims]


@pytest.mark.parametrize("max_tokens", [100, 150, 220])
def test_open_changes_leave_out_no_relevant_fact(max_tokens: int) -> None:
    colours = ("red", "blue", "green", "black", "white", "brown", "grey", "pink")
    with Memory(":memory:", embedder=HashEmbedder(), revision_model=DoubtfulModel()) as memory:
        for n, colour in enumerate(colours):
            memory.retain_sync(said(f"The kettle in our kitchen is {colour} and hums a little.", 40 * n))
        found = memory.recall_sync("Which red kettle hums?").hits
        assert any(hit.status == "maybe_outdated" and "red" in hit.text for hit in found)
        assert "red" in memory.context_sync("Which red kettle hums?", max_tokens=max_tokens, precise=False).text


QUESTIONS = (
    *("Where does Daniel live?", "What does Ruth do?", "Who teaches physics?", "Where do I work?"),
    *("When does the plumber come?", "What is wrong with the car?", "Which colour is the hall?", "Plan our dinner."),
)


def test_most_tokens_of_a_session_come_from_an_unchanged_prefix() -> None:
    with Memory(":memory:") as memory:
        memory.retain_sync(HOME)
        before, cached, total = tuple[str, ...](), 0, 0
        for turn in range(24):
            question = QUESTIONS[turn % len(QUESTIONS)]
            context = memory.context_sync(question, session="chat")
            assert context.text == context.prefix + context.changing
            assert context.tokens <= context.max_tokens
            same = takewhile(lambda pair: pair[0] == pair[1], zip(before, context.blocks, strict=False))
            cached += count_tokens("".join(block for block, _ in same))
            total += context.tokens
            before = context.blocks
            alone = memory.context_sync(question)
            shown = (*(fact.text for fact in alone.constraints), *(hit.marked_text for hit in alone.relevant))
            assert all(text in context.text for text in shown)
            memory.retain_sync(said(f"By the way, chapter {turn} of my novel is done.", 20 + turn, document=f"t{turn}"))
        assert cached / total >= 0.85
        [daniel] = [fact.id for fact in memory.facts_sync() if "Daniel" in fact.text]
        memory.delete_sync(daniel)
        assert "Leeds" not in memory.context_sync("Where does Daniel live?", session="chat").text


def test_a_session_that_outgrows_its_budget_begins_anew(home: Memory) -> None:
    for question in QUESTIONS:
        context = home.context_sync(question, session="small", max_tokens=150)
        assert context.tokens <= 150
        assert context.text
