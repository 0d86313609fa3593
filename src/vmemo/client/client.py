"""Client: the verbs of a memory, executed on a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack, cast

import httpx2
from pydantic import BaseModel, TypeAdapter, ValidationError

from vmemo.client.connection import LINES, Call, Connection, Problem, RetryPolicy, path_of, raised
from vmemo.client.routes import ROUTES, Page, parse, route_of
from vmemo.errors import InvalidInput, NotFound, ServerFailed
from vmemo.llm.connections import ClientOptions, sse_events
from vmemo.memory.session import bank_id
from vmemo.memory.verbs import Verbs
from vmemo.models import BankId, requests as r
from vmemo.models.records import ALL_BANKS
from vmemo.models.requests import LARGEST_PAGE, Request
from vmemo.models.results import Answer, Event, MemoryLookup, Retracted, Status, TextDelta
from vmemo.transfer.files import partial_file, write_private

_CHUNK = 1 << 20


async def _chunks(file: Path) -> AsyncGenerator[bytes]:
    try:
        with file.open("rb") as source:
            while chunk := source.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise InvalidInput(f"{file} can't be read: {error.strerror}. Nothing was imported.") from error


R = TypeVar("R")
_STREAM = "text/event-stream"
DEFAULT_BANK = "default"
_StreamItem = MemoryLookup | TextDelta | Retracted | Answer | Problem


class _KeyAccess(BaseModel):
    """The part of a key's description that the client uses."""

    banks: list[str]
    default_bank: str | None


class Client(Verbs):
    """Long-term memory of one bank on a server: `url` is the server's address, `key` an API key for the bank.

    Without `bank`, it is the only bank of the key, or `default` if there is no key or it is for every bank. With a key
    for some banks, name one here or with `bank()`.
    Verbs, arguments, results and errors are those of `Memory`. Requests to a busy or restarting server are sent again,
    and a write that had to be sent again takes effect once.
    """

    def __init__(
        self,
        url: str,
        bank: str | None = None,
        key: str | None = None,
        timeout: float = 300.0,
        *,
        retry: RetryPolicy | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        """Configure a client; nothing is sent yet. `timeout` is how many seconds the server may be silent."""
        self._name = None if bank is None and key else bank_id(DEFAULT_BANK if bank is None else bank)
        self._connection = Connection(url, key=key, timeout=timeout, retry=retry or RetryPolicy(), **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(host={self._connection.host!r}, bank={self._name!r})"

    async def run(self, request: r.Returns[R]) -> R:
        """Send a request to the server and return its result."""
        if isinstance(request, r.BanksRequest):
            return cast("R", await self._banks())
        route = route_of(request)
        # The server wants read permission for the bank of the path too.
        named = request.banks[:1] if isinstance(request, r.SeveralBanks) else ()
        bank = bank_id(named[0]) if named else await self._bank()
        response = await self._connection.ask(route.call(cast("Request", request), bank))
        return cast("R", route.convert(self._parse(route.response, response)))

    async def _banks(self) -> list[str]:
        names: list[str] = []
        params = {"limit": str(LARGEST_PAGE)}
        while True:
            call = Call(method="GET", path=path_of("v1", "banks"), params=params)
            page: Page[str] = self._parse(Page[str], await self._connection.ask(call))
            names += page.items
            if page.next is None:
                return names
            params["cursor"] = page.next

    def stream(self, request: r.ReflectRequest) -> AsyncGenerator[Event]:
        """Send a reflection to the server and yield its events."""
        return self._stream(request)

    async def _stream(self, request: r.ReflectRequest) -> AsyncGenerator[Event]:
        call = ROUTES[r.ReflectRequest].call(request, await self._bank()).streamed(_STREAM)
        async with self._connection.heard(call) as response, aclosing(self._events(response)) as received:
            async for event in received:
                yield event
                if isinstance(event, Answer):
                    return
        raise ServerFailed(f"{self._connection.host} ended the stream before the answer was complete.")

    async def _events(self, response: httpx2.Response) -> AsyncGenerator[Event]:
        async with aclosing(sse_events(response.aiter_bytes())) as received:
            async for data in received:
                try:
                    # No two types of event have the same shape.
                    event = TypeAdapter[_StreamItem](_StreamItem).validate_json(data)
                except ValidationError:
                    unknown = "sent an event of no known type. Use the same version of client and server."
                    raise ServerFailed(f"{self._connection.host} {unknown}") from None
                if isinstance(event, Problem):
                    raise raised(event)
                yield event

    def bank(self, name: str) -> Self:
        """Return the same client on another bank; closing either closes both."""
        other = object.__new__(type(self))
        other._name, other._connection = bank_id(name), self._connection
        return other

    async def exists(self) -> bool:
        """Return True if the bank exists; nothing is created."""
        try:
            await self._connection.ask(Call(method="GET", path=await self._path()))
        except NotFound:
            return False
        return True

    async def open(self) -> None:
        """Connect to the server, and create the bank if it is missing."""
        if await self._default_bank() is not None and not await self.exists():
            await self._connection.ask(Call(method="PUT", path=await self._path(), reads=False, once=True))

    async def close(self) -> None:
        """Close the connections. The next verb opens new ones."""
        await self._connection.close()

    async def export(self, path: Path | str) -> int:
        """Write the bank to a JSON Lines file and return the number of records."""
        call = Call(method="GET", path=await self._path("export"), accept=LINES)
        async with self._connection.heard(call) as response:
            with partial_file(Path(path)) as partial:
                count = await write_private(partial, response.aiter_bytes())
                partial.replace(path)
                return count

    async def import_bank(self, path: Path | str) -> int:
        """Load an exported bank under this bank's name, completely or not at all; return the number of messages."""
        call = Call(
            method="POST", path=await self._path("import"), upload=lambda: _chunks(Path(path)), reads=False, once=True
        )
        status: Status = self._parse(Status, await self._connection.ask(call))
        return status.messages

    async def _default_bank(self) -> BankId | None:
        """Return the name of the bank; if none was given, ask the server for that of the key."""
        if self._name is None:
            response = await self._connection.ask(Call(method="GET", path=path_of("v1", "key")))
            access: _KeyAccess = self._parse(_KeyAccess, response)
            name = access.default_bank or (DEFAULT_BANK if ALL_BANKS in access.banks else None)
            self._name = None if name is None else BankId(name)
        return self._name

    async def _bank(self) -> BankId:
        name = await self._default_bank()
        if name is None:
            raise InvalidInput(
                "The key is for several banks. Name one: Client(url, bank=..., key=...), or client.bank(name)."
            )
        return name

    async def _path(self, *parts: str) -> str:
        return path_of("v1", "banks", await self._bank(), *parts)

    def _parse(self, kind: Any, body: bytes) -> Any:
        return parse(kind, body, self._connection.host)
