"""Two sessions of a coding agent with a memory, replayed from a recorded transcript.

Runs the hooks as Claude Code does, in a temporary git repository and home folder. Needs git and
`pip install "vmemo[agents]"`, and no key, network or agent.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vmemo_agents.hook import ask

RECORDED = Path(__file__).with_name("session.jsonl")


def hook(project: Path, event: str, **fields: object) -> str:
    """Send an event to the hook, as the agent does, and return the text for its model."""
    program = shutil.which("vmemo-hook", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert program is not None, "Install it first: pip install 'vmemo[agents]'"
    given = json.dumps({"hook_event_name": event, "cwd": str(project), **fields})
    done = subprocess.run([program, "claude-code"], input=given, capture_output=True, text=True, check=True)
    return json.loads(done.stdout).get("hookSpecificOutput", {}).get("additionalContext", "")


def repository(folder: Path, name: str) -> Path:
    """Create a git repository."""
    project = folder / name
    project.mkdir()
    subprocess.run(["git", "init", "--quiet", str(project)], check=True)
    return project


def main(folder: Path) -> None:
    """Retain Monday's session, and show what the next sessions are given."""
    os.environ |= {"HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    os.environ["VMEMO_AGENTS_SECONDS"] = "60"
    shop, blog = repository(folder, "shop"), repository(folder, "blog")
    transcript = folder / "monday.jsonl"
    transcript.write_text(RECORDED.read_text("utf-8").replace("/home/ana/shop", str(shop)), "utf-8")
    try:
        hook(shop, "SessionStart", session_id="monday", source="startup")
        hook(shop, "Stop", session_id="monday", transcript_path=str(transcript))
        # An agent does not wait for this: the transcript is retained behind its back.
        ask({"kind": "settle"}, time.monotonic() + 60)
        for prompt in ("Which kind of lock does the scheduler use, and why?", "How do we release the shop?"):
            print(f"# {prompt}\n{hook(shop, 'UserPromptSubmit', session_id='tuesday', prompt=prompt)}\n")
        print(f"# A session in another repository\n{hook(blog, 'SessionStart', session_id='wednesday')}")
    finally:
        ask({"kind": "stop"}, time.monotonic() + 60)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        main(Path(temporary))
