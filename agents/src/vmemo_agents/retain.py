"""The messages that are retained of a session: the words of both sides without code, and commands with their outcomes.

Each message has the repository, branch, commit and files that it was said about as `metadata`, and a tag such as
`file:src/app.py` for each of these files. Ids of messages are those of the transcript, so that reading it again while
it grows, or by several processes, adds nothing twice.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from vmemo import Memory, Retained
from vmemo_agents.repository import CommitTimes, Repository
from vmemo_agents.transcripts import AgentCall, AgentName, Line, Transcript, read_transcripts

PAGE = 200
"""Messages that are retained together; what was retained stays if the process ends."""
MAX_TEXT = 6_000
"""Characters of a message that are kept."""
MAX_COMMAND, MAX_REASON = 200, 200
"""Characters of a command, and of the reason for which it failed."""
MAX_FILES = 8
"""Files that a message is anchored to."""
FEW_FILES = 3
"""Files changed in a turn, up to which what was said in it without naming a file is about them."""
SHORT_CODE = 2
"""Lines of a code block that is kept, such as a command to run."""
_IDS = UUID("2d8f7a52-6a0e-5c3b-9f0d-7c1e4b6a9d10")
"""The namespace of the ids of messages."""
MEMORY_TAG = "vmemo-memory"
"""The element around recalled text, which is not retained again."""
_INSERTED = (
    f"{MEMORY_TAG} system-reminder hook_context environment_context user_instructions permissions INSTRUCTIONS "
    "timestamp local-command-stdout local-command-caveat command-message command-name command-args bash-input "
    "bash-stdout bash-stderr task-notification attached_files open_and_recently_viewed_files"
).split()
"""Elements in messages of the user that the agent wrote."""
_USER = ("<user_query>", "</user_query>")
"""Marks around what the user wrote, of Cursor."""
_STARTS = ("# AGENTS.md instructions", "Caveat: The messages below", "[Request interrupted")
_READS = frozenset(
    "ls cat head tail grep rg find sed awk wc echo pwd cd which file tree stat diff less more sort uniq cut tr jq "
    "xargs printf true test [ env export source set sleep nl tee bat fd type date whoami".split()
)
_GIT_READS = frozenset("status log diff show branch blame rev-parse ls-files remote config stash fetch".split())
_SEGMENTS = re.compile(r"&&|\|\||[;\n]")
_REDIRECTED = re.compile(r"\s*(?:[12&]?>{1,2}\s*\S+|2>&1)")
_FILE = re.compile(r"(?<![\w/.@-])(?:\.{0,2}/)?(?:[\w.@-]+/)*[\w.@-]*\w\.[A-Za-z]\w{0,9}(?![\w/])")
_CODE_LINE = re.compile(r"(?:\s{4}(?![-*\d])|\t|\+|@@|diff --git|Traceback|\s*(?:at|File) )|.*[{}();,\\]\s*$")
_ERROR = re.compile(
    r"\b(?:\w*error|\w*exception|failed|fatal|cannot|can't|not found|no such|denied|refused)\b", re.IGNORECASE
)
_PERSONAL = re.compile(
    r"\bI\b|(?i:\b(?:me|my|answers?|repl(?:y|ies)|respon(?:d|ses?)|explain|explanations?|summar(?:y|ies|ize)|emojis?|tone"
    r"|in (?:English|German|French|Spanish|Italian|Portuguese|Dutch|Polish|Russian|Chinese|Japanese|Korean))\b)"
)
"""Words about the person, or about what the agent says to him."""
_OF_PROJECT = re.compile(
    r"[`/\\<>{}=#@]|\w_\w|\w\.\w|[a-z][A-Z]|\w\(|(?i:\b(?:we|our|us|this|these|here|repo\w*|project\w*|codebase|branch\w*"
    r"|modules?|services?|files?|folders?|tests?|class|function|API|table|column|release|deploy\w*|build|commits?|PRs?)\b)"
)
"""Signs of code, paths and files, and words for parts of a project."""


@dataclass(frozen=True)
class Anchor:
    """The place in a repository that messages of a session were said at."""

    repository: Repository
    transcript: Transcript
    commits: Callable[[str | None], CommitTimes]

    def metadata(self, line: Line, files: Sequence[str]) -> dict[str, Any]:
        """Return the metadata of a message about these files."""
        ended = self.transcript.lines[-1].time.timestamp()
        found = {
            "repository": self.repository.name,
            "agent": self.transcript.agent,
            "session": self.transcript.session,
            "branch": line.branch,
            "commit": self.commits(line.branch).at(line.time) or self.transcript.commit,
            "files": {path: self.repository.digest(path, ended) for path in files},
        }
        return {name: value for name, value in found.items() if value}


def messages_of(
    transcript: Transcript, *, folder: Path | None = None, known: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the messages to retain, in order; those whose ids are known are left out.

    `folder` is that of the project, by default the one that the transcript names.
    """
    repository = Repository.of(folder or transcript.folder or Path.cwd())
    branches: dict[str | None, CommitTimes] = {}

    def commits(branch: str | None) -> CommitTimes:
        return branches[branch] if branch in branches else branches.setdefault(branch, repository.commits(branch))

    anchor = Anchor(repository, transcript, commits)
    made: list[dict[str, Any]] = []
    seen: set[str] = set(known)
    for turn in _turns(transcript.lines):
        edited = _inside(repository, [path for line in turn for call in line.calls for path in call.files])
        for line in turn:
            made += _said(anchor, line, edited, seen)
            made += (message for call in line.calls for message in _ran(anchor, line.time, call, seen))
    return made


