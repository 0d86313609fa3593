"""Annotated conversations, each retained day by day into a bank of its own: what `languages` and `lives` share.

A file holds one conversation (.json) or one per line (.jsonl, .jsonl.xz). Annotations name messages by their id.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, TypeVar, cast

from pydantic import AfterValidator, AwareDatetime, BaseModel, ValidationInfo

from vmemo import Memory, Message
from vmemo.errors import InvalidInput
from vmemo.models import Hit, MessageId, Role
from vmemo.ports import LLM, Embedder
from vmemo.settings import Settings
from vmemo_bench.bench_store import open_store
from vmemo_bench.checkpoint import Checkpoint
from vmemo_bench.concurrency import run_limited
from vmemo_bench.environment import describe, fingerprint
from vmemo_bench.json_files import FileRecord, parse_record, read_texts
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink, StepCounter
from vmemo_bench.report import Setting, Table
from vmemo_bench.statistics import Outcome, bootstrap_interval, shares

SAMPLES = Path(__file__).parent / "sample"
SUFFIXES = (".json", ".jsonl", ".jsonl.xz")
TurnId = TypeVar("TurnId", bound=Hashable)


def _is_known(id: int, info: ValidationInfo) -> int:
    known = cast("frozenset[int] | None", info.context)
    if known is not None and id not in known:
        raise ValueError(f"the conversation has no message {id}")
    return id


Reference = Annotated[int, AfterValidator(_is_known)]
"""The id of a message of the same conversation."""


class AnnotatedMessage(BaseModel):
    id: int
    role: Role
    name: str
    time: AwareDatetime
    text: str


class AnnotatedConversation(BaseModel):
    """A conversation in the file, with the annotations of a subclass."""

    id: str
    messages: list[AnnotatedMessage]


ConversationT = TypeVar("ConversationT", bound=AnnotatedConversation)


class ConversationResult(FileRecord):
    """The outcomes of one finished conversation."""

    id: str
    outcomes: tuple[Outcome, ...]


async def measure_conversations(
    options: BenchOptions,
    embedder: Embedder,
    settings: Settings,
    sink: ProgressSink,
    *,
    model: type[ConversationT],
    measure: Callable[[Memory, ConversationT], Awaitable[Sequence[Outcome]]],
) -> tuple[list[tuple[ConversationT, Sequence[Outcome]]], dict[str, Setting]]:
    """Measure the conversations that are not finished yet; return all with their outcomes, and the configuration."""
    conversations, digest = _read_conversations(options, model)
    llm = options.llm.model if isinstance(options.llm.model, LLM) else None
    steps = StepCounter(sink, options.benchmark, len(conversations))
    async with open_store(options, embedder, settings) as store:
        config = {**describe(embedder, settings), **store.config, "data": digest, "llm": llm.name if llm else None}
        name = f"{options.benchmark}-{options.part}-{fingerprint(config)}.jsonl"
        checkpoint = Checkpoint(options.work_folder / name, ConversationResult, lambda result: result.id)

        async def run(conversation: ConversationT) -> tuple[ConversationT, Sequence[Outcome]]:
            result = checkpoint.get(conversation.id)
            if result is None:
                async with (
                    store.bank(conversation.id) as at,
                    Memory(at.url, bank=at.bank, llm=llm, embedder=embedder, settings=settings) as memory,
                ):
                    outcomes = tuple(await measure(memory, conversation))
                result = checkpoint.append(ConversationResult(id=conversation.id, outcomes=outcomes))
            steps.advance()
            return conversation, result.outcomes

        measured = await run_limited(options.concurrency, run, conversations)
    checkpoint.clear()
    return measured, {**config, "conversations": len(measured)}


def count_table(measured: Sequence[tuple[object, Sequence[Outcome]]]) -> Table:
    """Return counts and share of each metric, and the 95 % interval of the share over several conversations."""
    rows: dict[str, dict[str, Setting]] = {}
    for metric, share in shares(outcome for _, outcomes in measured for outcome in outcomes).items():
        groups = [[result for name, result in outcomes if name == metric] for _, outcomes in measured]
        rows[metric] = {"count": sum(map(sum, groups)), "of": sum(map(len, groups)), "share": share}
        if len(groups) > 1:
            rows[metric]["low"], rows[metric]["high"] = bootstrap_interval(groups)
    return rows


def _read_conversations(options: BenchOptions, model: type[ConversationT]) -> tuple[list[ConversationT], str]:
    """Return the conversations of the given files and folders, or the packaged ones, and a digest of their texts."""
    files = [file for path in options.files or (SAMPLES / options.benchmark,) for file in _files(path)]
    found, whole = dict[str, ConversationT](), hashlib.sha256()
    for place, text in (each for file in files for each in read_texts(file)):
        ids = frozenset(message.id for message in parse_record(text, AnnotatedConversation, place).messages)
        conversation = parse_record(text, model, place, context=ids)
        if conversation.id in found:
            raise InvalidInput(f"{place}: id: another conversation is named {conversation.id!r} as well.")
        found[conversation.id] = conversation
        whole.update(text.encode())
    return list(found.values())[: options.limit], whole.hexdigest()[:12]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
    if not files:
        raise InvalidInput(f"{path} has no conversations: files that end in {', '.join(SUFFIXES)}.")
    return files


async def retain_conversation(memory: Memory, conversation: AnnotatedConversation) -> dict[MessageId, int]:
    """Retain a conversation, and return the id that each of its messages has in the file."""
    messages = {
        each.id: Message(
            # Ids determined by the position: a repeated run breaks ties in the same way.
            id=MessageId(str(uuid.UUID(int=number))),
            role=each.role,
            speaker=each.name if each.role == "user" else None,
            content=each.text,
            timestamp=each.time,
            document=each.time.date().isoformat(),
        )
        for number, each in enumerate(conversation.messages)
    }
    return await retain_days(memory, messages)


async def retain_days(memory: Memory, messages: Mapping[TurnId, Message]) -> dict[MessageId, TurnId]:
    """Retain messages one document after the other, each named after its day; return the turn of each message."""
    for _, day in groupby(sorted(messages.values(), key=_document), _document):
        await memory.retain(list(day))
    return {message.id: turn for turn, message in messages.items()}


def _document(message: Message) -> str:
    return message.document or ""


def first_ranks(hits: Sequence[Hit], turns: Mapping[MessageId, TurnId]) -> dict[TurnId, int]:
    """Return the rank, from 0, of the first hit that comes from each turn."""
    ranks = dict[TurnId, int]()
    for rank, hit in enumerate(hits):
        for message in hit.fact.messages:
            ranks.setdefault(turns[message], rank)
    return ranks
