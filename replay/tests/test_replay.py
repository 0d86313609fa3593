"""`vmemo replay`: what a memory would have given at each turn, knowing only what was said before."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from typer.testing import Result

from vmemo import Memory
from vmemo_conformance.fake_llm import ReceivedRequest
from vmemo_conformance.llm_server import ScriptedServer

Run = Callable[..., Result]
ANA = Path(__file__).with_name("ana.json")
CODING = Path(__file__).parents[2] / "agents" / "tests" / "transcripts"


def replayed_as(run: Run, folder: Path, *arguments: object, **environment: str) -> dict[str, Any]:
    """Replay with these arguments and return the report."""
    target = folder / "report.json"
    result = run(*arguments, "--json", target, **environment)
    assert result.exit_code == 0, result.output
    return json.loads(target.read_text("utf-8"))


def texts_at(report: dict[str, Any], turn: int, column: int = 0) -> list[str]:
    """Return the texts of the hits at a turn, from 0."""
    facts = {each["id"]: each["text"] for each in report["columns"][column]["facts"]}
    facts |= {each["id"]: each["text"] for each in report["messages"]}
    return [facts[hit["fact"]] for hit in report["turns"][turn]["given"][column].get("hits", ())]


def asked(report: dict[str, Any]) -> list[str]:
    return [report["messages"][turn["number"]]["text"] for turn in report["turns"]]


def test_each_turn_knows_only_what_was_said_before(report: dict[str, Any]) -> None:
    questions = asked(report)
    first, then = questions.index("Where do I live?"), questions.index("Where do I live now?")
    assert "given" in report["turns"][0]
    assert texts_at(report, 0) == []
    assert "Rome" in texts_at(report, first)[0]
    assert not any("Lisbon" in text for text in texts_at(report, first))
    assert any("Lisbon" in text for text in texts_at(report, then))


def test_a_question_that_memory_cannot_answer_is_flagged(report: dict[str, Any]) -> None:
    flagged = [turn for turn in report["turns"] if "unanswerable" in turn["given"][0].get("flags", ())]
    assert [report["messages"][turn["number"]]["text"] for turn in flagged] == ["What is my blood type?"]
    assert report["columns"][0]["totals"]["unanswerable"] == 1


def test_contexts_and_prices_are_counted(report: dict[str, Any]) -> None:
    totals, given = report["columns"][0]["totals"], [turn["given"][0] for turn in report["turns"]]
    assert totals["context_tokens"] == sum(each.get("context_tokens", 0) for each in given)
    assert totals["cents"] == pytest.approx(totals["context_tokens"] / 10_000)
    assert totals["transcript_tokens"] == sum(turn.get("before", 0) for turn in report["turns"])
    instructions = given[-1]["context"]["instructions"]
    facts = {each["id"]: each["text"] for each in report["columns"][0]["facts"]}
    assert "metric units" in facts[instructions[0]]


def test_an_outdated_hit_is_stale_and_names_what_outdated_it(replay_command: Run, tmp_path: Path) -> None:
    said = [
        ("My rent is 400 euros a month.", "2026-01-05T09:00:00Z"),
        ("My rent is 450 euros a month.", "2026-02-05T09:00:00Z"),
        ("I play the cello and live by the sea.", "2026-02-06T09:00:00Z"),
        ("Shall I look for a flat with another rent?", "2026-03-05T09:00:00Z"),
        ("What do I play?", "2026-03-05T09:00:00Z"),
    ]
    file = tmp_path / "rent.json"
    file.write_text(json.dumps([{"role": "user", "name": "Ana", "content": c, "timestamp": t} for c, t in said]))
    report = replayed_as(replay_command, tmp_path, file)
    rent, cello = (turn["given"][0] for turn in report["turns"][-2:])
    stale = [hit for hit in rent["hits"] if "stale" in hit.get("flags", ())]
    facts = {each["id"]: each for each in report["columns"][0]["facts"]}
    assert ["400" in facts[hit["fact"]]["text"] for hit in stale] == [True]
    assert "450" in facts[stale[0]["outdated_by"][0]]["text"]
    # The new rent comes above the old one, and no claim about the rent bears on the other turn.
    assert all("stale" not in turn["given"][0].get("flags", ()) for turn in report["turns"])
    assert all("stale" not in hit.get("flags", ()) for hit in cello["hits"])


def test_a_turn_is_stale_if_an_outdated_claim_comes_before_what_outdated_it(
    replay_command: Run, tmp_path: Path
) -> None:
    said = [
        ("I live in Rome and I work at Fernhill.", "2026-01-05T09:00:00Z"),
        ("I moved to Lisbon last week, Rome is over.", "2026-02-05T09:00:00Z"),
        ("Where do I live?", "2026-08-01T00:00:00Z"),
        ("Where do I work?", "2026-08-02T00:00:00Z"),
    ]
    file = tmp_path / "home.json"
    file.write_text(json.dumps([{"role": "user", "name": "Ana", "content": c, "timestamp": t} for c, t in said]))
    report = replayed_as(replay_command, tmp_path, file)
    facts = {each["id"]: each["text"] for each in report["columns"][0]["facts"]}
    for given in (turn["given"][0] for turn in report["turns"]):
        texts = [facts[hit["fact"]] for hit in given.get("hits", ())]
        outdated = [n for n, hit in enumerate(given.get("hits", ())) if "stale" in hit.get("flags", ())]
        expected = any("Lisbon" not in " ".join(texts[:n]) for n in outdated)
        assert ("stale" in given.get("flags", ())) == expected


def test_only_the_turns_that_are_wanted_are_asked_at(replay_command: Run, tmp_path: Path) -> None:
    first = replayed_as(replay_command, tmp_path, ANA, "--turns", 2)
    assert asked(first) == ["Hi there!", "I live in Rome and I work at Fernhill Robotics."]
    last = replayed_as(replay_command, tmp_path, ANA, "--last", 1)
    assert asked(last) == ["What is my blood type?"]
    assert len(last["messages"]) == len(json.loads(ANA.read_text()))
    few = replayed_as(replay_command, tmp_path, ANA, "--most", 4)
    assert asked(few) == ["Hi there!", "Where do I live?", "Where do I live now?", "What is my blood type?"]
    assert "Asked at 4 of 7 turns" in few["notes"][0]


def test_configurations_are_compared_side_by_side(replay_command: Run, tmp_path: Path) -> None:
    wide = ("--compare", "max_tokens=12,1024", "--compare", "revision=true")
    report = replayed_as(replay_command, tmp_path, ANA, *wide)
    assert [each["label"] for each in report["columns"]] == [
        "max_tokens=12 revision=true",
        "max_tokens=1024 revision=true",
    ]
    different = [turn for turn in report["turns"] if turn.get("different")]
    assert different
    small, large = different[-1]["given"]
    assert len(small["hits"]) < len(large["hits"])
    assert any(hit.get("different") for hit in large["hits"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--compare", "colour=red"), "with the name engine, embedder, max_tokens, precise or a setting"),
        (("--compare", "engine=remote"), "engine must be local or llm:MODEL"),
        (("--compare", "max_tokens=many"), "max_tokens must be a number"),
        (("--compare", "revision=true", "--compare", "revision=false"), "names revision twice"),
        (("--compare", "max_tokens=1,2,3,4,5,6,7,8,9"), "at most 8"),
        (("--compare", "links_per_fact=-1"), "links_per_fact"),
        (("--prices", "cheap"), "must be two numbers"),
        (("--from", "telegram"), "format must be one of"),
    ],
)
def test_a_wrong_option_names_the_value_and_the_rule(
    replay_command: Run, arguments: tuple[str, ...], message: str
) -> None:
    result = replay_command(ANA, *arguments)
    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())


def test_formats_of_import_are_replayed(replay_command: Run, tmp_path: Path) -> None:
    with Memory(tmp_path / "memory.db") as memory:
        memory.retain_sync(json.loads(ANA.read_text()))
        memory.export_sync(tmp_path / "bank.jsonl")
    said: Any = {"id": "m1", "create_time": 1767600000.0, "author": {"role": "user"}}
    said["content"] = {"content_type": "text", "parts": ["Where is my bike?"]}
    nodes: Any = {"root": {"id": "root", "children": ["a"]}}
    nodes["a"] = {"id": "a", "parent": "root", "children": [], "message": said}
    conversation = {"title": "Bike", "conversation_id": "c1", "create_time": 1767600000.0, "mapping": nodes}
    (tmp_path / "chatgpt.json").write_text(json.dumps([{**conversation, "current_node": "a"}]))
    exported = replayed_as(replay_command, tmp_path, tmp_path / "bank.jsonl", "--last", 1)
    assert asked(exported) == ["What is my blood type?"]
    assert asked(replayed_as(replay_command, tmp_path, tmp_path / "chatgpt.json")) == ["Where is my bike?"]
    coding = replayed_as(replay_command, tmp_path, CODING / "codex.jsonl", "--from", "codex", "--turns", 1)
    assert len(asked(coding)) == 1


def test_messages_without_times_are_placed_by_their_order(replay_command: Run, tmp_path: Path) -> None:
    file = tmp_path / "plain.json"
    file.write_text(json.dumps([{"role": "user", "content": "I live in Rome."}, {"role": "user", "content": "Where?"}]))
    report = replayed_as(replay_command, tmp_path, file)
    assert "state no time" in report["notes"][0]
    assert asked(report) == ["I live in Rome.", "Where?"]
    assert texts_at(report, 1) == ["User: I live in Rome."]


def test_a_file_without_turns_is_refused(replay_command: Run, tmp_path: Path) -> None:
    file = tmp_path / "notes.json"
    file.write_text(json.dumps([{"role": "assistant", "content": "Hello."}]))
    result = replay_command(file)
    assert result.exit_code == 1
    assert "no turn to ask at" in result.stderr


def test_a_kept_bank_can_be_asked_about_earlier_times(replay_command: Run, tmp_path: Path) -> None:
    kept = tmp_path / "kept.db"
    assert replay_command(ANA, "--keep", kept, "--last", 1).exit_code == 0
    with Memory(kept) as memory:
        then = memory.recall_sync("Where does Ana live?", known_at=datetime(2026, 2, 1, tzinfo=UTC))
    assert "Rome" in then.hits[0].text
    assert not any("Lisbon" in hit.text for hit in then.hits)
    assert "in a new file" in replay_command(ANA, "--keep", kept).stderr


def test_a_dry_run_shows_what_would_be_derived_and_keeps_nothing(replay_command: Run, tmp_path: Path) -> None:
    target = tmp_path / "derived.json"
    result = replay_command(ANA, "--dry-run", "--json", target)
    assert result.exit_code == 0, result.output
    assert "Ana: From now on, always answer in metric units." in result.stdout
    assert "nothing was kept" in result.stdout
    derived = json.loads(target.read_text())
    assert [fact["text"] for fact in derived["instructions"]] == ["Ana: From now on, always answer in metric units."]
    assert {"Fernhill Robotics", "Rome"} <= {entity["name"] for entity in derived["entities"]}
    assert {"Hi there!", "Where do I live?"} <= {message["text"] for message in derived["noise"]}
    assert [path.name for path in tmp_path.iterdir()] == ["derived.json"]


_LINE = re.compile(r"^(\d+) \| [^|]* \| (.*)$", re.MULTILINE)


def model(asked: ReceivedRequest) -> JsonValue:
    """Answer each step of a model: one fact per line with Rome, and an answer that cites the first fact shown."""
    match asked.step:
        case "segment":
            lines: list[JsonValue] = [int(number) for number, _ in _LINE.findall(asked.user)]
            return {"groups": [{"topic": "talk", "lines": lines}]}
        case "predict":
            return {"statements": []}
        case "extract":
            found = [int(number) for number, text in _LINE.findall(asked.user) if "I live in Rome" in text]
            return {
                "title": "Talk",
                "narrative": "They talked.",
                "facts": [{"what": "Ana lives in Rome.", "lines": [number], "entities": []} for number in found],
            }
        case "reflect":
            return {"calls": [], "found": True, "text": "In Rome [F1].", "opinions": []}
        case _:
            raise AssertionError(f"nobody expected {asked.step}: {asked.user[:2000]}")


def test_a_model_derives_facts_when_a_session_ends_and_what_it_costs_is_counted(
    replay_command: Run, tmp_path: Path
) -> None:
    with ScriptedServer(model) as server:
        model_and_none = f"engine=local,llm:{server.url}#scripted"
        wanted = ("--compare", model_and_none, "--turns", 4, "--last", 1, "--prices", "1,2")
        report = replayed_as(replay_command, tmp_path, ANA, *wanted, VMEMO_LLM_KEY="sk")
    local, by_model = report["columns"]
    assert local["totals"].get("retain_cents", 0) == 0
    assert by_model["totals"]["retain_cents"] > 0
    assert [fact["text"] for fact in by_model["facts"]] == ["Ana lives in Rome."]
    assert asked(report) == ["Where do I live?"]
    without, answered = report["turns"][0]["given"]
    assert "answer" not in without
    assert answered["answer"] == "In Rome."
    assert answered["cents"] > answered["context_tokens"] / 10_000


def test_files_of_one_name_are_read_whole_and_a_repeated_message_once(replay_command: Run, tmp_path: Path) -> None:
    files: list[Path] = []
    for folder, content in (("a", "I live in Rome."), ("b", "I work in Leeds.")):
        files.append(tmp_path / folder / "chat.json")
        files[-1].parent.mkdir()
        same = {"id": "same", "role": "user", "content": "Hello there.", "timestamp": "2026-01-01T08:00:00Z"}
        own = {"role": "user", "content": content, "timestamp": "2026-01-01T09:00:00Z"}
        files[-1].write_text(json.dumps([same, own]))
    report = replayed_as(replay_command, tmp_path, *files, "--last", 1)
    assert [each["text"] for each in report["messages"]] == ["Hello there.", "I live in Rome.", "I work in Leeds."]
    assert "1 messages were read once" in report["notes"][0]


def test_a_file_that_cannot_be_written_is_refused_before_the_replay(replay_command: Run, tmp_path: Path) -> None:
    result = replay_command(ANA, "--html", tmp_path / "none" / "page.html")
    assert result.exit_code == 1
    assert "there is no folder" in result.stderr
