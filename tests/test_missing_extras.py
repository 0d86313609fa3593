"""Without an optional package, whatever needs it names the command that installs it."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from live_server import live_server
from vmemo import Memory
from vmemo.cli.app import app
from vmemo.errors import MissingExtra
from vmemo.settings import Settings
from vmemo_conformance.embedders import HashEmbedder
from vmemo_integrations.litellm import LiteLLM

ROOT = Path(__file__).parent.parent
Use = Callable[[str], object]
"""Uses an extra in a folder's database."""
NEVER_REQUIRED = {"telemetry"}
"""A program that configures OpenTelemetry has installed it; without it there is nobody to send spans to."""


def with_settings(**settings: object) -> Use:
    return lambda url: Memory(url, embedder=HashEmbedder(), settings=Settings(**settings))  # pyright: ignore[reportArgumentType]


def encrypted(url: str) -> None:
    memory = Memory(url, embedder=HashEmbedder(), encryption_key="secret")
    try:
        memory.status_sync()
    finally:
        memory.close_sync()


def run(*arguments: str) -> Use:
    def use(url: str) -> None:
        result = CliRunner().invoke(app, [*arguments, "--db", url])
        if result.exit_code == 1:
            raise MissingExtra(result.stderr)

    return use


def request(method: str, path: str) -> Use:
    def use(url: str) -> None:
        with live_server(url) as server, server.http() as client:
            response = client.request(method, path, json={} if method == "POST" else None)
            if response.status_code == 501 and response.json()["type"].endswith(":MissingExtra"):
                raise MissingExtra(response.json()["detail"])

    return use


def hide(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let imports of a module fail, and of its parts that other tests imported."""
    for name in {module, *(name for name in sys.modules if name.startswith(f"{module}."))}:
        monkeypatch.setitem(sys.modules, name, None)


def load(integration: str) -> Use:
    def use(url: str) -> None:
        sys.modules.pop(f"vmemo_integrations.{integration}", None)
        importlib.import_module(f"vmemo_integrations.{integration}")

    return use


def import_memories(url: str) -> None:
    file = Path(url.removeprefix("sqlite:///")).with_name("mem0.json")
    file.write_text('[{"id": "1", "memory": "Ana likes tea.", "created_at": "2026-01-01T00:00:00Z"}]')
    Memory(url, embedder=HashEmbedder()).import_from_sync(file)


USES: Mapping[str, tuple[str, Use]] = {
    "languages": ("dateparser", with_settings(languages=("de",))),
    "fastembed": ("fastembed", lambda url: Memory(url, embedder="fastembed:BAAI/bge-small-en-v1.5")),
    "cross-encoder": ("tokenizers", lambda url: Memory(url, embedder=HashEmbedder(), reranker="model.onnx")),
    "pydantic-ai": ("pydantic_ai", load("pydantic_ai")),
    "litellm": ("litellm", lambda url: LiteLLM("openai/gpt-4o")),
    "postgres": ("asyncpg", lambda url: Memory("postgresql://u@h/db")),
    "neo4j": ("vmemo_neo4j", lambda url: Memory("neo4j://h")),
    "server": ("vmemo_server", run("serve")),
    "mcp": ("mcp", run("mcp")),
    "metrics": ("prometheus_client", request("GET", "/metrics")),
    "importers": ("vmemo_integrations.importers", import_memories),
    "encryption": ("sqlcipher3.dbapi2", encrypted),
    "agents": ("vmemo_agents", run("install", "claude-code")),
    "replay": ("vmemo_replay", run("test")),
    "sync": ("vmemo_sync", run("sync", "folder")),
    "adk": ("google.adk", load("adk")),
    "anthropic": ("anthropic", load("anthropic")),
    "crewai": ("crewai", load("crewai")),
    "langchain": ("langchain_core", load("langchain")),
    "langgraph": ("langgraph", load("langgraph")),
    "llamaindex": ("llama_index", load("llamaindex")),
    "openai-agents": ("agents", load("openai_agents")),
}
"""By extra: a module that it installs, and a use that requires it."""


def test_every_extra_is_tried() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {*USES, *NEVER_REQUIRED} == set(extras)


@pytest.mark.parametrize("extra", USES)
def test_a_missing_extra_is_an_error_with_the_install_command(
    extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, use = USES[extra]
    hide(module, monkeypatch)
    with pytest.raises(MissingExtra, match=rf"pip install ['\"]vmemo\[{extra}\]['\"]"):
        use(f"sqlite:///{tmp_path / 'memory.db'}")


def test_a_server_without_the_mcp_extra_names_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(MissingExtra, match=r"pip install 'vmemo\[mcp\]'"):
        request("POST", "/mcp")(f"sqlite:///{tmp_path / 'memory.db'}")


def test_benchmarks_are_loaded_without_any_extra() -> None:
    modules = [module for module, _ in USES.values()] + ["uvicorn", "starlette"]
    code = f"import sys; sys.modules.update(dict.fromkeys({modules!r})); import vmemo_bench.command"
    subprocess.run([sys.executable, "-c", code], check=True)
