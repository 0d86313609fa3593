"""`vmemo keys`: API keys of the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer
from rich.text import Text

from vmemo import Memory
from vmemo.cli.command import CommandGroup, Output, command
from vmemo.cli.options import OnDatabase
from vmemo.cli.output import one_line, table, timestamp
from vmemo.cli.target import Target, run
from vmemo.models import utc_now
from vmemo.models.records import ALL_BANKS, Permission, shifted
from vmemo_server.state import ApiKey, ServerState

R = TypeVar("R")


@command(
    'vmemo keys create "support agent" --bank "support-*" --permission write',
    "vmemo keys create ops --permission admin --days 90 --json",
    name="keys create",
)
def create(
    name: Annotated[str, typer.Argument(help="A label for the key.")],
    bank: Annotated[
        list[str] | None,
        typer.Option(
            "--bank", metavar="NAME", help="A bank, or a prefix followed by *; repeatable. Default: all banks."
        ),
    ] = None,
    permission: Annotated[
        Permission, typer.Option(help="Permission; write includes read, admin includes both.")
    ] = "read",
    days: Annotated[float | None, typer.Option(min=0.001, help="Days until the key expires. Default: never.")] = None,
    *,
    target: OnDatabase,
) -> Output:
    """Create an API key. Its secret is shown once and not stored."""
    ends = None if days is None else shifted(utc_now(), days * 86_400)
    key, secret = _ask(
        target, lambda keys: keys.create_key(name, banks=bank or ["*"], permission=permission, expires_at=ends)
    )
    text = f"Key {key.id} has permission to {_may(key)}. Save the secret: it cannot be shown again."
    return Output({**key.model_dump(mode="json"), "secret": secret}, f"{secret}\n{text}")


@command("vmemo keys list", "vmemo keys list --db memory.db --json", name="keys list")
def list_keys(*, target: OnDatabase) -> Output:
    """List all keys, revoked ones included, without their secrets."""
    found = _ask(target, lambda keys: keys.keys())
    rows = table("id", "name", "permission", "created", "expires")
    for key in found:
        rows.add_row(key.id, Text(one_line(key.name)), Text(_may(key)), timestamp(key.created_at), _ends(key))
    return Output(
        found, rows if found else "There are no keys. A server without keys only listens on loopback addresses."
    )


@command("vmemo keys revoke 3c2597927148", name="keys revoke")
def revoke(
    key: Annotated[str, typer.Argument(help="The key's id, from `vmemo keys list`.")], *, target: OnDatabase
) -> Output:
    """Revoke a key; running servers refuse it immediately."""
    _ask(target, lambda keys: keys.revoke(key))
    return Output({"id": key, "revoked": True}, f"Key {one_line(key)} is revoked.")


def _ask(target: Target, ask: Callable[[ServerState], Awaitable[R]]) -> R:
    async def asked(memory: Memory) -> R:
        state = ServerState(memory.store)
        try:
            return await ask(state)
        finally:
            await state.close()

    return run(target, asked, requires="nothing")


def _may(key: ApiKey) -> str:
    return one_line(f"{key.permission} {'every bank' if ALL_BANKS in key.banks else ', '.join(key.banks)}")


def _ends(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {timestamp(key.revoked_at)}"
    return "never" if key.expires_at is None else timestamp(key.expires_at)


keys = CommandGroup("keys", "Create, list and revoke the API keys of a server.", (create, list_keys, revoke))
