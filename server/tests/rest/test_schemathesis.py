"""Generated requests, valid and invalid, are answered as the OpenAPI description says.

`VMEMO_SCHEMATHESIS=50` runs longer: all phases, with 50 examples of each operation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from live_server import live_server
from vmemo.client import Client
from vmemo_server.auth import Limits

EXAMPLES = os.environ.get("VMEMO_SCHEMATHESIS", "")
PHASES = "examples,coverage,fuzzing,stateful" if EXAMPLES else "examples,fuzzing"
MESSAGES = ["Ana moved to Lisbon.", "Ben has a red kettle.", "Ana likes Ben."]


def test_no_request_causes_a_server_error_or_an_undescribed_response(database: str, tmp_path: Path) -> None:
    with live_server(database, keyless=False, limits=Limits(rate=0)) as server:
        key = server.key()
        known = _fill(server.url, key)
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"]
        command += ["--header", f"Authorization: Bearer {key}", "--phases", PHASES, "--max-examples", EXAMPLES or "3"]
        # A schema can't express every rule, such as an expiry in the future, so valid data may be rejected.
        command += ["--generation-deterministic", "--no-shrink", "--exclude-checks", "positive_data_acceptance"]
        env = {**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "VMEMO_KNOWN": json.dumps(known)}
        env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=env)
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-2_000:]
    operations = sum(len(methods) for methods in server.app.openapi()["paths"].values())
    assert f"{operations} selected / {operations} total" in result.stdout


def _fill(url: str, key: str) -> dict[str, str]:
    """Store records and return the path parameters that name them."""
    with Client(url, "toy", key) as client:
        client.retain_sync(MESSAGES, document="chat")
        facts, entities = client.facts_sync(), client.entities_sync()
        client.merge_entities_sync(entities[0].id, entities[1].id)
        return {"bank": "toy", "fact": facts[0].id, "opinion": facts[1].id}