def _turns(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield the lines from a message of the user up to the next one."""
    turn: list[Line] = []
    for line in lines:
        if line.role == "user" and line.text.strip() and turn:
            yield turn
            turn = []
        turn.append(line)
    if turn:
        yield turn


def _inside(repository: Repository, paths: Sequence[str]) -> list[str]:
    inside = (repository.relative(path) for path in paths)
    return list(dict.fromkeys(path for path in inside if path is not None))


def _said(anchor: Anchor, line: Line, edited: Sequence[str], seen: set[str]) -> Iterator[dict[str, Any]]:
    id = message_id(anchor.transcript, line.id)
    text = prose(line.text) if id not in seen else ""
    if not text:
        return
    seen.add(id)
    named = _named_files(anchor.repository, text, edited)
    about = named or (list(edited) if len(edited) <= FEW_FILES else [])
    yield {
        **_common(anchor, id, line.time),
        "role": line.role,
        "content": text,
        "metadata": anchor.metadata(line, about[:MAX_FILES]),
        "tags": [f"file:{path}" for path in about[:MAX_FILES]],
    }


def _common(anchor: Anchor, id: str, time: datetime) -> dict[str, Any]:
    transcript = anchor.transcript
    # The bank knows a message since it was said, so that `known_at` works for imported sessions.
    times = {"timestamp": time, "recorded_at": time}
    return {"id": id, "document": f"{transcript.agent}/{transcript.session}", **times}


def _named_files(repository: Repository, text: str, edited: Sequence[str]) -> list[str]:
    """Return the files that a text names: those that exist, and changed ones by their last part."""
    found: list[str] = []
    for name in dict.fromkeys(match[0] for match in _FILE.finditer(text[:MAX_TEXT])):
        path = repository.relative(name.removeprefix("./"))
        ending = [each for each in edited if each == path or each.endswith(f"/{name}")]
        found += ending or ([path] if path is not None and (repository.root / path).is_file() else [])
    return list(dict.fromkeys(found))


def _ran(anchor: Anchor, time: datetime, call: AgentCall, seen: set[str]) -> Iterator[dict[str, Any]]:
    """Yield a command with its outcome, once in a session.

    Its metadata name the repository alone: facts with the same words and metadata become one with several sources.
    """
    command = shown_command(call.command)
    if not command:
        return
    reason = _reason(call.output)
    outcome = f"failed: {reason}" if call.failed and reason else "failed." if call.failed else "worked."
    content = f"Ran `{command}`: {outcome}"
    id = message_id(anchor.transcript, sha256(content.encode()).hexdigest()[:16])
    if id not in seen:
        seen.add(id)
        about = {"repository": anchor.repository.name}
        yield {**_common(anchor, id, time), "role": "tool", "content": content, "metadata": about}


def message_id(transcript: Transcript, line: str) -> str:
    """Return the id of a line, which is the same whenever and by whomever the transcript is read."""
    return str(uuid5(_IDS, f"{transcript.agent}/{transcript.session}/{line}"))


def shown_command(command: str) -> str:
    """Return the part of a command that does something; empty if it only reads, or is a script."""
    kept: list[str] = []
    for segment in _SEGMENTS.split(command[: 10 * MAX_COMMAND].partition("<<")[0]):
        # Of a pipeline the first command does the work, and the others shorten its output.
        first = _REDIRECTED.sub("", segment.partition("|")[0]).strip()
        words = [word for word in first.split() if "=" not in word or word.startswith("-")]
        program = words[0].rpartition("/")[2] if words else ""
        reads = program in _READS or (program == "git" and words[1:] and words[1] in _GIT_READS)
        if program and not reads and not program.startswith(("#", "(", "{", "'", '"', "<", "\\")):
            kept.append(" ".join(first.split()))
    shown = " && ".join(dict.fromkeys(kept))
    return shown if len(shown) <= MAX_COMMAND else f"{shown[:MAX_COMMAND].rstrip()}…"


def _reason(output: str) -> str:
    """Return the last line of an output that states an error, or else the last line."""
    lines = [" ".join(line.split()) for line in output[-20_000:].splitlines() if line.strip()]
    stated = [line for line in lines if _ERROR.search(line[:1000])] or lines
    return stated[-1][:MAX_REASON] if stated else ""


def prose(text: str) -> str:
    """Return the words of a message without code, pasted output and what the agent inserted."""
    for tag in _INSERTED:
        text = _without_element(text, tag)
    for mark in _USER:
        text = text.replace(mark, "")
    if text.lstrip().startswith(_STARTS):
        return ""
    blocks = text.split("```")
    kept = (block if number % 2 == 0 else _short_code(block) for number, block in enumerate(blocks))
    paragraphs = (paragraph.strip("\n") for paragraph in "".join(kept).split("\n\n"))
    said = "\n\n".join(paragraph for paragraph in paragraphs if paragraph.strip() and not _is_code(paragraph))
    return said.strip() if len(said) <= MAX_TEXT else f"{said[:MAX_TEXT].rpartition(' ')[0].strip()} […]"


def _without_element(text: str, tag: str) -> str:
    """Return a text without the elements of a tag, in linear time; one that is not closed is kept."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    if opening not in text:
        return text
    first, *rest = text.split(opening)
    return first + "".join(
        after if closed else before for before, closed, after in (each.partition(closing) for each in rest)
    )


def _short_code(block: str) -> str:
    """Return a block of a line or two, such as a command, without its language; nothing of a longer one."""
    _, _, code = block.partition("\n")
    lines = code.strip().splitlines()
    return f"`{'; '.join(line.strip() for line in lines)}`" if 0 < len(lines) <= SHORT_CODE else ""


def _is_code(paragraph: str) -> bool:
    """Return True for three lines or more of which most look like code or the output of a program."""
    lines = paragraph.splitlines()
    return len(lines) > SHORT_CODE and sum(_CODE_LINE.match(line[:400]) is not None for line in lines) * 2 > len(lines)


async def retain_messages(memory: Memory, messages: Sequence[dict[str, Any]]) -> Retained:
    """Retain messages in pages; those that are stored already are skipped."""
    pages = [messages[start : start + PAGE] for start in range(0, len(messages), PAGE)]
    return Retained.combined([await memory.retain(page) for page in pages])


async def retain_personal(memory: Memory, me: Memory, retained: Retained) -> None:
    """Also retain in the bank of the person the new standing instructions that hold in every project."""
    new, last = set(retained.derived), None
    while new:
        page = await memory.facts(after=last, limit=PAGE, instructions=True)
        wishes = [fact for fact in page if fact.id in new and is_personal(fact.text.partition(": ")[2])]
        if wishes:
            await me.retain(
                [
                    {"id": str(uuid5(_IDS, f"me/{fact.id}")), "role": "user", "content": fact.text.partition(": ")[2]}
                    | {"timestamp": fact.mentioned_at, "recorded_at": fact.recorded_at, "document": "wishes"}
                    for fact in wishes
                ]
            )
        if len(page) < PAGE:
            return
        last = page[-1].id


def is_personal(instruction: str) -> bool:
    """Return True for an instruction about how to deal with the person, which names nothing of a project."""
    return _PERSONAL.search(instruction) is not None and _OF_PROJECT.search(instruction) is None


async def import_transcripts(agent: AgentName, memory: Memory, path: Path) -> Retained:
    """Retain the sessions of a file or folder, the earliest first; what is stored already is skipped."""
    transcripts = await asyncio.to_thread(read_transcripts, agent, path)
    retained = [
        await retain_messages(memory, await asyncio.to_thread(messages_of, transcript)) for transcript in transcripts
    ]
    return Retained.combined(retained)


import_claude_code = partial(import_transcripts, "claude-code")
import_codex = partial(import_transcripts, "codex")
import_cursor = partial(import_transcripts, "cursor")
import_gemini_cli = partial(import_transcripts, "gemini-cli")
import_opencode = partial(import_transcripts, "opencode")
