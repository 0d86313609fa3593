"""What every verb of a client stands on: a way to the server, a bank, and how records travel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Self, TypeVar, Unpack

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from vmemo.client.connection import Call, Connection, ConnectionOptions, Patience, path_of
from vmemo.errors import InvalidInput, NotFound, ServerFailed
from vmemo.memory.connection import bank_id
from vmemo.recall.query import text_of
from vmemo.sync import twin

R = TypeVar("R")
Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """Some records, and the cursor of the page after them."""

    items: tuple[Item, ...]
    next: str | None = None


class Remote:
    """A bank at a server, before its verbs."""

    def __init__(
        self,
        url: str,
        bank: str = "default",
        key: str | None = None,
        timeout: float = 300.0,
        *,
        patience: Patience | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        """Nothing is sent yet. `timeout` is how many seconds the server may be silent."""
        self._name = bank_id(bank)
        self._connection = Connection(url, key=key, timeout=timeout, patience=patience or Patience(), **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(host={self._connection.host!r}, bank={self._name!r})"

    def bank(self, name: str) -> Self:
        """The same memory on another bank; closing either closes both."""
        other = object.__new__(type(self))
        other._name, other._connection = bank_id(name), self._connection
        return other

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        try:
            self.open_sync()
        except BaseException:
            self.close_sync()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()

    async def exists(self) -> bool:
        """Whether there is a bank of this name; nothing is created."""
        try:
            await self._connection.ask(Call(method="GET", path=self._path()))
        except NotFound:
            return False
        return True

    async def open(self) -> None:
        """Reach the server, and create the bank if it is new."""
        if not await self.exists():
            await self._connection.ask(Call(method="PUT", path=self._path(), reads=False, once=True))

    async def close(self) -> None:
        """Close the connections. A closed client opens new ones with the next verb."""
        await self._connection.close()

    def _path(self, *parts: str) -> str:
        named = [text_of("id", part) for part in parts]
        if not all(named):
            raise InvalidInput("An id must not be empty.")
        return path_of("v1", "banks", self._name, *named)

    async def _look(self, kind: type[R], *parts: str, **params: object) -> R:
        """Read a record."""
        call = Call(method="GET", path=self._path(*parts), params=_params(params))
        return self._read(kind, await self._connection.ask(call))

    async def _ask(self, kind: type[R], *parts: str, body: Mapping[str, object]) -> R:
        """Ask for a record in more words than an address holds."""
        call = Call(method="POST", path=self._path(*parts), body=dumped(body))
        return self._read(kind, await self._connection.ask(call))

    async def _change(
        self, kind: type[R], *parts: str, body: Mapping[str, object] | None = None, method: str = "POST"
    ) -> R:
        """Change something, once however often it must be sent."""
        sent = None if body is None else dumped(body)
        call = Call(method=method, path=self._path(*parts), body=sent, reads=False, once=True)
        return self._read(kind, await self._connection.ask(call))

    def _read(self, kind: type[R], body: bytes | str) -> R:
        try:
            return TypeAdapter(kind).validate_json(body)
        except ValidationError as error:
            # What came may hold memories, so that only its places are told.
            problem = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, problem["loc"])) or "the body"
            raise ServerFailed(
                f"{self._connection.host} answered with something else than {kind.__name__}: {place}: "
                f"{problem['msg']}. Client and server should be of one version."
            ) from None

    exists_sync = twin(exists)
    open_sync = twin(open)
    close_sync = twin(close)


def dumped(value: object) -> bytes:
    """A body as JSON, or InvalidInput."""
    try:
        return to_json(value, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise InvalidInput(f"This can't be sent as JSON in valid Unicode: {type(error).__name__}.") from error


def _params(given: Mapping[str, object]) -> dict[str, str]:
    """Those that were given; the server reads flags in small letters."""
    known = {name: value for name, value in given.items() if value is not None}
    return {
        name: str(value).lower() if isinstance(value, bool) else text_of(name, str(value))
        for name, value in known.items()
    }
