"""Requests to a server: sent again where that is safe, and never with a key in what is said of them."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import secrets
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypedDict, Unpack
from urllib.parse import quote

import httpx2

from vmemo.client.errors import Failure
from vmemo.errors import InvalidInput, ServerFailed, ServerUnavailable, VmemoError
from vmemo.llm.endpoints import check_api_key, parse_url
from vmemo.llm.event_loops import PerEventLoop

_CONNECT = 10.0
"""Seconds in which a server that is there has taken up a connection."""
_JSON = "application/json"
LINES = "application/x-ndjson"
"""The kind of an exported bank."""


class ConnectionOptions(TypedDict, total=False):
    """What else a connection may need: other certificates, a proxy of its own, none of the environment's."""

    verify: ssl.SSLContext | bool
    proxy: str
    trust_env: bool


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often a request is sent, and how long is waited in between; each wait is up to twice the one before."""

    tries: int = 4
    first_pause: float = 0.25
    longest_pause: float = 30.0
    """Seconds that a server's wish to wait is followed; a longer one is raised at once."""
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, repr=False)
    rng: Callable[[], float] = field(default=random.random, repr=False)

    def __post_init__(self) -> None:
        if self.tries < 1 or self.first_pause < 0 or self.longest_pause < 0:
            raise InvalidInput("A request is sent once at least, and no pause is shorter than nothing.")

    def pause(self, tried: int, wish: float | None) -> float | None:
        """Seconds to wait after so many tries, or None if it is not tried again."""
        if tried >= self.tries or (wish is not None and wish > self.longest_pause):
            return None
        own = min(self.first_pause * 2 ** (tried - 1), self.longest_pause)
        return max(own * (0.5 + self.rng() / 2), wish or 0.0)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request. A write is `once` where the server answers its repetition as before."""

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

    def accepting(self, media: str) -> Call:
        """Return the same call for a response of another media type."""
        return replace(self, accept=media)


class Connection:
    """The way to one server, shared by the clients of all its banks."""

    def __init__(
        self, url: str, *, key: str | None, timeout: float, patience: Patience, **options: Unpack[ConnectionOptions]
    ) -> None:
        parts = parse_url(url, "The server's URL")
        if not 0 < timeout < float("inf"):
            raise InvalidInput(f"timeout is {timeout}, but a server needs some seconds to answer")
        self.host = parts.netloc
        self._base = parts._replace(path=parts.path.rstrip("/"), query="", fragment="").geturl()
        self._headers = {"User-Agent": "vmemo"}
        if key:
            self._headers["Authorization"] = f"Bearer {check_api_key(key, 'The key')}"
        self._timeout, self._patience = timeout, patience
        # A proxy is never on the way from a machine to itself.
        self._options: ConnectionOptions = {"trust_env": not _local(parts.hostname or ""), **options}
        self._clients = PerEventLoop(self._connect)

    def _connect(self) -> httpx2.AsyncClient:
        timeout = httpx2.Timeout(self._timeout, connect=min(self._timeout, _CONNECT), pool=None)
        return httpx2.AsyncClient(timeout=timeout, limits=httpx2.Limits(max_connections=None), **self._options)

    async def close(self) -> None:
        """Close the connections of every event loop; a later request opens new ones."""
        await self._clients.close(httpx2.AsyncClient.aclose)

    async def ask(self, call: Call) -> bytes:
        """The whole answer to a request, or the error that it tells of."""
        async with self.heard(call, whole=True) as response:
            return response.content

    @asynccontextmanager
    async def heard(self, call: Call, *, whole: bool = False) -> AsyncGenerator[httpx2.Response]:
        """An answer that tells of success; it comes piece by piece unless the whole is asked for."""
        response = await self._sent(call, whole=whole)
        try:
            yield response
        except httpx2.HTTPError as error:
            raise ServerFailed(f"{self.host} broke off its answer ({type(error).__name__}).") from None
        finally:
            await response.aclose()

    async def _sent(self, call: Call, *, whole: bool) -> httpx2.Response:
        headers = self._headers | {"Accept": call.accept}
        if call.once:
            headers["Idempotency-Key"] = secrets.token_hex(16)
        if call.body is not None or call.upload is not None:
            headers["Content-Type"] = _JSON if call.upload is None else LINES
        tried = 0
        while True:
            tried += 1
            outcome = await self._tried(call, headers, whole=whole)
            if isinstance(outcome, httpx2.Response):
                return outcome
            error, wish, again = outcome
            pause = self._patience.pause(tried, wish) if again else None
            if pause is None:
                raise error
            await self._patience.sleep(pause)

    async def _tried(
        self, call: Call, headers: Mapping[str, str], *, whole: bool
    ) -> httpx2.Response | tuple[VmemoError, float | None, bool]:
        """An answer that tells of success, or an error, the server's wish to wait, and whether to send it again."""
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
            return self._unreachable(error), None, True
        except httpx2.TimeoutException:
            return self._late(call), None, False
        except httpx2.HTTPError as error:
            return self._lost(error, call), None, call.repeatable
        failure = Failure.of(response, self.host)
        return failure.error(), failure.retry_after, failure.passing(repeatable=call.repeatable)

    def _unreachable(self, error: httpx2.HTTPError) -> ServerUnavailable:
        return ServerUnavailable(
            f"The server at {self.host} can't be reached ({type(error).__name__}). Nothing was sent; is it running?"
        )

    def _late(self, call: Call) -> ServerUnavailable:
        done = "Nothing was changed." if call.reads else "It may yet do what was asked; look before repeating it."
        return ServerUnavailable(f"The server at {self.host} was silent for {self._timeout:g} seconds. {done}")

    def _lost(self, error: httpx2.HTTPError, call: Call) -> ServerFailed:
        # The message of the original may hold a line of the answer, and the answer may hold memories.
        done = "Nothing was changed." if call.reads else "Whether it was done is not known; look before repeating it."
        return ServerFailed(f"The connection to {self.host} broke ({type(error).__name__}). {done}")


def path_of(*parts: str) -> str:
    """A path of names, each as one piece whatever it holds."""
    # Servers and proxies take dots for directions.
    return "/" + "/".join({".": "%2E", "..": "%2E%2E"}.get(part, quote(part, safe="")) for part in parts)


def _local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
