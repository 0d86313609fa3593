"""Concurrent requests of a server."""

from __future__ import annotations

import asyncio

import pytest

from vmemo.memory.session import ConcurrencyLimits, RequestQueue, TooManyRequests
from vmemo.models.requests import RecallRequest, RetainRequest, StatusRequest

WRITE, RECALL = RetainRequest.of({"messages": [{"content": "x"}]}), RecallRequest(query="x")


def test_requests_over_the_limit_are_refused_and_cancelled_ones_leave_the_queue() -> None:
    async def scenario() -> None:
        requests = RequestQueue(ConcurrencyLimits(searches=1, waiting=1))
        async with requests.turn(RECALL):
            waiting = asyncio.create_task(requests.turn(RECALL).__aenter__())
            await asyncio.sleep(0)
            with pytest.raises(TooManyRequests, match="Nothing was changed"):
                await requests.turn(RECALL).__aenter__()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        async with requests.turn(RECALL):
            pass

    asyncio.run(scenario())


def test_recalls_do_not_wait_for_writes() -> None:
    async def scenario() -> None:
        requests = RequestQueue(ConcurrencyLimits(searches=1, writes=1))
        async with requests.turn(WRITE):
            blocked = asyncio.create_task(requests.turn(WRITE).__aenter__())
            async with requests.turn(RECALL), requests.turn(StatusRequest()):
                assert not blocked.done()
        await blocked

    asyncio.run(scenario())
