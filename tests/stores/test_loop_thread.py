"""A loop in a thread of its own: what it does with the calls that run when it is closed."""

import asyncio
import threading

import pytest

from max_wait import MAX_WAIT
from vmemo.stores import transactions
from vmemo.stores.transactions import LoopThread


async def nothing() -> None:
    """Have no connections to close."""


@pytest.mark.parametrize("shielded", [True, False], ids=["in a task of its own", "in the call"])
def test_the_cleanup_of_a_canceled_call_ends_before_the_loop_is_disposed(shielded: bool) -> None:
    events: list[str] = []
    working, cleaning = threading.Event(), threading.Event()

    async def cleanup() -> None:
        cleaning.set()
        await asyncio.sleep(0.05)
        events.append("cleaned")

    async def work() -> None:
        try:
            working.set()
            await asyncio.sleep(MAX_WAIT)
        finally:
            await (asyncio.shield(cleanup()) if shielded else cleanup())

    async def dispose() -> None:
        events.append("disposed")

    async def close_while_a_canceled_call_cleans_up() -> None:
        thread = LoopThread("test")
        call = asyncio.create_task(thread.run(work))
        assert await asyncio.to_thread(working.wait, MAX_WAIT)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(cleaning.wait, MAX_WAIT)
        assert await thread.close(dispose)

    asyncio.run(close_while_a_canceled_call_cleans_up())
    assert events == ["cleaned", "disposed"]


def test_closing_cancels_the_calls_that_run() -> None:
    working = threading.Event()

    async def work() -> None:
        working.set()
        await asyncio.sleep(MAX_WAIT)

    async def close_during_a_call() -> None:
        thread = LoopThread("test")
        call = asyncio.create_task(thread.run(work))
        assert await asyncio.to_thread(working.wait, MAX_WAIT)
        assert await thread.close(nothing)
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(close_during_a_call())


def test_closing_cancels_what_a_call_began() -> None:
    ended = threading.Event()

    async def background() -> None:
        try:
            await asyncio.sleep(MAX_WAIT)
        finally:
            ended.set()

    async def close_with_a_background_task() -> None:
        thread = LoopThread("test")

        async def work() -> None:
            thread.begin(background())
            await asyncio.sleep(0)

        await thread.run(work)
        assert not ended.is_set()
        assert await thread.close(nothing)

    asyncio.run(close_with_a_background_task())
    assert ended.is_set()


def test_a_cleanup_that_does_not_end_is_canceled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "_CLEANUP_SECONDS", 0.05)
    working, ended = threading.Event(), threading.Event()

    async def work() -> None:
        try:
            working.set()
            await asyncio.sleep(MAX_WAIT)
        finally:
            try:
                await asyncio.sleep(MAX_WAIT)
            finally:
                ended.set()

    async def close_during_a_call() -> None:
        thread = LoopThread("test")
        call = asyncio.create_task(thread.run(work))
        assert await asyncio.to_thread(working.wait, MAX_WAIT)
        assert await thread.close(nothing)
        assert ended.is_set()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(close_during_a_call())
