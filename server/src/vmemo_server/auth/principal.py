"""The caller of a request: its banks, permission and limits, the same for every interface."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar

from vmemo.errors import InvalidInput, NotFound
from vmemo.models.base import ALL_BANKS, Permission
from vmemo_server.auth.errors import PermissionDenied
from vmemo_server.auth.limits import Limits
from vmemo_server.auth.permissions import includes, matches
from vmemo_server.state import ApiKey


class SupportsBanks(Protocol):
    """The part of `Memory` that opening a bank needs."""

    def bank(self, name: str) -> Self:
        """Return the memory of another bank."""
        ...

    def on_behalf_of(self, principal: str) -> Self:
        """Return the same memory for requests of a principal, which take turns with those of others."""
        ...

    def without_creation(self) -> Self:
        """Return the same memory, whose verbs raise NotFound if the bank is missing."""
        ...

    @property
    def is_open(self) -> bool:
        """True if this process has opened the bank."""
        ...

    async def exists(self) -> bool:
        """Return True if the bank exists."""
        ...


M = TypeVar("M", bound=SupportsBanks)
_NAMED = 5
"""Banks that a denial names."""


@dataclass(frozen=True, kw_only=True)
class Principal:
    """One caller: the owner of an API key, or the local user where no key is required.

    `key_id` is None for the local user. `banks` holds the patterns of an API key.
    """

    key_id: str | None = None
    banks: tuple[str, ...] = (ALL_BANKS,)
    permission: Permission = "admin"
    limits: Limits = field(default_factory=Limits)

    @staticmethod
    def of_key(key: ApiKey, limits: Limits) -> Principal:
        """Return the principal of an API key."""
        return Principal(key_id=key.id, banks=key.banks, permission=key.permission, limits=limits)

    @property
    def name(self) -> str:
        """The key's id, or a dash for the local user."""
        return self.key_id or "-"

    @property
    def only_bank(self) -> str | None:
        """The bank of a principal that reaches a single one."""
        return self.banks[0] if len(self.banks) == 1 and not self.banks[0].endswith("*") else None

    @property
    def default_bank(self) -> str | None:
        """The bank of requests that name none: the only bank of the principal, or `default` for the local user."""
        return self.only_bank or ("default" if self.key_id is None else None)

    def allows(self, permission: Permission, bank: str | None = None) -> bool:
        """Return True if the principal has the permission for a bank, or for every bank if none is given."""
        reached = ALL_BANKS in self.banks if bank is None else matches(self.banks, bank)
        return reached and includes(self.permission, permission)

    def require(self, permission: Permission, bank: str | None = None) -> None:
        """Raise PermissionDenied unless the principal has the permission.

        The bank is not looked up first, so the error does not reveal if it exists.
        """
        if not self.allows(permission, bank):
            scope = "every bank" if bank is None else "this bank"
            subject = "This connection" if self.key_id is None else "This API key"
            raise PermissionDenied(
                f"{subject} does not have {permission} permission for {scope}: it has {self.permission} permission for "
                f"{self._described_banks()}."
            )

    def _described_banks(self) -> str:
        """Name the banks of the principal, the first ones if there are many."""
        if ALL_BANKS in self.banks:
            return "every bank"
        named = ", ".join(map(repr, self.banks[:_NAMED])) + (", …" if len(self.banks) > _NAMED else "")
        return f"bank {named}" if self.only_bank else f"banks {named}"

    async def open_bank(self, memory: M, bank: str, permission: Permission, *, create: bool = False) -> M:
        """Return the memory of a bank after checking the permission.

        Raise NotFound if the bank does not exist, unless `create` is set: the verb then creates it.
        """
        self.require(permission, bank)
        opened = memory.bank(bank).on_behalf_of(self.name)
        if not create and not await opened.exists():
            raise NotFound(f"There is no bank {bank!r:.80} here.")
        return opened

    async def open_for_search(self, memory: M, bank: str) -> M:
        """Return the memory of a bank as `open_bank` does, for a verb that reads the bank first.

        A bank that was opened before is not looked up: the verb raises NotFound if another process deleted it.
        """
        self.require("read", bank)
        if memory.bank(bank).is_open:
            return memory.bank(bank).on_behalf_of(self.name).without_creation()
        return await self.open_bank(memory, bank, "read")

    def readable(self, banks: Iterable[str]) -> list[str]:
        """Return the names of the banks that the principal may read, in the given order."""
        return [name for name in banks if self.allows("read", name)]

    def check_batch(self, messages: int) -> None:
        """Raise InvalidInput if one request brings too many messages."""
        if messages > self.limits.batch:
            raise InvalidInput(
                f"One request may store at most {self.limits.batch:,} messages here, not {messages:,}. "
                "Nothing was stored; split it into several requests."
            )

    def check_max_tokens(self, max_tokens: int) -> None:
        """Raise InvalidInput if one request asks for too many tokens."""
        if max_tokens > self.limits.max_tokens:
            raise InvalidInput(f"max_tokens must be at most {self.limits.max_tokens:,} here, not {max_tokens:,}.")
