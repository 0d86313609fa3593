"""The overview of a bank: counts, growth, usage and cost, queue and health."""

from __future__ import annotations

from fastapi import APIRouter, Response

from vmemo.models.requests import MaintainRequest, ProcessRequest
from vmemo.models.results import Usage
from vmemo.server.background import BackgroundWorker
from vmemo.server.console.dependencies import BankPage, ReadPage, WriteForm
from vmemo.server.console.flash import redirect
from vmemo.server.console.route import ConsoleRoute

router = APIRouter(include_in_schema=False, prefix="/console/banks/{bank}", route_class=ConsoleRoute)


@router.get("")
async def overview(page: ReadPage) -> Response:
    """Show the state of the bank."""
    status = await page.memory.status()
    total = sum(
        (
            Usage(calls=each.calls, input_tokens=each.input_tokens, output_tokens=each.output_tokens, cost=each.cost)
            for each in status.spending
        ),
        Usage(),
    )
    growth = await page.memory.lookup.growth()
    days = [each.day.timestamp() for each in growth]
    plot = [days, _sums([each.facts for each in growth]), _sums([each.messages for each in growth])]
    return page.render(
        "overview.html",
        status=status,
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
    await form.memory.run(MaintainRequest())
    return redirect(form.path(), "maintained")


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
