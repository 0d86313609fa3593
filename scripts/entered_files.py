"""Count the files and functions of vmemo that one warm call enters: `python scripts/entered_files.py [--files]`.

Retains and recalls on a small bank in memory, once to warm up and once counted, in all threads.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import vmemo
from vmemo import Memory

ROOT = str(Path(vmemo.__file__).parent)
SAID = (
    "I'm a data analyst at Brightwater Energy.",
    "My sister Ana lives in Porto.",
    "I climb on Thursdays with Omar.",
    "We booked the ferry to Naxos for 4 July.",
)
CALLS: dict[str, tuple[Callable[[Memory], object], Callable[[Memory], object]]] = {
    "retain": (
        lambda memory: memory.retain_sync("I sold my old bike yesterday.", speaker="Maya"),
        lambda memory: memory.retain_sync("I moved to Lisbon last week.", speaker="Maya"),
    ),
    "recall": (
        lambda memory: memory.recall_sync("Where does Ana live?"),
        lambda memory: memory.recall_sync("Where does Maya work?"),
    ),
}
"""By name: a call that warms up, and the one that is counted."""


def main() -> None:
    """Print the numbers of files and functions of a retain and a recall, and the files."""
    entered: set[CodeType] | None = None

    def note(frame: FrameType, event: str, argument: object) -> None:
        if entered is not None and event == "call" and frame.f_code.co_filename.startswith(ROOT):
            entered.add(frame.f_code)

    # Threads of the library are started later, and are profiled from their start.
    threading.setprofile(note)
    sys.setprofile(note)
    for name, (warm, counted) in CALLS.items():
        with Memory(":memory:") as memory:
            memory.retain_sync([{"role": "user", "name": "Maya", "content": text} for text in SAID])
            warm(memory)
            entered = set()
            counted(memory)
            found, entered = entered, None
        files = sorted({Path(code.co_filename).relative_to(ROOT).as_posix() for code in found})
        print(f"{name}: {len(files)} files, {len(found)} functions")
        if "--files" in sys.argv:
            print("  " + "\n  ".join(files))


if __name__ == "__main__":
    main()
