"""Shared by the LLM tests: messages, and memories whose model is a scripted server."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from vmemo import Memory, Message, Settings
from vmemo.models import Role
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import Script
from vmemo_conformance.llm_server import ScriptedServer

NOON = datetime(2024, 1, 8, 12, 0, tzinfo=UTC)
"""A Monday."""


def said(
    content: str, at: datetime = NOON, *, speaker: str | None = "Alice", role: Role = "user", **more: Any
) -> Message:
    """Return a message that is recorded at its own time."""
    return Message(content=content, timestamp=at, recorded_at=at, speaker=speaker, role=role, **more)


def days(number: float) -> datetime:
    """Return the time some days after NOON."""
    return NOON + timedelta(days=number)


def fast_settings(**more: Any) -> Settings:
    """Return settings without retries and delays."""
    values: dict[str, Any] = {"attempts": 1, "llm_timeout": 240.0, "observe_delay": 3600.0, "background": False}
    return Settings(**{**values, **more})


@contextmanager
def scripted_memory(url: str, script: Script, **settings: Any) -> Generator[tuple[Memory, ScriptedServer]]:
    """Yield a memory and the scripted server that is its model, over real HTTP."""
    with ScriptedServer(script) as server, open_memory(url, server, **settings) as memory:
        yield memory, server


def open_memory(
    url: str, server: ScriptedServer, bank: str = "default", reranker: str | None = None, **settings: Any
) -> Memory:
    """Return a memory whose model is the server."""
    return Memory(
        url,
        bank,
        llm=f"{server.url}#scripted",
        embedder=HashEmbedder(),
        reranker=reranker,
        settings=fast_settings(**settings),
    )


def on_disk(url: str) -> bytes:
    """Return the bytes of an SQLite file; empty for a database server."""
    return Path(url.removeprefix("sqlite:///")).read_bytes() if url.startswith("sqlite") else b""
