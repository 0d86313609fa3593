"""Language models behind OpenAI's chat protocol, which nearly every service and local server speaks."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

import httpx2

from vmemo.errors import InvalidInput, LLMUnusable
from vmemo.llm.endpoints import address, sendable
from vmemo.llm.openai_request import Manner, label, request
from vmemo.llm.openai_response import Draft, Prices, Reading, failure, wish
from vmemo.llm.resilient import Busy, Garbled, PerLoop
from vmemo.llm.sse import drained, events, within
from vmemo.ports.providers import Completion, LLMRequest

_MAX_BYTES = 8 * 1024 * 1024
_ANY = Manner()
_ENVELOPES = 8
"""How many times larger a stream may be, because each word of it comes in an envelope of its own."""
_UNWILLING = (400, 404, 415, 422)


class ClientOptions(TypedDict, total=False):
    """What else a connection may need: other certificates, a proxy of its own, none of the environment's."""

    verify: ssl.SSLContext | bool
    proxy: str
    trust_env: bool


@dataclass(frozen=True)
class _Reply:
    status: int
    headers: httpx2.Headers
    packets: AsyncGenerator[bytes]

    @property
    def streams(self) -> bool:
        """Whether events follow; a server may also ignore the wish, and answer whole."""
        return self.headers.get("content-type", "").strip().lower().startswith("text/event-stream")

    async def body(self) -> bytes:
        return b"".join([packet async for packet in self.packets])


class OpenAICompatible:
    """A model at a server: `base_url` is what stands before /chat/completions, `api_key` is sent as a bearer token.

    One `complete` or `stream` is one answer without retries, for which the server has `timeout` seconds. A server that
    refuses schemas, streams, the temperature or a parameter's name is asked more plainly, and its ways are remembered.
    Messages of errors name the host and the status, and never the key or the texts. `prices` are dollars for a million
    tokens.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None = None,
        name: str | None = None,
        timeout: float = 60.0,
        prices: Prices | None = None,
        temperature: float | None = 0.0,
        **options: Unpack[ClientOptions],
    ) -> None:
        parts = address(base_url, "The model's base URL")
        self._host = parts.netloc
        self._url = parts._replace(path=parts.path.rstrip("/") + "/chat/completions").geturl()
        self._model = model
        self._name = name or model
        self._headers = {"User-Agent": "vmemo", "Content-Type": "application/json"}
        if api_key:
            key = sendable(api_key, "The model's API key")
            self._headers["Authorization"] = f"Bearer {key}"
        if not 0 < timeout < float("inf"):
            raise InvalidInput(f"timeout is {timeout}, but a model needs some seconds to answer")
        self._timeout = timeout
        self._prices = prices
        self._options = options
        self._manner = Manner(temperature=temperature)
        self._shapes: dict[str, Manner] = {}
        self._clients = PerLoop(self._connect)

    @property
    def name(self) -> str:
        """The model's name, or the one it was given."""
        return self._name

    def __repr__(self) -> str:
        return f"OpenAICompatible(model={self._model!r}, host={self._host!r})"

    async def complete(self, request: LLMRequest) -> Completion:
        """The model's answer, asked for in the way that this server understands."""
        try:
            async with asyncio.timeout(self._timeout), self._heard(request) as reply:
                body = await reply.body()
        except TimeoutError as error:
            raise self._late() from error
        return self._reading(request).whole(body)

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        """The model's answer while it is written; in one piece from a server that does not stream."""
        async with aclosing(within(self._pieces(request), self._timeout)) as pieces:
            try:
                async for piece in pieces:
                    yield piece
            except TimeoutError as error:
                raise self._late() from error

    async def close(self) -> None:
        """Close the connections of every event loop; a later call opens new ones."""
        await self._clients.close(httpx2.AsyncClient.aclose)

    async def _pieces(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        async with self._heard(request, streaming=True) as reply:
            reading = self._reading(request)
            if not reply.streams:
                completion = reading.whole(await reply.body())
                yield completion.text
            else:
                draft = Draft(reading)
                async with aclosing(events(reply.packets)) as told:
                    async for data in told:
                        if piece := draft.add(data):
                            yield piece
                        if draft.done:
                            break
                completion = draft.completion()
                with suppress(httpx2.HTTPError):
                    await drained(reply.packets)
        yield completion

    @asynccontextmanager
    async def _heard(self, request: LLMRequest, *, streaming: bool = False) -> AsyncGenerator[_Reply]:
        """The reply to a question in the first manner that the server takes, which is remembered.

        What is remembered of the schema is remembered for the step: a caller's odd schema says nothing of ours.
        """
        manner = replace(self._manner, shape=self._shapes.get(request.step, _ANY).shape)
        while True:
            async with self._asked(request, manner, streaming=streaming) as reply:
                if reply.status == 200:
                    self._manner = self._shapes[request.step] = manner
                    yield reply
                    return
                body = await reply.body()
            complaint = body.decode("utf-8", "replace") if reply.status in _UNWILLING else ""
            if (humbler := manner.humbler(complaint, streaming=streaming)) is None:
                raise failure(reply.status, self._says("answered with status"), retry_after=wish(reply.headers))
            manner = humbler

    @asynccontextmanager
    async def _asked(self, ask: LLMRequest, manner: Manner, *, streaming: bool) -> AsyncGenerator[_Reply]:
        body = request(self._model, ask, manner, streaming=streaming)
        # Half a surrogate pair can't be sent, and is worth no failure.
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        accepted = "text/event-stream, application/json" if "stream" in body else "application/json"
        headers = {**self._headers, "Accept": accepted, "X-Vmemo-Step": label(ask.step)}
        try:
            async with (
                self._clients.here().stream("POST", self._url, content=content, headers=headers) as response,
                aclosing(self._bounded(response, _MAX_BYTES * (_ENVELOPES if "stream" in body else 1))) as packets,
            ):
                yield _Reply(response.status_code, response.headers, packets)
        except httpx2.DecodingError:
            raise Garbled(self._says("gave an answer whose compression is broken")) from None
        except httpx2.ConnectError as error:
            raise Busy(self._says(f"can't be reached: {error}")) from error
        except httpx2.HTTPError as error:
            # Its message may hold a line of the answer, and the answer may repeat the texts.
            raise Busy(self._says(f"broke the connection ({type(error).__name__})")) from None

    async def _bounded(self, response: httpx2.Response, most: int) -> AsyncGenerator[bytes]:
        size = 0
        async for packet in response.aiter_bytes():
            size += len(packet)
            if size > most:
                raise LLMUnusable(self._says(f"gave an answer of more than {most} bytes"))
            yield packet

    def _connect(self) -> httpx2.AsyncClient:
        # The whole exchange has one deadline, and whoever calls limits how many run at once.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
        return httpx2.AsyncClient(timeout=None, limits=limits, **self._options)

    def _reading(self, request: LLMRequest) -> Reading:
        return Reading(says=self._says, tokens=self._manner.tokens(request), prices=self._prices)

    def _late(self) -> Busy:
        return Busy(self._says(f"gave no whole answer within {self._timeout:g} seconds"))

    def _says(self, what: str) -> str:
        return f"The model {self._name} at {self._host} {what}"
