"""Turns of concurrent requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from vmemo.memory.request_queue import ConcurrencyLimits, FairQueue, RequestQueue, TooManyRequests
from vmemo.models.requests import RecallRequest, RetainRequest, StatusRequest


async def order_of(requests: Sequence[tuple[str, str]]) -> list[str]:
    """Return the order in which requests of callers and banks run that arrive while another one runs."""
    queue, order = FairQueue(1, most=10), list[str]()

    async def run(caller: str, bank: str) -> None:
        async with queue.turn(caller, bank):
            order.append(caller + bank)

    async with queue.turn("first", ""):
        tasks = [asyncio.create_task(run(caller, bank)) for caller, bank in requests]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert (queue.running, queue.waiting) == (0, 0)
    return order


def test_callers_take_turns_and_so_do_the_banks_of_a_caller() -> None:
    async def scenario() -> None:
        many = [("a", "1")] * 3 + [("a", "2")] + [("b", "1")]
        assert await order_of(many) == ["a1", "b1", "a2", "a1", "a1"]

    asyncio.run(scenario())


def test_requests_over_the_limit_are_refused_and_cancelled_ones_leave_the_queue() -> None:
    async def scenario() -> None:
        queue = FairQueue(1, most=1)
        async with queue.turn("a", "1"):
            waiting = asyncio.create_task(queue.turn("b", "1").__aenter__())
            await asyncio.sleep(0)
            with pytest.raises(TooManyRequests, match="Nothing was changed"):
                await queue.turn("c", "1").__aenter__()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        assert (queue.running, queue.waiting) == (0, 0)
        async with queue.turn("c", "1"):
            assert queue.running == 1

    asyncio.run(scenario())


def test_place_of_a_request_that_is_cancelled_as_it_gets_it_goes_to_the_next() -> None:
    async def scenario() -> None:
        queue = FairQueue(1, most=10)
        async with queue.turn("a", "1"):
            first, second = (asyncio.create_task(queue.turn(caller, "1").__aenter__()) for caller in "bc")
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await second
        assert (queue.running, queue.waiting) == (1, 0)

    asyncio.run(scenario())


def test_recalls_do_not_wait_for_writes() -> None:
    async def scenario() -> None:
        requests = RequestQueue(ConcurrencyLimits(searches=1, writes=1))
        write, recall = RetainRequest.of({"messages": [{"content": "x"}]}), RecallRequest(query="x")
        async with requests.turn(write, "a", "1"):
            blocked = asyncio.create_task(requests.turn(write, "a", "2").__aenter__())
            async with requests.turn(recall, "a", "1"), requests.turn(StatusRequest(), "a", "1"):
                assert not blocked.done()
        await blocked

    asyncio.run(scenario())
