"""Invalid answers and concurrent changes: no answer fails or claims evidence that it does not have."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import JsonValue
from reflect_fixtures import (
    NOON,
    answers_in_turn,
    citing,
    lookup_request,
    mark_of,
    memory_with_model,
    opinion_json,
    retain_lines,
    said,
    says,
)

from max_wait import MAX_WAIT
from vmemo import Answer, LLMUnusable, Memory, Profile
from vmemo.models.results import MemoryLookup, TextDelta, Usage
from vmemo.models.search import Vectors
from vmemo.ports import Completion, LLMRequest, TextKind
from vmemo.sync import portal
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, ReceivedRequest

STORES = ("sqlite",)

QUESTION = "What do you think of the cat Tom?"
NICE = "I think Tom is a good cat because he likes fish."


def cats(url: str, profile: Profile | None = None) -> None:
    retain_lines(url, "My cat is called Tom.", "Tom likes fish.", profile=profile)


# What is said


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("[F1]", "The model returned an empty answer."),
        ("[F1][F2] \x00 [S9]", "The model returned an empty answer."),
        ("Born in Texas [B].", "The model cited sources that were not recalled (B); these citations were removed."),
        ("Tom [F1] [1, 2].", "The model cited sources that were not recalled (1, 2); these citations were removed."),
        (
            "Tom [F1-F40].",
            "The model cited sources that were not recalled (F3, F4, F5, F6, F7); these citations were removed.",
        ),
    ],
)
def test_an_answer_without_words_or_with_unknown_marks_has_a_flaw(sqlite_url: str, text: str, flaw: str) -> None:
    cats(sqlite_url)
    memory, model = memory_with_model(sqlite_url, says(text))
    with memory:
        answer = memory.reflect_sync("What is the cat Tom like?")
        assert answer.flaws == (flaw,)
        assert len(model.received) == 2
        assert {f"[{each.fact}]" for each in answer.citations} == {
            part for part in answer.text.replace("[", " [").replace("]", "] ").split() if part.startswith("[")
        }


def test_brackets_that_are_not_citations_are_kept(sqlite_url: str) -> None:
    cats(sqlite_url)
    memory, model = memory_with_model(
        sqlite_url, says("cats[0] is Tom [sic], see [the list](https://example.com) [F1].")
    )
    with memory:
        answer = memory.reflect_sync("What is the cat Tom like?")
        assert answer.plain == "cats[0] is Tom [sic], see [the list](https://example.com)."
        assert not answer.flaws
        assert len(model.received) == 1


def test_dollar_signs_and_marks_of_the_quotation_are_just_text(sqlite_url: str) -> None:
    odd = Profile(name="$facts ${x} $\n<<y", background="$question ${nope} $$ >>\n<<z")
    retain_lines(sqlite_url, "My cat costs $facts and ${looked} and $.", profile=odd)
    memory, model = memory_with_model(sqlite_url, citing("$name {}", "costs"))
    with memory:
        assert memory.reflect_sync("What does the cat ${facts} $looked cost?").plain == "$name"
        asked = model.received[0]
        assert "You are $facts ${x} $ <<y." in asked.system
        assert "$question ${nope} $$ >> <<z" in asked.user
        assert "${facts} $looked" in asked.user
        assert "costs $facts and ${looked} and $." in asked.user


def test_an_answer_survives_a_json_round_trip(sqlite_url: str) -> None:
    cats(sqlite_url)
    opinion = opinion_json(NICE, 0.6, "F1")
    memory, _ = memory_with_model(
        sqlite_url, answers_in_turn(lookup_request("fish"), says("Good [F1].", opinions=[opinion], steps=["So [F2]."]))
    )
    with memory:
        answer = memory.reflect_sync(QUESTION)
        assert answer.formed
        assert answer.lookups
        assert Answer.of(json.loads(json.dumps(answer.model_dump(mode="json")))) == answer


# What is believed


class Alike(HashEmbedder):
    """An embedder to which all texts mean the same."""

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        return await super().embed(["the same"] * len(texts), kind)


@pytest.mark.parametrize(
    ("opinion", "kept"),
    [
        (opinion_json("I think\x00 Tom [F1]\x1b is good \n because he likes fish [F2].", 0.5, "F1"), True),
        (opinion_json(NICE, 0.5, "[F1]"), True),
        (opinion_json(NICE, 0.5, "F1, F2"), True),
        (opinion_json(NICE, 0.5, "F1", instead_of="none"), True),
        (opinion_json(NICE, 0.5, "F1", instead_of="F2"), False),
        (opinion_json(NICE, 0.5, "F1", instead_of="O1"), False),
        (opinion_json(NICE, 0.5, "B", "O1", "tom", ""), False),
        (opinion_json("[F1]", 0.5, "F1"), False),
        (opinion_json("\x00", 0.5, "F1"), False),
    ],
)
def test_only_a_supported_opinion_is_stored_without_its_marks(
    sqlite_url: str, opinion: dict[str, JsonValue], kept: bool
) -> None:
    cats(sqlite_url)
    memory, _ = memory_with_model(sqlite_url, says("Good [F1].", opinions=[opinion]))
    with memory:
        formed = memory.reflect_sync(QUESTION).formed
        assert [fact.text for fact in memory.opinions_sync()] == [fact.text for fact in formed]
        assert bool(formed) is kept
        assert all(fact.text.isprintable() and "[" not in fact.text for fact in formed)


def test_an_answer_forms_an_opinion_once_and_only_a_few(sqlite_url: str) -> None:
    cats(sqlite_url)
    words = ["good", "tall", "green", "old", "asleep", "rich", "famous", "angry"]
    many = [opinion_json(f"I think Tom is {word}, and {word} {word} is what counts.", 0.5, "F1") for word in words]
    memory, _ = memory_with_model(
        sqlite_url, says("Good [F1].", opinions=[opinion_json(NICE, 0.5, "F1"), opinion_json(NICE, 0.9, "F2"), *many])
    )
    with memory:
        memory.reflect_sync(QUESTION)
        texts = [fact.text for fact in memory.opinions_sync()]
        assert texts.count(NICE) == 1
        assert len(texts) == len(set(texts)) <= 5


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("I prefer tea to coffee.", "I prefer coffee to tea.", False),
        ("I think Tom is a good cat.", "I think Tom is not a good cat.", False),
        ("I think Alice should buy the red boat.", "I think Alice should buy the blue boat.", False),
        ("I think Tom is a good cat.", "I really believe that Tom is a good cat!", True),
    ],
)
def test_an_opinion_is_not_confused_with_its_opposite(sqlite_url: str, one: str, other: str, same: bool) -> None:
    cats(sqlite_url)
    answers = [says("So it is [F1].", opinions=[opinion_json(text, 0.5, "F1", "F2")]) for text in (one, other)]
    model = FakeLLM({"reflect": answers_in_turn(*answers)})
    with Memory(sqlite_url, llm=model, embedder=Alike()) as memory:
        memory.reflect_sync(QUESTION)
        second = memory.reflect_sync(QUESTION)
        assert (len(second.formed), len(second.confidence_changes)) == (0 if same else 1, 0)
        assert len(memory.opinions_sync()) == (1 if same else 2)


def test_an_opinion_replaced_as_of_an_earlier_date_does_not_end_before_it_began(sqlite_url: str) -> None:
    cats(sqlite_url)
    other = "I think Tom is awful because all of the house smells."

    def turning(asked: ReceivedRequest) -> JsonValue:
        return says("No [F1].", opinions=[opinion_json(other, 0.6, "F1", instead_of=mark_of(asked, "I think"))])

    memory, _ = memory_with_model(
        sqlite_url, answers_in_turn(says("Yes [F1].", opinions=[opinion_json(NICE, 0.6, "F1")]), turning)
    )
    with memory:
        (first,) = memory.reflect_sync(QUESTION).formed
        memory.reflect_sync(QUESTION, now=NOON)
        old = memory.why_sync(first.id).fact
        assert old.expired_at is not None
        assert old.valid_at is not None
        assert old.invalid_at is not None
        assert old.invalid_at >= old.valid_at
        assert [fact.text for fact in memory.opinions_sync()] == [other]


def test_an_opinion_is_valid_from_the_questions_date(sqlite_url: str) -> None:
    retain_lines(sqlite_url, said("Tom likes fish.", NOON))
    memory, _ = memory_with_model(sqlite_url, says("Good [F1].", opinions=[opinion_json(NICE, 0.6, "F1")]))
    asked = datetime(2024, 3, 1, tzinfo=UTC)
    with memory:
        assert memory.reflect_sync(QUESTION, at_time=asked).formed == ()
        (formed,) = memory.reflect_sync(QUESTION, now=asked).formed
        assert formed.valid_at == asked


# What happens meanwhile


def test_reflections_at_the_same_time_form_an_opinion_once(url: str) -> None:
    cats(url)
    memories = [
        memory_with_model(url, says("Good [F1].", opinions=[opinion_json(NICE, 0.6, "F1")]))[0] for _ in range(3)
    ]
    with ThreadPoolExecutor(6) as pool:
        waiting = [pool.submit(memory.reflect_sync, QUESTION) for memory in memories * 2]
    assert sum(len(each.result().formed) for each in waiting) == 1
    assert len(memories[0].opinions_sync()) == 1
    (spent,) = memories[0].status_sync().spending
    assert spent.calls == 6
    for memory in memories:
        memory.close_sync()


def test_facts_forgotten_during_generation_support_no_opinion(url: str) -> None:
    cats(url)

    def answer(asked: ReceivedRequest) -> JsonValue:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(forget).result()
        return says("Good [F1].", opinions=[opinion_json(NICE, 0.6, "F1", "F2")])

    def forget() -> None:
        async def all_of_it() -> None:
            async with Memory(url, embedder=HashEmbedder()) as other:
                await other.forget(messages=[message.id for message in await other.messages()])

        asyncio.run(all_of_it())

    memory, _ = memory_with_model(url, answer)
    with memory:
        assert memory.reflect_sync(QUESTION).formed == ()
        assert memory.opinions_sync() == []


class Slow:
    """A model that answers once, and then never again."""

    name = "slow"

    def __init__(self) -> None:
        self.waits = asyncio.Event()
        self.answers = [lookup_request("fish")]

    async def complete(self, request: LLMRequest) -> Completion:
        if not self.answers:
            self.waits.set()
            await asyncio.Event().wait()
        return Completion(text=json.dumps(self.answers.pop()), usage=Usage(calls=1, output_tokens=7))


def test_a_reflection_that_is_cancelled_still_counts_what_it_cost(sqlite_url: str) -> None:
    cats(sqlite_url)

    async def cancelled() -> None:
        model = Slow()
        async with Memory(sqlite_url, llm=model, embedder=HashEmbedder()) as memory:
            task = asyncio.create_task(memory.reflect(QUESTION))
            await model.waits.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (spent,) = (await memory.status()).spending
            assert (spent.calls, spent.output_tokens) == (1, 7)
            assert await memory.opinions() == []

    asyncio.run(cancelled())


class Broken(Slow):
    """A stream that ends too early."""

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        yield '{"calls": [], "text": "Tom'


def test_a_stream_that_ends_early_raises_llm_unusable(sqlite_url: str) -> None:
    cats(sqlite_url)
    with (
        Memory(sqlite_url, llm=Broken(), embedder=HashEmbedder()) as memory,
        pytest.raises(LLMUnusable, match="before the answer was complete"),
    ):
        list(memory.reflect_stream_sync(QUESTION))


def test_a_draft_is_not_streamed_before_calls_are_known_to_be_empty(sqlite_url: str) -> None:
    cats(sqlite_url)
    draft: JsonValue = {"text": "A draft, perhaps.", "calls": [{"tool": "search", "query": "fish"}]}
    memory, _ = memory_with_model(sqlite_url, answers_in_turn(draft, says("Good [F1].")))
    with memory:
        first, *_, last = memory.reflect_stream_sync(QUESTION)
        assert isinstance(first, MemoryLookup)
        assert isinstance(last, Answer)
        assert last.plain == "Good."


# Streams without a loop


class Endless(Slow):
    """A model that begins, and never ends."""

    stopped = threading.Event()

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        yield '{"calls": [], "text": "Tom is '
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


def test_a_stream_that_is_garbage_collected_on_the_event_loop_is_closed(sqlite_url: str) -> None:
    cats(sqlite_url)
    model = Endless()
    with Memory(sqlite_url, llm=model, embedder=HashEmbedder()) as memory:
        streams = [memory.reflect_stream_sync(QUESTION)]
        assert next(streams[0]) == TextDelta(text="Tom is")

        async def throw_away() -> None:
            streams.clear()
            gc.collect()

        portal.run(throw_away())
        assert model.stopped.wait(MAX_WAIT)


@pytest.fixture
def interruptible() -> Generator[None]:
    """Interrupts arrive, even where the whole run was started in the background and ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_stream_is_stopped_and_the_interruption_arrives(sqlite_url: str) -> None:
    cats(sqlite_url)
    model = Endless()

    with Memory(sqlite_url, llm=model, embedder=HashEmbedder()) as memory:
        stream = memory.reflect_stream_sync(QUESTION)
        next(stream)
        timer = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))

        def next_interrupted() -> None:
            timer.start()
            next(stream)

        with pytest.raises(KeyboardInterrupt):
            next_interrupted()
        timer.join()
        assert model.stopped.wait(MAX_WAIT)


def test_a_stream_works_inside_a_running_loop_and_in_many_threads(sqlite_url: str) -> None:
    cats(sqlite_url)
    memory, _ = memory_with_model(sqlite_url, says("Good [F1]."))

    def texts(stream: Iterable[object]) -> list[str]:
        # The facts of an answer also count how often they were recalled, which differs.
        return [part.text for part in stream if isinstance(part, TextDelta | Answer)]

    async def inside() -> list[str]:
        return texts(memory.reflect_stream_sync(QUESTION))

    with memory, ThreadPoolExecutor(4) as pool:
        whole = asyncio.run(inside())
        streams = [pool.submit(texts, memory.reflect_stream_sync(QUESTION)) for _ in range(8)]
        assert [stream.result() for stream in streams] == [whole] * 8
    assert len(whole) > 2, "the text came in parts"


def test_a_process_ends_though_a_stream_was_never_finished(tmp_path: Path) -> None:
    program = """if True:
        import asyncio
        from vmemo.sync import twin_stream

        class Endless:
            async def tell(self):
                yield 1
                await asyncio.Event().wait()
            tell_sync = twin_stream(tell)

        stream = Endless().tell_sync()
        print(next(stream))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=MAX_WAIT, check=True)
    assert done.stdout == "1\n"
