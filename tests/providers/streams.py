"""Helpers for streaming tests: a simulated clock, collected streams, and a server that sends exact packets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field

from pydantic import JsonValue

from vmemo.errors import LLMFailed
from vmemo.llm.openai import OpenAICompatible
from vmemo.ports import Completion, LLMRequest, StreamingLLM

KEY = "sk-very-secret"
REQUEST = LLMRequest(
    step="reflect", system="Read this.", user="I have a grey cat.", schema={"type": "object"}, max_tokens=100
)
DONE = b"data: [DONE]\n\n"
STOP: JsonValue = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


def openai_llm(url: str, timeout: float = 30.0, prices: tuple[float, float] | None = None) -> OpenAICompatible:
    return OpenAICompatible("small", base_url=url, api_key=KEY, timeout=timeout, prices=prices, trust_env=False)


@dataclass
class ManualClock:
    """A clock that advances only when somebody sleeps."""

    now: float = 1000.0
    pauses: list[float] = field(default_factory=list[float])

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        until = self.now + seconds
        await asyncio.sleep(0)
        self.now = max(self.now, until)


@dataclass
class CollectedStream:
    deltas: list[str] = field(default_factory=list[str])
    completion: Completion | None = None
    error: LLMFailed | None = None


async def collect(llm: StreamingLLM, request: LLMRequest = REQUEST) -> CollectedStream:
    collected = CollectedStream()
    try:
        async with aclosing(llm.stream(request)) as stream:
            async for delta in stream:
                assert collected.completion is None
                if isinstance(delta, Completion):
                    collected.completion = delta
                else:
                    collected.deltas.append(delta)
    except LLMFailed as error:
        collected.error = error
    assert (collected.completion is None) != (collected.error is None)
    return collected


@dataclass
class PacketServer:
    """A server that answers every request with exact packets, each as its own chunk, and then ends or waits."""

    packets: Sequence[bytes]
    close: bool = False
    waits: bool = False
    url: str = ""
    connections: int = 0
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None] | None] = field(default_factory=list["asyncio.Task[None] | None"])

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        self.disconnected.set()
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
async def serving(server: PacketServer, timeout: float = 30.0) -> AsyncGenerator[OpenAICompatible]:
    async with await asyncio.start_server(server.handle, "127.0.0.1", 0) as listener:
        server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
        llm = openai_llm(server.url, timeout)
        try:
            yield llm
        finally:
            await llm.close()
            await asyncio.gather(*(task for task in server.tasks if task))


def sse_event(value: JsonValue, end: bytes = b"\n\n") -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + end


def content_chunk(text: JsonValue, finish: str | None = None) -> JsonValue:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}
