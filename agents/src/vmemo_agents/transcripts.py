"""Transcripts of coding agents: what was said, and the calls of tools as data.

- Claude Code: ~/.claude/projects/PROJECT/SESSION.jsonl, a line for each message or result of a tool.
- Codex: ~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl, lines of `session_meta`, `turn_context` and `response_item`.
- Cursor: ~/.cursor/projects/PROJECT/agent-transcripts/SESSION.jsonl, lines without times.
- Gemini CLI: ~/.gemini/tmp/PROJECT/chats/session-*.json or .jsonl.
- OpenCode: the JSON of `opencode export SESSION`, which its plugin also passes to the hook.

Lines that are not known are skipped: agents add kinds of lines with every release, and may be writing the last one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from vmemo import InvalidInput

AgentName = Literal["claude-code", "codex", "cursor", "gemini-cli", "opencode"]
Json = Mapping[str, Any]
SHELLS = frozenset(
    "bash shell exec_command local_shell container.exec run_shell_command run_terminal_cmd run_terminal_command".split()
)
"""Names of tools that run a command."""
EDITORS = frozenset(
    "edit multiedit write notebookedit apply_patch replace write_file edit_file search_replace patch".split()
)
"""Names of tools that change files."""
_PATHS = ("file_path", "filePath", "path", "notebook_path", "target_file", "absolute_path")
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_EXIT_CODE = re.compile(r"\b(?:exit code:?|exited with code|exit status) (\d{1,3})\b", re.IGNORECASE)


@dataclass(frozen=True)
class AgentCall:
    """A call of a tool: a command with its outcome, or the files that it changed."""

    command: str = ""
    failed: bool = False
    output: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """A message of a session and the calls of tools in it."""

    id: str
    role: Literal["user", "assistant"]
    text: str
    time: datetime
    calls: tuple[AgentCall, ...] = ()
    branch: str | None = None


@dataclass(frozen=True)
class Transcript:
    """A session: its lines in order, and the folder that the agent worked in."""

    agent: AgentName
    session: str
    lines: Sequence[Line]
    folder: Path | None = None
    commit: str | None = None
    """The commit at the start of the session, if the agent wrote it down."""


def read_transcripts(agent: AgentName, path: Path) -> list[Transcript]:
    """Return the sessions of a file, or of all transcripts below a folder, the earliest first.

    Raises InvalidInput for a file without a message of the agent's form.
    """
    if not path.is_dir():
        found = read_transcript(agent, path)
        if not found.lines:
            raise InvalidInput(f"{path} holds no message of a {agent} session. Nothing was imported.")
        return [found]
    below = sorted(each for suffix in (".json", ".jsonl") for each in path.rglob(f"*{suffix}") if each.is_file())
    every = [found for each in below if not _is_of_subagent(each) and (found := _read_or_none(agent, each)).lines]
    if not every:
        raise InvalidInput(f"{path} holds no transcript of {agent}. Nothing was imported.")
    return sorted(every, key=lambda transcript: transcript.lines[0].time)


def _is_of_subagent(path: Path) -> bool:
    return "subagents" in path.parts or path.name.startswith("agent-")


def _read_or_none(agent: AgentName, path: Path) -> Transcript:
    """Return a transcript; one without lines for a file of another kind, as folders of agents have."""
    try:
        return read_transcript(agent, path)
    except InvalidInput:
        return Transcript(agent, path.stem, ())


def read_transcript(agent: AgentName, path: Path) -> Transcript:
    """Return the session of a file."""
    try:
        text = path.read_text("utf-8", "replace")
        changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror}. Nothing was imported.") from error
    records = _records(text)
    if agent == "cursor":
        return _cursor(records, path.stem, changed)
    return _READERS[agent](records, path.stem)


def read_messages(agent: AgentName, session: str, messages: Sequence[object]) -> Transcript:
    """Return the session of messages that a hook was given, in place of a file."""
    return _READERS[agent]([{"info": {"id": session}, "messages": messages}], session)


def _records(text: str) -> list[Json]:
    """Return the objects of a JSON text or of JSON Lines; a line that is not complete is left out."""
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if isinstance(whole, dict):
        return [cast("Json", whole)]
    return [record for line in text.splitlines() if (record := _object(line))]


def _object(line: str) -> Json:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return cast("Json", value) if isinstance(value, dict) else {}


def _dict(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Json]:
    return (
        [cast("Json", each) for each in cast("list[object]", value) if isinstance(each, dict)]
        if isinstance(value, list)
        else []
    )


def _text(value: object) -> str:
    """Return the text of content: a text, or parts whose texts are joined."""
    if isinstance(value, str):
        return value
    texts = (part.get("text") for part in _dicts(value))
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


def _time(value: object) -> datetime | None:
    """Return a time in ISO 8601 or in milliseconds since 1970."""
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value / 1000, UTC)
        read = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


@dataclass
class _Builder:
    """The lines so far; calls are added to the line of the agent before them."""

    lines: list[Line] = field(default_factory=list[Line])
    last: datetime = datetime(1970, 1, 1, tzinfo=UTC)

    def add(self, id: str, role: str, text: str, time: datetime | None, **more: Any) -> None:
        """Add a line; one without a time has that of the line before."""
        self.last = time or self.last
        said = "user" if role == "user" else "assistant"
        self.lines.append(Line(id=id, role=said, text=text, time=self.last, **more))

    def call(self, call: AgentCall, id: str, time: datetime | None) -> None:
        """Add a call to the last line of the agent, or to one without a text."""
        if not self.lines or self.lines[-1].role != "assistant":
            self.add(id, "assistant", "", time)
        self.lines[-1] = replace(self.lines[-1], calls=(*self.lines[-1].calls, call))


def tool_call(name: str, arguments: object, output: str = "", *, failed: bool | None = None) -> AgentCall | None:
    """Return what is known of a call; None for a tool that neither runs a command nor changes a file.

    Whether a command failed is read from its output if the agent did not state it.
    """
    given, tool = _dict(arguments), name.lower().rpartition("__")[2]
    if tool in EDITORS or (isinstance(arguments, str) and "*** Begin Patch" in arguments):
        patch = arguments if isinstance(arguments, str) else _text(given.get("input") or given.get("patch"))
        named = [given[key] for key in _PATHS if isinstance(given.get(key), str)]
        return AgentCall(files=tuple(dict.fromkeys([*named, *_PATCHED.findall(patch)])))
    if tool not in SHELLS:
        return None
    command = given.get("command") or given.get("cmd")
    if isinstance(command, list):
        # Codex passes the words of `bash -lc COMMAND`.
        command = str(cast("list[object]", command)[-1]) if command else ""
    code = _EXIT_CODE.search(output[:2000])
    lost = failed if failed is not None else code is not None and code[1] != "0"
    return AgentCall(command=str(command or ""), failed=lost, output=output)


def _claude_code(records: Sequence[Json], name: str) -> Transcript:
    results = {
        str(part.get("tool_use_id")): part
        for record in records
        for part in _dicts(_dict(record.get("message")).get("content"))
        if part.get("type") == "tool_result"
    }
    built, session, folder = _Builder(), name, None
    for record in records:
        if record.get("type") not in ("user", "assistant") or record.get("isSidechain"):
            continue
        session, folder = str(record.get("sessionId") or session), folder or record.get("cwd")
        message = _dict(record.get("message"))
        calls = tuple(_claude_calls(message, results))
        text = "" if record.get("isMeta") or record.get("isCompactSummary") else _text(message.get("content"))
        if text.strip() or calls:
            id, branch = str(record.get("uuid") or len(built.lines)), record.get("gitBranch") or None
            built.add(id, str(record["type"]), text, _time(record.get("timestamp")), calls=calls, branch=branch)
    return Transcript("claude-code", session, built.lines, Path(folder) if folder else None)


def _claude_calls(message: Json, results: Mapping[str, Json]) -> Iterator[AgentCall]:
    for part in _dicts(message.get("content")):
        if part.get("type") == "tool_use":
            result = results.get(str(part.get("id")), {})
            failed = bool(result.get("is_error"))
            call = tool_call(str(part.get("name")), part.get("input"), _text(result.get("content")), failed=failed)
            # A call without a result was interrupted, or is not finished.
            if call is not None and (call.files or result):
                yield call


def _codex(records: Sequence[Json], name: str) -> Transcript:
    items = [(record, _dict(record.get("payload"))) for record in records]
    outputs = {
        str(item.get("call_id")): item.get("output")
        for _, item in items
        if str(item.get("type")).endswith("call_output")
    }
    built, session, folder, commit, branch = _Builder(), name, None, None, None
    for number, (record, item) in enumerate(items):
        if record.get("type") == "session_meta":
            state = _dict(item.get("git"))
            session, folder = str(item.get("id") or session), item.get("cwd") or folder
            commit, branch = state.get("commit_hash"), state.get("branch")
        elif record.get("type") == "turn_context":
            folder = folder or item.get("cwd")
        elif record.get("type") == "response_item":
            time, kind = _time(record.get("timestamp")), str(item.get("type"))
            if kind == "message" and item.get("role") in ("user", "assistant"):
                text = _text(item.get("content"))
                if text.strip():
                    built.add(str(number), str(item["role"]), text, time, branch=branch)
            elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
                call = _codex_call(item, outputs)
                if call is not None:
                    built.call(call, str(number), time)
    return Transcript("codex", session, built.lines, Path(folder) if folder else None, commit)


def _codex_call(item: Json, outputs: Mapping[str, object]) -> AgentCall | None:
    if item.get("type") == "local_shell_call":
        return tool_call("local_shell", item.get("action"), "", failed=item.get("status") == "incomplete")
    given = item.get("arguments") if item.get("type") == "function_call" else item.get("input")
    arguments = (_object(given) or given) if isinstance(given, str) else given
    output = outputs.get(str(item.get("call_id")))
    if output is None:
        return None
    # Older releases write JSON with the exit code, newer ones lines of text before the output.
    written = _object(output) if isinstance(output, str) else _dict(output)
    code = _dict(written.get("metadata")).get("exit_code")
    text = _text(written.get("output") or written.get("content") or output)
    return tool_call(str(item.get("name")), arguments, text, failed=None if code is None else code != 0)


def _cursor(records: Sequence[Json], session: str, changed: datetime) -> Transcript:
    """Return a session of Cursor, whose lines have no times: all have that of the file's last change."""
    built = _Builder(last=changed)
    for number, record in enumerate(records):
        message = _dict(record.get("message"))
        role = str(record.get("role") or message.get("role"))
        if role not in ("user", "assistant"):
            continue
        content = message.get("content", record.get("content"))
        used = [part for part in _dicts(content) if part.get("type") == "tool_use"]
        # Results are not in the file, or redacted, so that the outcome of a command is not known.
        made = [tool_call(str(part.get("name")), part.get("input")) for part in used]
        calls = tuple(AgentCall(files=call.files) for call in made if call is not None and call.files)
        text = _text(content)
        if text.strip() or calls:
            built.add(str(number), role, text, None, calls=calls)
    return Transcript("cursor", session, built.lines)


