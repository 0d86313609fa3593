"""Answers that come piece by piece: server-sent events, a deadline, and the end of a connection."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing, suppress
from typing import TypeVar

from vmemo.ports.providers import LLM, Completion, LLMRequest

T = TypeVar("T")

_LINE_END = re.compile(rb"\r\n|\n|\r")
_FAREWELL = 0.2
"""Seconds that a server has to end its stream after its last word."""


async def events(packets: AsyncIterable[bytes]) -> AsyncGenerator[str]:
    """The data of each server-sent event, wherever the packets were split; one without its end is none."""
    half, held, data = b"", list[bytes](), list[bytes]()
    async for packet in packets:
        text = half + packet
        # A carriage return at the very end may be half of an end: the next packet tells.
        half = b"\r" if text.endswith(b"\r") else b""
        *ends, last = _LINE_END.split(text.removesuffix(half))
        for end in ends:
            line = b"".join([*held, end])
            held.clear()
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
            elif not line and data:
                yield b"\n".join(data).decode("utf-8", "replace")
                data.clear()
        held.append(last)


async def within(pieces: AsyncGenerator[T], seconds: float) -> AsyncGenerator[T]:
    """Pieces as they come; a TimeoutError where the waits for them add up to more seconds.

    The time that the reader takes for a piece is not the server's, and does not count.
    """
    loop = asyncio.get_running_loop()
    async with aclosing(pieces):
        while True:
            began = loop.time()
            async with asyncio.timeout(seconds):
                try:
                    piece = await anext(pieces)
                except StopAsyncIteration:
                    return
            seconds -= loop.time() - began
            yield piece


async def drained(packets: AsyncIterable[bytes]) -> None:
    """Read what is left, but only for a moment: a connection that was read to its end can be used again."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL):
            async for _ in packets:
                pass


async def in_one_piece(llm: LLM, request: LLMRequest) -> AsyncGenerator[str | Completion]:
    """The stream of a model that gives its answers only whole."""
    completion = await llm.complete(request)
    yield completion.text
    yield completion
