"""Build the wheels, install them into a new environment and use them there: `python -m scripts.check_wheel`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.integrations import ROOT, run

DISTRIBUTIONS = (".", "server", "hindsight", "agents", "replay", "sync")
SNIPPET = """
from vmemo import Memory
with Memory(":memory:") as memory:
    memory.retain_sync("I work at Fernhill Robotics.", speaker="Maya")
    assert "Fernhill" in memory.context_sync("Where does Maya work?").text
"""
CONSOLE = """
from vmemo_server.console.pages.static import files
from vmemo_server.console.render import environment
assert {"console.css", "vendor/htmx.min.js", "vendor/cytoscape.min.js", "vendor/uplot.min.js"} <= files().keys()
assert environment().list_templates() and environment().get_template("base.html")
"""


def commands(folder: Path) -> Sequence[list[str]]:
    """Return the commands that build, install and use the wheel."""
    environment = folder / "environment"
    programs = environment / ("Scripts" if os.name == "nt" else "bin")
    python = str(programs / "python")
    install = ["uv", "pip", "install", "--quiet", "--python", python, "--constraint", str(ROOT / "constraints.txt")]
    return (
        *(["uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), each] for each in DISTRIBUTIONS),
        ["uv", "venv", "--quiet", "--python", sys.executable, str(environment)],
        [*install, "--find-links", str(folder), "vmemo"],
        [python, "-c", SNIPPET],
        [str(programs / "vmemo"), "demo"],
        [*install, "--find-links", str(folder), "vmemo[server]"],
        [python, "-c", CONSOLE],
        [*install, "--find-links", str(folder), "vmemo[agents]"],
        [str(programs / "vmemo"), "install", "opencode", "--dry-run"],
        [*install, "--find-links", str(folder), "vmemo[replay]"],
        [str(programs / "vmemo"), "replay", str(ROOT / "replay/tests/ana.json"), "--html", str(folder / "replay.html")],
    )


def main() -> int:
    """Run the commands until one fails; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        for command in commands(Path(folder)):
            status, output = run(command)
            if status:
                print(f"The wheel fails at: {' '.join(command)}\n{output}")
                return status
    print("wheel          PASS")
    return 0


if __name__ == "__main__":
    sys.exit(main())
