"""Commands that write memories: `retain`, `process`, `reprocess`, `maintain` and `forget`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.prompt import Confirm
from rich.text import Text

from vmemo import Memory, Retained
from vmemo.cli.command import Output, command
from vmemo.cli.options import AsJson, OptionGroup, WithModel, WithModels, Yes, parse_metadata, request_options
from vmemo.cli.output import one_line, stderr, with_progress
from vmemo.cli.target import run
from vmemo.errors import InvalidInput
from vmemo.models.records import counted
from vmemo.models.requests import ChatMessage, MessageOptions, NewMessage
from vmemo.models.results import Forgotten, Job
from vmemo.transfer.foreign import chat_fields, chat_items, read_file

CHUNK = 20_000
"""Maximum characters of one message from a text file; longer files are split between paragraphs."""
_BREAKS = ("\n\n", "\n", " ")


def _read_fields(metadata: list[str] | None, ttl: str | None, **values: object) -> MessageOptions:
    given = {name: value for name, value in values.items() if value is not None}
    if ttl is not None:
        given["ttl"] = float(ttl) if ttl.replace(".", "", 1).isdigit() else ttl
    return cast("MessageOptions", {**given, "metadata": parse_metadata(metadata or ())})


_FIELDS = ("speaker", "role", "document", "timestamp", "tags", "metadata", "ttl", "expires_at")
MessageFields = Annotated[MessageOptions, OptionGroup(request_options(NewMessage, *_FIELDS), _read_fields)]


@command(
    'vmemo retain "I moved to Porto last Friday." --speaker Maya',
    "vmemo retain --file chat.jsonl --document chat-2024-05 --tag support",
    "cat notes.txt | vmemo retain - --document notes --meta source=notebook",
    'vmemo retain "The door code is 4711." --ttl P1D',
    'vmemo retain "We moved the launch to May." --llm openai:gpt-5-mini',
    'a line of chat.jsonl: {"speaker": "Maya", "content": "Hello!", "timestamp": "2024-05-01T09:30Z"}',
)
def retain(
    text: Annotated[str | None, typer.Argument(help="The text to retain, or - for standard input.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, readable=True, help="A text file, or messages: .json or .jsonl."),
    ] = None,
    no_infer: Annotated[bool, typer.Option("--no-infer", help="Store the words without deriving facts.")] = False,
    *,
    message: MessageFields,
    target: WithModels,
    as_json: AsJson = False,
) -> Output:
    """Store messages and derive facts from them. Messages stay stored if the model fails."""
    content = _content(text, file)

    async def verb(memory: Memory) -> Retained:
        # One call, so that repeated lines of a document stay distinct.
        work = memory.retain(content, not no_infer, **message)
        return await with_progress(work, lambda: _pending(memory), what="processing messages", shown=not as_json)

    done = run(target, verb, requires="nothing")
    return Output(done, retained_text(done))


def _content(text: str | None, file: Path | None) -> Sequence[str | ChatMessage]:
    """Return the chunks of a text, or the messages of a JSON or JSON Lines file; errors name the place of one."""
    if (text is None) == (file is None):
        raise typer.BadParameter("Give either a text, or - for standard input, or --file.", param_hint="TEXT")
    if text is not None and text != "-":
        return [text]
    if file is None:
        return list(split_text(_decoded(sys.stdin.buffer.read(), "standard input")))
    if file.suffix not in (".json", ".jsonl"):
        return list(split_text(_decoded(file.read_bytes(), str(file))))
    messages: list[ChatMessage] = []
    for place, value in chat_items(read_file(file)):
        fields = chat_fields(place, value)
        if fields is not None:
            place.message(fields)
        messages.append(cast("ChatMessage", value))
    return messages


async def _pending(memory: Memory) -> int:
    return (await memory.status()).pending


def retained_text(retained: Retained, *, stored: bool = True) -> str:
    lines = [", ".join(_summary(retained, stored))]
    lines += [f"  skipped {one_line(each.what)}: {one_line(each.reason)}" for each in retained.skipped[:5]]
    if len(retained.skipped) > 5:
        lines.append(f"  … and {len(retained.skipped) - 5} more")
    return "\n".join(lines)


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


def split_text(text: str) -> Iterator[str]:
    """Yield chunks of a text, cut at a paragraph, line or word; a text that grew at its end yields the same first."""
    rest = text.strip()
    while len(rest) > CHUNK:
        cut = next((at for at in (rest.rfind(mark, 1, CHUNK) for mark in _BREAKS) if at > 0), CHUNK)
        yield rest[:cut].rstrip()
        rest = rest[cut:].lstrip()
    yield rest


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{source} is not UTF-8 text. Nothing was retained.") from error


@command("vmemo process", "vmemo process --llm ollama:qwen3:8b --bank alice", "vmemo process --json")
def process(*, target: WithModels, as_json: AsJson = False) -> Output:
    """Derive facts from pending messages, failed ones included, and say which jobs are left to a worker."""

    async def verb(memory: Memory) -> tuple[Retained, list[Job]]:
        done = await with_progress(
            memory.process(), lambda: _pending(memory), what="processing messages", shown=not as_json
        )
        return done, await memory.jobs()

    done, left = run(target, verb)
    kinds = Counter(job.kind for job in left)
    text = retained_text(done, stored=False)
    if left:
        listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        text += (
            f"\n{counted(len(left), 'job')} left to a worker: {listed}. `vmemo worker --once` runs those that are due; "
            "`vmemo jobs` lists them."
        )
    return Output({**done.model_dump(mode="json"), "left": kinds}, text)


@command(
    "vmemo reprocess --llm openai:gpt-5-mini",
    "vmemo reprocess   with the local engine",
    "vmemo reprocess --bank alice --json",
    resume="vmemo reprocess",
)
def reprocess(*, target: WithModels, as_json: AsJson = False) -> Output:
    """Derive all facts from the messages again with this engine; the bank stays available meanwhile."""

    async def verb(memory: Memory) -> Retained:
        work = memory.reprocess()
        return await with_progress(work, memory.left_to_reprocess, what="reprocessing messages", shown=not as_json)

    done = run(target, verb)
    return Output(done, retained_text(done, stored=False))


@command("vmemo maintain", "vmemo maintain --bank alice --llm openai:gpt-5-mini --json")
def maintain(*, target: WithModels) -> Output:
    """Join related episodes, shorten old ones, close faded facts and optimise the indexes."""
    with stderr().status("maintaining"):
        done = run(target, lambda memory: memory.maintain())
    episodes = f"{counted(done.joined, 'episode')} joined, {done.shortened:,} shortened"
    expired = f"{counted(done.forgotten, 'expired message')} forgotten, " if done.forgotten else ""
    return Output(done, f"{expired}{episodes}, {counted(done.pruned, 'fact')} closed, indexes optimised")


@command(
    "vmemo forget --message 01934c1e-7f00-7a11-8a3e-5d2c9b6f0e41",
    "vmemo forget --document chat-2024-05 --yes",
    'vmemo forget --entity "Ines" --bank alice',
    "vmemo forget --all --yes --json",
)
def forget(
    message: Annotated[list[str] | None, typer.Option(metavar="ID", help="A message id; repeatable.")] = None,
    document: Annotated[str | None, typer.Option(metavar="NAME", help="All messages of a document.")] = None,
    entity: Annotated[
        str | None, typer.Option(metavar="NAME|ID", help="An entity and every message that mentions it.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole bank.")] = False,
    yes: Yes = False,
    *,
    target: WithModel,
) -> Output:
    """Delete messages and everything derived from them, permanently, from the database file too."""
    what = _described(message or [], document, entity, everything=everything)
    confirm_deletion(f"{what} from bank {one_line(target.bank)!r}", yes=yes)
    gone = run(
        target,
        lambda memory: memory.forget(messages=message or [], document=document, entity=entity, bank=everything),
        embeds=False,
    )
    return deleted(gone)


def _described(messages: list[str], document: str | None, entity: str | None, *, everything: bool) -> str:
    """Describe what to forget; raise BadParameter unless exactly one kind is given."""
    named = [f"{len(messages)} message(s)"] if messages else []
    named += [f"document {one_line(document)!r}"] if document is not None else []
    named += [f"entity {one_line(entity)!r} and every message that mentions it"] if entity is not None else []
    named += ["everything"] if everything else []
    if len(named) != 1:
        raise typer.BadParameter("Give exactly one of --message (repeatable), --document, --entity or --all.")
    return named[0]


def confirm_deletion(target: str, *, yes: bool) -> None:
    """Ask for confirmation unless `yes`; abort the command if it is not given."""
    if not (yes or Confirm.ask(Text(f"Delete {target} permanently?"), console=stderr())):
        raise typer.Abort


def deleted(gone: Forgotten) -> Output:
    again = f" Processed again: {counted(gone.requeued, 'message')}." if gone.requeued else ""
    counts = f"{counted(gone.messages, 'message')}, {counted(gone.facts, 'fact')}, {counted(gone.episodes, 'episode')}"
    left = "\nBytes of the deleted text may be left in the file; `vmemo doctor` removes them."
    entities = counted(gone.entities, "entity", "entities")
    return Output(gone, f"Deleted: {counts}, {entities}.{again}{left if gone.scrub_pending else ''}")
