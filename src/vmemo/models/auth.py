"""API keys, audit log entries and idempotent responses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import Field

from vmemo.models.base import Instant, Name, Record, utc_now

Permission = Literal["read", "write", "admin"]
"""Access to a bank; each level includes those before it."""
ALL_BANKS = "*"
"""The pattern of an API key that matches every bank."""
Interface = Literal["rest", "hindsight", "mcp", "console"]


def is_placeholder(secret: str) -> bool:
    """Return True for text that documentation has in the place of a key, such as `vmemo_…` or `${VMEMO_API_KEY}`."""
    return "…" in secret or secret.endswith("...") or secret.startswith(("${", "<"))


class ApiKey(Record):
    """One API key. Only the hash of its secret is stored.

    `banks` holds bank names and prefixes: `support-*` matches every name that starts with `support-`, and `*` matches
    every bank.
    """

    id: str
    name: Name
    banks: tuple[Name, ...] = Field(min_length=1, max_length=1000)
    permission: Permission = "read"
    created_at: Instant = Field(default_factory=utc_now)
    expires_at: Instant | None = None
    revoked_at: Instant | None = None

    def active(self, now: datetime) -> bool:
        """Return True if the key is neither revoked nor expired at that time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class AuditEntry(Record):
    """One write: the key, time, operation, bank and result. It holds no text of a memory.

    It is stored before the operation starts and completed after it. A write that was cut off stays without a status.
    """

    id: int = 0
    at: Instant = Field(default_factory=utc_now)
    key: str | None = Field(default=None, description="the key's id; null for a caller without a key")
    interface: Interface
    verb: str
    bank: str | None = None
    request: str = ""
    status: int | None = Field(default=None, description="the HTTP status; null for a write that runs or was cut off")


class IdempotentReply(Record):
    """The stored response of a request with an idempotency key; `status` is None while the request runs."""

    fingerprint: str
    status: int | None = None
    body: str = ""


@dataclass(frozen=True, kw_only=True)
class IdempotencyClaim:
    """One execution of a request with an idempotency key. `holder` is unique, so a lost claim is noticed."""

    owner: str
    key: str
    holder: str


@dataclass(frozen=True, kw_only=True)
class CompletedRequest:
    """The response to a claimed request, stored in the transaction of the request's effect."""

    claim: IdempotencyClaim
    status: int
    body: str


@dataclass(frozen=True, kw_only=True)
class ClaimedRequest:
    """A request with an idempotency key, and the status and body of the response to a result of its verb."""

    claim: IdempotencyClaim
    respond: Callable[[object], tuple[int, str]]

    def completed(self, result: object) -> CompletedRequest:
        """Return the request as it is completed by a result."""
        status, body = self.respond(result)
        return CompletedRequest(claim=self.claim, status=status, body=body)


def no_request(_: object) -> None:
    """Return None: the result of a verb completes no request."""
