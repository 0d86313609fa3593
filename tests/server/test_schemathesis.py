"""Whatever fits the OpenAPI description is answered as described, and so is what does not fit it.

`VMEMO_SCHEMATHESIS=50` looks longer: at every kind of value, at sequences of requests, and at so many of each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from live_server import live_server
from vmemo.client import Client
from vmemo.server import Limits

LONGER = os.environ.get("VMEMO_SCHEMATHESIS", "")
PHASES = "examples,coverage,fuzzing,stateful" if LONGER else "examples,fuzzing"
SAID = ["Ana moved to Lisbon.", "Ben has a red kettle.", "Ana likes Ben."]


def test_no_request_ends_in_a_server_error_or_an_answer_that_is_not_described(database: str, tmp_path: Path) -> None:
    with live_server(database, keyless=False, limits=Limits(rate=0)) as server:
        key = server.key()
        known = _filled(server.url, key)
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"]
        command += ["--header", f"Authorization: Bearer {key}", "--phases", PHASES, "--max-examples", LONGER or "5"]
        # A moment that lies in the past, a token that was used before: no schema tells what else must be right.
        command += ["--generation-deterministic", "--no-shrink", "--exclude-checks", "positive_data_acceptance"]
        around = {**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "VMEMO_KNOWN": json.dumps(known)}
        around["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=around)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    operations = sum(len(methods) for methods in server.app.openapi()["paths"].values())
    assert f"{operations} selected / {operations} total" in done.stdout


def _filled(url: str, key: str) -> dict[str, str]:
    """Names of things that are there."""
    with Client(url, "toy", key) as client:
        client.retain_sync(SAID, document="chat")
        facts, entities = client.facts_sync(), client.entities_sync()
        client.merge_entities_sync(entities[0].id, entities[1].id)
        return {"bank": "toy", "fact": facts[0].id, "opinion": facts[1].id}
