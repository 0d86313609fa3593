"""Patience around a model that streams: what is given can't be taken back. The clock is the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace

import pytest
from listening import listen, made

from vmemo.errors import LLMDenied, LLMFailed, LLMRefused
from vmemo.llm.resilient import Busy, PatientLLM
from vmemo.models.results import Usage
from vmemo.ports.providers import LLM, Completion, LLMRequest, StreamingLLM
from vmemo.testing import CutOff, EmptyBody, FakeLLM, Fault, Html, Refusal, Reset, ScriptedServer, Status, Torn

ASK = LLMRequest(step="reflect", system="Read.", user="I have a cat.", schema={"type": "object", "required": ["n"]})
SPENT = Usage(calls=1, input_tokens=4, output_tokens=2)
PIECES = ['{"n":', " 1}"]


@dataclass
class Clock:
    """A time that passes only when somebody sleeps."""

    now: float = 1000.0
    pauses: list[float] = field(default_factory=list[float])

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Slow:
    """A model that gives one piece and the rest when it is told to, and notes how it was left."""

    def __init__(self) -> None:
        self.asked = 0
        self.left = 0
        self.go = asyncio.Event()
        self.name = "slow"

    async def complete(self, request: LLMRequest) -> Completion:
        raise AssertionError("nobody wants the whole")

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        self.asked += 1
        try:
            yield PIECES[0]
            await self.go.wait()
            yield PIECES[1]
            yield Completion(text="".join(PIECES), usage=SPENT)
        finally:
            self.left += 1


class Whole:
    """A model that can't stream."""

    def __init__(self) -> None:
        self.asked = 0
        self.name = "whole"

    async def complete(self, request: LLMRequest) -> Completion:
        self.asked += 1
        if self.asked == 1:
            raise Busy("come again")
        return Completion(text="".join(PIECES), usage=SPENT)


def fake(*faults: Fault) -> FakeLLM:
    llm = FakeLLM({"reflect": {"n": 1}})
    llm.faults("reflect", faults)
    return llm


def patient(inner: LLM, clock: Clock) -> PatientLLM:
    return PatientLLM(inner, sleep=clock.sleep, clock=clock, rng=lambda: 1.0)


@pytest.mark.parametrize("fault", [Status(503), Status(429), Reset(), EmptyBody(), Html(), Torn("", keep=0)])
def test_what_may_pass_is_tried_again_while_nothing_was_given(fault: Fault) -> None:
    clock = Clock()
    llm = patient(fake(fault, fault, fault), clock)
    assert isinstance(llm, StreamingLLM)
    heard = asyncio.run(listen(llm, ASK))
    assert (heard.pieces, heard.last) == (PIECES, Completion(text="".join(PIECES), usage=SPENT))
    assert clock.pauses == [0.5, 1.0, 2.0]


def test_the_last_failure_is_raised_as_it_is() -> None:
    inner, clock = fake(*[Reset()] * 4), Clock()
    assert "it is not there" in str(asyncio.run(listen(patient(inner, clock), ASK)).error)
    assert (len(inner.received), len(clock.pauses)) == (4, 3)


@pytest.mark.parametrize("fault", [Torn("0123456789"), CutOff("01234")])
def test_after_the_first_piece_an_error_is_raised_as_it_is(fault: Fault) -> None:
    inner, clock = fake(fault), Clock()
    heard = asyncio.run(listen(patient(inner, clock), ASK))
    assert heard.pieces == ["01234"]
    assert "on purpose" in str(heard.error)
    assert (len(inner.received), clock.pauses) == (1, [])


@pytest.mark.parametrize(("fault", "error"), [(Status(401), LLMDenied), (Refusal(), LLMRefused)])
def test_a_denial_and_a_refusal_are_raised_at_once(fault: Fault, error: type[LLMFailed]) -> None:
    inner = fake(fault)
    assert isinstance(asyncio.run(listen(patient(inner, Clock()), ASK)).error, error)
    assert len(inner.received) == 1


