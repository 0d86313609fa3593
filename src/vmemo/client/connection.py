"""The HTTP connection of a client: retries, idempotency keys, streams, and errors of the server as exceptions."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Unpack
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, ValidationError

from vmemo.errors import InvalidInput, ServerDenied, ServerFailed, ServerUnavailable, VmemoError, error_class
from vmemo.llm.connections import ClientOptions, check_api_key, default_certificates, parse_url
from vmemo.models.records import is_placeholder
from vmemo.sync import PerEventLoop

_DENIED = (401, 403, 421)
_REFUSED = (400, 406, 411, 413, 415, 422)
_BUSY = (429, 503)
_RUNNING = "RequestInProgress"
"""An earlier attempt of the same write is still running."""


class Problem(BaseModel):
    """The fields of a problem (RFC 9457) that the client uses."""

    type: str
    status: int
    detail: str
    request_id: str = ""

    @property
    def kind(self) -> str:
        return self.type.rpartition(":")[2]


Failure = tuple[VmemoError, float | None, bool]
"""An error, the seconds of the server's `Retry-After`, and True if the request may be sent again."""


def _failure(response: httpx2.Response, host: str, *, repeatable: bool) -> Failure:
    status, after = response.status_code, response.headers.get("retry-after", "")
    # A date is ignored.
    seconds = float(after) if after.isascii() and after.isdigit() else None
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        said = f"{host} answered with status {status} but without the problem details of a vmemo server"
        error: VmemoError = ServerFailed(f"{said}. Check the address.")
        if status in _BUSY:
            error = ServerUnavailable(f"{said}. Try again later.")
        elif status in _DENIED:
            error = ServerDenied(f"{said}. Check the address and the key.")
        return error, seconds, status == 429 or (repeatable and status == 503)
    # Nothing was done, or the server recognises the repetition.
    again = status == 429 or (repeatable and (status == 503 or problem.kind == _RUNNING))
    return raised(problem, status), seconds, again


def raised(problem: Problem, status: int | None = None) -> VmemoError:
    """Return the error of a problem; an unknown name is mapped by the status."""
    error = _class_of(problem.kind, status or problem.status)(problem.detail)
    if problem.request_id:
        error.add_note(f"Request id on the server: {problem.request_id}.")
    return error


def _class_of(kind: str, status: int) -> type[VmemoError]:
    if (known := error_class(kind)) is not VmemoError:
        return known
    if status in _DENIED:
        return ServerDenied
    if status in _BUSY:
        return ServerUnavailable
    return InvalidInput if status in _REFUSED else ServerFailed


_CONNECT = 10.0
_JSON = "application/json"
LINES = "application/x-ndjson"
"""Media type of an exported bank."""


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Number of attempts per request, and exponential backoff with jitter between them."""

    attempts: int = 4
    initial_pause: float = 0.25
    max_pause: float = 30.0
    """Maximum pause in seconds; a longer `Retry-After` raises at once."""
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, repr=False)
    rng: Callable[[], float] = field(default=random.random, repr=False)

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.initial_pause < 0 or self.max_pause < 0:
            raise InvalidInput(
                "RetryPolicy: attempts must be at least 1 and pauses at least 0; got "
                f"attempts={self.attempts}, initial_pause={self.initial_pause}, max_pause={self.max_pause}."
            )

    def pause(self, attempt: int, retry_after: float | None) -> float | None:
        """Return the seconds to wait after an attempt, or None if it was the last."""
        if attempt >= self.attempts or (retry_after is not None and retry_after > self.max_pause):
            return None
        own = min(self.initial_pause * 2 ** (attempt - 1), self.max_pause)
        return max(own * (0.5 + self.rng() / 2), retry_after or 0.0)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One HTTP request. With `once`, an idempotency key makes the server answer a repetition as the first time."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    upload: Callable[[], AsyncIterable[bytes]] | None = None
    accept: str = _JSON
    reads: bool = True
    once: bool = False

    @property
    def repeatable(self) -> bool:
        """True if the request may be sent again when its outcome is unknown."""
        return self.reads or self.once

    def streamed(self, media: str) -> Call:
        """Return the same call for a streamed response, which can't be returned again."""
        return replace(self, accept=media, once=False)


