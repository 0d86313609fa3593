"""Pages of the list of banks, the overview of one, and its profile."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from fastapi import Request, Response

from vmemo.errors import NotFound, VmemoError
from vmemo.models import Fact, Profile
from vmemo.models.requests import BackgroundRequest, CreateBankRequest, MaintainRequest, ProcessRequest, ProfileUpdate
from vmemo.models.results import Usage
from vmemo.models.select import EntitySelect, FactSelect
from vmemo_server.background import BackgroundWorker
from vmemo_server.console.dependencies import BankPage, ReadPage, SignedIn, WriteForm
from vmemo_server.console.render import bank_path, is_fragment, redirect, render
from vmemo_server.console.route import console_router
from vmemo_server.console.session import checked_form
from vmemo_server.dependencies import AppState, open_session

router = console_router()
PAGE = 50


@router.get("")
@router.get("/")
async def banks(request: Request, principal: SignedIn, q: str = "", after: str = "") -> Response:
    """List the banks that the principal may read, by name."""
    names = principal.readable(await AppState.of(request).memory.banks())
    wanted = q.strip().casefold()
    found = [name for name in names if wanted in name.casefold() and name > after]
    values = {
        "banks": found[:PAGE],
        "more": found[PAGE - 1] if len(found) > PAGE else None,
        "total": len(names),
        "q": q,
        "can_create": principal.permission != "read",
    }
    return render(request, "banks_rows.html" if is_fragment(request) else "banks.html", values)


@router.get("/banks/{bank}/summary")
async def summary(page: ReadPage) -> Response:
    """Return the counts of one bank, for its row in the list."""
    try:
        status = await page.memory.status()
    except NotFound:
        raise
    except VmemoError as error:
        # A bank of another embedder must not hide the others.
        return page.render("bank_summary.html", status=None, problem=str(error))
    return page.render("bank_summary.html", status=status, problem="")


@router.post("/banks")
async def create(request: Request, principal: SignedIn) -> Response:
    """Create a bank unless it exists."""
    form = await checked_form(request)
    name = form.text("name").strip()
    session = await open_session(request, principal, name, "write", create=True, interface="console")
    await session.memory.run(CreateBankRequest())
    return redirect(bank_path(name), "created")


LATEST, CHANGES, INSTRUCTIONS, ENTITIES = 8, 5, 5, 40


@router.get("/banks/{bank}")
async def overview(page: ReadPage) -> Response:
    """Show what the bank holds and its state."""
    store, bank = page.store, page.bank
    latest = FactSelect(current=True, newest_first=True, limit=LATEST)
    status = await page.memory.status()
    total = sum((each.usage for each in status.spending), Usage())
    growth = await store.daily_counts(bank)
    days = [each.day.timestamp() for each in growth]
    counts = [each.facts for each in growth], [each.messages for each in growth]
    return page.render(
        "overview.html",
        status=status,
        # What the agent said itself is shown only if there is nothing else.
        latest=await store.facts(bank, replace(latest, networks=("world",))) or await store.facts(bank, latest),
        changes=await _changes(page),
        instructions=await store.facts(bank, replace(latest, instructions=True, limit=INSTRUCTIONS)),
        entities=await store.entities(bank, EntitySelect(most_mentioned=True, limit=ENTITIES)),
        profile=await page.memory.profile(),
        total=total,
        plot=[days, *(list(accumulate(each)) for each in counts)],
        worker=_worker(page),
    )


@router.get("/banks/{bank}/queue")
async def queue(page: ReadPage) -> Response:
    """Return the queue and the health, which the overview renews."""
    return page.render("queue_part.html", status=await page.memory.status(), worker=_worker(page))


@router.post("/banks/{bank}/process")
async def process(form: WriteForm) -> Response:
    """Derive facts from all pending messages."""
    await form.memory.run(ProcessRequest())
    return redirect(form.path(), "processed")


@router.post("/banks/{bank}/maintain")
async def maintain(form: WriteForm) -> Response:
    await form.run(MaintainRequest())
    return redirect(form.path(), "maintained")


async def _changes(page: BankPage) -> list[tuple[Fact, Fact | None]]:
    """Return the facts of late mentions that were closed last, each with the fact that replaced it."""
    select = FactSelect(closed=True, networks=("world", "experience"), newest_first=True, limit=20 * CHANGES)
    closed = await page.store.facts(page.bank, select)
    closed.sort(key=lambda fact: fact.invalid_at or fact.expired_at or fact.mentioned_at, reverse=True)
    closed = closed[:CHANGES]
    newer = await page.store.facts(page.bank, FactSelect(supersedes=[fact.id for fact in closed]))
    replaced = {fact.supersedes: fact for fact in newer}
    return [(fact, replaced.get(fact.id)) for fact in closed]


def _worker(page: BankPage) -> str:
    """Return the state of the background worker in words."""
    worker: BackgroundWorker | None = page.request.app.state.background_worker
    if worker is None:
        return "This server runs no jobs; other processes do."
    return worker.problem or "running"


TRAITS = {
    "skepticism": ("trusting", "skeptical"),
    "literalism": ("reads between the lines", "literal"),
    "empathy": ("detached", "empathetic"),
}
"""The traits, with the ends of their scales."""
FORMER = 50


@router.get("/banks/{bank}/profile")
async def profile(page: ReadPage) -> Response:
    """Show the profile and the ones before."""
    former = await page.memory.former_profiles()
    return page.render(
        "profile.html",
        profile=await page.memory.profile(),
        former=former[::-1][:FORMER],
        traits=TRAITS,
        has_model=page.memory.forms_opinions,
    )


@router.post("/banks/{bank}/profile")
async def save(form: WriteForm) -> Response:
    values: dict[str, object] = {name: form.form.text(name) for name in ("name", "background", "bias")}
    values["disposition"] = {name: form.form.text(name) for name in TRAITS}
    await form.memory.run(ProfileUpdate(profile=Profile.of(values)))
    return redirect(form.path("profile"), "saved")


@router.post("/banks/{bank}/profile/background")
async def add_background(form: WriteForm) -> Response:
    """Merge a statement into the background."""
    await form.memory.run(BackgroundRequest.of({"snippet": form.form.text("snippet")}))
    return redirect(form.path("profile"), "background")
