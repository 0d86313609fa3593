"""Pages of the entities of a bank, one entity, merges, and the graph of entities and facts."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import Response
from fastapi.responses import JSONResponse

from vmemo.errors import NotFound
from vmemo.models import EntityId, Fact, Link, LinkKind
from vmemo.models.records import Name
from vmemo.models.requests import MergeEntitiesRequest, UndoMergeRequest
from vmemo.models.select import EntitySelect, FactSelect, first_of
from vmemo_server.console.dependencies import BankPage, ReadPage, WriteForm
from vmemo_server.console.render import is_fragment, redirect, short
from vmemo_server.console.route import console_router

router = console_router("/banks/{bank}")
PAGE = 50
FACTS = 30
MERGES = 50


@router.get("/entities")
async def entities(page: ReadPage, q: str = "", skip: int = 0) -> Response:
    """List entities, those with most facts first."""
    wanted = q.strip() or None
    select = EntitySelect(containing=wanted, most_mentioned=True, offset=max(0, skip), limit=PAGE + 1)
    found = await page.store.entities(page.bank, select)
    more = urlencode({"q": q, "skip": max(0, skip) + PAGE}) if len(found) > PAGE else None
    values = {"entities": found[:PAGE], "more": more, "q": q}
    if is_fragment(page.request):
        return page.render("entities_rows.html", **values)
    merges = await page.memory.merges()
    merged = await page.store.entities(page.bank, EntitySelect(ids=[merge.entity for merge in merges]))
    names = {each.id: each.name for each in merged}
    return page.render("entities.html", merges=merges[::-1][:MERGES], names=names, **values)


@router.get("/entities/{entity}")
async def entity(page: ReadPage, entity: Name) -> Response:
    """Show one entity: its names, facts, observations, neighbours and merges."""
    found = first_of(await page.store.entities(page.bank, EntitySelect(ids=[EntityId(entity)])))
    if found is None:
        raise NotFound(f"There is no entity {entity!r:.80} in this bank.")
    facts = await page.store.facts(page.bank, FactSelect(entities=[found.id], newest_first=True, limit=FACTS + 1))
    relations = [(fact, each) for fact in facts if isinstance(each := fact.metadata.get("relation"), dict)]
    beside = {mention.id: mention for fact in facts for mention in fact.entities if mention.id != found.id}
    observed = FactSelect(entities=[found.id], networks=("observation",), current=True, limit=FACTS)
    return page.render(
        "entity.html",
        entity=found,
        facts=facts[:FACTS],
        has_more=len(facts) > FACTS,
        beside=list(beside.values())[:40],
        relations=[(fact, each) for fact, each in relations if each.keys() >= {"subject", "verb", "object"}],
        observations=await page.store.facts(page.bank, observed),
        merges=[merge for merge in await page.memory.merges() if merge.entity == found.id][::-1],
    )


@router.post("/merges")
async def merge(form: WriteForm) -> Response:
    values = {name: form.form.text(name) for name in ("keep", "absorb", "reason")}
    made = await form.memory.run(MergeEntitiesRequest.of(values))
    return redirect(form.path("entities", made.entity), "merged")


@router.post("/merges/{merge}/undo")
async def undo(form: WriteForm, merge: Name) -> Response:
    entity = await form.memory.run(UndoMergeRequest.of({"merge": merge}))
    return redirect(form.path("entities", entity), "undone")


MAX_NODES = 2000
MAX_LINKS = 6000
"""Links that are drawn, the strongest first."""
KINDS: tuple[LinkKind, ...] = (
    "entity",
    "semantic",
    "temporal",
    "causes",
    "caused_by",
    "enables",
    "prevents",
    "replaces",
    "outdates",
)


@router.get("/graph")
async def graph(page: ReadPage, focus: str = "") -> Response:
    """Show the graph, or the part around one entity; a script draws it."""
    found = first_of(await page.store.entities(page.bank, EntitySelect(ids=[EntityId(focus)]))) if focus else None
    if focus and found is None:
        raise NotFound(f"There is no entity {focus!r:.80} in this bank.")
    return page.render("graph.html", focus=found, kinds=KINDS, limit=MAX_NODES)


@router.get("/graph/data")
async def data(page: ReadPage, focus: str = "") -> Response:
    """Return the nodes and links of the graph."""
    facts, total = await _sample(page, focus)
    links = await page.store.links(page.bank, [fact.id for fact in facts])
    return JSONResponse({**_elements(facts, links, total), "focus": focus})


async def _sample(page: BankPage, focus: str) -> tuple[list[Fact], int]:
    """Return the newest facts whose nodes, entities included, are not too many, and how many nodes there are."""
    status = await page.memory.status()
    entities = [EntityId(focus)] if focus else None
    select = FactSelect(entities=entities, newest_first=True, limit=MAX_NODES)
    found = await page.store.facts(page.bank, select)
    facts, nodes = list[Fact](), set[str]()
    for fact in found:
        own = {fact.id, *(mention.id for mention in fact.entities)}
        if len(nodes | own) > MAX_NODES:
            break
        nodes |= own
        facts.append(fact)
    total = len(nodes) if focus and len(facts) < MAX_NODES else status.facts + status.entities
    return facts, total


def _elements(shown: list[Fact], links: list[Link], total: int) -> dict[str, object]:
    """Return nodes, links and counts as JSON values."""
    facts = {fact.id: fact for fact in shown}
    entities = {mention.id: mention for fact in shown for mention in fact.entities}
    nodes = [_node(id, "entity", mention.name, mention.type) for id, mention in entities.items()]
    nodes += [_node(fact.id, "fact", fact.text, fact.network, fact) for fact in shown]
    inside = sorted(
        (link for link in links if link.target in facts and link.kind != "entity"),
        key=lambda link: link.weight,
        reverse=True,
    )
    mentioned = [(fact.id, mention.id, "entity", 1.0) for fact in shown for mention in fact.entities]
    stored = [(link.source, link.target, link.kind, link.weight) for link in _once(inside)]
    drawn = [*mentioned, *stored][:MAX_LINKS]
    return {
        "nodes": nodes,
        "links": [{"source": s, "target": t, "kind": k, "weight": round(w, 3)} for s, t, k, w in drawn],
        "shown": len(nodes),
        "total": max(total, len(nodes)),
        "hidden_links": len(mentioned) + len(stored) - len(drawn),
    }


def _node(id: str, type: str, label: str, kind: str, fact: Fact | None = None) -> dict[str, object]:
    times = {} if fact is None else {"said": fact.mentioned_at, "ended": fact.invalid_at or fact.expired_at}
    shown = {name: time and time.timestamp() for name, time in times.items()}
    return {"id": id, "type": type, "label": short(label, 60), "kind": kind, **shown}


def _once(links: list[Link]) -> list[Link]:
    """Return links without the second one of those that are stored in both directions."""
    pairs: dict[tuple[str, str, str], Link] = {}
    for link in links:
        one, other = sorted((link.source, link.target))
        pairs.setdefault((one, other, link.kind), link)
    return list(pairs.values())
