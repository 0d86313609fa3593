"""Anthropic's memory tool: the files that Claude keeps under /memories, as documents of a bank.

Results and errors are worded as the tool's documentation requires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import unquote

from vmemo import InvalidInput, Message, VmemoError
from vmemo_integrations import AnyMemory, missing_extra

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types.beta import (
        BetaMemoryTool20250818Command as Command,
        BetaMemoryTool20250818CreateCommand as Create,
        BetaMemoryTool20250818DeleteCommand as Delete,
        BetaMemoryTool20250818InsertCommand as Insert,
        BetaMemoryTool20250818RenameCommand as Rename,
        BetaMemoryTool20250818StrReplaceCommand as StrReplace,
        BetaMemoryTool20250818ViewCommand as View,
    )
except ImportError as error:
    raise missing_extra("The Anthropic SDK", "anthropic") from error

ROOT = "/memories"
TEXT = "anthropic_memory_text"
"""The metadata that holds the text of a blank file; that of other files is the content of their message."""
BLANK = "…"
PAGE = 1000
MAX_LINES = 999_999
CONTEXT_LINES = 2
"""Lines that are shown before and after a replacement."""


@dataclass(frozen=True)
class FileChanges:
    """The result of a command, and the files that it writes and removes."""

    result: str
    written: Mapping[str, str] = field(default_factory=dict[str, str])
    removed: Iterable[str] = ()


class VmemoMemoryTool(BetaAbstractMemoryTool):
    """The memory tool in a bank, for the tool runner of `Anthropic`.

    A file is a document with one message, its exact text. Facts are derived from it, so `recall()` finds it too.
    """

    def __init__(self, memory: AnyMemory) -> None:
        super().__init__()
        self._memory = memory

    def execute(self, command: Command) -> str:
        """Execute a command and return its result; raise ToolError if it can't be executed."""
        messages = self._messages()
        changes = run_command(command, {message.document or "": _text(message) for message in messages})
        replaced = {*changes.written, *changes.removed}
        # The new text is stored before the old one is deleted, so a failure between the two loses nothing.
        self._retain(changes.written)
        self._forget([message for message in messages if message.document in replaced])
        return changes.result

    view = create = str_replace = insert = delete = rename = execute

    def clear_all_memory(self) -> str:
        """Delete all files."""
        self._forget(self._messages())
        return "All memory cleared"

    def _messages(self) -> list[Message]:
        """Return the messages that are files, oldest first."""
        found: list[Message] = []
        page = self._memory.messages_sync(limit=PAGE)
        while page:
            found += [message for message in page if (message.document or "").startswith(f"{ROOT}/")]
            page = self._memory.messages_sync(after=page[-1].id, limit=PAGE) if len(page) == PAGE else []
        return found

    def _retain(self, written: Mapping[str, str]) -> None:
        if not written:
            return
        try:
            self._memory.retain_sync([_message(path, text) for path, text in written.items()])
        except InvalidInput as error:
            raise ToolError(f"Error: {error}") from error
        except VmemoError as error:
            # If facts can't be derived now, the text is stored all the same, and queued.
            if not error.stored:
                raise

    def _forget(self, messages: Sequence[Message]) -> None:
        if messages:
            self._memory.forget_sync(messages=[message.id for message in messages])


class VmemoAsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool in a bank, for the tool runner of `AsyncAnthropic`."""

    def __init__(self, memory: AnyMemory) -> None:
        super().__init__()
        self._tool = VmemoMemoryTool(memory)

    async def execute(self, command: Command) -> str:
        """Execute a command and return its result; raise ToolError if it can't be executed."""
        return await asyncio.to_thread(self._tool.execute, command)

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> str:
        """Delete all files."""
        return await asyncio.to_thread(self._tool.clear_all_memory)


def run_command(command: Command, files: Mapping[str, str]) -> FileChanges:
    """Return the result of a command on files, given by path, and the changes that it makes."""
    match command:
        case View():
            return FileChanges(_view(_checked(command.path), command.view_range, files))
        case Create():
            return _create(_checked(command.path), command.file_text, files)
        case StrReplace():
            return _replace(_checked(command.path), command, files)
        case Insert():
            return _insert(_checked(command.path), command, files)
        case Delete():
            return _delete(_checked(command.path), files)
        case Rename():
            return _rename(_checked(command.old_path), _checked(command.new_path), files)


def _checked(path: str) -> str:
    """Return a path without a slash at its end; raise ToolError if it does not stay below the root."""
    path = path.rstrip("/")
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Error: Path must start with {ROOT}, got: {path}")
    parts = unquote(path).replace("\\", "/").split("/")[1:]
    if {"", ".", ".."} & set(parts):
        raise ToolError(f"Error: Path {path} would escape {ROOT} directory")
    return path


def _below(directory: str, files: Mapping[str, str]) -> list[str]:
    return sorted(path for path in files if path.startswith(f"{directory}/"))


