"""`vmemo reflect` with a model: citations as footnotes, streaming, a schema, opinions, and clear failures."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from pydantic import JsonValue
from typer.testing import Result

from vmemo_conformance.fake_llm import ReceivedRequest, StatusResponse
from vmemo_conformance.llm_server import ScriptedServer

Run = Callable[..., Result]
OPINION: JsonValue = {"text": "I think rye suits Ana because she bakes it.", "confidence": 0.7, "facts": ["F1"]}


def answer(asked: ReceivedRequest) -> JsonValue:
    """Looks once, then answers; data for whoever wants it in a shape."""
    if asked.step == "structure":
        return {"bread": "rye"}
    if "Tool calls so far" not in asked.user:
        return {"calls": [{"tool": "search", "query": "what Ana bakes"}], "text": "", "found": False}
    return {"calls": [], "found": True, "text": "She bakes rye [F1].", "opinions": [OPINION]}


@pytest.fixture
def model() -> Generator[ScriptedServer]:
    with ScriptedServer(answer) as server:
        yield server


@pytest.fixture
def told(invoke: Run, tmp_path: Path) -> str:
    db = str(tmp_path / "x.db")
    assert invoke("retain", "I bake rye bread on Sundays.", "--speaker", "Ana", "--db", db).exit_code == 0
    return db


def asked(invoke: Run, db: str, model: ScriptedServer, *more: str) -> Result:
    result = invoke("reflect", "What bread would suit Ana?", "--db", db, "--llm", f"{model.url}#scripted", *more)
    assert result.exit_code == 0, result.output
    return result


def test_an_answer_has_footnotes(invoke: Run, told: str, model: ScriptedServer) -> None:
    result = asked(invoke, told, model)
    assert result.stdout.startswith("She bakes rye [1].\n\n[1] ")
    assert "Ana: I bake rye bread on Sundays." in result.stdout
    assert "opinion formed (0.70): I think rye suits Ana" in result.stderr
    assert "2 calls" in result.stderr
    held = json.loads(invoke("opinions", "--db", told, "--json").stdout)["opinions"]
    assert [opinion["confidence"] for opinion in held] == [0.7]


def test_a_streamed_answer_shows_lookups_and_equals_the_answer(invoke: Run, told: str, model: ScriptedServer) -> None:
    result = asked(invoke, told, model, "--stream", "--no-opinions")
    assert "search: what Ana bakes" in result.stderr
    assert result.stdout.startswith("She bakes rye [1].\n\n[1] ")
    assert "opinion" not in result.stderr


def test_reflect_returns_structured_data_for_a_schema(
    invoke: Run, told: str, model: ScriptedServer, tmp_path: Path
) -> None:
    file = tmp_path / "bread.json"
    file.write_text(json.dumps({"type": "object", "properties": {"bread": {"type": "string"}}}), encoding="utf-8")
    whole = json.loads(asked(invoke, told, model, "--schema", str(file), "--json").stdout)
    assert (whole["data"], whole["found"], len(whole["citations"])) == ({"bread": "rye"}, True, 1)
    assert asked(invoke, told, model, "--schema", str(file)).stdout.rstrip().endswith('{\n  "bread": "rye"\n}')


@pytest.mark.parametrize("content", ["no JSON", "[]"])
def test_an_invalid_schema_file_is_refused(invoke: Run, told: str, tmp_path: Path, content: str) -> None:
    file = tmp_path / "bread.json"
    file.write_text(content, encoding="utf-8")
    assert invoke("reflect", "What bread?", "--db", told, "--schema", str(file)).exit_code == 2


def test_a_failed_reflection_prints_one_accurate_line(invoke: Run, told: str, model: ScriptedServer) -> None:
    model.faults("reflect", [StatusResponse(401)])
    result = invoke("reflect", "What bread?", "--db", told, "--llm", f"{model.url}#scripted")
    assert result.exit_code == 1
    assert "401" in result.stderr
    assert "Nothing was changed" in result.stderr
