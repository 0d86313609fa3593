"""Transcripts of each agent are imported: words without code, commands with outcomes, and anchors in the repository."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from agent_hooks import commit, git, in_loop
from typer.testing import CliRunner

from vmemo import InvalidInput, Memory
from vmemo.cli.app import app
from vmemo_agents.anchored_recall import recall
from vmemo_agents.repository import Repository, change_notes
from vmemo_agents.retain import import_transcripts, is_personal, messages_of, prose, retain_messages, shown_command
from vmemo_agents.transcripts import AgentCall, AgentName, Line, Transcript

RECORDED: dict[AgentName, str] = {
    "claude-code": "claude_code.jsonl",
    "codex": "codex.jsonl",
    "cursor": "cursor.jsonl",
    "gemini-cli": "gemini_cli.jsonl",
    "opencode": "opencode.json",
}
Recorded = Callable[[str], Path]


@pytest.mark.parametrize("agent", RECORDED)
@in_loop
async def test_a_recorded_session_keeps_decisions_wishes_and_outcomes_of_commands(
    agent: AgentName, transcript: Recorded, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    async with Memory(":memory:") as memory:
        await import_transcripts(agent, memory, transcript(RECORDED[agent]))
        messages = await memory.messages()
        said = [message.content for message in messages]
        decided = next(message for message in messages if message.content.startswith("We go with Postgres"))
        assert decided.metadata["repository"] == "github.com/ana/shop"
        assert list(decided.metadata["files"]) == ["src/lock.py"]  # pyright: ignore[reportArgumentType]
        assert decided.tags == ("file:src/lock.py",)
        assert said[-1].startswith("From now on write commit messages")
        assert any("which is released when the connection ends" in text for text in said)
        everything = "\n".join(said)
        for left_out in ("select pg_advisory_lock(1)", "SECRET", "crocodiles", "penguins", "etcd", "Leeds", "ls -la"):
            assert left_out not in everything
        # The transcripts of Cursor have no results of commands.
        outcomes = ["Ran `make test`: worked."] if agent != "cursor" else []
        assert [text for text in said if text.startswith("Ran")][-1:] == outcomes
        if agent != "cursor":
            assert decided.timestamp.isoformat() == "2026-03-03T10:00:00+00:00"
            assert decided.metadata["commit"] == git(project, "rev-parse", "HEAD").strip()
            assert any(text.startswith("Ran `make test`: failed: ") for text in said)
        found = await memory.recall("Which kind of lock do we use, and why?")
        assert "advisory locks" in found.hits[0].text


@in_loop
async def test_messages_of_opencode_2_are_read(project: Path, tmp_path: Path) -> None:
    state = {
        "status": "completed",
        "input": {"command": "make test"},
        "content": [{"type": "text", "text": "12 passed"}],
    }
    messages = [
        {"id": "m1", "type": "user", "text": "We use advisory locks of Postgres.", "time": {"created": 1772532000000}},
        {"id": "m2", "type": "synthetic", "text": "crocodiles", "time": {"created": 1772532001000}},
        {"id": "m3", "type": "assistant", "time": {"created": 1772532002000}}
        | {
            "content": [
                {"type": "text", "text": "The lock is in src/lock.py."},
                {"type": "tool", "name": "shell", "state": state},
            ]
        },
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"info": {"id": "ses", "directory": str(project)}, "messages": messages}), "utf-8")
    async with Memory(":memory:") as memory:
        await import_transcripts("opencode", memory, path)
        said = [message.content for message in await memory.messages()]
    assert said == ["We use advisory locks of Postgres.", "The lock is in src/lock.py.", "Ran `make test`: worked."]


@in_loop
async def test_a_session_that_grows_is_imported_once_and_in_order(transcript: Recorded, project: Path) -> None:
    path = transcript("claude_code.jsonl")
    whole = path.read_text("utf-8")
    lines = whole.splitlines(keepends=True)
    async with Memory(":memory:") as memory:
        for length in (4, 9, len(lines), len(lines)):
            path.write_text("".join(lines[:length]), "utf-8")
            await import_transcripts("claude-code", memory, path.parent)
        grown = [(message.role, message.content) for message in await memory.messages()]
    path.write_text(whole, "utf-8")
    async with Memory(":memory:") as memory:
        await import_transcripts("claude-code", memory, path)
        assert grown == [(message.role, message.content) for message in await memory.messages()]
        facts = [fact.text for fact in await memory.facts()]
        assert len(facts) == len(set(facts))


@in_loop
async def test_the_same_command_in_two_sessions_is_one_fact_with_two_sources(project: Path, tmp_path: Path) -> None:
    async with Memory(":memory:") as memory:
        for day in (3, 4):
            about = {"sessionId": f"s{day}", "cwd": str(project), "timestamp": f"2026-03-0{day}T10:00:00Z"}
            use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "make test"}}
            result = {"type": "tool_result", "tool_use_id": "t", "content": "12 passed"}
            lines = [
                {"type": "assistant", "uuid": "1", "message": {"content": [use]}, **about},
                {"type": "user", "uuid": "2", "message": {"content": [result]}, **about},
            ]
            path = tmp_path / f"{day}.jsonl"
            path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
            await import_transcripts("claude-code", memory, path)
        [worked] = await memory.facts()
        assert worked.text == "Tool: Ran `make test`: worked."
        assert len(worked.messages) == 2


@in_loop
async def test_a_fact_whose_file_changed_is_marked_and_others_are_not(transcript: Recorded, project: Path) -> None:
    (project / "src" / "lock.py").write_text("LOCK = 'postgres'\n")
    commit(project, "Use advisory locks", at="2026-03-03T10:30:00+00:00")
    async with Memory(":memory:") as memory:
        await import_transcripts("claude-code", memory, transcript("claude_code.jsonl"))
        repository = Repository.of(project)
        facts = {fact.text: fact for fact in await memory.facts()}
        assert change_notes(repository, facts.values()) == {}, "the commit of the session itself is no change since"
        (project / "src" / "lock.py").write_text("LOCK = 'file'\n")
        (project / "README.md").write_text("Another shop.\n")
        notes = change_notes(repository, facts.values())
        marked = [text for text, fact in facts.items() if fact.short_id in notes]
        assert any("advisory locks" in text for text in marked)
        assert not any("imperative" in text or "make test" in text for text in marked)
        assert set(notes.values()) == {"said before src/lock.py changed"}


@in_loop
async def test_recall_at_a_commit_knows_what_was_said_up_to_it_on_its_branch(project: Path, tmp_path: Path) -> None:
    git(project, "switch", "--quiet", "--create", "experiment")
    (project / "README.md").write_text("An experiment.\n")
    commit(project, "Try etcd", at="2026-03-04T09:00:00+00:00")
    git(project, "switch", "--quiet", "main")
    (project / "src" / "lock.py").write_text("LOCK = 'postgres'\n")
    commit(project, "Use advisory locks", at="2026-03-05T09:00:00+00:00")
    said = [
        ("main", "2026-03-03T10:00:00Z", "The locks of the scheduler are held in Redis."),
        ("experiment", "2026-03-04T10:00:00Z", "On this branch the locks of the scheduler are held in etcd."),
        ("main", "2026-03-06T10:00:00Z", "The locks of the scheduler are advisory locks of Postgres."),
    ]
    lines = [
        {"type": "user", "uuid": str(number), "sessionId": "s", "cwd": str(project), "gitBranch": branch}
        | {"timestamp": time, "message": {"role": "user", "content": text}}
        for number, (branch, time, text) in enumerate(said)
    ]
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    repository, query = Repository.of(project), "Where are the locks of the scheduler held?"
    async with Memory(":memory:") as memory:
        await import_transcripts("claude-code", memory, path)

        async def texts(commit: str | None) -> str:
            _, hits = await recall(memory, query, repository, at_commit=commit)
            return " ".join(each.hit.text for each in hits)

        now, then, aside = await texts(None), await texts("main"), await texts("experiment")
        assert all(word in now for word in ("Redis", "etcd", "Postgres"))
        assert "Redis" in then
        assert "etcd" not in then
        assert "Postgres" not in then, "it was said after the commit"
        assert "Redis" in aside
        assert "Postgres" not in aside
        with pytest.raises(InvalidInput, match="no commit 'v9'"):
            await texts("v9")


def written_session(path: Path, project: Path, day: int) -> Transcript:
    """Return the session of a file: lines of the user, of the agent, commands with outcomes, and changed files."""
    lines: list[Line] = []
    for number, text in enumerate(path.read_text("utf-8").splitlines()):
        kind, _, rest = text.partition(" ")
        time = datetime(2026, 4, day, 9, tzinfo=UTC) + timedelta(minutes=number)
        command, *outcome = rest.rsplit(" |", 2)
        match kind:
            case "U:":
                line = Line(str(number), "user", rest, time)
            case "A:":
                line = Line(str(number), "assistant", rest, time)
            case "$":
                call = AgentCall(command=command, failed=outcome[0].strip() == "fail", output=outcome[1])
                line = Line(str(number), "assistant", "", time, (call,))
            case _:
                line = Line(str(number), "assistant", "", time, (AgentCall(files=(rest,)),))
        lines.append(line)
    return Transcript("claude-code", path.stem, lines, project)


@in_loop
async def test_decisions_of_three_sessions_are_found_among_the_first_three_facts(project: Path) -> None:
    folder = Path(__file__).parent / "sessions"
    questions = json.loads((folder / "questions.json").read_text("utf-8"))
    async with Memory(":memory:") as memory:
        for day, path in enumerate(sorted(folder.glob("*.txt")), start=1):
            await retain_messages(memory, messages_of(written_session(path, project, day)))
        found = [
            any(evidence in hit.text for hit in (await memory.recall(question, max_tokens=1500)).hits[:3])
            for question, evidence in questions
        ]
    assert sum(found) >= 0.85 * len(questions), [each for each, ok in zip(questions, found, strict=True) if not ok]


@in_loop
async def test_recall_by_file_returns_what_was_said_about_it(transcript: Recorded, project: Path) -> None:
    async with Memory(":memory:") as memory:
        await import_transcripts("claude-code", memory, transcript("claude_code.jsonl"))
        _, hits = await recall(memory, "What did we say?", Repository.of(project), files=["src/lock.py"])
        assert hits
        assert all(each.files == ("src/lock.py",) for each in hits)


def test_the_command_imports_a_transcript_and_names_the_problem_of_another_file(
    transcript: Recorded, tmp_path: Path
) -> None:
    db = str(tmp_path / "memory.db")
    imported = CliRunner().invoke(
        app, ["import", str(transcript("codex.jsonl")), "--from", "codex", "--db", db, "--bank", "shop", "--json"]
    )
    assert imported.exit_code == 0, imported.output
    assert len(json.loads(imported.stdout)["stored"]) == 5
    (tmp_path / "other.json").write_text('{"a": 1}')
    refused = CliRunner().invoke(app, ["import", str(tmp_path / "other.json"), "--from", "codex", "--db", db])
    assert refused.exit_code == 1
    assert "holds no message of a codex session" in refused.stderr
    unknown = CliRunner().invoke(app, ["import", str(tmp_path / "other.json"), "--from", "aider", "--db", db])
    assert unknown.exit_code == 1
    assert "format must be one of" in unknown.stderr


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("cd /srv/app && npm test 2>&1 | tail -20", "npm test"),
        ("FOO=1 ./scripts/release.sh v1.2 > out.log", "FOO=1 ./scripts/release.sh v1.2"),
        ("git status; git commit -m 'Fix it'; git push", "git commit -m 'Fix it' && git push"),
        ("python - <<'EOF'\nimport os\nprint(os.getcwd())\nEOF", "python -"),
        ("grep -rn lock src | head; ls", ""),
        ("", ""),
    ],
)
def test_of_a_command_the_part_that_does_something_is_kept(command: str, shown: str) -> None:
    assert shown_command(command) == shown


@pytest.mark.parametrize(
    ("instruction", "personal"),
    [
        ("I prefer short answers, please don't explain every step.", True),
        ("Always answer in German.", True),
        ("From now on, ask me before you delete anything.", True),
        ("Commit messages in this repo have no prefix.", False),
        ("Never use floats for amounts.", False),
        ("Show me the output of `make test` after each change.", False),
        ("Always ask me before you touch src/lock.py.", False),
        ("We answer customers within a day.", False),
    ],
)
def test_an_instruction_is_personal_if_it_is_about_the_person_and_names_nothing_of_a_project(
    instruction: str, personal: bool
) -> None:
    assert is_personal(instruction) is personal


def test_code_and_pasted_output_are_left_out_of_a_message() -> None:
    text = (
        "It fails with this:\n\nTraceback (most recent call last):\n  File \"a.py\"\n    g()\nKeyError: 'sub'\n\n"
        "- keep the first point\n- keep the second point, too\n- and `verify_token`\n\n"
        "Run this:\n```sh\nmake test\n```\nand not\n```python\na = 1\nb = 2\nc = 3\n```\nbecause it is slow."
    )
    kept = prose(text)
    assert "Traceback" not in kept
    assert "a = 1" not in kept
    for part in ("keep the second point, too", "`verify_token`", "`make test`", "because it is slow."):
        assert part in kept
    assert prose("<system-reminder>" * 5_000 + "x") == prose("<system-reminder>" * 5_000 + "x")
