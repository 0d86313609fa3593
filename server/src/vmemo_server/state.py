"""The server's own state: API keys, sessions of the console, the audit log and idempotent responses.

Its tables are in the SQL database of the memory, or in a SQLite file if the memory is in another kind of database. They
belong to no bank, and no export contains them.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar
from uuid import UUID, uuid5

from pydantic import Field
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    Row,
    Table,
    Text,
    delete,
    insert,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from vmemo.errors import InvalidInput, NotFound, SchemaTooNew
from vmemo.models import utc_now
from vmemo.models.records import ALL_BANKS, Instant, Name, Permission, Record
from vmemo.ports import Store
from vmemo.stores.sql.store import SqlStore
from vmemo.stores.sqlite.store import SqliteStore
from vmemo.stores.values import instant, micros, micros_or_none

R = TypeVar("R")
Interface = Literal["rest", "hindsight", "mcp", "console"]

PREFIX = "vmemo_"
"""The start of every secret, which lets secret scanners find leaked ones."""
ADMIN_KEY_VARIABLE = "VMEMO_ADMIN_KEY"
"""The environment variable with the secret of an admin key, and the name of that key."""
SHORTEST_SECRET = 32
"""Characters of a secret that is not created here, at least; only its hash protects it in a stolen database."""
FILE_VARIABLE = "VMEMO_SERVER_DB"
"""The environment variable with the path of the SQLite file beside a memory that is in no SQL database."""
DEFAULT_FILE = "vmemo-server.db"
CLAIM_LEASE = timedelta(seconds=10)
"""A request that did not renew its claim for this long is assumed to have died with its process."""
SESSION_LIFETIME = timedelta(hours=12)
"""Time after which a person must sign in to the console again."""
KEPT = timedelta(days=1)
"""Time for which a response is replayed."""
VERSION = 1
"""The version of the tables; a later one migrates them."""
_TURN = 0x766D656D6F73
"""The lock under which processes create the tables in PostgreSQL; a SQLite file is locked by its transaction."""
_IDS = UUID("5b0f7a52-9a0e-4c58-8d65-3f1f6f0f2a11")
"""The namespace of ids that are derived from an idempotency key."""

metadata = MetaData()
"""The tables; other distributions add theirs when they are imported."""
Number = BigInteger().with_variant(Integer, "sqlite")
_version = Table("server_version", metadata, Column("version", Integer, primary_key=True, autoincrement=False))
_keys = Table(
    "api_keys",
    metadata,
    Column("seq", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    # A JSON list of names and name prefixes.
    Column("banks", Text, nullable=False),
    Column("permission", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    sqlite_autoincrement=True,
)
_sessions = Table(
    "console_sessions",
    metadata,
    # The hash of the token that the browser holds.
    Column("digest", Text, primary_key=True),
    Column("key", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)
_audit = Table(
    "audit_log",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("key", Text),
    Column("interface", Text, nullable=False),
    Column("verb", Text, nullable=False),
    Column("bank", Text),
    Column("request", Text, nullable=False),
    Column("status", Integer),
    Index("audit_log_bank", "bank", "id"),
    sqlite_autoincrement=True,
)
_responses = Table(
    "idempotent_responses",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("bank", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    # Null while the request runs.
    Column("status", Integer),
    Column("body", Text, nullable=False),
    # The last renewal of the claim, then the time of the response.
    Column("at", BigInteger, nullable=False),
    Index("idempotent_responses_at", "at"),
)


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


@dataclass(frozen=True, kw_only=True)
class IdempotentRequest:
    """A request with an idempotency key. Two requests are the same if their fingerprints are equal.

    `holder` identifies this execution of it, so that one which lost its claim is noticed.
    """

    owner: str
    key: str
    fingerprint: str
    bank: str
    holder: str = field(default_factory=lambda: secrets.token_hex(8), compare=False)

    def new_id(self, number: int = 0) -> str:
        """Return the id of a record that this request stores; every repetition gives the same one."""
        return str(uuid5(_IDS, json.dumps([self.owner, self.key, self.fingerprint, number])))


@dataclass(frozen=True, kw_only=True)
class SavedResponse:
    """The response to an earlier request with the same idempotency key; `status` is None while that runs."""

    fingerprint: str
    status: int | None
    body: str


class ServerState:
    """API keys, sessions, audit log and idempotent responses of one server; any number of processes share them."""

    def __init__(self, store: Store, file: Path | str | None = None) -> None:
        """Use the database of a memory's store, or a SQLite file if that is no SQL database."""
        self._beside: SqliteStore | None = None
        if isinstance(store, SqlStore):
            self._store: SqlStore[Any] = store
        else:
            path = file or os.environ.get(FILE_VARIABLE) or DEFAULT_FILE
            self._store = self._beside = SqliteStore(Path(path))
        self._ready = False
        self.on_erased: list[Callable[[str], Awaitable[None]]] = []
        """Called with the name of a bank after text of it was deleted."""
        self.on_close: list[Callable[[], Awaitable[None]]] = []

    async def open(self) -> None:
        """Open the database and create the tables."""
        await self._store.open()
        if not self._ready:
            await self._store.run_write(_create_tables, repeatable=True)
            self._ready = True

    async def close(self) -> None:
        """Close the SQLite file; the database of a memory is closed with the memory."""
        for close in self.on_close:
            await close()
        self._ready = False
        if self._beside is not None:
            await self._beside.close()

    async def read(self, run: Callable[[Connection], R]) -> R:
        """Run a function that reads."""
        await self.open()
        return await self._store.run_read(run)

    async def write(self, run: Callable[[Connection], R], *, repeatable: bool = True) -> R:
        """Run a function that does no harm if it was committed before."""
        await self.open()
        return await self._store.run_write(run, repeatable=repeatable)

    async def create_key(
        self,
        name: str,
        *,
        banks: Sequence[str] = ("*",),
        permission: Permission = "read",
        expires_at: datetime | None = None,
        id: str | None = None,
    ) -> tuple[ApiKey, str]:
        """Create a key and return it with its secret, which is not stored and can't be shown again."""
        secret = PREFIX + secrets.token_urlsafe(32)
        values = {"id": id or secrets.token_hex(6), "name": name, "banks": tuple(banks), "permission": permission}
        key = ApiKey.of({**values, "expires_at": expires_at})
        if key.expires_at is not None and key.expires_at <= utc_now():
            raise InvalidInput(f"expires_at must be in the future, not {key.expires_at.isoformat()}.")
        await self._add_key(key, digest(secret))
        return key, secret

    async def ensure_admin_key(self, secret: str) -> None:
        """Create the admin key of the environment unless it exists, and revoke the one that it replaces.

        A key that was revoked or has expired stays so: raise InvalidInput.
        """
        if len(secret) < SHORTEST_SECRET or not secret.isascii() or not secret.isprintable() or " " in secret:
            raise InvalidInput(
                f"{ADMIN_KEY_VARIABLE} must be at least {SHORTEST_SECRET} characters of ASCII without spaces. "
                "Create one with: openssl rand -hex 32"
            )
        hashed = digest(secret)
        # Several servers may start at once: each of them adds the same key.
        await self._add_key(
            ApiKey(id=hashed[:12], name=ADMIN_KEY_VARIABLE, banks=(ALL_BANKS,), permission="admin"), hashed
        )
        found = await self.find_key(secret)
        if found is None or found.permission != "admin" or ALL_BANKS not in found.banks:
            raise InvalidInput(
                f"{ADMIN_KEY_VARIABLE} is the secret of a key that is revoked, has expired or is no admin of every "
                "bank. Set it to a new value, or unset it and use another key."
            )
        for other in await self.keys():
            if other.name == ADMIN_KEY_VARIABLE and other.id != found.id:
                await self.revoke(other.id)

    async def _add_key(self, key: ApiKey, hashed: str) -> None:
        """Store a key, unless its id or hash is stored already."""
        values = {
            "id": key.id,
            "digest": hashed,
            "name": key.name,
            "banks": json.dumps(key.banks),
            "permission": key.permission,
            "created_at": micros(key.created_at),
            "expires_at": micros_or_none(key.expires_at),
        }
        await self.write(lambda c: _insert_missing(c, _keys, values))

    async def find_key(self, secret: str) -> ApiKey | None:
        found = await self._find_key(_keys.c.digest == digest(secret))
        return found if found is not None and found.active(utc_now()) else None

    async def begin_session(self, key_id: str, lifetime: timedelta = SESSION_LIFETIME) -> str:
        """Store a session of an API key and return its token; sessions that are over are deleted."""
        token, now = secrets.token_urlsafe(32), utc_now()
        values = {"digest": digest(token), "key": key_id, "expires_at": micros(now + lifetime)}

        def store(connection: Connection) -> None:
            connection.execute(delete(_sessions).where(_sessions.c.expires_at <= micros(now)))
            _insert_missing(connection, _sessions, values)

        await self.write(store)
        return token

    async def find_session(self, token: str) -> ApiKey | None:
        """Return the active key of a session, or None if the session or its key has ended."""
        now = utc_now()
        own = _sessions.c.digest == digest(token), _sessions.c.expires_at > micros(now)
        key_id = select(_sessions.c.key).where(*own).scalar_subquery()
        found = await self._find_key(_keys.c.id == key_id)
        return found if found is not None and found.active(now) else None

    async def end_session(self, token: str) -> None:
        """End a session for everyone who holds its token."""
        await self.write(lambda c: c.execute(delete(_sessions).where(_sessions.c.digest == digest(token))))

    async def _find_key(self, condition: Any) -> ApiKey | None:
        row = await self.read(lambda c: c.execute(select(_keys).where(condition)).first())
        return None if row is None else _key(row)

    async def keys(self) -> list[ApiKey]:
        """Return every key ever created, oldest first."""
        rows = await self.read(lambda c: c.execute(select(_keys).order_by(_keys.c.seq)).all())
        return [_key(row) for row in rows]

    async def revoke(self, id: str) -> None:
        """Revoke a key at once, or raise NotFound. A key that is already revoked keeps its time."""
        if await self._find_key(_keys.c.id == id) is None:
            raise NotFound(f"There is no API key {id!r:.40}; `vmemo keys list` shows their ids.")
        active = _keys.c.id == id, _keys.c.revoked_at.is_(None)
        await self.write(lambda c: c.execute(update(_keys).where(*active).values(revoked_at=micros(utc_now()))))

    async def begin_write(self, entry: AuditEntry) -> AuditEntry:
        """Append to the audit log before a write starts; return the entry with its id."""
        values = {**entry.model_dump(exclude={"id"}), "at": micros(entry.at)}
        await self.open()
        added = insert(_audit).values(values).returning(_audit.c.id)
        id = await self._store.run_write(lambda c: c.execute(added).scalar_one())
        return entry.model_copy(update={"id": id})

    async def finish_write(self, entry: AuditEntry, status: int) -> None:
        """Store the status of a write that has ended."""
        await self.write(lambda c: c.execute(update(_audit).where(_audit.c.id == entry.id).values(status=status)))

    async def audit_entries(
        self, *, banks: Sequence[str] | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        """Return audit entries, newest first, of some banks or of all; `before` limits them to lower ids."""
        found = select(_audit).order_by(_audit.c.id.desc()).limit(limit)
        if banks is not None:
            found = found.where(_audit.c.bank.in_(banks))
        if before is not None:
            found = found.where(_audit.c.id < before)
        rows = await self.read(lambda c: c.execute(found).mappings().all())
        return [AuditEntry.of({**row, "at": instant(row["at"])}) for row in rows]

    async def claim(self, request: IdempotentRequest) -> SavedResponse | None:
        """Claim an idempotency key; return None on success, else the response of the request that holds it.

        A claim that was not renewed for `CLAIM_LEASE` has ended and is taken over. Old responses are deleted.
        """
        return await self.write(lambda c: _claim(c, request))

    async def renew(self, request: IdempotentRequest) -> None:
        """Extend the lease of a request that is running; a lost claim is ignored."""
        await self.write(lambda c: c.execute(update(_responses).where(*_held(request)).values(at=micros(utc_now()))))

    async def save_response(self, request: IdempotentRequest, status: int, body: str) -> None:
        """Store the response to a claimed request; a lost claim is ignored."""
        values = {"status": status, "body": body, "at": micros(utc_now())}
        await self.write(lambda c: c.execute(update(_responses).where(*_held(request)).values(values)))

    async def release(self, request: IdempotentRequest) -> None:
        """Delete a claim, so that the request may be sent again."""
        await self.write(lambda c: c.execute(delete(_responses).where(*_held(request))))

    @asynccontextmanager
    async def erasing(self, bank: str) -> AsyncGenerator[None]:
        """Delete the responses about a bank, which may quote it, before and after text of the bank is deleted.

        Before, so that SQLite overwrites them with the text; after, because other requests may have saved theirs.
        """
        await self._drop_responses(bank)
        try:
            yield
        finally:
            await self._drop_responses(bank)
            for erased in self.on_erased:
                await erased(bank)

    async def _drop_responses(self, bank: str) -> None:
        saved = _responses.c.bank == bank, _responses.c.status.is_not(None)
        await self.write(lambda c: c.execute(delete(_responses).where(*saved)))


def digest(secret: str) -> str:
    """Return the stored hash of a secret; secrets are long and random, so a plain SHA-256 is enough."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _create_tables(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:turn)"), {"turn": _TURN})
    metadata.create_all(connection)
    found = connection.execute(select(_version.c.version)).scalar_one_or_none()
    if found is None:
        connection.execute(insert(_version).values(version=VERSION))
    elif found > VERSION:
        raise SchemaTooNew(
            f"The server's tables have version {found}, this vmemo-server knows up to {VERSION}. Nothing was touched. "
            "Upgrade vmemo-server to use this database."
        )


def _insert_missing(connection: Connection, table: Table, values: dict[str, Any]) -> bool:
    """Insert a row unless its key exists; return True if inserted."""
    new = (postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert)(table)
    return connection.execute(new.values(values).on_conflict_do_nothing()).rowcount == 1


def _key(row: Row[Any]) -> ApiKey:
    return ApiKey(
        id=row.id,
        name=row.name,
        banks=tuple(json.loads(row.banks)),
        permission=row.permission,
        created_at=instant(row.created_at),
        expires_at=None if row.expires_at is None else instant(row.expires_at),
        revoked_at=None if row.revoked_at is None else instant(row.revoked_at),
    )


def _claim(connection: Connection, request: IdempotentRequest) -> SavedResponse | None:
    now, at = utc_now(), _responses.c.at
    connection.execute(delete(_responses).where(at < micros(now - KEPT)))
    same = _responses.c.owner == request.owner, _responses.c.key == request.key
    # A claim of the future was made before the clock was set back.
    ended = or_(at < micros(now - CLAIM_LEASE), at > micros(now + CLAIM_LEASE))
    connection.execute(delete(_responses).where(*same, _responses.c.status.is_(None), ended))
    values = {
        "owner": request.owner,
        "key": request.key,
        "holder": request.holder,
        "bank": request.bank,
        "fingerprint": request.fingerprint,
        "body": "",
        "at": micros(now),
    }
    while not _insert_missing(connection, _responses, values):
        row = connection.execute(select(_responses).where(*same)).first()
        if row is not None and row.holder == request.holder:
            # An earlier run was committed after all.
            return None
        # A claim that prevented the insertion may have been released since.
        if row is not None:
            return SavedResponse(fingerprint=row.fingerprint, status=row.status, body=row.body)
    return None


def _held(request: IdempotentRequest) -> tuple[Any, ...]:
    """Return the conditions of a claim that this execution holds."""
    columns = _responses.c
    return (
        columns.owner == request.owner,
        columns.key == request.key,
        columns.holder == request.holder,
        columns.status.is_(None),
    )
