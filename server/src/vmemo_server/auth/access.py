"""Access control of a server or local process: authentication, rate limit and audit log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vmemo.errors import VmemoError
from vmemo.models.base import is_placeholder
from vmemo_server.auth.errors import RateLimited, Unauthenticated
from vmemo_server.auth.limits import Limits, RateLimiter
from vmemo_server.auth.principal import Principal
from vmemo_server.state import ApiKey, AuditEntry, ServerState


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
        return Principal(limits=self.limits) if key is None else Principal.of_key(key, self.limits)

    async def _requires_key(self) -> bool:
        # Keys are never deleted, so a server that has required one keeps requiring one.
        self._key_required = self._key_required or not self.keyless or bool(await self.state.keys())
        return self._key_required

    def limit_rate(self, key_id: str | None) -> None:
        """Count one request; raise RateLimited if the key has none left."""
        seconds = self.rates.acquire(key_id)
        if seconds > 0:
            raise RateLimited(seconds)

    async def begin_write(self, entry: AuditEntry) -> AuditEntry:
        """Write an audit entry before a write starts; without one, nothing may be written."""
        return await self.state.begin_write(entry)

    async def finish_write(self, entry: AuditEntry, status: int) -> None:
        """Complete an audit entry. The write that it describes has ended, so a failure does not raise."""
        try:
            await self.state.finish_write(entry, status)
        except VmemoError as error:
            self.on_audit_failure(entry, error)
