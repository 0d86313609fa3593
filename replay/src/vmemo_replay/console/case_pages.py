"""The Cases page of a bank: what it must and must not recall, as files of `vmemo test` state it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fastapi import Response

from vmemo.errors import InvalidInput
from vmemo.models import MessageId
from vmemo.models.records import shortened
from vmemo.models.requests import RecallRequest
from vmemo.models.select import MessageSelect
from vmemo_replay.case_run import ask_bank
from vmemo_replay.cases import Case, PlacedCase, Source, cases_text, parse_cases
from vmemo_replay.console.case_store import MAX_CASES, delete_case, keep_cases, kept_cases, note_results
from vmemo_replay.record import expected_keys
from vmemo_server.console.dependencies import BankPage, ReadPage, WriteForm
from vmemo_server.console.render import redirect
from vmemo_server.console.route import console_router

router = console_router("/banks/{bank}/cases")
OFFERED = 10
"""First hits that the form of a new case offers."""
_FILE = Path("cases.yaml")


@router.get("")
async def cases(page: ReadPage) -> Response:
    """List the cases with their last results."""
    kept = await kept_cases(page.state, page.bank)
    ids = [MessageId(id) for each in kept for id in each.messages]
    named = await page.store.messages(page.bank, MessageSelect(ids=ids))
    messages = {message.id: f"{message.voice}: {message.content}" for message in named}
    # The reader knows what was said, and not the ids of messages.
    quoted = {repr(id): f"“{shortened(text, 80)}”" for id, text in messages.items()}
    failures = {each.id: [_with_texts(line, quoted) for line in each.failures] for each in kept}
    failed = sum(bool(each.failures) for each in kept)
    return page.render("cases.html", cases=kept, messages=messages, failures=failures, failed=failed, most=MAX_CASES)


def _with_texts(failure: str, quoted: Mapping[str, str]) -> str:
    for id, text in quoted.items():
        failure = failure.replace(id, text)
    return failure


@router.get("/new")
async def new(page: ReadPage, query: str) -> Response:
    """Show the form of a case, with the present hits of its question."""
    found = await page.memory.run(RecallRequest.of({"query": query}))
    hits, keys = found.hits[:OFFERED], expected_keys(found.hits)
    marks = {hit.id: each.useful for hit in hits for each in hit.fact.feedback if each.question == found.query}
    offered = [(hit, keys[hit.id], marks.get(hit.id)) for hit in hits]
    return page.render("case_new.html", query=found.query, hits=offered)


@router.post("")
async def add(form: WriteForm) -> Response:
    """Add a case of chosen hits."""
    sent = form.form
    chosen = {sent.text(f"key{number}"): sent.text(f"hit{number}") for number in range(OFFERED)}
    first = [key for key, choice in chosen.items() if choice == "first"]
    if len(first) > 1:
        raise InvalidInput(f"One hit can be the first one, not {len(first)}. Nothing was stored.")
    values: dict[str, object] = {
        "question": sent.text("query"),
        "must_recall": tuple(key for key, choice in chosen.items() if choice == "must"),
        "must_not_recall": tuple(key for key, choice in chosen.items() if choice == "not"),
        "first": next(iter(first), None),
        "silent": True if sent.text("silent") == "true" else None,
    }
    await keep_cases(form.state, form.store, form.bank, [Case.of(values)])
    return redirect(form.path("cases"), "saved")


@router.post("/file")
async def add_file(form: WriteForm) -> Response:
    """Add the cases of a file; they ask this bank in place of their sources."""
    placed = parse_cases(form.form.text("yaml"), _FILE, _source(form))
    await keep_cases(form.state, form.store, form.bank, [each.case for each in placed])
    return redirect(form.path("cases"), "saved")


@router.get("/cases.yaml")
async def download(page: ReadPage) -> Response:
    """Return the cases as a file that `vmemo test` runs."""
    kept = await kept_cases(page.state, page.bank)
    text = cases_text({"db": "memory.db", "bank": page.bank}, [each.case for each in kept])
    headers = {"content-disposition": 'attachment; filename="cases.yaml"'}
    return Response(text, media_type="application/yaml", headers=headers)


@router.post("/run")
async def run(form: WriteForm) -> Response:
    """Run the cases, one after the other."""
    memory = form.memory.without_creation()
    placed = {
        each.id: PlacedCase(_FILE, number, each.case, _source(form))
        for number, each in enumerate(await kept_cases(form.state, form.bank), start=1)
    }
    results = {id: await ask_bank(memory, each) for id, each in placed.items()}
    await note_results(form.state, form.bank, results)
    return redirect(form.path("cases"), "")


@router.post("/{case}/delete")
async def delete(form: WriteForm, case: int) -> Response:
    await delete_case(form.state, form.bank, case)
    return redirect(form.path("cases"), "saved")


def _source(page: BankPage) -> Source:
    return Source.of({"db": "memory.db", "bank": page.bank})