def _view(path: str, lines: Sequence[int] | None, files: Mapping[str, str]) -> str:
    if path in files:
        return _numbered_file(path, lines, files[path])
    below = _below(path, files)
    if not below and path != ROOT:
        raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
    listed: dict[str, int] = {path: 0}
    for file in below:
        size = len(files[file].encode())
        listed[path] += size
        parts = file.removeprefix(f"{path}/").split("/")
        if any(part.startswith(".") or part == "node_modules" for part in parts):
            continue
        for depth in range(1, min(len(parts), 2) + 1):
            entry = "/".join([path, *parts[:depth]]) + ("/" if depth < len(parts) else "")
            listed[entry] = listed.get(entry, 0) + size
    title = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items and node_modules:"
    return "\n".join([title, *(f"{_size(size)}\t{entry}" for entry, size in listed.items())])


def _numbered_file(path: str, lines: Sequence[int] | None, text: str) -> str:
    rows = text.split("\n")
    if len(rows) > MAX_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first, last = lines if lines and len(lines) == 2 else (1, -1)
    shown = _numbered(rows, max(1, first), len(rows) if last == -1 else last)
    return f"Here's the content of {path} with line numbers:\n{shown}"


def _numbered(rows: Sequence[str], first: int, last: int) -> str:
    return "\n".join(f"{number:6}\t{row}" for number, row in enumerate(rows[first - 1 : last], start=first))


def _size(size: int) -> str:
    value, unit = float(size), "B"
    for larger in "KMG":
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}".removesuffix(".0") + unit


def _refuse_taken(path: str, message: str, files: Mapping[str, str]) -> None:
    """Raise ToolError if a path exists, or if a file stands where it needs a directory."""
    if path in files or path == ROOT or _below(path, files):
        raise ToolError(message)
    for file in files:
        if path.startswith(f"{file}/"):
            raise ToolError(f"Error: The path {file} is a file, not a directory")


def _create(path: str, text: str, files: Mapping[str, str]) -> FileChanges:
    _refuse_taken(path, f"Error: File {path} already exists", files)
    return FileChanges(f"File created successfully at: {path}", {path: text})


def _replace(path: str, command: StrReplace, files: Mapping[str, str]) -> FileChanges:
    if path not in files:
        raise ToolError(f"Error: The path {path} does not exist. Please provide a valid path.")
    text, old = files[path], command.old_str
    numbers = _line_numbers(text, old)
    if not numbers:
        raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if len(numbers) > 1:
        lines = ", ".join(map(str, numbers))
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
            "Please ensure it is unique"
        )
    new = text.replace(old, command.new_str)
    last = numbers[0] + command.new_str.count("\n") + CONTEXT_LINES
    snippet = _numbered(new.split("\n"), max(1, numbers[0] - CONTEXT_LINES), last)
    return FileChanges(f"The memory file has been edited.\n{snippet}", {path: new})


def _line_numbers(text: str, part: str) -> list[int]:
    """Return the lines in which a part of a text begins, in one pass over the text."""
    numbers: list[int] = []
    line, done = 1, 0
    start = text.find(part) if part else -1
    while start >= 0:
        line += text.count("\n", done, start)
        numbers.append(line)
        done, start = start, text.find(part, start + len(part))
    return numbers


def _insert(path: str, command: Insert, files: Mapping[str, str]) -> FileChanges:
    if path not in files:
        raise ToolError(f"Error: The path {path} does not exist")
    lines = files[path].removesuffix("\n").split("\n") if files[path] else []
    if not 0 <= command.insert_line <= len(lines):
        raise ToolError(
            f"Error: Invalid `insert_line` parameter: {command.insert_line}. It should be within the range of lines of "
            f"the file: [0, {len(lines)}]"
        )
    before = "".join(f"{line}\n" for line in lines[: command.insert_line])
    after = files[path][len(before) :]
    inserted = command.insert_text if command.insert_text.endswith("\n") or not after else f"{command.insert_text}\n"
    return FileChanges(f"The file {path} has been edited.", {path: before + inserted + after})


def _delete(path: str, files: Mapping[str, str]) -> FileChanges:
    if path == ROOT:
        raise ToolError(f"Error: The {ROOT} directory itself can't be deleted")
    removed = [path] if path in files else _below(path, files)
    if not removed:
        raise ToolError(f"Error: The path {path} does not exist")
    return FileChanges(f"Successfully deleted {path}", removed=removed)


def _rename(old: str, new: str, files: Mapping[str, str]) -> FileChanges:
    if old == ROOT or new.startswith(f"{old}/"):
        raise ToolError(f"Error: The path {old} can't be renamed to {new}")
    moved = [old] if old in files else _below(old, files)
    if not moved:
        raise ToolError(f"Error: The path {old} does not exist")
    _refuse_taken(new, f"Error: The destination {new} already exists", files)
    written = {new + path.removeprefix(old): files[path] for path in moved}
    return FileChanges(f"Successfully renamed {old} to {new}", written, removed=moved)


def _message(path: str, text: str) -> Message:
    blank = not text.strip()
    return Message(
        role="assistant",
        content=BLANK if blank else text,
        document=path,
        timestamp=datetime.now(UTC),
        metadata={TEXT: text} if blank else {},
    )


def _text(message: Message) -> str:
    text = message.metadata.get(TEXT)
    return text if isinstance(text, str) else message.content
