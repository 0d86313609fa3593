"""Listening to models that stream, and a server that sends exact packets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field

from pydantic import JsonValue

from vmemo.errors import LLMFailed
from vmemo.llm.openai import OpenAICompatible
from vmemo.ports.providers import Completion, LLMRequest, StreamingLLM

KEY = "sk-very-secret"
ASK = LLMRequest(
    step="reflect", system="Read this.", user="I have a grey cat.", schema={"type": "object"}, max_tokens=100
)
DONE = b"data: [DONE]\n\n"
STOP: JsonValue = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


def made(url: str, timeout: float = 30.0, prices: tuple[float, float] | None = None) -> OpenAICompatible:
    return OpenAICompatible("small", base_url=url, api_key=KEY, timeout=timeout, prices=prices, trust_env=False)


@dataclass
class Heard:
    pieces: list[str] = field(default_factory=list[str])
    last: Completion | None = None
    error: LLMFailed | None = None


async def listen(llm: StreamingLLM, request: LLMRequest = ASK) -> Heard:
    heard = Heard()
    try:
        async with aclosing(llm.stream(request)) as told:
            async for piece in told:
                assert heard.last is None
                if isinstance(piece, Completion):
                    heard.last = piece
                else:
                    heard.pieces.append(piece)
    except LLMFailed as error:
        heard.error = error
    assert (heard.last is None) != (heard.error is None)
    return heard


@dataclass
class Wire:
    """A server that sends exact packets to every question, each as a chunk of its own, and then ends or waits."""

    packets: Sequence[bytes]
    close: bool = False
    waits: bool = False
    url: str = ""
    connections: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None] | None] = field(default_factory=list["asyncio.Task[None] | None"])

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.append(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                lengths = [line for line in head.lower().splitlines() if line.startswith(b"content-length:")]
                await reader.readexactly(int(lengths[0].split(b":")[1]))
                await self._answer(writer)
                if self.waits:
                    await reader.read()
                if self.waits or self.close:
                    break
        self.left.set()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        frame = b"Connection: close" if self.close else b"Transfer-Encoding: chunked"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n" + frame + b"\r\n\r\n")
        for packet in self.packets:
            writer.write(packet if self.close else b"%x\r\n%s\r\n" % (len(packet), packet))
            await writer.drain()
        if not (self.close or self.waits):
            writer.write(b"0\r\n\r\n")


@asynccontextmanager
async def serving(wire: Wire, timeout: float = 30.0) -> AsyncGenerator[OpenAICompatible]:
    async with await asyncio.start_server(wire.meet, "127.0.0.1", 0) as listening:
        wire.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        llm = made(wire.url, timeout)
        try:
            yield llm
        finally:
            await llm.close()
            await asyncio.gather(*(task for task in wire.tasks if task))


def event(value: JsonValue, end: bytes = b"\n\n") -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + end


def says(text: JsonValue, finish: str | None = None) -> JsonValue:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}