def _gemini_cli(records: Sequence[Json], name: str) -> Transcript:
    """Return a session of Gemini CLI: one object with messages, or a line for each and for changes of the session."""
    messages: dict[str, Json] = {}
    session, folder = name, None
    for record in records:
        session = str(record.get("sessionId") or session)
        folder = next(iter(record.get("directories") or ()), folder)
        for message in _dicts(record.get("messages")) or [record]:
            if isinstance(message.get("id"), str) and message.get("type") in ("user", "gemini"):
                messages[message["id"]] = message
        if (back := record.get("$rewindTo")) in messages:
            ids = list(messages)
            messages = {id: messages[id] for id in ids[: ids.index(back)]}
    built = _Builder()
    for id, message in messages.items():
        made = (
            tool_call(
                str(call.get("name")),
                call.get("args"),
                _text(call.get("resultDisplay")),
                failed=call.get("status") == "error" or None,
            )
            for call in _dicts(message.get("toolCalls"))
        )
        calls = tuple(call for call in made if call is not None)
        text = _text(message.get("displayContent") or message.get("content"))
        if text.strip() or calls:
            built.add(id, str(message["type"]), text, _time(message.get("timestamp")), calls=calls)
    return Transcript("gemini-cli", session, built.lines, Path(folder) if folder else None)


