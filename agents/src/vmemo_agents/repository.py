"""The repository that something was said about: its name, its commits, and the state of its files."""

from __future__ import annotations

import re
import subprocess
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from hashlib import sha1, sha256
from pathlib import Path

from vmemo import Fact, InvalidInput

GIT_SECONDS = 10
"""Seconds after which a call of git is given up."""
MAX_COMMITS = 20_000
"""Newest commits of a branch in which the one of a message is searched."""
MAX_FILE = 4 << 20
"""Bytes of the largest file whose changes are noticed."""
SETTLED = 3600.0
"""Seconds after a session in which its changes are committed, if they are."""
_REMOTE = re.compile(
    r"^(?:[a-z+]+://)?(?:[^@/]+@)?(?P<host>[^:/]+)(?::\d+(?=/))?[:/]+(?P<path>.+?)(?:\.git)?/?$", re.IGNORECASE
)


def git(folder: Path, *arguments: str) -> str | None:
    """Return what a git command prints; None if it fails, or if there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


@dataclass(frozen=True)
class Repository:
    """A folder under version control, or any other; `name` is also the name of its bank."""

    root: Path
    name: str
    is_git: bool = True

    @staticmethod
    @lru_cache(maxsize=256)
    def of(folder: Path) -> Repository:
        """Return the repository that a folder is in. Clones and worktrees of one remote have the same name."""
        printed = git(folder, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
        if printed is None:
            return Repository(folder, _named_after(folder), is_git=False)
        root, common = printed.splitlines()[:2]
        remote = (git(folder, "config", "--get", "remote.origin.url") or "").strip()
        match = _REMOTE.match(remote)
        if match is None or Path(remote).is_absolute():
            return Repository(Path(root), _named_after(Path(common).parent))
        return Repository(Path(root), f"{match['host'].lower()}/{match['path'].lstrip('/')}")

    def relative(self, path: str) -> str | None:
        """Return a path relative to the root with forward slashes; None if it is outside."""
        try:
            inside = Path(path).relative_to(self.root) if Path(path).is_absolute() else Path(path)
        except ValueError:
            return None
        return None if ".." in inside.parts or not inside.parts else inside.as_posix()

    def commits(self, branch: str | None) -> CommitTimes:
        """Return the commits of a branch, or of the present one if it does not exist any more."""
        form = (f"-n{MAX_COMMITS}", "--format=%ct %H")
        printed = git(self.root, "log", *form, branch, "--") if branch and not branch.startswith("-") else None
        return CommitTimes.parse(printed or git(self.root, "log", *form) or "") if self.is_git else CommitTimes((), ())

    def digest(self, path: str, at: float) -> str:
        """Return a digest of a file as it was after a session that ended then; empty if that is not known."""
        if not self.is_git or time.time() - at < SETTLED:
            return digest_of(self.root / path)
        before = f"--before={int(at + SETTLED)}"
        commit = (git(self.root, "rev-list", "-1", before, "HEAD", "--", path) or "").strip()
        content = git(self.root, "cat-file", "blob", f"{commit}:{path}") if commit else None
        return "" if content is None else sha256(content.encode("utf-8", "replace")).hexdigest()[:12]

    def changed(self, files: Mapping[str, str]) -> tuple[str, ...]:
        """Return the files that are not any more as they were when their digests were made."""
        return tuple(path for path, digest in files.items() if digest and digest_of(self.root / path) != digest)

    def commit(self, name: str) -> KnownCommit:
        """Return the commit of a name such as HEAD~3, a branch or a hash; raise InvalidInput if there is none."""
        printed = (
            None if name.startswith("-") else git(self.root, "show", "-s", "--format=%ct %H", f"{name}^{{commit}}")
        )
        if not printed:
            raise InvalidInput(f"There is no commit {name!r} in {self.root}; give a hash, a tag or a branch.")
        seconds, hash = printed.split()
        return KnownCommit(self.root, hash, datetime.fromtimestamp(int(seconds)).astimezone())


@dataclass(frozen=True)
class KnownCommit:
    root: Path
    hash: str
    time: datetime

    @cached_property
    def ancestors(self) -> frozenset[str]:
        """The commit itself and all before it."""
        return frozenset((git(self.root, "rev-list", self.hash) or "").split())


@dataclass(frozen=True)
class CommitTimes:
    """Commits of a branch by time, oldest first."""

    times: Sequence[int]
    hashes: Sequence[str]

    @staticmethod
    def parse(printed: str) -> CommitTimes:
        pairs = sorted((int(line.split()[0]), line.split()[1]) for line in printed.splitlines() if line.strip())
        return CommitTimes([seconds for seconds, _ in pairs], [hash for _, hash in pairs])

    def at(self, time: datetime) -> str | None:
        """Return the last commit up to a time."""
        number = bisect_right(self.times, time.timestamp())
        return self.hashes[number - 1] if number else None


def _named_after(folder: Path) -> str:
    return f"{folder.name or 'root'}-{sha1(str(folder).encode(), usedforsecurity=False).hexdigest()[:8]}"


def digest_of(path: Path) -> str:
    """Return a digest of a file's text; empty if it can't be read or is too large."""
    try:
        if path.stat().st_size > MAX_FILE:
            return ""
        return sha256(path.read_bytes().decode("utf-8", "replace").encode()).hexdigest()[:12]
    except OSError:
        return ""


def files_of(fact: Fact) -> dict[str, str]:
    """Return the files that a fact was said about, with their digests at that time."""
    files = fact.metadata.get("files")
    return {path: str(digest) for path, digest in files.items()} if isinstance(files, dict) else {}


def change_notes(repository: Repository, facts: Iterable[Fact]) -> dict[str, str]:
    """Return notes such as "said before src/app.py changed" by the short ids of facts whose files changed.

    A standing instruction does not depend on the files that were open when it was given.
    """
    told = {fact.short_id: repository.changed(files_of(fact)) for fact in facts if not fact.instruction}
    return {id: f"said before {', '.join(files)} changed" for id, files in told.items() if files}


def with_notes(text: str, notes: Mapping[str, str]) -> str:
    """Return a prompt of vmemo with a note after the ids of these facts."""
    for id, note in notes.items():
        text = text.replace(f"- [{id}] ", f"- [{id}] ({note}) ")
    return text
