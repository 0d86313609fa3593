"""`vmemo retain`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from vmemo import Memory, Message, Retained
from vmemo.cli.command import command
from vmemo.cli.content import from_file, from_stdin
from vmemo.cli.options import (
    DEFAULT_BANK,
    DEFAULT_DB,
    AsJson,
    BankName,
    Db,
    EmbedderName,
    Model,
    parse_metadata,
    parse_time,
)
from vmemo.cli.output import counted, one_line, print_json, stdout
from vmemo.cli.progress import with_progress
from vmemo.cli.target import Target, run
from vmemo.models import Role
from vmemo.models.request_fields import ChatMessage
from vmemo.models.requests import MessageOptions


@command(
    'vmemo retain "I moved to Porto last Friday." --speaker Maya',
    "vmemo retain --file chat.jsonl --document chat-2024-05 --tag support",
    "cat notes.txt | vmemo retain - --document notes --meta source=notebook",
    'vmemo retain "The door code is 4711." --ttl P1D',
    'vmemo retain "We moved the launch to May." --llm openai:gpt-5-mini',
    'a line of chat.jsonl: {"speaker": "Maya", "content": "Hello!", "timestamp": "2024-05-01T09:30Z"}',
)
def retain(  # noqa: PLR0913 - each is an option of the command line
    text: Annotated[str | None, typer.Argument(help="The text to retain, or - for standard input.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, readable=True, help="A text file, or messages: .json or .jsonl."),
    ] = None,
    speaker: Annotated[str | None, typer.Option(metavar="NAME", help="The speaker's name.")] = None,
    role: Annotated[
        Role | None,
        typer.Option(help="The speaker's role. Default: user, or document for text with --document and no --speaker."),
    ] = None,
    document: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The document it belongs to; retaining the same lines again changes nothing."
        ),
    ] = None,
    timestamp: Annotated[
        datetime | None,
        typer.Option(
            parser=parse_time,
            metavar="TIME",
            help="When it was said: a date, or a time with a time zone. Default: now.",
        ),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="A tag to filter by; repeatable.")] = None,
    meta: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Metadata; repeatable.")] = None,
    ttl: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Forget it after this time: seconds, or an ISO 8601 duration (P30D)."),
    ] = None,
    expires_at: Annotated[
        datetime | None, typer.Option(parser=parse_time, metavar="TIME", help="Forget it after this time.")
    ] = None,
    no_infer: Annotated[bool, typer.Option("--no-infer", help="Store the words without deriving facts.")] = False,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    llm: Model = None,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Store messages and derive facts from them. Messages stay stored if the model fails."""
    said: dict[str, object] = {"speaker": speaker}
    if role is not None:
        said["role"] = role
    if timestamp is not None:
        said["timestamp"] = timestamp
    content = _content(text, file, said)
    options = MessageOptions(document=document, tags=tuple(tag or ()), metadata=parse_metadata(meta or ()))
    if ttl is not None:
        options["ttl"] = float(ttl) if ttl.replace(".", "", 1).isdigit() else ttl
    if expires_at is not None:
        options["expires_at"] = expires_at
    retained = run(
        Target(db, bank, llm, embedder),
        lambda memory: _watched(memory, content, options, infer=not no_infer, shown=not as_json),
        requires="nothing",
    )
    if as_json:
        print_json(retained.model_dump(mode="json"))
    else:
        show(retained)


def _content(text: str | None, file: Path | None, said: dict[str, object]) -> list[Message | ChatMessage]:
    if (text is None) == (file is None):
        raise typer.BadParameter("Give either a text, or - for standard input, or --file.", param_hint="TEXT")
    given = from_stdin() if text == "-" else [text] if text is not None else from_file(Path(file or ""), said)
    return [Message.of({**said, "content": item}) if isinstance(item, str) else item for item in given]


async def _watched(
    memory: Memory, content: list[Message | ChatMessage], options: MessageOptions, *, infer: bool, shown: bool
) -> Retained:
    """Retain everything in one call, so that repeated lines of a document stay distinct, with progress."""
    return await with_progress(
        memory.retain(content, infer, **options),
        lambda: pending_messages(memory),
        what="processing messages",
        shown=shown,
    )


async def pending_messages(memory: Memory) -> int:
    """Return the number of pending messages."""
    return (await memory.status()).pending


def show(retained: Retained, *, stored: bool = True) -> None:
    """Print a summary and the skipped messages."""
    console = stdout()
    console.print(", ".join(_summary(retained, stored)))
    for skipped in retained.skipped[:5]:
        console.print(Text(f"  skipped {one_line(skipped.what)}: {one_line(skipped.reason)}", style="dim"))
    if len(retained.skipped) > 5:
        console.print(f"  … and {len(retained.skipped) - 5} more")


def _summary(retained: Retained, stored: bool) -> Iterator[str]:
    if stored:
        yield f"{counted(len(retained.stored), 'message')} stored"
    yield f"{counted(len(retained.derived), 'fact')} derived in {counted(len(retained.episodes), 'episode')}"
    if retained.revised:
        yield f"{len(retained.revised):,} revised"
    yield f"{len(retained.skipped):,} skipped"
    if retained.redacted:
        yield f"{retained.redacted:,} redacted"
    if retained.usage.calls:
        yield f"{counted(retained.usage.calls, 'model call')}"
