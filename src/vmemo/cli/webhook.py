"""`vmemo webhook`: addresses that are notified of changed facts."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db
from vmemo.cli.output import one_line, print_json, stdout, table, timestamp
from vmemo.cli.target import Target, run
from vmemo.models.requests import AddWebhookRequest


@command(
    "vmemo webhook add https://app.example/hooks/vmemo",
    "vmemo webhook add https://app.example/hooks/vmemo --event retained --event forgotten --bank alice --json",
    name="webhook add",
)
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="An https:// URL.")],
    event: Annotated[
        list[str] | None,
        typer.Option(metavar="EVENT", help="retained, revised or forgotten; repeatable. Default: all of them."),
    ] = None,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """Add a webhook. Its signing secret is shown once; `vmemo serve` and `vmemo worker` deliver."""
    request = AddWebhookRequest.of({"url": url, **({"events": tuple(event)} if event else {})})
    added = run(Target(db, bank), lambda memory: memory.run(request), embeds=False)
    if as_json:
        print_json(added.model_dump(mode="json"))
    else:
        stdout().print(added.secret, markup=False, soft_wrap=True)
        events = ", ".join(added.events)
        stdout().print(
            f"Webhook {added.id} gets {events} facts. Save the secret: it cannot be shown again.", markup=False
        )


@command("vmemo webhook list", "vmemo webhook list --bank alice --json", name="webhook list")
def list_webhooks(db: Db = DEFAULT_DB, bank: BankName = DEFAULT_BANK, as_json: AsJson = False) -> None:
    """List the webhooks of a bank, without their secrets."""
    found = run(Target(db, bank), lambda memory: memory.webhooks(), embeds=False)
    if as_json:
        print_json({"webhooks": [each.model_dump(mode="json") for each in found]})
        return
    shown = table("id", "url", "events", "created", "disabled")
    for each in found:
        disabled = "" if each.disabled_at is None else timestamp(each.disabled_at)
        shown.add_row(each.id, Text(one_line(each.url)), ", ".join(each.events), timestamp(each.created_at), disabled)
    stdout().print(shown if found else "There are no webhooks.")


@command("vmemo webhook delete 019a2c5e-0d3a-7c11-9b0e-3f5d8a1c2b4e", name="webhook delete")
def delete(
    webhook: Annotated[str, typer.Argument(metavar="WEBHOOK", help="A webhook's id, from `vmemo webhook list`.")],
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """Delete a webhook with its queued deliveries."""
    deleted = run(Target(db, bank), lambda memory: memory.delete_webhook(webhook), embeds=False)
    if as_json:
        print_json(deleted.model_dump(mode="json"))
    else:
        stdout().print(f"Webhook {one_line(deleted.id)} is deleted.", markup=False)
