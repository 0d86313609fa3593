"""Opening and closing, explicitly or by a `with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from vmemo.sync import twin


class Resource(ABC):
    """A resource that a `with` or `async with` block opens and closes."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, and create the bank if it is missing. Verbs do this by themselves."""

    @abstractmethod
    async def close(self) -> None:
        """Close all connections. The next verb opens them again. Queued jobs stay queued."""

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            # __aexit__ is not called if __aenter__ raises.
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

    open_sync = twin(open)
    close_sync = twin(close)
