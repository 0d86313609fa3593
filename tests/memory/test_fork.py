"""A memory that was opened before fork() is refused at once in the child, and works in the parent."""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from vmemo import Memory
from vmemo.errors import StoreError
from vmemo_conformance.embedders import HashEmbedder

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork() on this system")


def memory_at(url: str) -> Memory:
    """Return a memory of a small embedder."""
    return Memory(url, embedder=HashEmbedder("hash", 64))


def in_child(work: Callable[[], object], notes: Path) -> str:
    """Run something in a forked child, which must end by itself; return its traceback, empty if it succeeded."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        try:
            work()
        except BaseException:
            notes.write_text(traceback.format_exc(), encoding="utf-8")
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0, "the child must not hang"
    return notes.read_text(encoding="utf-8") if notes.exists() else ""


def test_an_open_memory_is_refused_in_a_forked_child(url: str, tmp_path: Path) -> None:
    with memory_at(url) as memory:
        memory.retain_sync("Zoe lives in Oslo.")

        def use() -> None:
            with pytest.raises(StoreError, match="opened before fork"):
                memory.recall_sync("Zoe")
            with pytest.raises(StoreError, match="opened before fork"):
                asyncio.run(memory.status())
            with pytest.raises(StoreError, match="opened before fork"):
                memory.banks_sync()
            memory.close_sync()

        assert in_child(use, tmp_path / "problem") == ""
        assert memory.recall_sync("Zoe").hits


@pytest.mark.parametrize("make_memory", [memory_at, Memory], ids=["small", "packaged"])
def test_a_memory_that_is_not_open_works_in_a_forked_child(
    make_memory: Callable[[str], Memory], sqlite_url: str, tmp_path: Path
) -> None:
    memory = make_memory(sqlite_url)
    memory.retain_sync("Zoe lives in Oslo.")
    memory.close_sync()

    def use() -> None:
        memory.retain_sync("Max lives in Rome.")
        memory.close_sync()

    assert in_child(use, tmp_path / "problem") == ""
    assert memory.status_sync().messages == 2
    memory.close_sync()
