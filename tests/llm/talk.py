"""What the tests of the reading model share: a memory over a scripted server, and lines to say."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from vmemo import Memory, Message, Settings
from vmemo.models import Role
from vmemo.testing import HashEmbedder, ScriptedServer
from vmemo.testing.llm import Script

NOON = datetime(2024, 1, 8, 12, 0, tzinfo=UTC)
"""A Monday."""


def said(
    content: str, at: datetime = NOON, *, speaker: str | None = "Alice", role: Role = "user", **more: Any
) -> Message:
    """A line; it is recorded when it is said."""
    return Message(content=content, timestamp=at, recorded_at=at, speaker=speaker, role=role, **more)


def days(number: float) -> datetime:
    """So many days after noon."""
    return NOON + timedelta(days=number)


def quick(**more: Any) -> Settings:
    """Settings under which nothing waits."""
    return replace(Settings(llm_attempts=1, llm_timeout=20.0, observe_delay=3600.0, background=False), **more)


@contextmanager
def talking(url: str, script: Script, **settings: Any) -> Generator[tuple[Memory, ScriptedServer]]:
    """A memory whose model is a scripted server, over real HTTP."""
    with ScriptedServer(script) as server, open_memory(url, server, **settings) as memory:
        yield memory, server


def open_memory(url: str, server: ScriptedServer, bank: str = "default", **settings: Any) -> Memory:
    """A memory whose model is the server."""
    return Memory(
        url,
        bank,
        llm=f"{server.url}#scripted",
        embedder=HashEmbedder(),
        settings=quick(**settings),
    )


def on_disk(url: str) -> bytes:
    """The bytes of a database's file; a server's files are its own."""
    return Path(url.removeprefix("sqlite:///")).read_bytes() if url.startswith("sqlite") else b""
