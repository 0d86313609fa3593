"""The `vmemo` command: the library's verbs on a command line."""

from __future__ import annotations

import gc

from vmemo.cli.app import app

YOUNG = 20_000, 20
"""New objects after which garbage is collected, and such collections after which older objects are visited too.

With the defaults, the objects of one batch of messages would be visited many times while they are in use.
"""


def main() -> None:
    """Run the command line and leave with its exit code: 0 done, 1 an error, 2 wrong usage, 130 interrupted."""
    gc.set_threshold(*YOUNG)
    app(prog_name="vmemo")
