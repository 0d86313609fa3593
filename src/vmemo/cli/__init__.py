"""The `vmemo` command: the library's verbs on a command line."""

from __future__ import annotations

from vmemo.cli.app import app


def main() -> None:
    """Run the command line and leave with its exit code: 0 done, 1 an error, 2 wrong usage, 130 interrupted."""
    app(prog_name="vmemo")
