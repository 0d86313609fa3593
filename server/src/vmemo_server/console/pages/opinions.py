"""Opinions with their confidence over time, observations, and standing instructions."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Response

from vmemo.errors import NotFound
from vmemo.models import ConfidenceChange, Fact, FactId, Network
from vmemo.models.base import Name
from vmemo.models.select import FactSelect
from vmemo_server.console.dependencies import BankPage, ReadPage
from vmemo_server.console.render import is_fragment
from vmemo_server.console.route import ConsoleRoute

router = APIRouter(include_in_schema=False, prefix="/console/banks/{bank}", route_class=ConsoleRoute)
PAGE = 20
SPARK_WIDTH, SPARK_HEIGHT = 120, 28


@router.get("/opinions")
async def opinions(page: ReadPage, after: str = "") -> Response:
    """List the current opinions, newest first, each with the course of its confidence."""
    found = await _believed(page, "opinion", after)
    courses = {fact.id: spark(await page.memory.trajectory(fact.id), fact) for fact in found[:PAGE]}
    more = found[PAGE - 1].id if len(found) > PAGE else None
    template = "opinions_rows.html" if is_fragment(page.request) else "opinions.html"
    return page.render(template, opinions=found[:PAGE], courses=courses, more=more)


@router.get("/opinions/{opinion}")
async def opinion(page: ReadPage, opinion: Name) -> Response:
    """Show an opinion's confidence over time, with the evidence of each change."""
    fact = await page.memory.get(opinion)
    if fact.network != "opinion":
        raise NotFound(f"{fact.short_id} is no opinion; its page is among the facts.")
    changes = await page.memory.trajectory(fact.id)
    ids = [id for change in changes for id in change.evidence]
    evidence = {each.id: each for each in await page.memory.lookup.facts(ids)}
    times = [change.at.timestamp() for change in changes]
    return page.render(
        "opinion.html",
        fact=fact,
        changes=changes,
        evidence=evidence,
        basis=await page.memory.lookup.facts(fact.basis),
        plot=[times, [round(change.after, 3) for change in changes]],
    )


@router.get("/observations")
async def observations(page: ReadPage, after: str = "") -> Response:
    """List the current observations and the user's standing instructions."""
    found = await _believed(page, "observation", after)
    values = {"observations": found[:PAGE], "more": found[PAGE - 1].id if len(found) > PAGE else None}
    if is_fragment(page.request):
        return page.render("observations_rows.html", **values)
    standing = FactSelect(instructions=True, current=True, newest_first=True, limit=100)
    return page.render("observations.html", instructions=await page.memory.lookup.select_facts(standing), **values)


async def _believed(page: BankPage, network: Network, after: str) -> list[Fact]:
    cursor = FactId(after) if after else None
    select = FactSelect(networks=(network,), current=True, newest_first=True, after=cursor, limit=PAGE + 1)
    return await page.memory.lookup.select_facts(select)


def spark(changes: Sequence[ConfidenceChange], fact: Fact) -> str:
    """Return the points of a small line of the confidence."""
    values = [change.after for change in changes] or [fact.confidence or 0.0]
    step = SPARK_WIDTH / max(1, len(values) - 1)
    values = [*values, *([values[0]] if len(values) == 1 else ())]
    return " ".join(f"{n * step:.1f},{(1 - value) * (SPARK_HEIGHT - 4) + 2:.1f}" for n, value in enumerate(values))
