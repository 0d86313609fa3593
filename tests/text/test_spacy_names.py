"""Names found by spaCy; tests that need it are skipped if it is not installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from vmemo import InvalidInput, Memory, MissingExtra, Settings
from vmemo.models.changes import FoundName
from vmemo.testing import HashEmbedder
from vmemo.text.names import merge_names
from vmemo.text.names.spacy_names import SpacyNames, installed_pipeline

needs_spacy = pytest.mark.skipif(
    installed_pipeline() is None, reason='spaCy is not installed: pip install "vmemo[names]"'
)


@needs_spacy
def test_a_pipeline_finds_names_with_their_types() -> None:
    (found, nothing) = SpacyNames()(["Barack Obama visited Microsoft in Seattle.", "it rained all day"])
    assert {(entity.name, entity.type) for entity in found} >= {("Barack Obama", "PERSON"), ("Seattle", "LOCATION")}
    assert nothing == ()


@needs_spacy
def test_memory_uses_spacy_if_it_is_installed(tmp_path: Path) -> None:
    text = "we flew over seattle, then stayed in Gdansk with the Kowalskis"
    found: dict[str, set[str]] = {}
    for names in ("auto", "rules"):
        settings = Settings(name_finder=names)
        with Memory(f"sqlite:///{tmp_path}/{names}.db", embedder=HashEmbedder(), settings=settings) as memory:
            memory.retain_sync(text)
            found[names] = {entity.name for entity in memory.entities_sync()}
    assert found["rules"] <= found["auto"]


@pytest.mark.skipif(find_spec("spacy") is not None, reason="spaCy is installed")
def test_without_spacy_the_rules_are_used_and_requesting_it_names_the_install_command(tmp_path: Path) -> None:
    with Memory(f"sqlite:///{tmp_path}/m.db", embedder=HashEmbedder(), settings=Settings(name_finder="auto")) as memory:
        memory.retain_sync("Nadia moved to Oslo.")
        assert "Nadia" in {entity.name for entity in memory.entities_sync()}
    with pytest.raises(MissingExtra, match=r'pip install "vmemo\[names\]"'):
        Memory(embedder=HashEmbedder(), settings=Settings(name_finder="spacy"))
    assert "spacy" not in sys.modules


def test_names_are_merged_with_those_of_the_rules() -> None:
    rules = (FoundName(name="Anna Smith", type="PERSON"), FoundName(name="Oslo"))
    others = (
        FoundName(name="oslo", type="LOCATION"),
        FoundName(name="Anna", type="PERSON"),
        FoundName(name="Anna Smith of Leith", type="PERSON"),
        FoundName(name="Statoil", type="ORGANIZATION"),
    )
    assert merge_names(rules, others) == (
        FoundName(name="Anna Smith", type="PERSON"),
        FoundName(name="Oslo", type="LOCATION"),
        FoundName(name="Statoil", type="ORGANIZATION"),
    )


def test_the_environment_selects_the_name_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VMEMO_NAME_FINDER", "rules")
    assert Settings.from_environment().name_finder == "rules"
    monkeypatch.setenv("VMEMO_NAME_FINDER", "magic")
    with pytest.raises(InvalidInput, match="VMEMO_NAME_FINDER: must be 'auto', 'rules' or 'spacy', not 'magic'"):
        Settings.from_environment()
