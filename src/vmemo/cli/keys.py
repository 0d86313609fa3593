"""`vmemo keys`: who may come in through a server's doors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Annotated, TypeVar

import typer
from pydantic import JsonValue

from vmemo.auth.service import AuthService
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_DB, AsJson, Db
from vmemo.cli.output import clipped, moment, print_json, stdout, table
from vmemo.cli.target import Place, run
from vmemo.models import utc_now
from vmemo.models.auth import ApiKey, Permission

R = TypeVar("R")


@command(
    'vmemo keys create "support agent" --bank "support-*" --right write',
    "vmemo keys create ops --right admin --days 90 --json",
    name="keys create",
)
def create(
    name: Annotated[str, typer.Argument(help="What the key is for; shown in lists and nowhere else.")],
    bank: Annotated[
        list[str] | None,
        typer.Option("--bank", metavar="NAME", help="A bank, or the beginning of names with * behind it; repeatable."),
    ] = None,
    right: Annotated[Permission, typer.Option(help="What it may do: write holds read, admin holds both.")] = "read",
    days: Annotated[float | None, typer.Option(min=0.001, help="Days until it expires; else never.")] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Make a key to some banks, or to all. Its secret is shown this once and kept nowhere."""
    ends = None if days is None else utc_now() + timedelta(days=days)
    key, secret = _ask(db, lambda gate: gate.create_key(name, banks=bank or ["*"], right=right, expires_at=ends))
    if as_json:
        print_json({**_plain(key), "secret": secret})
    else:
        stdout().print(f"{secret}", markup=False, soft_wrap=True)
        stdout().print(f"Key {key.id} may {_may(key)}. Keep the secret: it can't be shown again.", markup=False)


@command("vmemo keys list", "vmemo keys list --db memory.db --json", name="keys list")
def listed(db: Db = DEFAULT_DB, as_json: AsJson = False) -> None:
    """Every key that was ever made, without its secret."""
    keys = _ask(db, lambda gate: gate.keys())
    if as_json:
        print_json([_plain(key) for key in keys])
        return
    shown = table("id", "name", "may", "made", "ends")
    for key in keys:
        shown.add_row(key.id, clipped(key.name), clipped(_may(key)), moment(key.created_at), _ends(key))
    stdout().print(shown if keys else "There is no key. A server without keys listens on this machine only.")


@command("vmemo keys revoke 3c2597927148", name="keys revoke")
def revoke(
    key: Annotated[str, typer.Argument(help="The key's id, as `vmemo keys list` shows it.")],
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """End a key at once, for every running server."""
    _ask(db, lambda gate: gate.revoke(key))
    if as_json:
        print_json({"id": key, "revoked": True})
    else:
        stdout().print(f"Key {clipped(key)} opens nothing any more.", markup=False)


def _ask(db: str, ask: Callable[[AuthService], Awaitable[R]]) -> R:
    return run(Place(db, "default"), lambda memory: ask(memory.gate), creates=True)


def _plain(key: ApiKey) -> dict[str, JsonValue]:
    return key.model_dump(mode="json")


def _may(key: ApiKey) -> str:
    return f"{key.right} {'every bank' if key.everywhere else ', '.join(key.banks)}"


def _ends(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {moment(key.revoked_at)}"
    return _moment_or(key.expires_at, "never")


def _moment_or(at: datetime | None, otherwise: str) -> str:
    return otherwise if at is None else moment(at)
