"""Access control, the same for every interface: limits, permissions, principals, and authentication of API keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vmemo import Memory
from vmemo.errors import InvalidInput, NotFound, VmemoError
from vmemo.models.records import ALL_BANKS, BankId, Permission, is_placeholder
from vmemo.models.requests import Returns, SeveralBanks
from vmemo_server.errors import PermissionDenied, RateLimited, Unauthenticated
from vmemo_server.state import ApiKey, AuditEntry, ServerState


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a server or local process, with their defaults."""

    body_bytes: int = 10_000_000
    """Bytes of a request body."""
    import_bytes: int = 2_000_000_000
    """Bytes of an imported file."""
    batch: int = 1_000
    """Messages of one request."""
    max_tokens: int = 100_000
    """Tokens that one recall may return."""
    rate: float = 6_000.0
    """Requests per minute and API key; 0 disables the limit."""
    burst: float = 200.0
    """Requests that an idle API key may send at once."""
    open_rate: float = 0.0
    """Requests per minute of all callers without a key together; 0 disables the limit."""

    def __post_init__(self) -> None:
        if min(self.body_bytes, self.import_bytes, self.batch, self.max_tokens, self.burst) < 1:
            raise InvalidInput("body_bytes, import_bytes, batch, max_tokens and burst must be at least 1.")
        if min(self.rate, self.open_rate) < 0:
            raise InvalidInput("rate and open_rate are requests per minute; 0 disables the limit.")


@dataclass
class RateLimiter:
    """Token bucket per API key, in this process."""

    limits: Limits
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str | None, tuple[float, float]] = field(
        default_factory=dict[str | None, tuple[float, float]], init=False, repr=False
    )
    """The tokens of each bucket, and the time of that number."""

    def acquire(self, key: str | None) -> float:
        """Take one request from the bucket of a key; return 0, or the seconds to wait if the bucket is empty."""
        per_second = (self.limits.open_rate if key is None else self.limits.rate) / 60
        if per_second <= 0:
            return 0.0
        now = self.clock()
        left, updated_at = self._buckets.get(key, (self.limits.burst, now))
        left = min(self.limits.burst, left + (now - updated_at) * per_second)
        taken = left >= 1
        self._buckets[key] = (left - taken, now)
        return 0.0 if taken else (1 - left) / per_second


_RANK: dict[Permission, int] = {"read": 0, "write": 1, "admin": 2}


def includes(held: Permission, needed: Permission) -> bool:
    """Return True if one permission includes another: admin includes write, and write includes read."""
    return _RANK[held] >= _RANK[needed]


def matches(patterns: Iterable[str], bank: str) -> bool:
    """Return True if a bank name equals one of the patterns or starts with one that ends in an asterisk."""
    return any(bank.startswith(each[:-1]) if each.endswith("*") else bank == each for each in patterns)


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
    listeners: Sequence[RequestListener] = field(default=(), compare=False, repr=False)

    @staticmethod
    def of_key(key: ApiKey, limits: Limits) -> Principal:
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

    async def open_bank(self, memory: Memory, bank: str, permission: Permission, *, create: bool = False) -> Memory:
        """Return the memory of a bank after checking the permission.

        Raise NotFound if the bank does not exist, unless `create` is set: the verb then creates it.
        """
        self.require(permission, bank)
        opened = self._observed(memory.bank(bank))
        if not create and not await opened.exists():
            raise NotFound(f"There is no bank {bank!r:.80} here.")
        return opened

    async def open_for_search(self, memory: Memory, bank: str) -> Memory:
        """Return the memory of a bank as `open_bank` does, for a verb that reads the bank first.

        A bank that was opened before is not looked up: the verb raises NotFound if another process deleted it.
        """
        self.require("read", bank)
        if memory.bank(bank).is_open:
            return self._observed(memory.bank(bank)).without_creation()
        return await self.open_bank(memory, bank, "read")

    def _observed(self, memory: Memory) -> Memory:
        def on_done(request: Returns[Any], result: object, seconds: float) -> None:
            for listen in self.listeners:
                listen(self, memory.name, request, result, seconds)

        return memory.observed(on_done) if self.listeners else memory

    def check_banks(self, request: SeveralBanks) -> None:
        """Raise PermissionDenied unless the principal may read every bank that a search names."""
        for bank in request.banks:
            self.require("read", bank)

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


RequestListener = Callable[[Principal, BankId, Returns[Any], object, float], None]
"""Called with the principal and bank of a request that was answered, the request, its result and its seconds."""


def _ignore(entry: AuditEntry, error: Exception) -> None:
    pass


@dataclass(eq=False, kw_only=True)
class AccessControl:
    """Authenticates callers, limits their rate and records their writes.

    With `keyless`, callers need no key until the first one is created; this is meant for servers that only listen on
    the local machine. `on_audit_failure` receives every audit entry that could not be completed.
    """

    state: ServerState
    keyless: bool
    limits: Limits = field(default_factory=Limits)
    on_audit_failure: Callable[[AuditEntry, Exception], None] = _ignore
    rates: RateLimiter = field(init=False)
    listeners: list[RequestListener] = field(default_factory=list["RequestListener"], init=False)
    _key_required: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.rates = RateLimiter(self.limits)

    async def authenticate(self, secret: str | None) -> Principal:
        """Return the principal that a secret belongs to.

        Raise Unauthenticated if the secret is no active key, or if it is missing and required. Raise RateLimited if
        the principal sends too many requests.
        """
        key = None if secret is None else await self.state.find_key(secret)
        # Servers read headers as Latin-1, and clients send an ellipsis in UTF-8.
        if (
            secret is not None
            and key is None
            and is_placeholder(secret.encode("latin-1", "replace").decode("utf-8", "replace"))
        ):
            raise Unauthenticated(
                "The API key sent is the placeholder of the documentation. Send the secret that `vmemo keys create` "
                "printed; a server on the local machine that has no keys needs none."
            )
        return await self._principal(key, required=secret is not None)

    async def authenticate_session(self, token: str) -> Principal:
        """Return the principal of a console session, or that of a caller without a key, as `authenticate` does."""
        return await self._principal(await self.state.find_session(token))

    async def _principal(self, key: ApiKey | None, *, required: bool = False) -> Principal:
        if key is None and (required or await self._requires_key()):
            raise Unauthenticated("A valid API key is required: send Authorization: Bearer vmemo_…")
        self.limit_rate(None if key is None else key.id)
        found = Principal(limits=self.limits) if key is None else Principal.of_key(key, self.limits)
        return replace(found, listeners=self.listeners)

    async def _requires_key(self) -> bool:
        # Keys are never deleted, so a server that has required one keeps requiring one.
        self._key_required = self._key_required or not self.keyless or bool(await self.state.keys())
        return self._key_required

    def limit_rate(self, key_id: str | None) -> None:
        """Count one request; raise RateLimited if the key has none left."""
        seconds = self.rates.acquire(key_id)
        if seconds > 0:
            raise RateLimited(seconds)

    async def finish_write(self, entry: AuditEntry, status: int) -> None:
        """Complete an audit entry. The write that it describes has ended, so a failure does not raise."""
        try:
            await self.state.finish_write(entry, status)
        except VmemoError as error:
            self.on_audit_failure(entry, error)
