"""Patience around a model: waiting, pacing, asking once. The clock is the test's own."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pytest

from vmemo.errors import InvalidInput, LLMDenied, LLMFailed, LLMRefused, LLMUnavailable, LLMUnusable
from vmemo.llm.openai import OpenAICompatible
from vmemo.llm.resilient import Busy, Garbled, PatientLLM
from vmemo.models.results import Usage
from vmemo.ports.providers import LLM, Completion, LLMRequest
from vmemo.testing.llm import EmptyBody, FakeLLM, Fault, Html, Refusal, Reset, Status
from vmemo.testing.llm_server import ScriptedServer

R = TypeVar("R")
ASK = LLMRequest(step="extract", system="Read.", user="I have a cat.", schema={"type": "object", "required": ["n"]})
SPENT = Usage(calls=1, input_tokens=4, output_tokens=2)


@dataclass
class Clock:
    """A time that passes only when somebody sleeps."""

    now: float = 1000.0
    pauses: list[float] = field(default_factory=list[float])

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        until = self.now + seconds
        await asyncio.sleep(0)
        self.now = max(self.now, until)


class Slow:
    """A model that answers when it is told to, and notes when it is cancelled."""

    def __init__(self) -> None:
        self.asked = 0
        self.cancelled = 0
        self.go = asyncio.Event()
        self.name = "slow"

    async def complete(self, request: LLMRequest) -> Completion:
        self.asked += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Completion(text='{"n": 1}', usage=SPENT)


class Failing:
    """A model that raises one error after another, then answers."""

    def __init__(self, errors: Sequence[Exception]) -> None:
        self.errors = list(errors)
        self.name = "failing"

    async def complete(self, request: LLMRequest) -> Completion:
        if self.errors:
            raise self.errors.pop(0)
        return Completion(text='{"n": 1}', usage=SPENT)


def patient(inner: LLM, clock: Clock, *, tries: int = 4, rng: Callable[[], float] = lambda: 1.0) -> PatientLLM:
    return PatientLLM(inner, tries=tries, sleep=clock.sleep, clock=clock, rng=rng)


def fake() -> FakeLLM:
    return FakeLLM({"extract": {"n": 1}})


def in_a_moment(work: Callable[[], Awaitable[R]]) -> R:
    async def run() -> R:
        return await work()

    return asyncio.run(run())


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("fault", [Status(503), Status(429), Reset(), EmptyBody(), Html()])
def test_what_may_pass_is_tried_again_after_growing_pauses(fault: Fault) -> None:
    inner, clock = fake(), Clock()
    inner.faults("extract", [fault] * 3)
    assert in_a_moment(lambda: patient(inner, clock).complete(ASK)).text == '{"n": 1}'
    assert clock.pauses == [0.5, 1.0, 2.0]


def test_pauses_are_spread_by_chance_and_have_a_longest() -> None:
    inner, clock = fake(), Clock()
    inner.faults("extract", [Reset()] * 9)
    llm = patient(inner, clock, tries=10, rng=random.Random(7).random)
    in_a_moment(lambda: llm.complete(ASK))
    limits = [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert all(0 <= pause <= limit for pause, limit in zip(clock.pauses, limits, strict=True))
    assert len(set(clock.pauses)) == 9


def test_the_last_failure_is_raised_as_it_is() -> None:
    inner, clock = fake(), Clock()
    inner.faults("extract", [Reset()] * 4)
    with pytest.raises(LLMUnavailable, match="it is not there"):
        in_a_moment(lambda: patient(inner, clock).complete(ASK))
    assert len(inner.received) == 4
    assert len(clock.pauses) == 3


@pytest.mark.parametrize(
    ("fault", "error"), [(Status(401), LLMDenied), (Status(400), LLMDenied), (Refusal(), LLMRefused)]
)
def test_a_denial_and_a_refusal_are_raised_at_once(fault: Fault, error: type[LLMFailed]) -> None:
    inner, clock = fake(), Clock()
    inner.faults("extract", [fault])
    with pytest.raises(error):
        in_a_moment(lambda: patient(inner, clock).complete(ASK))
    assert len(inner.received) == 1


def test_an_answer_that_the_model_itself_spoiled_is_not_asked_for_again() -> None:
    inner, clock = Failing([LLMUnusable("cut off at 100 tokens"), Garbled("never seen")]), Clock()
    with pytest.raises(LLMUnusable, match="cut off"):
        in_a_moment(lambda: patient(inner, clock).complete(ASK))
    assert len(inner.errors) == 1


def test_a_wish_to_wait_is_followed() -> None:
    inner, clock = fake(), Clock()
    inner.faults("extract", [Status(429, retry_after=7), Status(503, retry_after=60)])
    in_a_moment(lambda: patient(inner, clock, rng=lambda: 0.0).complete(ASK))
    assert clock.pauses == [7.0, 60.0]


def test_a_wish_to_wait_too_long_is_raised_at_once_and_says_until_when() -> None:
    inner, clock = fake(), Clock()
    inner.faults("extract", [Status(429, retry_after=1e12)])
    with pytest.raises(Busy, match=r"left alone until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC") as caught:
        in_a_moment(lambda: patient(inner, clock).complete(ASK))
    assert caught.value.retry_after == 1e12
    assert (len(inner.received), clock.pauses) == (1, [])


def test_others_wait_too_while_a_service_wants_to_be_left_alone() -> None:
    inner, clock = fake(), Clock()
    inner.faults("extract", [Status(429, retry_after=20)])

    async def work() -> None:
        llm = patient(inner, clock, rng=lambda: 0.0)
        gate = asyncio.Event()

        async def held(seconds: float) -> None:
            clock.pauses.append(seconds)
            await gate.wait()

        llm.sleep = held
        first = asyncio.create_task(llm.complete(ASK))
        await settle()
        second = asyncio.create_task(llm.complete(replace(ASK, user="I have a dog.")))
        await settle()
        assert len(inner.received) == 1
        clock.now += 20
        gate.set()
        await asyncio.gather(first, second)

    asyncio.run(work())
    assert clock.pauses == [20.0, 20.0]
    assert len(inner.received) == 3


def test_a_pace_spreads_calls_evenly() -> None:
    inner, clock = fake(), Clock()
    llm = PatientLLM(inner, requests_per_minute=30, sleep=clock.sleep, clock=clock)

    async def work() -> None:
        for number in range(3):
            await llm.complete(replace(ASK, user=str(number)))

    asyncio.run(work())
    assert clock.pauses == [2.0, 2.0]


def test_no_more_calls_run_at_once_than_allowed() -> None:
    async def work() -> None:
        inner = Slow()
        llm = PatientLLM(inner, concurrency=2)
        tasks = [asyncio.create_task(llm.complete(replace(ASK, user=str(number)))) for number in range(5)]
        await settle()
        assert inner.asked == 2
        inner.go.set()
        await asyncio.gather(*tasks)
        assert inner.asked == 5

    asyncio.run(work())


def test_equal_asks_at_the_same_time_are_one_call_that_is_paid_once() -> None:
    async def work() -> None:
        inner = Slow()
        llm = PatientLLM(inner)
        tasks = [asyncio.create_task(llm.complete(ASK)) for _ in range(3)]
        await settle()
        inner.go.set()
        said = await asyncio.gather(*tasks)
        assert inner.asked == 1
        assert [one.text for one in said] == ['{"n": 1}'] * 3
        assert sum((one.usage for one in said), Usage()) == SPENT

    asyncio.run(work())


@pytest.mark.parametrize("who", [0, 1])
def test_a_shared_call_survives_one_who_goes_and_is_paid_by_one_who_stays(who: int) -> None:
    async def work() -> None:
        inner = Slow()
        llm = PatientLLM(inner)
        tasks = [asyncio.create_task(llm.complete(ASK)) for _ in range(2)]
        await settle()
        tasks[who].cancel()
        await settle()
        inner.go.set()
        assert (await tasks[1 - who]).usage == SPENT
        assert tasks[who].cancelled()
        assert (inner.asked, inner.cancelled) == (1, 0)

    asyncio.run(work())


def test_a_shared_call_ends_when_nobody_waits_for_it_and_can_be_asked_anew() -> None:
    async def work() -> None:
        inner = Slow()
        llm = PatientLLM(inner)
        tasks = [asyncio.create_task(llm.complete(ASK)) for _ in range(2)]
        await settle()
        for task in tasks:
            task.cancel()
        await settle()
        assert inner.cancelled == 1
        inner.go.set()
        assert (await llm.complete(ASK)).usage == SPENT
        assert inner.asked == 2

    asyncio.run(work())


def test_an_answer_is_kept_for_a_while_and_costs_nothing_again() -> None:
    inner, clock = fake(), Clock()
    llm = patient(inner, clock)
    first, second = (in_a_moment(lambda: llm.complete(ASK)) for _ in range(2))
    assert (first.text, second.text) == ('{"n": 1}', '{"n": 1}')
    assert (first.usage.calls, second.usage) == (1, Usage())
    clock.now += 601
    assert in_a_moment(lambda: llm.complete(ASK)).usage.calls == 1
    assert len(inner.received) == 2


@pytest.mark.parametrize(
    "other",
    [
        replace(ASK, step="judge"),
        replace(ASK, system="Read!"),
        replace(ASK, user="I have a cat!"),
        replace(ASK, schema={}),
        replace(ASK, max_tokens=7),
    ],
)
def test_another_ask_is_another_call(other: LLMRequest) -> None:
    inner, clock = FakeLLM(lambda _: {"n": 1}), Clock()
    llm = patient(inner, clock)
    in_a_moment(lambda: llm.complete(ASK))
    assert in_a_moment(lambda: llm.complete(other)).usage.calls == 1


@pytest.mark.parametrize("spoiled", ["prose", '{"n": ', '{"m": 1}', "[1]", "[" * 100_000])
def test_neither_a_failure_nor_a_spoiled_answer_is_kept(spoiled: str) -> None:
    inner, clock = FakeLLM({"extract": [Refusal(), spoiled, {"n": 1}]}), Clock()
    llm = patient(inner, clock)
    with pytest.raises(LLMRefused):
        in_a_moment(lambda: llm.complete(ASK))
    assert in_a_moment(lambda: llm.complete(ASK)).text == spoiled
    assert in_a_moment(lambda: llm.complete(ASK)).text == '{"n": 1}'


def test_the_answers_used_least_lately_are_let_go() -> None:
    inner = fake()
    llm = PatientLLM(inner, keep=2)

    async def calls(user: str) -> int:
        return (await llm.complete(replace(ASK, user=user))).usage.calls

    async def work() -> list[int]:
        return [await calls(user) for user in ("a", "b", "a", "c", "a", "b")]

    assert asyncio.run(work()) == [1, 1, 0, 1, 0, 1]


def test_a_failure_that_nobody_waits_for_any_more_is_silent() -> None:
    async def work() -> None:
        gate = asyncio.Event()

        class Spiteful:
            name = "spiteful"

            async def complete(self, request: LLMRequest) -> Completion:
                try:
                    await gate.wait()
                except asyncio.CancelledError:
                    raise LLMDenied("too late") from None
                raise AssertionError("unreachable")

        task = asyncio.create_task(PatientLLM(Spiteful()).complete(ASK))
        await settle()
        task.cancel()
        await settle()
        assert task.cancelled()

    asyncio.run(work())


def test_event_loops_and_threads_share_its_patience() -> None:
    inner = fake()
    llm = PatientLLM(inner, concurrency=1)

    def work(name: str) -> None:
        async def several() -> None:
            await asyncio.gather(*(llm.complete(replace(ASK, user=f"{name} {number}")) for number in range(5)))

        asyncio.run(several())

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(inner.received) == 20


def test_it_waits_for_a_real_server_and_closes_what_it_wraps() -> None:
    async def work(url: str) -> Completion:
        llm = PatientLLM(OpenAICompatible("m", base_url=url, name="mine", trust_env=False), first_pause=0.001)
        assert (llm.name, isinstance(llm, LLM)) == ("mine", True)
        try:
            return await llm.complete(ASK)
        finally:
            await llm.close()

    with ScriptedServer({"extract": {"n": 1}}) as server:
        server.faults("extract", [Reset(), Status(503, retry_after=0), EmptyBody()])
        assert asyncio.run(work(server.url)).text == '{"n": 1}'
        assert len(server.received) == 4


def test_a_model_without_connections_can_be_closed_too() -> None:
    in_a_moment(PatientLLM(fake()).close)


def test_a_patience_that_can_not_be_is_refused() -> None:
    with pytest.raises(InvalidInput, match="tries"):
        PatientLLM(fake(), tries=0)
    with pytest.raises(InvalidInput, match="requests_per_minute"):
        PatientLLM(fake(), requests_per_minute=0)
