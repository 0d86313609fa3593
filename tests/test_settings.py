"""Settings: validated groups, their environment variables, and the page that lists them."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from vmemo import InvalidInput, Memory, Settings
from vmemo.models.settings import groups, variables, variables_of_group
from vmemo.settings import FusionSettings, LinkSettings, SpreadingSettings
from vmemo.testing import HashEmbedder

ROOT = Path(__file__).parents[1]


def test_the_settings_page_lists_every_setting_with_its_default_and_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    table: Any = import_module("settings_table")
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page.endswith(table.START + table.render()), "run: python scripts/settings_table.py"


def test_a_number_beside_the_name_of_a_setting_is_its_default() -> None:
    table = (ROOT / "docs" / "settings.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| `([\d.]+)` \| (?:`(\w+)`)?", table, re.MULTILINE)
    defaults = {name: float(value) for setting, value, variable in rows for name in (setting, variable) if name}
    stated = [
        (page.name, name, float(value.replace(",", "")))
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for name, value in re.findall(r"`([\w.]+)` \((\.?\d[\d.,]*)\)", page.read_text())
    ]
    assert len([name for _, name, _ in stated if name in defaults]) > 10
    assert [each for each in stated if each[2] != defaults.get(each[1], each[2])] == []


def test_no_two_settings_share_an_environment_variable() -> None:
    names = [
        *variables().values(),
        *(v for name, kind in groups().items() for v in variables_of_group(name, kind).values()),
    ]
    assert len(names) == len(set(names))


def test_groups_are_read_from_the_environment() -> None:
    environment = {
        "VMEMO_SPREADING_DECAY": "0.5",
        "VMEMO_LINKS_SEMANTIC": "3",
        "VMEMO_FUSION_METHOD": "rank",
        "VMEMO_FUSION_BY_TYPE": '{"count": {"graph": 0.5}}',
        "VMEMO_LINKS_COSINE": "",
    }
    settings = Settings.from_environment(environment)
    assert settings.spreading == SpreadingSettings(decay=0.5)
    assert settings.links == LinkSettings(semantic=3)
    assert settings.fusion == FusionSettings(method="rank", by_type={"count": {"graph": 0.5}})
    assert settings.opinions == Settings().opinions


@pytest.mark.parametrize(
    ("variable", "value", "rule"),
    [
        ("VMEMO_SPREADING_DECAY", "5", "must be less than or equal to 1, not '5'"),
        ("VMEMO_FUSION_KEYWORD", "nan", "must be greater than or equal to 0"),
        ("VMEMO_FUSION_BY_TYPE", "graph", "must be a mapping, not 'graph'"),
        ("VMEMO_SEGMENTATION_MESSAGES", "0", "must be greater than or equal to 1, not '0'"),
    ],
)
def test_an_invalid_variable_is_refused_by_name(variable: str, value: str, rule: str) -> None:
    with pytest.raises(InvalidInput, match=f"The environment is not valid: {variable}: {rule}"):
        Settings.from_environment({variable: value})


def test_an_invalid_value_in_a_group_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"SpreadingSettings is not valid: floor: must be greater than 0, not 0\.0"):
        SpreadingSettings(floor=0.0)


def test_a_memory_without_settings_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VMEMO_FUSION_KEYWORD", "0.25")
    with Memory("sqlite:///:memory:", embedder=HashEmbedder()) as memory:
        memory.retain_sync("The kettle is red.")
        explanation = memory.recall_sync("red kettle", explain=True).explanation
    assert explanation is not None
    assert explanation.weights["keyword"] == 0.25


def test_the_weights_of_a_type_of_question_replace_the_general_ones() -> None:
    fusion = FusionSettings(graph=0.5, by_type={"count": {"graph": 0.9}})
    assert fusion.weights("count") == {**fusion.weights("factual"), "graph": 0.9}
    assert fusion.weights("factual")["graph"] == 0.5


def test_defaults_are_the_numbers_of_the_specification() -> None:
    chosen = Settings()
    segmentation, links, fusion = chosen.segmentation, chosen.links, chosen.fusion
    assert (segmentation.gap_minutes, segmentation.messages) == (30, 25)
    assert (links.hours, links.least_temporal, links.cosine, links.semantic) == (24, 0.3, 0.7, 5)
    assert (chosen.extractions_per_bank, chosen.extractions_per_process) == (10, 300)
    assert (fusion.method, fusion.rank_constant, fusion.semantic_floor) == ("sum", 60, 0.3)
    spreading, temporal = chosen.spreading, chosen.temporal
    assert (spreading.entry_floor, spreading.decay, spreading.floor) == (0.5, 0.8, 0.1)
    above = {kind for kind, multiplier in spreading.multipliers.items() if multiplier > 1}
    assert above == {"entity", "causes", "caused_by", "enables", "prevents"}
    assert (temporal.decay, temporal.floor) == (0.7, 0.4)
    recall, retrieve = signature(Memory.recall).parameters, signature(Memory.retrieve).parameters
    assert (recall["max_tokens"].default, recall["budget"].default, retrieve["top_k"].default) == (4096, "mid", 10)
