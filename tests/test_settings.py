"""Settings: their validation, their environment variables, and the page that lists them."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from vmemo import InvalidInput, Memory, Settings
from vmemo.models.settings import CHANNEL_WEIGHTS
from vmemo.recall import fuse, rank
from vmemo.retain import revise, write_plan
from vmemo_conformance.embedders import HashEmbedder

ROOT = Path(__file__).parents[1]
SECRETS = ("url", "read_url", "encryption_key", "llm_key", "embedder_key", "reranker_key")


def test_there_are_at_most_fifty_settings() -> None:
    assert len(Settings.model_fields) <= 50


def test_the_settings_page_lists_every_setting_with_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    table: Any = import_module("settings_table")
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page.endswith(table.START + table.render()), "run: python scripts/settings_table.py"


def test_a_number_beside_the_name_of_a_setting_is_its_default() -> None:
    fields = Settings.model_fields.items()
    defaults = {label: field.default for name, field in fields for label in (name, f"VMEMO_{name.upper()}")}
    stated = [
        (page.name, name, float(value.replace(",", "")))
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for name, value in re.findall(r"`([\w.]+)` \((\.?\d[\d.,]*)\)", page.read_text())
    ]
    assert len([name for _, name, _ in stated if name in defaults]) > 3
    assert [each for each in stated if each[2] != defaults.get(each[1], each[2])] == []


def test_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "VMEMO_CHANNELS": "graph, keyword",
        "VMEMO_FUSION": "rank",
        "VMEMO_CHANNEL_WEIGHTS": '{"graph": 3}',
        "VMEMO_CHANNEL_WEIGHTS_BY_TYPE": '{"count": {"graph": 0.5}}',
        "VMEMO_LLM_PRICES": '{"a": [1, 2]}',
        "VMEMO_LINKS_PER_FACT": "3",
        "VMEMO_LLM_TIMEOUT": "",
        "VMEMO_ATTEMPTS": "2",
        "VMEMO_ADMIN_KEY": "no setting of a memory",
    }.items():
        monkeypatch.setenv(name, value)
    assert Settings.from_environment(attempts=1) == Settings(
        channels=frozenset({"graph", "keyword"}),
        fusion="rank",
        channel_weights={"graph": 3.0},
        channel_weights_by_type={"count": {"graph": 0.5}},
        llm_prices={"a": (1.0, 2.0)},
        links_per_fact=3,
        attempts=1,
    )
    assert Settings().links_per_fact == 5, "given settings ignore the environment"


@pytest.mark.parametrize(
    ("variable", "value", "rule"),
    [
        ("VMEMO_LINKS_PER_FACT", "-1", "must be greater than or equal to 0, not '-1'"),
        ("VMEMO_LLM_TIMEOUT", "nan", "must be a finite number, not 'nan'"),
        ("VMEMO_CHANNEL_WEIGHTS", "graph", "must be a mapping, not 'graph'"),
        ("VMEMO_EPISODE_MESSAGES", "0", "must be greater than or equal to 1, not '0'"),
        ("VMEMO_STYLE", "poetic", "must be 'narrative' or 'atomic', not 'poetic'"),
    ],
)
def test_an_invalid_variable_is_refused_by_name(
    variable: str, value: str, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidInput, match=f"The environment is not valid: {variable}: {rule}"):
        Settings.from_environment()


def test_an_invalid_value_is_refused_by_the_name_of_its_setting() -> None:
    with pytest.raises(InvalidInput, match=r"Settings is not valid: lease_seconds: must be greater than 0, not 0\.0"):
        Settings(lease_seconds=0.0)
    with pytest.raises(InvalidInput, match="Settings is not valid: lease: "):
        Settings(lease=1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ValidationError, match="frozen"):
        Settings().attempts = 1


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_shown_neither_by_repr_nor_by_an_error(name: str) -> None:
    assert "hunter2" not in repr(Settings(**{name: "hunter2"}))  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match=name) as raised:
        Settings(**{name: ["hunter2"]})  # pyright: ignore[reportArgumentType]
    assert "hunter2" not in f"{raised.value}{raised.value.__cause__}"


def test_a_memory_without_settings_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VMEMO_CHANNEL_WEIGHTS", '{"keyword": 0.25}')
    with Memory("sqlite:///:memory:", embedder=HashEmbedder()) as memory:
        memory.retain_sync("The kettle is red.")
        explanation = memory.recall_sync("red kettle", explain=True).explanation
    assert explanation is not None
    assert explanation.weights["keyword"] == 0.25


def test_the_weights_of_a_type_of_question_replace_the_general_ones() -> None:
    settings = Settings(channel_weights={"graph": 0.5}, channel_weights_by_type={"count": {"graph": 0.9}})
    with Memory("sqlite:///:memory:", embedder=HashEmbedder(), settings=settings) as memory:
        memory.retain_sync("The kettle is red.")
        one, many = (
            memory.recall_sync(query, explain=True).explanation for query in ("red kettle", "How many kettles?")
        )
    assert one is not None
    assert one.weights == {**CHANNEL_WEIGHTS, "graph": 0.5}
    assert many is not None
    assert (many.type, many.weights) == ("count", {**CHANNEL_WEIGHTS, "graph": 0.9})


def test_defaults_are_the_numbers_of_the_specification() -> None:
    chosen = Settings()
    assert (chosen.episode_gap_minutes, chosen.episode_messages, chosen.links_per_fact) == (30, 25, 5)
    assert (write_plan.DECAY_TIME.total_seconds(), write_plan.LEAST_TEMPORAL, revise.LINK_COSINE) == (
        24 * 3600,
        0.3,
        0.7,
    )
    assert (chosen.extractions_per_bank, chosen.extractions_per_process) == (10, 300)
    assert (chosen.fusion, fuse.RANK_CONSTANT, rank.SEMANTIC_FLOOR) == ("sum", 60, 0.3)
    assert (rank.ENTRY_FLOOR, rank.DECAY, rank.FLOOR) == (0.5, 0.8, 0.1)
    above = {kind for kind, multiplier in rank.MULTIPLIERS.items() if multiplier > 1}
    assert above == {"entity", "causes", "caused_by", "enables", "prevents"}
    assert (rank.LINK_DECAY, rank.TEMPORAL_FLOOR) == (0.7, 0.4)
    recall, retrieve = signature(Memory.recall).parameters, signature(Memory.retrieve).parameters
    assert (recall["max_tokens"].default, recall["budget"].default, retrieve["top_k"].default) == (4096, "mid", 10)
