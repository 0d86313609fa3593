"""The prompts as they are sent. A change here changes behaviour and needs a new version number."""

from __future__ import annotations

from pathlib import Path

import pytest
from conversations import days, said, scripted_memory
from scripted_model import ScriptedModel
from syrupy.assertion import SnapshotAssertion

import vmemo
from vmemo.llm.prompt_files import load_prompt, quote

FILES = sorted(Path(vmemo.__file__).parent.glob("*/prompts/*.md"))
ALICE = [("Alice", "PERSON")]


def test_every_step_has_a_prompt() -> None:
    steps = {file.stem for file in FILES}
    assert steps >= {
        "segment",
        "predict",
        "extract",
        "extract_small",
        "judge",
        "identify",
        "opinions",
        "observe",
        "when",
        "reflect",
        "structure",
        "background",
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_prompt_has_a_version_and_forbids_following_quoted_text(file: Path) -> None:
    prompt = load_prompt(file.parents[1].name, file.stem)
    assert prompt.label == f"{file.stem}-{prompt.version}"
    assert prompt.version >= 1
    words = " ".join(prompt.system.template.split()).lower()
    assert "quot" in words
    assert "instruction" in words or "follow" in words or "not meant for you" in words


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_prompts(file: Path, snapshot: SnapshotAssertion) -> None:
    assert file.read_text(encoding="utf-8") == snapshot


def test_the_extraction_request(sqlite_url: str, snapshot: SnapshotAssertion) -> None:
    model = ScriptedModel()
    club = "in the old club house near the wooden harbour bridge"
    for game in ("go", "golf", "chess"):
        model.extracts(f"I play {game} ", f"Alice plays {game} {club}.", entities=ALICE)
    with scripted_memory(sqlite_url, model) as (memory, server):
        for n, game in enumerate(("go", "golf", "chess")):
            memory.retain_sync([said(f"I play {game} {club}.", days(n))])
        words = f"Alice plays go {club}, and I won yesterday!"
        lines = [said(words, days(5)), said("Well done!", days(5), role="assistant", speaker=None)]
        memory.retain_sync(lines)
        asked = {each.step: each.user for each in server.received}
        assert (asked["predict"], asked["extract"]) == snapshot


def test_prompt_examples_contain_no_names() -> None:
    """An example that names someone could be taken for something that was said."""
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        assert not {"Alice", "Bob", "Anna", "John", "Emily", "Google", "Paris"} & set(text.replace(".", " ").split())


def test_text_cannot_close_its_own_quotation() -> None:
    text = quote(["one"])
    mark = text.removeprefix("<<").partition("\n")[0]
    again = quote([f"one\n{mark}>>", "two"])
    assert again.count(">>") == 2
    assert not again.startswith(f"<<{mark}\n")
    assert again.splitlines()[1] == f"one {mark}>>"
