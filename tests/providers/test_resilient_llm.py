"""ResilientLLM: retries, rate limit and cache. Time is simulated."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest
from streams import ManualClock

from vmemo.errors import InvalidInput, LLMDenied, LLMFailed, LLMRefused, LLMUnavailable, LLMUnusable
from vmemo.llm.openai import OpenAICompatible
from vmemo.llm.resilient import ResilientLLM
from vmemo.models.results import Usage
from vmemo.ports import LLM, Completion, LLMRequest
from vmemo_conformance.fake_llm import ConnectionReset, EmptyBody, FakeLLM, Fault, HtmlPage, Refusal, StatusResponse
from vmemo_conformance.llm_server import ScriptedServer

R = TypeVar("R")
REQUEST = LLMRequest(step="extract", system="Read.", user="I have a cat.", schema={"type": "object", "required": ["n"]})
USAGE = Usage(calls=1, input_tokens=4, output_tokens=2)


class SlowLLM:
    """A model that answers when `go` is set."""

    def __init__(self) -> None:
        self.calls = 0
        self.go = asyncio.Event()
        self.name = "slow"

    async def complete(self, request: LLMRequest) -> Completion:
        self.calls += 1
        await self.go.wait()
        return Completion(text='{"n": 1}', usage=USAGE)


class FailingLLM:
    """A model that raises one error after another, then answers."""

    def __init__(self, errors: Sequence[Exception]) -> None:
        self.errors = list(errors)
        self.name = "failing"

    async def complete(self, request: LLMRequest) -> Completion:
        if self.errors:
            raise self.errors.pop(0)
        return Completion(text='{"n": 1}', usage=USAGE)


def resilient(
    inner: LLM, clock: ManualClock, *, tries: int = 4, rng: Callable[[], float] = lambda: 1.0
) -> ResilientLLM:
    return ResilientLLM(inner, tries=tries, sleep=clock.sleep, clock=clock, rng=rng)


def fake() -> FakeLLM:
    return FakeLLM({"extract": {"n": 1}})


def run(work: Callable[[], Awaitable[R]]) -> R:
    async def call() -> R:
        return await work()

    return asyncio.run(call())


async def let_tasks_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "fault", [StatusResponse(503), StatusResponse(429), ConnectionReset(), EmptyBody(), HtmlPage()]
)
def test_transient_failures_are_retried_with_exponential_backoff(fault: Fault) -> None:
    inner, clock = fake(), ManualClock()
    inner.faults("extract", [fault] * 3)
    assert run(lambda: resilient(inner, clock).complete(REQUEST)).text == '{"n": 1}'
    assert clock.pauses == [0.5, 1.0, 2.0]


def test_backoff_is_jittered_and_capped() -> None:
    inner, clock = fake(), ManualClock()
    inner.faults("extract", [ConnectionReset()] * 9)
    llm = resilient(inner, clock, tries=10, rng=random.Random(7).random)
    run(lambda: llm.complete(REQUEST))
    limits = [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert all(0 <= pause <= limit for pause, limit in zip(clock.pauses, limits, strict=True))
    assert len(set(clock.pauses)) == 9


def test_the_last_failure_is_raised_unchanged() -> None:
    inner, clock = fake(), ManualClock()
    inner.faults("extract", [ConnectionReset()] * 4)
    with pytest.raises(LLMUnavailable, match="it is unreachable"):
        run(lambda: resilient(inner, clock).complete(REQUEST))
    assert len(inner.received) == 4
    assert len(clock.pauses) == 3


@pytest.mark.parametrize(
    ("fault", "error"), [(StatusResponse(401), LLMDenied), (StatusResponse(400), LLMDenied), (Refusal(), LLMRefused)]
)
def test_denials_and_refusals_are_not_retried(fault: Fault, error: type[LLMFailed]) -> None:
    inner, clock = fake(), ManualClock()
    inner.faults("extract", [fault])
    with pytest.raises(error):
        run(lambda: resilient(inner, clock).complete(REQUEST))
    assert len(inner.received) == 1


def test_an_unusable_answer_is_not_retried() -> None:
    inner, clock = FailingLLM([LLMUnusable("cut off at 100 tokens"), LLMUnavailable("never seen")]), ManualClock()
    with pytest.raises(LLMUnusable, match="cut off"):
        run(lambda: resilient(inner, clock).complete(REQUEST))
    assert len(inner.errors) == 1


def test_retry_after_is_honoured() -> None:
    inner, clock = fake(), ManualClock()
    inner.faults("extract", [StatusResponse(429, retry_after=7), StatusResponse(503, retry_after=60)])
    run(lambda: resilient(inner, clock, rng=lambda: 0.0).complete(REQUEST))
    assert clock.pauses == [7.0, 60.0]


def test_a_long_retry_after_is_raised_immediately_with_its_end() -> None:
    inner, clock = fake(), ManualClock()
    inner.faults("extract", [StatusResponse(429, retry_after=1e12)])
    with pytest.raises(LLMUnavailable, match=r"not to be called until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC") as caught:
        run(lambda: resilient(inner, clock).complete(REQUEST))
    assert caught.value.retry_after == 1e12
    assert (len(inner.received), clock.pauses) == (1, [])


def test_retry_after_delays_other_calls_too() -> None:
    inner, clock = fake(), ManualClock()
    inner.faults("extract", [StatusResponse(429, retry_after=20)])

    async def work() -> None:
        llm = resilient(inner, clock, rng=lambda: 0.0)
        released = asyncio.Event()

        async def wait_for_release(seconds: float) -> None:
            clock.pauses.append(seconds)
            await released.wait()

        llm.sleep = wait_for_release
        first = asyncio.create_task(llm.complete(REQUEST))
        await let_tasks_run()
        second = asyncio.create_task(llm.complete(replace(REQUEST, user="I have a dog.")))
        await let_tasks_run()
        assert len(inner.received) == 1
        clock.now += 20
        released.set()
        await asyncio.gather(first, second)

    asyncio.run(work())
    assert clock.pauses == [20.0, 20.0]
    assert len(inner.received) == 3


def test_the_rate_limit_spreads_calls_evenly() -> None:
    inner, clock = fake(), ManualClock()
    llm = ResilientLLM(inner, requests_per_minute=30, sleep=clock.sleep, clock=clock)

    async def work() -> None:
        for number in range(3):
            await llm.complete(replace(REQUEST, user=str(number)))

    asyncio.run(work())
    assert clock.pauses == [2.0, 2.0]


def test_concurrent_calls_are_limited() -> None:
    async def work() -> None:
        inner = SlowLLM()
        llm = ResilientLLM(inner, concurrency=2)
        tasks = [asyncio.create_task(llm.complete(replace(REQUEST, user=str(number)))) for number in range(5)]
        await let_tasks_run()
        assert inner.calls == 2
        inner.go.set()
        await asyncio.gather(*tasks)
        assert inner.calls == 5

    asyncio.run(work())


def test_a_cached_answer_expires_and_has_no_usage() -> None:
    inner, clock = fake(), ManualClock()
    llm = resilient(inner, clock)
    first, second = (run(lambda: llm.complete(REQUEST)) for _ in range(2))
    assert (first.text, second.text) == ('{"n": 1}', '{"n": 1}')
    assert (first.usage.calls, second.usage) == (1, Usage())
    clock.now += 601
    assert run(lambda: llm.complete(REQUEST)).usage.calls == 1
    assert len(inner.received) == 2


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, step="judge"),
        replace(REQUEST, system="Read!"),
        replace(REQUEST, user="I have a cat!"),
        replace(REQUEST, schema={}),
        replace(REQUEST, max_tokens=7),
    ],
)
def test_a_different_request_is_a_new_call(other: LLMRequest) -> None:
    inner, clock = FakeLLM(lambda _: {"n": 1}), ManualClock()
    llm = resilient(inner, clock)
    run(lambda: llm.complete(REQUEST))
    assert run(lambda: llm.complete(other)).usage.calls == 1


def test_failures_and_rejected_answers_are_not_cached() -> None:
    inner, clock = FakeLLM({"extract": [Refusal(), "prose", {"n": 1}]}), ManualClock()
    llm = resilient(inner, clock)
    with pytest.raises(LLMRefused):
        run(lambda: llm.complete(REQUEST))
    assert run(lambda: llm.complete(REQUEST)).text == "prose"
    llm.forget(REQUEST)
    assert run(lambda: llm.complete(REQUEST)).text == '{"n": 1}'


def test_the_least_recently_used_answers_are_evicted() -> None:
    inner = fake()
    llm = ResilientLLM(inner, cache_size=2)

    async def calls(user: str) -> int:
        return (await llm.complete(replace(REQUEST, user=user))).usage.calls

    async def work() -> list[int]:
        return [await calls(user) for user in ("a", "b", "a", "c", "a", "b")]

    assert asyncio.run(work()) == [1, 1, 0, 1, 0, 1]


def test_event_loops_and_threads_can_share_one_model() -> None:
    inner = fake()
    llm = ResilientLLM(inner, concurrency=1)

    def work(name: str) -> None:
        async def several() -> None:
            await asyncio.gather(*(llm.complete(replace(REQUEST, user=f"{name} {number}")) for number in range(5)))

        asyncio.run(several())

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(inner.received) == 20


def test_a_real_server_is_retried_and_the_wrapped_model_closed() -> None:
    async def work(url: str) -> Completion:
        llm = ResilientLLM(OpenAICompatible("m", base_url=url, name="mine", trust_env=False), initial_delay=0.001)
        assert (llm.name, isinstance(llm, LLM)) == ("mine", True)
        try:
            return await llm.complete(REQUEST)
        finally:
            await llm.close()

    with ScriptedServer({"extract": {"n": 1}}) as server:
        server.faults("extract", [ConnectionReset(), StatusResponse(503, retry_after=0), EmptyBody()])
        assert asyncio.run(work(server.url)).text == '{"n": 1}'
        assert len(server.received) == 4


def test_a_model_without_close_can_be_closed() -> None:
    run(ResilientLLM(fake()).close)


def test_invalid_limits_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="tries"):
        ResilientLLM(fake(), tries=0)
    with pytest.raises(InvalidInput, match="requests_per_minute"):
        ResilientLLM(fake(), requests_per_minute=0)
