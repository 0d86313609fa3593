"""ResilientLLM with streams: deltas that were yielded cannot be taken back. Time is simulated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
from streams import ManualClock, collect, openai_llm

from vmemo.errors import LLMDenied, LLMFailed, LLMRefused, LLMUnavailable
from vmemo.llm.resilient import ResilientLLM
from vmemo.models.results import Usage
from vmemo.ports import LLM, Completion, LLMRequest, StreamingLLM
from vmemo_conformance.fake_llm import (
    ConnectionDropped,
    ConnectionReset,
    CutOff,
    EmptyBody,
    FakeLLM,
    Fault,
    HtmlPage,
    Refusal,
    StatusResponse,
)
from vmemo_conformance.llm_server import ScriptedServer

REQUEST = LLMRequest(step="reflect", system="Read.", user="I have a cat.", schema={"type": "object", "required": ["n"]})
USAGE = Usage(calls=1, input_tokens=4, output_tokens=2)
DELTAS = ['{"n":', " 1}"]


class SlowStreamingLLM:
    """A model that yields one delta, the rest when `go` is set, and counts closed streams."""

    def __init__(self) -> None:
        self.calls = 0
        self.closed = 0
        self.go = asyncio.Event()
        self.name = "slow"

    async def complete(self, request: LLMRequest) -> Completion:
        raise AssertionError("complete() must not be called")

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        self.calls += 1
        try:
            yield DELTAS[0]
            await self.go.wait()
            yield DELTAS[1]
            yield Completion(text="".join(DELTAS), usage=USAGE)
        finally:
            self.closed += 1


class CompleteOnlyLLM:
    """A model that fails once and cannot stream."""

    def __init__(self) -> None:
        self.calls = 0
        self.name = "whole"

    async def complete(self, request: LLMRequest) -> Completion:
        self.calls += 1
        if self.calls == 1:
            raise LLMUnavailable("come again")
        return Completion(text="".join(DELTAS), usage=USAGE)


def fake(*faults: Fault) -> FakeLLM:
    llm = FakeLLM({"reflect": {"n": 1}})
    llm.faults("reflect", faults)
    return llm


def resilient(inner: LLM, clock: ManualClock) -> ResilientLLM:
    return ResilientLLM(inner, sleep=clock.sleep, clock=clock, rng=lambda: 1.0)


@pytest.mark.parametrize(
    "fault",
    [
        StatusResponse(503),
        StatusResponse(429),
        ConnectionReset(),
        EmptyBody(),
        HtmlPage(),
        ConnectionDropped("", keep=0),
    ],
)
def test_a_stream_is_retried_until_its_first_delta(fault: Fault) -> None:
    clock = ManualClock()
    llm = resilient(fake(fault, fault, fault), clock)
    assert isinstance(llm, StreamingLLM)
    streamed = asyncio.run(collect(llm, REQUEST))
    assert (streamed.deltas, streamed.completion) == (DELTAS, Completion(text="".join(DELTAS), usage=USAGE))
    assert clock.pauses == [0.5, 1.0, 2.0]


def test_the_last_failure_is_raised_unchanged() -> None:
    inner, clock = fake(*[ConnectionReset()] * 4), ManualClock()
    assert "it is unreachable" in str(asyncio.run(collect(resilient(inner, clock), REQUEST)).error)
    assert (len(inner.received), len(clock.pauses)) == (4, 3)


@pytest.mark.parametrize("fault", [ConnectionDropped("0123456789"), CutOff("01234")])
def test_an_error_after_the_first_delta_is_not_retried(fault: Fault) -> None:
    inner, clock = fake(fault), ManualClock()
    streamed = asyncio.run(collect(resilient(inner, clock), REQUEST))
    assert streamed.deltas == ["01234"]
    assert "on purpose" in str(streamed.error)
    assert (len(inner.received), clock.pauses) == (1, [])


@pytest.mark.parametrize(("fault", "error"), [(StatusResponse(401), LLMDenied), (Refusal(), LLMRefused)])
def test_denials_and_refusals_are_not_retried(fault: Fault, error: type[LLMFailed]) -> None:
    inner = fake(fault)
    assert isinstance(asyncio.run(collect(resilient(inner, ManualClock()), REQUEST)).error, error)
    assert len(inner.received) == 1


def test_retry_after_is_honoured_up_to_a_limit() -> None:
    clock = ManualClock()
    llm = resilient(fake(StatusResponse(429, retry_after=7), StatusResponse(503, retry_after=61)), clock)
    assert "not to be called until" in str(asyncio.run(collect(llm, REQUEST)).error)
    assert clock.pauses == [7.5]


def test_the_rate_limit_applies_to_streams() -> None:
    clock = ManualClock()
    llm = ResilientLLM(fake(), requests_per_minute=30, sleep=clock.sleep, clock=clock)

    async def work() -> None:
        for number in range(3):
            await collect(llm, replace(REQUEST, user=str(number)))

    asyncio.run(work())
    assert clock.pauses == [2.0, 2.0]


def test_a_finished_stream_is_cached_and_repeated_as_one_delta() -> None:
    inner, clock = fake(), ManualClock()
    llm = resilient(inner, clock)
    asyncio.run(collect(llm, REQUEST))
    again = asyncio.run(collect(llm, REQUEST))
    assert (again.deltas, again.completion) == (["".join(DELTAS)], Completion(text="".join(DELTAS), usage=Usage()))
    assert asyncio.run(llm.complete(REQUEST)).usage == Usage()
    clock.now += 601
    assert asyncio.run(collect(llm, REQUEST)).deltas == DELTAS
    llm.forget(REQUEST)
    assert asyncio.run(collect(llm, REQUEST)).deltas == DELTAS
    assert len(inner.received) == 3


def test_a_cached_answer_serves_a_stream() -> None:
    llm = resilient(fake(), ManualClock())
    asyncio.run(llm.complete(REQUEST))
    assert asyncio.run(collect(llm, REQUEST)).completion == Completion(text="".join(DELTAS), usage=Usage())


def test_failures_are_not_cached() -> None:
    llm = resilient(FakeLLM({"reflect": [ConnectionDropped("0123456789"), {"n": 1}]}), ManualClock())
    asyncio.run(collect(llm, REQUEST))
    assert asyncio.run(collect(llm, REQUEST)).deltas == DELTAS


def test_concurrent_streams_are_limited_and_a_closed_one_frees_its_slot() -> None:
    async def work() -> None:
        inner = SlowStreamingLLM()
        llm = ResilientLLM(inner, concurrency=1)
        first, second = (llm.stream(replace(REQUEST, user=user)) for user in "ab")
        assert await anext(first) == DELTAS[0]
        waiting = asyncio.gather(anext(second))
        for _ in range(10):
            await asyncio.sleep(0)
        assert (inner.calls, inner.closed) == (1, 0)
        await first.aclose()
        assert await waiting == [DELTAS[0]]
        assert (inner.calls, inner.closed) == (2, 1)
        inner.go.set()
        assert [piece async for piece in second] == [DELTAS[1], Completion(text="".join(DELTAS), usage=USAGE)]
        assert inner.closed == 2

    asyncio.run(work())


def test_a_model_that_cannot_stream_yields_one_delta() -> None:
    clock = ManualClock()
    streamed = asyncio.run(collect(resilient(CompleteOnlyLLM(), clock), REQUEST))
    assert (streamed.deltas, streamed.completion) == (["".join(DELTAS)], Completion(text="".join(DELTAS), usage=USAGE))
    assert clock.pauses == [0.5]


def test_a_stream_from_a_real_server_is_retried() -> None:
    async def work(url: str) -> list[str]:
        llm = ResilientLLM(openai_llm(url), initial_delay=0.001)
        try:
            return (await collect(llm, REQUEST)).deltas
        finally:
            await llm.close()

    with ScriptedServer({"reflect": {"n": 1}}) as server:
        server.faults("reflect", [ConnectionReset(), StatusResponse(503, retry_after=0), EmptyBody()])
        assert asyncio.run(work(server.url)) == DELTAS
        assert len(server.received) == 4
