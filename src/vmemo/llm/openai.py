"""Language models behind OpenAI's chat protocol, which most services and local servers support."""

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
from vmemo.llm.endpoints import check_api_key, default_certificates, parse_url
from vmemo.llm.errors import LLMBusy, LLMInvalidResponse
from vmemo.llm.event_loops import PerEventLoop
from vmemo.llm.openai_request import RequestFormat, build_body, schema_name
from vmemo.llm.openai_response import Prices, ResponseParser, StreamParser, error_for_status, retry_after_seconds
from vmemo.llm.streaming import drain, sse_events, with_deadline
from vmemo.ports.providers import Completion, LLMRequest

_MAX_BYTES = 8 * 1024 * 1024
_STREAM_OVERHEAD = 8
"""Factor by which a stream may exceed _MAX_BYTES, because every few characters have their own JSON envelope."""
_UNSUPPORTED_STATUSES = (400, 404, 415, 422)
"""Statuses with which servers reject a request feature."""
_DEFAULT_FORMAT = RequestFormat()


class ClientOptions(TypedDict, total=False):
    """Options of the HTTP client: certificates, proxy, and use of the environment's proxy settings."""

    verify: ssl.SSLContext | bool
    proxy: str
    trust_env: bool


@dataclass(frozen=True)
class _HTTPResponse:
    status: int
    headers: httpx2.Headers
    packets: AsyncGenerator[bytes]

    @property
    def is_event_stream(self) -> bool:
        """False if the server ignored `stream` and sent a whole answer."""
        return self.headers.get("content-type", "").strip().lower().startswith("text/event-stream")

    async def body(self) -> bytes:
        return b"".join([packet async for packet in self.packets])


class OpenAICompatible:
    """A model on an OpenAI-compatible server; requests go to `base_url` + "/chat/completions".

    One `complete` or `stream` is one answer without retries, within `timeout` seconds. If the server rejects schemas,
    streaming, the temperature or a parameter name, the request is sent again without it, and later requests leave it
    out from the start. Error messages name the host and the status, never the key or the texts. `prices` are dollars
    per million tokens.
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
        parts = parse_url(base_url, "The model's base URL")
        self._host = parts.netloc
        self._url = parts._replace(path=parts.path.rstrip("/") + "/chat/completions").geturl()
        self._model = model
        self._name = name or model
        self._headers = {"User-Agent": "vmemo", "Content-Type": "application/json"}
        if api_key:
            key = check_api_key(api_key, "The model's API key")
            self._headers["Authorization"] = f"Bearer {key}"
        if not 0 < timeout < float("inf"):
            raise InvalidInput(f"timeout must be a positive, finite number of seconds, not {timeout}")
        self._timeout = timeout
        self._prices = prices
        self._options = options
        self._format = RequestFormat(temperature=temperature)
        self._format_by_step: dict[str, RequestFormat] = {}
        self._clients = PerEventLoop(self._create_client)

    @property
    def name(self) -> str:
        """The given name, or else the model's."""
        return self._name

    def __repr__(self) -> str:
        return f"OpenAICompatible(model={self._model!r}, host={self._host!r})"

    async def complete(self, request: LLMRequest) -> Completion:
        """Return the model's answer."""
        try:
            async with asyncio.timeout(self._timeout), self._response(request) as response:
                body = await response.body()
        except TimeoutError as error:
            raise self._timed_out() from error
        return self._parser(request).parse_body(body)

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        """Stream the model's answer; as one delta if the server does not stream."""
        async with aclosing(with_deadline(self._deltas(request), self._timeout)) as deltas:
            try:
                async for delta in deltas:
                    yield delta
            except TimeoutError as error:
                raise self._timed_out() from error

    async def close(self) -> None:
        """Close the connections of every event loop; a later call opens new ones."""
        await self._clients.close(httpx2.AsyncClient.aclose)

    async def _deltas(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        async with self._response(request, streaming=True) as response:
            parser = self._parser(request)
            if not response.is_event_stream:
                completion = parser.parse_body(await response.body())
                yield completion.text
            else:
                stream = StreamParser(parser)
                async with aclosing(sse_events(response.packets)) as events:
                    async for data in events:
                        if delta := stream.add(data):
                            yield delta
                        if stream.done:
                            break
                completion = stream.completion()
                with suppress(httpx2.HTTPError):
                    await drain(response.packets)
        yield completion

    @asynccontextmanager
    async def _response(self, request: LLMRequest, *, streaming: bool = False) -> AsyncGenerator[_HTTPResponse]:
        """Send the request, downgrading its format until the server accepts it, and remember that format.

        The response format is remembered per step: a server may reject one step's schema and accept the others.
        """
        step_format = self._format_by_step.get(request.step, _DEFAULT_FORMAT)
        format = replace(self._format, response_format=step_format.response_format)
        while True:
            async with self._send(request, format, streaming=streaming) as response:
                if response.status == 200:
                    self._format = self._format_by_step[request.step] = format
                    yield response
                    return
                body = await response.body()
            error = body.decode("utf-8", "replace") if response.status in _UNSUPPORTED_STATUSES else ""
            if (downgraded := format.downgrade(error, streaming=streaming)) is None:
                retry_after = retry_after_seconds(response.headers)
                raise error_for_status(response.status, self._describe("answered with status"), retry_after=retry_after)
            format = downgraded

    @asynccontextmanager
    async def _send(
        self, request: LLMRequest, format: RequestFormat, *, streaming: bool
    ) -> AsyncGenerator[_HTTPResponse]:
        body = build_body(self._model, request, format, streaming=streaming)
        # Lone surrogates cannot be encoded; replacing them is better than failing.
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        accept = "text/event-stream, application/json" if "stream" in body else "application/json"
        headers = {**self._headers, "Accept": accept, "X-Vmemo-Step": schema_name(request.step)}
        try:
            async with (
                self._clients.get().stream("POST", self._url, content=content, headers=headers) as response,
                aclosing(
                    self._limited(response, _MAX_BYTES * (_STREAM_OVERHEAD if "stream" in body else 1))
                ) as packets,
            ):
                yield _HTTPResponse(response.status_code, response.headers, packets)
        except httpx2.DecodingError:
            raise LLMInvalidResponse(self._describe("returned an answer whose compression is broken")) from None
        except httpx2.ConnectError as error:
            raise LLMBusy(self._describe(f"can't be reached: {error}")) from error
        except httpx2.HTTPError as error:
            # The message may quote the answer, and the answer may quote the request.
            raise LLMBusy(self._describe(f"broke the connection ({type(error).__name__})")) from None

    async def _limited(self, response: httpx2.Response, max_bytes: int) -> AsyncGenerator[bytes]:
        size = 0
        async for packet in response.aiter_bytes():
            size += len(packet)
            if size > max_bytes:
                raise LLMUnusable(self._describe(f"returned an answer of more than {max_bytes} bytes"))
            yield packet

    def _create_client(self) -> httpx2.AsyncClient:
        # `timeout` covers the whole exchange, and callers limit the concurrency.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
        certificates = default_certificates(trust_env=self._options.get("trust_env", True))
        options: ClientOptions = {"verify": certificates, **self._options}
        return httpx2.AsyncClient(timeout=None, limits=limits, **options)

    def _parser(self, request: LLMRequest) -> ResponseParser:
        return ResponseParser(describe=self._describe, max_tokens=self._format.max_tokens(request), prices=self._prices)

    def _timed_out(self) -> LLMBusy:
        return LLMBusy(self._describe(f"did not finish its answer within {self._timeout:g} seconds"))

    def _describe(self, event: str) -> str:
        return f"The model {self._name} at {self._host} {event}"
