"""The overview of a bank: what it holds, what changed, growth, usage and cost, queue and health."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Response

from vmemo.models import Fact
from vmemo.models.requests import MaintainRequest, ProcessRequest
from vmemo.models.results import Usage
from vmemo.models.select import EntitySelect, FactSelect
from vmemo_server.background import BackgroundWorker
from vmemo_server.console.dependencies import BankPage, ReadPage, WriteForm
from vmemo_server.console.flash import redirect
from vmemo_server.console.route import ConsoleRoute

router = APIRouter(include_in_schema=False, prefix="/console/banks/{bank}", route_class=ConsoleRoute)
LATEST, CHANGES, INSTRUCTIONS, ENTITIES = 8, 5, 5, 40


@router.get("")
async def overview(page: ReadPage) -> Response:
    """Show what the bank holds and its state."""
    lookup = page.memory.lookup
    latest = FactSelect(current=True, newest_first=True, limit=LATEST)
    status = await page.memory.status()
    total = sum(
        (
            Usage(calls=each.calls, input_tokens=each.input_tokens, output_tokens=each.output_tokens, cost=each.cost)
            for each in status.spending
        ),
        Usage(),
    )
    growth = await lookup.growth()
    days = [each.day.timestamp() for each in growth]
    plot = [days, _sums([each.facts for each in growth]), _sums([each.messages for each in growth])]
    return page.render(
        "overview.html",
        status=status,
        # What the agent said itself is shown only if there is nothing else.
        latest=await lookup.select_facts(replace(latest, networks=("world",))) or await lookup.select_facts(latest),
        changes=await _changes(page),
        instructions=await lookup.select_facts(replace(latest, instructions=True, limit=INSTRUCTIONS)),
        entities=await lookup.select_entities(EntitySelect(most_mentioned=True, limit=ENTITIES)),
        profile=await page.memory.profile(),
        total=total,
        plot=plot,
        worker=_worker(page),
    )


@router.get("/queue")
async def queue(page: ReadPage) -> Response:
    """Return the queue and the health, which the overview renews."""
    return page.render("queue_part.html", status=await page.memory.status(), worker=_worker(page))


@router.post("/process")
async def process(form: WriteForm) -> Response:
    """Derive facts from all pending messages."""
    await form.memory.run(ProcessRequest())
    return redirect(form.path(), "processed")


@router.post("/maintain")
async def maintain(form: WriteForm) -> Response:
    """Run maintenance."""
    await form.run(MaintainRequest())
    return redirect(form.path(), "maintained")


async def _changes(page: BankPage) -> list[tuple[Fact, Fact | None]]:
    """Return the facts of late mentions that were closed last, each with the fact that replaced it."""
    select = FactSelect(closed=True, networks=("world", "experience"), newest_first=True, limit=20 * CHANGES)
    closed = await page.memory.lookup.select_facts(select)
    closed = sorted(closed, key=lambda fact: fact.invalid_at or fact.expired_at or fact.mentioned_at)[
        : -CHANGES - 1 : -1
    ]
    newer = await page.memory.lookup.select_facts(FactSelect(supersedes=[fact.id for fact in closed]))
    replaced = {fact.supersedes: fact for fact in newer if not fact.is_rest}
    return [(fact, replaced.get(fact.id)) for fact in closed]


def _sums(counts: list[int]) -> list[int]:
    total, sums = 0, list[int]()
    for count in counts:
        total += count
        sums.append(total)
    return sums


def _worker(page: BankPage) -> str:
    """Return the state of the background worker in words."""
    worker: BackgroundWorker | None = page.request.app.state.background_worker
    if worker is None:
        return "This server runs no jobs; other processes do."
    return worker.problem or "running"
