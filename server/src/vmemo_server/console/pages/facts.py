"""The facts of a bank in time, one fact with its history and sources, and its changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Response
from pydantic import BeforeValidator

from vmemo.models import Entity, FactId, Network, utc_now
from vmemo.models.base import Instant, Name
from vmemo.models.requests import DeleteFactRequest, PinFactRequest, UpdateFactRequest
from vmemo.models.select import EntitySelect, FactSelect
from vmemo_server.console.dependencies import BankPage, ReadPage, SearchText, WriteForm, WritePage
from vmemo_server.console.flash import redirect
from vmemo_server.console.render import is_fragment, search_words
from vmemo_server.console.route import ConsoleRoute
from vmemo_server.console.timeline import Timeline

router = APIRouter(include_in_schema=False, prefix="/console/banks/{bank}/facts", route_class=ConsoleRoute)
PAGE = 50
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
Day = Annotated[Instant | None, BeforeValidator(lambda text: text or None)]
"""The value of a date field, which is empty if no date is chosen."""
FactState = Literal["", "current", "closed", "pinned", "instructions"]


@router.get("")
async def facts(
    page: ReadPage,
    q: SearchText = "",
    network: Network | Literal[""] = "",
    state: FactState = "",
    entity: str = "",
    until: Day = None,
    after: str = "",
) -> Response:
    """List facts by the time of their mention, newest first."""
    about = await _entities(page, entity)
    words = search_words(q)
    select = FactSelect(
        networks=(network,) if network else (),
        containing=words,
        current=state == "current",
        closed=state == "closed",
        pinned=state == "pinned",
        instructions=state == "instructions",
        entities=[each.id for each in about] if entity.strip() else None,
        mentioned_before=until,
        after=FactId(after) if after else None,
        newest_first=True,
        limit=PAGE + 1,
    )
    found = [] if entity.strip() and not about else await page.memory.lookup.select_facts(select)
    filters = {"q": q, "network": network, "state": state, "entity": entity}
    filters["until"] = page.request.query_params.get("until", "")
    given = {name: value for name, value in filters.items() if value}
    more = urlencode({**given, "after": found[PAGE - 1].id}) if len(found) > PAGE else None
    shown = found[:PAGE]
    template = ("facts_rows.html" if after else "facts_list.html") if is_fragment(page.request) else "facts.html"
    timeline = await _timeline(page)
    return page.render(template, facts=shown, timeline=timeline, more=more, filters=filters, words=words)


@router.get("/{fact}")
async def fact(page: ReadPage, fact: Name) -> Response:
    """Show one fact: its versions, what replaced it, its sources and its links."""
    why = await page.memory.why(fact)
    versions = await page.memory.history(fact)
    links = [link for link in await page.memory.lookup.links([why.fact.id]) if link.kind != "entity"]
    links.sort(key=lambda link: link.weight, reverse=True)
    linked = {each.id: each for each in await page.memory.lookup.facts([link.target for link in links[:20]])}
    return page.render(
        "fact.html",
        why=why,
        fact=why.fact,
        versions=versions,
        newer={each.fact: each for each in why.newer},
        newer_facts=await page.memory.lookup.facts([each.fact for each in why.newer]),
        links=[(link, linked[link.target]) for link in links[:20] if link.target in linked],
        link_count=len(links),
    )


@router.get("/{fact}/card")
async def card(page: ReadPage, fact: Name) -> Response:
    """Return a fact in short, for a citation or a node that was opened."""
    return page.render("fact_card.html", fact=await page.memory.get(fact))


@router.post("/{fact}/edit")
async def edit(form: WriteForm, fact: Name) -> Response:
    """Write a new version of a fact."""
    texts = {name: form.form.text(name) for name in ("text", "reason")}
    values = {"fact": fact, **texts, "valid_at": form.form.optional("valid_at")}
    written = await form.memory.run(UpdateFactRequest.of(values))
    return redirect(form.path("facts", written.id), "edited")


@router.post("/{fact}/pin")
async def pin(form: WriteForm, fact: Name) -> Response:
    """Pin or unpin a fact."""
    pinned = form.form.text("pinned") == "true"
    written = await form.memory.run(PinFactRequest.of({"fact": fact, "pinned": pinned}))
    if is_fragment(form.request):
        return form.render("pin_button.html", fact=written)
    return redirect(form.path("facts", written.id), "pinned" if pinned else "unpinned")


@router.get("/{fact}/delete")
async def preview(page: WritePage, fact: Name) -> Response:
    """Show what deleting a fact deletes with it."""
    found = await page.memory.get(fact)
    preview = await page.memory.preview_forget(DeleteFactRequest.of({"fact": fact}))
    return page.render("fact_delete.html", fact=found, preview=preview)


@router.post("/{fact}/delete")
async def delete(form: WriteForm, fact: Name) -> Response:
    """Delete a fact with what rests on it."""
    return redirect(form.path("facts"), "forgotten", await form.run(DeleteFactRequest.of({"fact": fact})))


async def _timeline(page: BankPage) -> Timeline:
    """Return the axis from the first mention of a fact to the last, the same for every page of the list."""
    ends = [FactSelect(around=EARLIEST, limit=1), FactSelect(newest_first=True, limit=1)]
    found = [fact.mentioned_at for select in ends for fact in await page.memory.lookup.select_facts(select)]
    return Timeline.between(min(found), max(found)) if found else Timeline.between(utc_now(), utc_now())


async def _entities(page: BankPage, name: str) -> Sequence[Entity]:
    """Return the entities with an id or name."""
    given = name.strip()
    if not given:
        return ()
    by_id = await page.memory.lookup.entity(given)
    return [by_id] if by_id else await page.memory.lookup.select_entities(EntitySelect(names=[given]))
