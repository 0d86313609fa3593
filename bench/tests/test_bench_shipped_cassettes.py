"""The cassettes in bench/cassettes are replayed, and score as they did when they were recorded.

A folder there contains conversations, cassettes and the `report.json` of `vmemo benchmark engines`. After a change of
prompts, or of what they show, record the folder again as bench/cassettes/README.md describes.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from small_data import run

from vmemo.providers import PackagedEmbedder
from vmemo_bench import BenchOptions
from vmemo_bench.cassette import SUFFIXES, Cassette
from vmemo_bench.environment import prompt_versions, vector_digest
from vmemo_bench.options import BenchModelOptions

FOLDER = Path(__file__).parents[2] / "bench" / "cassettes"
RECORDED = sorted(path.parent for path in FOLDER.glob("*/report.json"))
TOLERANCE = 0.05
"""By how much a score may fall: other changes of recall move single questions."""


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
def test_a_shipped_cassette_scores_as_recorded(folder: Path, tmp_path: Path) -> None:
    """Replay the first conversation of a folder: it takes seconds, and all of them a minute."""
    tables, config = (json.loads((folder / "report.json").read_text())[name] for name in ("tables", "config"))
    _skip_if_outdated(Cassette(folder))
    if config["vectors"] != asyncio.run(vector_digest(PackagedEmbedder())):
        pytest.skip("this processor rounds vectors in another way than the one of the recording")
    case = min(tables["retained"])
    options = BenchOptions(
        benchmark="ours",
        engine="llm",
        file=folder / "conversations",
        conversations=(case,),
        cache=tmp_path,
        llm=BenchModelOptions(replay=folder),
    )
    replayed = run(options).tables
    assert replayed["retained"][case] == tables["retained"][case]
    for name, value in tables["retrieval by case"][case].items():
        assert replayed["retrieval by case"][case][name] >= value - TOLERANCE, name


def _skip_if_outdated(cassette: Cassette) -> None:
    assert cassette.header is not None
    current, steps = prompt_versions(), {answer.step for answer in cassette.answers.values()}
    changed = [step for step in sorted(steps) if cassette.header.prompts.get(step) != current.get(step)]
    if changed:
        pytest.skip(f"recorded with other versions of the prompts: {', '.join(changed)}")


def test_shipped_cassettes_are_complete() -> None:
    for folder in {path.parent for path in FOLDER.glob("*/*") if path.name.endswith(SUFFIXES)}:
        assert (folder / "report.json").exists(), f"write {folder / 'report.json'} with --json"
