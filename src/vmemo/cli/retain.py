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
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db, Model, instant, pairs
from vmemo.cli.output import clipped, many, print_json, stdout
from vmemo.cli.progress import watched
from vmemo.cli.target import Place, run
from vmemo.models import Role
from vmemo.retain.prepare import MessageOptions


@command(
    'vmemo retain "I moved to Porto last Friday." --speaker Maya',
    "vmemo retain --file chat.jsonl --document chat-2024-05 --tag support",
    "cat notes.txt | vmemo retain - --document notes --meta source=notebook",
    'vmemo retain "We moved the launch to May." --llm openai:gpt-5-mini',
    'a line of chat.jsonl: {"speaker": "Maya", "content": "Hello!", "timestamp": "2024-05-01T09:30Z"}',
)
def retain(  # noqa: PLR0913 - each is an option of the command line
    text: Annotated[str | None, typer.Argument(help="What was said, or - to read it from standard input.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, readable=True, help="Plain text, or messages if it ends in .jsonl."),
    ] = None,
    speaker: Annotated[str | None, typer.Option(metavar="NAME", help="Who said it.")] = None,
    role: Annotated[Role, typer.Option(help="The speaker's role.")] = "user",
    document: Annotated[
        str | None, typer.Option(metavar="NAME", help="What it is part of; the same lines again change nothing.")
    ] = None,
    timestamp: Annotated[
        datetime | None,
        typer.Option(parser=instant, metavar="TIME", help="When it was said, with time zone; now if left out."),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="A tag to filter by; repeatable.")] = None,
    meta: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Metadata; repeatable.")] = None,
    no_infer: Annotated[bool, typer.Option("--no-infer", help="Keep the words and derive nothing.")] = False,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    llm: Model = None,
    as_json: AsJson = False,
) -> None:
    """Store what was said, and derive facts from it. When a model fails, what was said is stored all the same."""
    said: dict[str, object] = {"role": role, "speaker": speaker}
    if timestamp is not None:
        said["timestamp"] = timestamp
    content = _content(text, file, said)
    options = MessageOptions(document=document, tags=tuple(tag or ()), metadata=pairs(meta or ()))
    retained = run(
        Place(db, bank, llm),
        lambda memory: _watched(memory, content, options, infer=not no_infer, shown=not as_json),
        creates=True,
    )
    if as_json:
        print_json(retained.model_dump(mode="json"))
    else:
        show(retained)


def _content(text: str | None, file: Path | None, said: dict[str, object]) -> list[Message]:
    if (text is None) == (file is None):
        raise typer.BadParameter("Give either a text, or - for standard input, or --file.", param_hint="TEXT")
    given = from_stdin() if text == "-" else [text] if text is not None else from_file(Path(file or ""), said)
    return [item if isinstance(item, Message) else Message.of({**said, "content": item}) for item in given]


async def _watched(
    memory: Memory, content: list[Message], options: MessageOptions, *, infer: bool, shown: bool
) -> Retained:
    """Retain as a whole, so that repeated lines of a document are told apart, and show how far it is."""
    return await watched(
        memory.retain(content, infer, **options), lambda: unread(memory), what="reading messages", shown=shown
    )


async def unread(memory: Memory) -> int:
    """How many messages wait to be read."""
    return (await memory.status()).pending


def show(retained: Retained, *, stored: bool = True) -> None:
    """What was done, in a line, and what was skipped."""
    console = stdout()
    console.print(", ".join(_told(retained, stored)))
    for skipped in retained.skipped[:5]:
        console.print(Text(f"  skipped {clipped(skipped.what)}: {clipped(skipped.reason)}", style="dim"))
    if len(retained.skipped) > 5:
        console.print(f"  … and {len(retained.skipped) - 5} more")


def _told(retained: Retained, stored: bool) -> Iterator[str]:
    if stored:
        yield f"{many(len(retained.stored), 'message')} stored"
    yield f"{many(len(retained.derived), 'fact')} derived in {many(len(retained.episodes), 'episode')}"
    if retained.revised:
        yield f"{len(retained.revised):,} revised"
    yield f"{len(retained.skipped):,} skipped"
    if retained.usage.calls:
        yield f"{many(retained.usage.calls, 'call')} of the model"