def test_a_wish_to_wait_is_followed_unless_it_is_too_long() -> None:
    clock = Clock()
    llm = patient(fake(Status(429, retry_after=7), Status(503, retry_after=61)), clock)
    assert "left alone until" in str(asyncio.run(listen(llm, ASK)).error)
    assert clock.pauses == [7.5]


def test_a_pace_holds_for_streams() -> None:
    clock = Clock()
    llm = PatientLLM(fake(), requests_per_minute=30, sleep=clock.sleep, clock=clock)

    async def work() -> None:
        for number in range(3):
            await listen(llm, replace(ASK, user=str(number)))

    asyncio.run(work())
    assert clock.pauses == [2.0, 2.0]


def test_a_finished_stream_is_kept_and_given_again_in_one_piece_for_nothing() -> None:
    inner, clock = fake(), Clock()
    llm = patient(inner, clock)
    asyncio.run(listen(llm, ASK))
    again = asyncio.run(listen(llm, ASK))
    assert (again.pieces, again.last) == (["".join(PIECES)], Completion(text="".join(PIECES), usage=Usage()))
    assert asyncio.run(llm.complete(ASK)).usage == Usage()
    clock.now += 601
    assert asyncio.run(listen(llm, ASK)).pieces == PIECES
    llm.forget(ASK)
    assert asyncio.run(listen(llm, ASK)).pieces == PIECES
    assert len(inner.received) == 3


def test_a_whole_answer_that_is_kept_serves_a_stream() -> None:
    llm = patient(fake(), Clock())
    asyncio.run(llm.complete(ASK))
    assert asyncio.run(listen(llm, ASK)).last == Completion(text="".join(PIECES), usage=Usage())


@pytest.mark.parametrize("spoiled", ["prose", '{"n": ', '{"m": 1}'])
def test_neither_a_failure_nor_a_spoiled_answer_is_kept(spoiled: str) -> None:
    llm = patient(FakeLLM({"reflect": [Torn("0123456789"), spoiled, {"n": 1}]}), Clock())
    asyncio.run(listen(llm, ASK))
    assert "".join(asyncio.run(listen(llm, ASK)).pieces) == spoiled
    assert asyncio.run(listen(llm, ASK)).pieces == PIECES


def test_no_more_streams_run_at_once_than_allowed_and_who_stops_makes_room() -> None:
    async def work() -> None:
        inner = Slow()
        llm = PatientLLM(inner, concurrency=1)
        first, second = (llm.stream(replace(ASK, user=user)) for user in "ab")
        assert await anext(first) == PIECES[0]
        waiting = asyncio.gather(anext(second))
        for _ in range(10):
            await asyncio.sleep(0)
        assert (inner.asked, inner.left) == (1, 0)
        await first.aclose()
        assert await waiting == [PIECES[0]]
        assert (inner.asked, inner.left) == (2, 1)
        inner.go.set()
        assert [piece async for piece in second] == [PIECES[1], Completion(text="".join(PIECES), usage=SPENT)]
        assert inner.left == 2

    asyncio.run(work())


def test_a_model_that_can_not_stream_answers_in_one_piece() -> None:
    clock = Clock()
    heard = asyncio.run(listen(patient(Whole(), clock), ASK))
    assert (heard.pieces, heard.last) == (["".join(PIECES)], Completion(text="".join(PIECES), usage=SPENT))
    assert clock.pauses == [0.5]


def test_it_waits_for_a_real_server() -> None:
    async def work(url: str) -> list[str]:
        llm = PatientLLM(made(url), first_pause=0.001)
        try:
            return (await listen(llm, ASK)).pieces
        finally:
            await llm.close()

    with ScriptedServer({"reflect": {"n": 1}}) as server:
        server.faults("reflect", [Reset(), Status(503, retry_after=0), EmptyBody()])
        assert asyncio.run(work(server.url)) == PIECES
        assert len(server.received) == 4
