"""The TypeScript client: its types are current, and its own tests run against a server where Node is installed.

They are compiled with the compiler of the lockfile. Where npm or its registry can't be reached, Node 22.18 and newer
runs the sources themselves, and the tests are skipped on an older one.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from process import environment

from live_server import live_server
from max_wait import MAX_WAIT
from vmemo.embedding.packaged import PackagedEmbedder

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "clients" / "typescript"
TESTS = ("client", "transport")
LARGEST_PACKAGE = 30_000
NETWORK = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONN\w+|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|UND_ERR|\bE5\d\d\b"
)
INSTALL = ("ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--fetch-retries=1")
RUNS_TYPESCRIPT = (22, 18)
"""The first version of Node that runs TypeScript without an option."""


@dataclass(frozen=True)
class Node:
    """The installed Node, and the reason why the package can't be compiled, if it can't."""

    command: str
    version: tuple[int, ...]
    not_compiled: str | None

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script in the folder of the package."""
        return _run(self.command, *arguments, **variables)


def _run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = environment(variables)
    return subprocess.run(
        command, cwd=PACKAGE, env=env, capture_output=True, text=True, check=False, timeout=4 * MAX_WAIT
    )


def _succeed(*command: str) -> str:
    result = _run(*command)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def _install() -> str | None:
    """Install the compiler unless that of the lockfile is there, and return the reason if the network is missing."""
    installed = PACKAGE / "node_modules" / ".package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= (PACKAGE / "package-lock.json").stat().st_mtime:
        return None
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    try:
        result = _run(npm, *INSTALL)
    except subprocess.TimeoutExpired:
        return "the npm registry did not answer"
    if result.returncode == 0:
        return None
    problem = NETWORK.search(result.stderr)
    assert problem is not None, result.stderr
    return f"the npm registry can't be reached ({problem[0]})"


@pytest.fixture(scope="module")
def node() -> Node:
    """Return Node, with the package and its tests compiled if possible; skip where it is missing."""
    command = shutil.which("node")
    if command is None:
        pytest.skip("Node is not installed; the TypeScript client needs version 20 or newer")
    version = tuple(map(int, re.findall(r"\d+", _succeed(command, "--version"))))
    if version < (20,):
        pytest.skip(f"Node {version[0]} is too old; the TypeScript client needs version 20 or newer")
    not_compiled = _install()
    if not_compiled is None:
        compiler = str(PACKAGE / "node_modules" / "typescript" / "bin" / "tsc")
        _succeed(command, compiler, "--project", "tsconfig.build.json")
        _succeed(command, compiler)
    return Node(command, version, not_compiled)


@pytest.fixture(scope="module")
def compiled(node: Node) -> Node:
    """Return Node if the package is compiled."""
    if node.not_compiled is not None:
        pytest.skip(f"The TypeScript client can't be compiled: {node.not_compiled}")
    return node


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Run a server with the packaged encoder, and yield the variables that a client needs."""
    database = f"sqlite:///{tmp_path_factory.mktemp('server') / 'a.db'}"
    with live_server(database, keyless=False, embedder=PackagedEmbedder()) as running:
        yield {"VMEMO_URL": running.url, "VMEMO_KEY": running.key()}


def test_types_are_those_of_the_openapi_description(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    types: Any = import_module("typescript_types")
    current = types.render(types.description())
    assert types.FILE.read_text(encoding="utf-8") == current, "run: python scripts/typescript_types.py"


def test_client_works_with_a_server(node: Node, server: Mapping[str, str]) -> None:
    if node.not_compiled is None:
        files = [f"build/test/{name}.test.js" for name in TESTS]
    elif node.version >= RUNS_TYPESCRIPT:
        files = [f"test/{name}.test.ts" for name in TESTS]
    else:
        pytest.skip(f"Node {node.version[0]} can't run TypeScript, and it can't be compiled: {node.not_compiled}")
    result = node.run("--test", "--test-reporter=tap", *files, **server)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"^# pass [1-9]", result.stdout, re.MULTILINE)
    assert "\n# skipped 0\n" in result.stdout


def test_readme_snippet_runs(compiled: Node, server: Mapping[str, str]) -> None:
    snippet = (PACKAGE / "examples" / "quickstart.ts").read_text(encoding="utf-8")
    assert f"```ts\n{snippet}```" in (PACKAGE / "README.md").read_text(encoding="utf-8")
    result = compiled.run("build/examples/quickstart.js", **server)
    assert (result.returncode, result.stderr) == (0, "")
    assert "I moved to Lisbon" in result.stdout
    assert "Cited facts: 1" in result.stdout
    assert "404 NotFound" in result.stdout


def test_packed_package_is_small_has_no_dependencies_and_is_installed_by_npm(compiled: Node, tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    _succeed(npm, "pack", "--silent", "--pack-destination", str(tmp_path))
    [package] = tmp_path.glob("vmemo-*.tgz")
    assert package.stat().st_size < LARGEST_PACKAGE
    with tarfile.open(package) as packed:
        names = {name.removeprefix("package/") for name in packed.getnames()}
    assert {"README.md", "LICENSE", "package.json", "dist/index.js", "dist/index.d.ts"} <= names
    assert all(name.startswith("dist/") or "/" not in name for name in names)
    described = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & set(described)
    _succeed(npm, "install", "--silent", "--offline", "--no-audit", "--prefix", str(tmp_path), str(package))
    program = tmp_path / "program.mjs"
    program.write_text('import { Vmemo } from "vmemo"; console.log(new Vmemo({ bank: "traveller" }).bankName);')
    assert _succeed(compiled.command, str(program)) == "traveller\n"


def test_ai_sdk_example_has_no_type_errors(compiled: Node) -> None:
    if not (PACKAGE / "node_modules" / "ai").is_dir():
        pytest.skip("The Vercel AI SDK is not installed: npm install --no-save ai zod in clients/typescript")
    _succeed(compiled.command, "node_modules/typescript/bin/tsc", "--project", "tsconfig.examples.json")
