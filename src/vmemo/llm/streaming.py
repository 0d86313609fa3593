"""Streamed answers: server-sent events, deadlines and draining of connections."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing, suppress
from typing import TypeVar

from vmemo.ports.providers import LLM, Completion, LLMRequest

T = TypeVar("T")

_LINE_END = re.compile(rb"\r\n|\n|\r")
_DRAIN_SECONDS = 0.2


async def sse_events(packets: AsyncIterable[bytes]) -> AsyncGenerator[str]:
    """Yield the data of each server-sent event. Packets may be split anywhere; an unterminated event is dropped."""
    carry, partial_line, data = b"", list[bytes](), list[bytes]()
    async for packet in packets:
        text = carry + packet
        # A trailing carriage return may be the first half of a line end; the next packet decides.
        carry = b"\r" if text.endswith(b"\r") else b""
        *line_ends, rest = _LINE_END.split(text.removesuffix(carry))
        for line_end in line_ends:
            line = b"".join([*partial_line, line_end])
            partial_line.clear()
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
            elif not line and data:
                yield b"\n".join(data).decode("utf-8", "replace")
                data.clear()
        partial_line.append(rest)


async def with_deadline(deltas: AsyncGenerator[T], seconds: float) -> AsyncGenerator[T]:
    """Yield the deltas; raise TimeoutError once the total time spent waiting for them exceeds `seconds`.

    Time that the consumer takes between two deltas does not count.
    """
    loop = asyncio.get_running_loop()
    async with aclosing(deltas):
        while True:
            started = loop.time()
            async with asyncio.timeout(seconds):
                try:
                    delta = await anext(deltas)
                except StopAsyncIteration:
                    return
            seconds -= loop.time() - started
            yield delta


async def drain(packets: AsyncIterable[bytes]) -> None:
    """Read the rest of a response for a short time: a connection read to its end can be reused."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in packets:
                pass


async def stream_whole(llm: LLM, request: LLMRequest) -> AsyncGenerator[str | Completion]:
    """Stream the answer of a model that cannot stream, as one delta."""
    completion = await llm.complete(request)
    yield completion.text
    yield completion
