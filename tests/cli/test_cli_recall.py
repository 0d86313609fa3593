"""recall, reflect, inspect and why show what is there, to people and to machines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from vmemo import Memory, Provenance
from vmemo.cli.inspect import tree
from vmemo.embedding.token_counter import count_tokens
from vmemo.models import NewerFact
from vmemo_conformance.samples import a_fact

Run = Callable[..., Result]


def first_fact(invoke: Run, db: str) -> dict[str, str]:
    return json.loads(invoke("inspect", "facts", "--db", db, "--json").stdout)["facts"][0]


def test_recall_shows_a_table_with_ids_and_dates(invoke: Run, db: str) -> None:
    result = invoke("recall", "Where does Ana work?", "--db", db)
    assert result.exit_code == 0, result.output
    assert "Bo found me a job at Contoso" in result.stdout
    assert "7 June 2024" in result.stdout
    assert first_fact(invoke, db)["id"][:8] in result.stdout
    assert "3 facts" in result.stdout
    assert "showing" not in result.stdout


@pytest.mark.parametrize(
    ("options", "shown", "summary"),
    [
        ((), 10, "showing 10 of 24 facts"),
        (("--limit", "3"), 3, "showing 3 of 24 facts"),
        (("--limit", "30"), 24, "24 facts"),
        (("--all",), 24, "24 facts"),
        (("--top-k", "14"), 14, "14 facts"),
        (("--top-k", "14", "--limit", "5"), 5, "showing 5 of 14 facts"),
    ],
)
def test_recall_shows_a_page_unless_more_is_requested(
    invoke: Run, walks: str, options: tuple[str, ...], shown: int, summary: str
) -> None:
    output = invoke("recall", "Which walk by the river?", "--db", walks, *options).stdout
    assert len(re.findall(r"User: Walk \w+ went", output)) == shown
    assert summary in output
    assert ("--limit N or --all shows more" in output) == summary.startswith("showing")


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('walks') / 'walks.db'}"
    with Memory(url, "default") as memory:
        memory.retain_sync([f"Walk {chr(97 + n) * 3} went past gate {n} by the river." for n in range(24)])
    return url


def test_all_and_limit_cannot_be_combined(invoke: Run, db: str) -> None:
    refused = invoke("recall", "bread", "--all", "--limit", "3", "--db", db)
    assert refused.exit_code == 2
    assert "--all and --limit cannot be combined" in refused.stderr


def test_why_takes_a_short_id_from_recall(invoke: Run, db: str) -> None:
    full = first_fact(invoke, db)["id"]
    assert json.loads(invoke("why", full[:8], "--db", db, "--json").stdout)["fact"]["id"] == full
    refused = invoke("why", "00000000", "--db", db)
    assert refused.exit_code == 1
    assert "There is no fact or message '00000000'" in refused.stderr


def test_recall_takes_at_time_and_top_k(invoke: Run, db: str) -> None:
    arguments = ("recall", "Where does Ana work?", "--top-k", "1", "--db", db, "--json")
    then = json.loads(invoke(*arguments, "--at-time", "2024-03-01").stdout)
    assert [hit["fact"]["text"] for hit in then["hits"]] == ["Ana: I work at Northwind and I live in Leeds."]
    assert then["at_time"] == "2024-03-01T00:00:00Z"


def test_recall_applies_filters(invoke: Run, db: str) -> None:
    def count(*filters: str) -> int:
        return len(json.loads(invoke("recall", "Ana", *filters, "--db", db, "--json").stdout)["hits"])

    assert count("--network", "world") == 3
    assert count("--network", "opinion") == 0
    assert count("--entity", "Bo") == 1
    assert count("--after", "2024-06-01T00:00Z", "--before", "2024-07-01T00:00Z") == 1
    assert count("--tag", "none") == 0


def test_recall_explains_how_each_fact_was_found(invoke: Run, db: str) -> None:
    asked = ("recall", "What did Ana say about Northwind on 7 June 2024?", "--db", db)
    shown = invoke(*asked, "--explain").stdout
    for words in ("found by semantic #1", "keyword #1", "temporal #1", "path Northwind (entity Northwind ", "→ here"):
        assert words in shown
    assert re.search(r"reranked from #\d to #\d, score \d", shown)
    for row in (
        r"type +temporal",
        r"time +7 June 2024",
        r"parts +none",
        r"entities +.*Northwind",
        r"temporal +1 candidate, weight \d",
        r"verbatim +0 candidates, weight \d",
        r"reranker +late, scored 3 candidates",
        r"milliseconds +analyse \d.*embed \d.*total \d",
    ):
        # Long numbers are wrapped.
        assert re.search(row, " ".join(shown.split())), row
    assert "found by" not in invoke(*asked).stdout


def test_an_explanation_is_part_of_the_json(invoke: Run, db: str) -> None:
    asked = ("recall", "Where does Ana work?", "--db", db, "--json")
    told = json.loads(invoke(*asked, "--explain").stdout)
    assert (told["explanation"]["type"], told["explanation"]["reranker"]) == ("factual", "late")
    assert {"semantic", "keyword"} <= set(told["explanation"]["candidates"])
    assert all(hit["reranking"]["after"] == rank for rank, hit in enumerate(told["hits"], start=1))
    plain = json.loads(invoke(*asked).stdout)
    assert plain["explanation"] is None
    assert all((hit["path"], hit["reranking"]) == ([], None) for hit in plain["hits"])
    assert [hit["fact"]["id"] for hit in plain["hits"]] == [hit["fact"]["id"] for hit in told["hits"]]


def test_explain_works_without_hits(invoke: Run, db: str) -> None:
    shown = invoke("recall", "bread", "--tag", "none", "--explain", "--db", db).stdout
    assert "No matching facts." in shown
    assert re.search(r"semantic +0 candidates", shown)


def test_explain_escapes_markup_in_the_question(invoke: Run, db: str) -> None:
    shown = invoke("recall", "Where is [red]Ana[/red] and who is [b]Bo[/b]?\x1b[31m", "--explain", "--db", db).stdout
    assert "Where is [red]Ana[/red]; who is [b]Bo[/b]" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("now", "during"),
    [
        ("2024-06-12T00:00Z", {"start": "2024-06-03T00:00:00Z", "end": "2024-06-10T00:00:00Z"}),
        ("2024-02-14T00:00Z", {"start": "2024-02-05T00:00:00Z", "end": "2024-02-12T00:00:00Z"}),
    ],
)
def test_recall_takes_a_reference_time(invoke: Run, db: str, now: str, during: dict[str, str]) -> None:
    asked = ("recall", "What did Ana do last week?", "--now", now, "--explain", "--json", "--db", db)
    assert json.loads(invoke(*asked).stdout)["explanation"]["during"] == during


def test_context_prints_one_block_within_its_budget(invoke: Run, db: str) -> None:
    result = invoke("context", "Where does Ana work?", "--user", "Ana", "--max-tokens", "120", "--db", db)
    assert result.exit_code == 0, result.output
    assert "# Relevant" in result.stdout
    assert count_tokens(result.stdout.rstrip("\n")) <= 120
    assert "# Relevant" not in invoke("context", "--db", db).stdout
    found = json.loads(invoke("context", "bread", "--db", db, "--json").stdout)
    assert found["user"] == "Ana"
    assert found["text"].count("rye bread") == 1


def test_recall_prints_the_prompt_form(invoke: Run, db: str) -> None:
    result = invoke("recall", "bread", "--prompt", "--max-tokens", "40", "--db", db)
    assert result.stdout.startswith("## 2 September 2024"), "a small budget leaves out the legend"
    assert count_tokens(result.stdout) <= 40
    assert "[bold]rye bread[/bold]" in result.stdout


def test_stored_text_cannot_control_the_terminal(invoke: Run, db: str) -> None:
    evil = "caraway \x1b[31mred\x1b]0;title\x07 alert"
    assert invoke("retain", evil, "--no-infer", "--db", db).exit_code == 0
    for form in ((), ("--prompt",), ("--json",)):
        shown = invoke("recall", "caraway", "--db", db, *form).stdout
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "[bold]rye bread[/bold]" in shown


def test_reflect_answers_with_citations(invoke: Run, db: str) -> None:
    answer = json.loads(invoke("reflect", "What does the bread need?", "--db", db, "--json").stdout)
    assert answer["extractive"] is True
    assert {cited["fact"] for cited in answer["citations"]} <= {fact["id"] for fact in answer["facts"]}
    assert "caraway" in invoke("reflect", "What does the bread need?", "--db", db).stdout


def test_why_shows_the_source_message(invoke: Run, db: str) -> None:
    fact = first_fact(invoke, db)
    chain = json.loads(invoke("why", fact["id"], "--db", db, "--json").stdout)
    assert chain["messages"][0]["content"] == "I work at Northwind and I live in Leeds."
    shown = invoke("why", fact["id"], "--db", db).stdout
    assert chain["messages"][0]["id"] in shown
    assert "episode of Mon 5 Feb 2024" in shown


@pytest.mark.parametrize("what", ["status", "banks", "facts", "episodes", "entities", "messages"])
def test_inspect_lists_every_type_of_record(invoke: Run, filled: Path, what: str) -> None:
    db = str(filled)
    assert json.loads(invoke("inspect", what, "--db", db, "--json").stdout)
    assert invoke("inspect", what, "--db", db).stdout.strip()


def test_inspect_is_paged(invoke: Run, filled: Path) -> None:
    seen: list[str] = []
    more: str | None = None
    while more is not None or not seen:
        after = ("--after", more) if more else ()
        page = json.loads(invoke("inspect", "messages", "--limit", "2", *after, "--db", str(filled), "--json").stdout)
        seen += [message["id"] for message in page["messages"]]
        more = page["next"]
    assert len(seen) == len(set(seen)) == 3
    assert f"--after {seen[1]}" in invoke("inspect", "messages", "--limit", "2", "--db", str(filled)).stdout


def test_inspect_lists_messages_of_a_document(invoke: Run, filled: Path) -> None:
    found = invoke("inspect", "messages", "--document", "second", "--db", str(filled), "--json").stdout
    assert len(json.loads(found)["messages"]) == 2
    assert invoke("inspect", "facts", "--document", "second", "--db", str(filled)).exit_code == 2


def test_the_database_can_be_set_in_the_environment(invoke: Run, filled: Path) -> None:
    shown = invoke("inspect", "--json", VMEMO_URL=f"sqlite:///{filled}")
    assert json.loads(shown.stdout)["messages"] == 3


READING = [
    ("recall", "x"),
    ("reflect", "x"),
    ("inspect",),
    ("why", "x"),
    ("forget", "--all", "--yes"),
    ("reembed",),
    ("export", "x.jsonl"),
]


@pytest.mark.parametrize("arguments", READING, ids=lambda arguments: arguments[0])
def test_a_missing_database_or_bank_is_an_error_and_not_created(
    invoke: Run, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    missing = invoke(*arguments, "--db", "missing.db", "--json")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert json.loads(missing.stderr)["error"] == "NotFound"
    assert not Path("missing.db").exists()
    wrong = invoke(*arguments, "--db", db, "--bank", "typo")
    assert wrong.exit_code == 1
    assert "There is no bank 'typo'" in wrong.stderr
    assert "Existing banks: default." in wrong.stderr
    assert json.loads(invoke("inspect", "banks", "--db", db, "--json").stdout) == {"banks": ["default"]}


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("recall", " "), 1, "must have at least 1 character"),
        (("recall", "x", "--budget", "huge"), 2, "is not low, mid, high"),
        (("recall", "x", "--network", "dream"), 2, "experience"),
        (("recall", "x", "--at-time", "2024-01-01T00:00"), 2, "has no time zone"),
        (("recall", "x", "--now", "2024-01-01T00:00"), 2, "has no time zone"),
        (("recall", "x", "--now", "yesterday"), 2, "is not a date and time in ISO 8601"),
        (("recall", "x", "--explain", "--prompt"), 2, "cannot be combined"),
        (("recall", "x", "--after", "2024-02-01T00:00Z", "--before", "2024-01-01T00:00Z"), 2, "end must be later"),
        (("recall",), 2, "Missing argument"),
        (("why", "nothing"), 1, "no fact or message 'nothing'"),
        (("inspect", "dreams"), 2, "dreams"),
        (("inspect", "facts", "--limit", "0"), 2, "--limit"),
    ],
)
def test_invalid_arguments_are_usage_errors(
    invoke: Run, filled: Path, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    result = invoke(*arguments, "--db", str(filled))
    assert (result.exit_code, result.stdout) == (code, "")
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


def test_an_unsupported_database_url_is_an_error(invoke: Run) -> None:
    result = invoke("recall", "x", "--db", "mysql://host/db")
    assert result.exit_code == 1
    assert "sqlite:///" in result.stderr


def test_why_shows_each_newer_fact_once() -> None:
    old, new, other = (a_fact(text, id=text) for text in ("old", "new", "other"))
    newer = (
        NewerFact(fact=new.id, kind="replaces", probability=0.8),
        NewerFact(fact=other.id, kind="outdates", probability=0.4),
    )
    shown = tree(Provenance(fact=old, superseded_by=(new,), newer=newer))
    assert [str(node.label) for node in shown.children] == [
        f"replaced by {new.id}, revision model 0.80: new",
        f"maybe outdated by {other.id}, revision model 0.40",
    ]