class Connection:
    """The connections to one server, shared by the clients of all its banks."""

    def __init__(
        self, url: str, *, key: str | None, timeout: float, retry: RetryPolicy, **options: Unpack[ClientOptions]
    ) -> None:
        parts = parse_url(url, "The server's URL")
        if not 0 < timeout < float("inf"):
            raise InvalidInput(f"timeout must be a positive number of seconds, not {timeout}.")
        self.host = parts.netloc
        self._base = parts._replace(path=parts.path.rstrip("/"), query="", fragment="").geturl()
        self._headers = {"User-Agent": "vmemo"}
        if key and is_placeholder(key):
            raise InvalidInput(
                "The key is the placeholder of the documentation. Pass the secret that `vmemo keys create` printed; "
                "for a server on the local machine that has no keys, leave the key out."
            )
        if key:
            self._headers["Authorization"] = f"Bearer {check_api_key(key, 'The key')}"
        self._timeout, self._retry = timeout, retry
        # Requests to this machine bypass proxies.
        trust_env = options.get("trust_env", not _local(parts.hostname or ""))
        certificates = default_certificates(trust_env=trust_env)
        self._options: ClientOptions = {"verify": certificates, **options, "trust_env": trust_env}
        self._clients = PerEventLoop(self._connect)

    def _connect(self) -> httpx2.AsyncClient:
        timeout = httpx2.Timeout(self._timeout, connect=min(self._timeout, _CONNECT), pool=None)
        return httpx2.AsyncClient(timeout=timeout, limits=httpx2.Limits(max_connections=None), **self._options)

    async def close(self) -> None:
        """Close the connections of every event loop; a later request opens new ones."""
        await self._clients.close(httpx2.AsyncClient.aclose)

    async def ask(self, call: Call) -> bytes:
        """Return the complete response body, or raise the error that the response reports."""
        async with self.heard(call, whole=True) as response:
            return response.content

    @asynccontextmanager
    async def heard(self, call: Call, *, whole: bool = False) -> AsyncGenerator[httpx2.Response]:
        """Yield a successful response, streamed unless `whole` is set."""
        response = await self._sent(call, whole=whole)
        try:
            yield response
        except httpx2.HTTPError as error:
            raise ServerFailed(f"{self.host} broke off its response ({type(error).__name__}).") from None
        finally:
            await response.aclose()

    async def _sent(self, call: Call, *, whole: bool) -> httpx2.Response:
        headers = self._headers | {"Accept": call.accept}
        if call.once:
            headers["Idempotency-Key"] = secrets.token_hex(16)
        if call.body is not None or call.upload is not None:
            headers["Content-Type"] = _JSON if call.upload is None else LINES
        attempt = 0
        while True:
            attempt += 1
            outcome = await self._tried(call, headers, whole=whole)
            if isinstance(outcome, httpx2.Response):
                return outcome
            error, retry_after, again = outcome
            pause = self._retry.pause(attempt, retry_after) if again else None
            if pause is None:
                raise error
            await self._retry.sleep(pause)

    async def _tried(self, call: Call, headers: Mapping[str, str], *, whole: bool) -> httpx2.Response | Failure:
        try:
            client = self._clients.get()
            content = call.body if call.upload is None else call.upload()
            sent = client.build_request(
                call.method, self._base + call.path, params=call.params, content=content, headers=headers
            )
            response = await client.send(sent, stream=not whole)
            if response.is_success:
                return response
            await response.aread()
            await response.aclose()
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            reason = f"can't be reached ({type(error).__name__}). Nothing was sent; is it running?"
            return ServerUnavailable(f"The server at {self.host} {reason}"), None, True
        except httpx2.TimeoutException:
            done = "Nothing was changed." if call.reads else "It may yet do what was asked; look before repeating it."
            late = f"The server at {self.host} was silent for {self._timeout:g} seconds. {done}"
            return ServerUnavailable(late), None, False
        except httpx2.HTTPError as error:
            # The original message may quote the response, which may contain memories.
            done = "Nothing was changed." if call.reads else "The outcome is not known; look before repeating it."
            lost = f"The connection to {self.host} broke ({type(error).__name__}). {done}"
            return ServerFailed(lost), None, call.repeatable
        return _failure(response, self.host, repeatable=call.repeatable)


def path_of(*parts: str) -> str:
    """Return a path of quoted segments."""
    # Servers and proxies resolve dot segments.
    return "/" + "/".join({".": "%2E", "..": "%2E%2E"}.get(part, quote(part, safe="")) for part in parts)


def _local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
