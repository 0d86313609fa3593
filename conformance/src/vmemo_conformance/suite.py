"""Store fixtures of the suite. They need neither pytest nor a plugin for async tests."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from unittest import SkipTest

from vmemo.ports import Store
from vmemo_conformance.samples import a_bank


class StoreSuite:
    """Settings of a test class for its store."""

    shared: bool = True
    """True if two stores made for one folder share their memories."""

    def make_store(self, folder: Path) -> Store:
        """Return a store that is not open yet, with its data in or named after the folder."""
        raise NotImplementedError("a subclass of StoreConformance says how to make its store")


Suite = TypeVar("Suite", bound=StoreSuite)
Test = Callable[[Suite], None]


def on_store(test: Callable[[Suite, Store], Awaitable[None]]) -> Test[Suite]:
    """Run an async test on a fresh, open store that holds one empty bank."""

    async def opened(suite: Suite, folder: Path) -> None:
        store = suite.make_store(folder)
        try:
            await store.open()
            await store.create_bank(a_bank())
            await test(suite, store)
        finally:
            await store.close()

    return _plain(test, opened)


def on_two_stores(test: Callable[[Suite, Store, Store], Awaitable[None]]) -> Test[Suite]:
    """Run an async test on two open stores of the same memories, which hold one empty bank."""

    async def opened(suite: Suite, folder: Path) -> None:
        if not suite.shared:
            raise SkipTest("stores of one folder do not share their memories")
        one, other = suite.make_store(folder), suite.make_store(folder)
        try:
            await one.open()
            await other.open()
            await one.create_bank(a_bank())
            await test(suite, one, other)
        finally:
            await one.close()
            await other.close()

    return _plain(test, opened)


def _plain(test: Callable[..., Awaitable[None]], run: Callable[[Suite, Path], Awaitable[None]]) -> Test[Suite]:
    def plain(self: Suite) -> None:
        async def whole(folder: Path) -> None:
            await run(self, folder)

        with tempfile.TemporaryDirectory(prefix="vmemo-") as folder:
            asyncio.run(whole(Path(folder)))

    plain.__name__ = getattr(test, "__name__", "test")
    plain.__qualname__ = getattr(test, "__qualname__", "test")
    plain.__doc__ = test.__doc__
    return plain


@contextmanager
def refused(error: type[Exception]) -> Generator[None]:
    """The block must raise this error."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"{error.__name__} was expected and nothing was raised")
