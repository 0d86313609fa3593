"""Check the lines of Python of each distribution against its budget: `python scripts/check_size.py`.

A change that needs more lines raises the number here in the same commit and says why in its message.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGETS = {
    "src": 39_900,
    "server/src": 7_000,
    "neo4j/src": 3_500,
    "hindsight/src": 2_050,
    "integrations/src": 2_780,
    "agents/src": 2_125,
    "replay/src": 3_020,
    "sync/src": 2_080,
    "bench/src": 10_000,
    "conformance/src": 7_438,
}
"""The greatest number of lines by folder. The goals are 40,000, 7,000 and 3,500 for the first three."""


def lines(folder: str) -> int:
    """Return the lines of all Python files below a folder."""
    return sum(path.read_text("utf-8").count("\n") for path in (ROOT / folder).rglob("*.py"))


def main() -> int:
    """Print each distribution that is over its budget; return the exit status."""
    over = {folder: found for folder, most in BUDGETS.items() if (found := lines(folder)) > most}
    for folder, found in over.items():
        print(f"{folder} has {found:,} lines, over its budget of {BUDGETS[folder]:,} in {Path(__file__).name}.")
    if not over:
        print("size: " + ", ".join(f"{folder} {lines(folder):,}" for folder in BUDGETS))
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
