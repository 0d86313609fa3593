"""The entities of a bank, one entity, and merges."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import APIRouter, Response

from vmemo.errors import NotFound
from vmemo.models.base import Name
from vmemo.models.requests import MergeEntitiesRequest, UndoMergeRequest
from vmemo.models.select import EntitySelect, FactSelect
from vmemo_server.console.dependencies import ReadPage, WriteForm
from vmemo_server.console.flash import redirect
from vmemo_server.console.render import is_fragment
from vmemo_server.console.route import ConsoleRoute

router = APIRouter(include_in_schema=False, prefix="/console/banks/{bank}", route_class=ConsoleRoute)
PAGE = 50
FACTS = 30
MERGES = 50


@router.get("/entities")
async def entities(page: ReadPage, q: str = "", skip: int = 0) -> Response:
    """List entities, those with most facts first."""
    wanted = q.strip() or None
    select = EntitySelect(containing=wanted, most_mentioned=True, offset=max(0, skip), limit=PAGE + 1)
    found = await page.memory.lookup.select_entities(select)
    more = urlencode({"q": q, "skip": max(0, skip) + PAGE}) if len(found) > PAGE else None
    values = {"entities": found[:PAGE], "more": more, "q": q}
    if is_fragment(page.request):
        return page.render("entities_rows.html", **values)
    merges = await page.memory.merges()
    names = {each.id: each.name for each in await page.memory.lookup.entities([merge.entity for merge in merges])}
    return page.render("entities.html", merges=merges[::-1][:MERGES], names=names, **values)


@router.get("/entities/{entity}")
async def entity(page: ReadPage, entity: Name) -> Response:
    """Show one entity: its names, facts, observations, neighbours and merges."""
    lookup = page.memory.lookup
    found = await lookup.entity(entity)
    if found is None:
        raise NotFound(f"There is no entity {entity!r:.80} in this bank.")
    facts = await lookup.select_facts(FactSelect(entities=[found.id], newest_first=True, limit=FACTS + 1))
    beside = {mention.id: mention for fact in facts for mention in fact.entities if mention.id != found.id}
    observed = FactSelect(entities=[found.id], networks=("observation",), current=True, limit=FACTS)
    return page.render(
        "entity.html",
        entity=found,
        facts=facts[:FACTS],
        has_more=len(facts) > FACTS,
        beside=list(beside.values())[:40],
        observations=await lookup.select_facts(observed),
        merges=[merge for merge in await page.memory.merges() if merge.entity == found.id][::-1],
    )


@router.post("/merges")
async def merge(form: WriteForm) -> Response:
    """Merge an entity into another."""
    values = {name: form.form.text(name) for name in ("keep", "absorb", "reason")}
    made = await form.memory.run(MergeEntitiesRequest.of(values))
    return redirect(form.path("entities", made.entity), "merged")


@router.post("/merges/{merge}/undo")
async def undo(form: WriteForm, merge: Name) -> Response:
    """Undo a merge."""
    entity = await form.memory.run(UndoMergeRequest.of({"merge": merge}))
    return redirect(form.path("entities", entity), "undone")