def _opencode(records: Sequence[Json], name: str) -> Transcript:
    built, session, folder = _Builder(), name, None
    for record in records:
        info = _dict(record.get("info"))
        session, folder = str(info.get("id") or session), info.get("directory") or folder
        for message in _dicts(record.get("messages")):
            # OpenCode 2 has no object `info`: a message is of a type, and has a text or its content.
            about = _dict(message.get("info")) or {**message, "role": message.get("type")}
            if about.get("role") not in ("user", "assistant"):
                continue
            parts = _dicts(message.get("parts") or message.get("content"))
            said = [part for part in parts if part.get("type") == "text" and not part.get("synthetic")]
            calls = tuple(_opencode_calls(parts))
            folder = folder or _dict(about.get("path")).get("cwd")
            # A summary repeats what was said before it.
            text = "" if about.get("summary") is True else _text(said) or _text(message.get("text"))
            if text.strip() or calls:
                time = _time(_dict(about.get("time")).get("created"))
                built.add(str(about.get("id")), str(about.get("role")), text, time, calls=calls)
    return Transcript("opencode", session, built.lines, Path(folder) if folder else None)


def _opencode_calls(parts: Sequence[Json]) -> Iterator[AgentCall]:
    for part in parts:
        state = _dict(part.get("state"))
        if part.get("type") == "tool" and state.get("status") in ("completed", "error"):
            code = _dict(state.get("metadata")).get("exit")
            failed = state["status"] == "error" or (isinstance(code, int) and code != 0)
            given = state.get("output") or state.get("content")
            output = _text(state.get("error") or given if state["status"] == "error" else given)
            call = tool_call(str(part.get("tool") or part.get("name")), state.get("input"), output, failed=failed)
            if call is not None:
                yield call


_READERS: Mapping[AgentName, Callable[[Sequence[Json], str], Transcript]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "gemini-cli": _gemini_cli,
    "opencode": _opencode,
}
