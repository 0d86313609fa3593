"""Moving banks from one database to another."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

from vmemo.errors import InvalidInput, NotFound
from vmemo.models import BankId
from vmemo.ports import Store
from vmemo.settings import Settings, build_store, database_url
from vmemo.sync import portal
from vmemo.transfer.bank_migration import MigrationReport, OnProgress, move
from vmemo.transfer.incoming import incoming_banks


async def migrate(
    source_url: str | Path,
    target_url: str | Path,
    /,
    *,
    banks: Sequence[str] | None = None,
    restart: bool = False,
    on_progress: OnProgress | None = None,
    settings: Settings | None = None,
) -> MigrationReport:
    """Copy banks, all of them unless some are named, into another database; the source is only read.

    Each appears there whole and verified, or not at all. Called again after an interruption, it resumes; `restart`
    first drops what interrupted migrations left in the target. A bank that the target already has is skipped if it is
    identical, and refused before anything is written if it differs.
    """
    _require_list(banks)
    from_url, to_url = database_url(source_url), database_url(target_url)
    source, target = _store(from_url, settings), _store(to_url, settings)
    _require_distinct(from_url, to_url)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(source.close)
        await source.open(as_is=True)
        names = await _chosen(source, banks)
        opened.push_async_callback(target.close)
        await target.open()
        if restart:
            for incoming in await incoming_banks(target):
                await target.drop_bank(incoming.hidden)
        return await move(source, target, names, on_progress=on_progress)


def migrate_sync(
    source_url: str | Path,
    target_url: str | Path,
    /,
    *,
    banks: Sequence[str] | None = None,
    restart: bool = False,
    on_progress: OnProgress | None = None,
    settings: Settings | None = None,
) -> MigrationReport:
    """Synchronous twin of `migrate`."""
    moving = migrate(source_url, target_url, banks=banks, restart=restart, on_progress=on_progress, settings=settings)
    return portal.run(moving)


def _store(url: str, settings: Settings | None) -> Store:
    chosen = settings or Settings.from_environment()
    if not url.startswith("sqlite:"):
        # The key is that of the SQLite file at the other end.
        chosen = chosen.model_copy(update={"encryption_key": None, "encryption_key_file": None})
    return build_store(url, chosen)


def _require_list(banks: Sequence[str] | None) -> None:
    if isinstance(banks, str) or (banks is not None and not banks):
        raise InvalidInput('banks is a list of names, such as ["alice"]; None is all. Nothing was changed.')


def _require_distinct(source_url: str, target_url: str) -> None:
    if target_url in ("sqlite://", "sqlite:///:memory:"):
        raise InvalidInput("The target is in memory, and would be gone when the migration ends. Name a file.")
    if _location(source_url) == _location(target_url):
        raise InvalidInput("Source and target are the same database. Nothing was changed; name another target.")


def _location(url: str) -> tuple[str, ...]:
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        return scheme, str(Path(rest[1:]).resolve())
    parts = urlsplit(url)
    return scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query


async def _chosen(source: Store, wanted: Sequence[str] | None) -> list[BankId]:
    """Return the names of the banks to move. Raise NotFound if one does not exist."""
    existing = [BankId(bank.id) for bank in await source.banks()]
    for bank in wanted or ():
        if bank not in existing:
            known = ", ".join(map(repr, existing)) or "none"
            raise NotFound(f"There is no bank {bank!r} in the source; there is {known}. Nothing was changed.")
    return existing if wanted is None else [bank for bank in existing if bank in wanted]
