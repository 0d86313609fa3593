"""Pages of the facts of a bank in time, of one fact with its history and sources, and of opinions and observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import Response
from pydantic import BeforeValidator

from vmemo.errors import NotFound
from vmemo.models import ConfidenceChange, Entity, EntityId, Fact, FactId, Network, utc_now
from vmemo.models.records import Instant, Name
from vmemo.models.requests import DeleteFactRequest, FeedbackRequest, PinFactRequest, UpdateFactRequest
from vmemo.models.select import EntitySelect, FactSelect, first_of
from vmemo_server.console.dependencies import BankPage, ReadPage, SearchText, WriteForm, WritePage
from vmemo_server.console.render import is_fragment, redirect, search_words
from vmemo_server.console.route import console_router

router = console_router("/banks/{bank}")
PAGE = 50
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
Day = Annotated[Instant | None, BeforeValidator(lambda text: text or None)]
"""The value of a date field, which is empty if no date is chosen."""
FactState = Literal["", "current", "closed", "pinned", "instructions"]


@router.get("/facts")
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
    found = [] if entity.strip() and not about else await page.store.facts(page.bank, select)
    filters = {"q": q, "network": network, "state": state, "entity": entity}
    filters["until"] = page.request.query_params.get("until", "")
    given = {name: value for name, value in filters.items() if value}
    more = urlencode({**given, "after": found[PAGE - 1].id}) if len(found) > PAGE else None
    shown = found[:PAGE]
    template = ("facts_rows.html" if after else "facts_list.html") if is_fragment(page.request) else "facts.html"
    timeline = await _timeline(page)
    return page.render(template, facts=shown, timeline=timeline, more=more, filters=filters, words=words)


@router.get("/facts/{fact}")
async def fact(page: ReadPage, fact: Name) -> Response:
    """Show one fact: its versions, what replaced it, its sources and its links."""
    why = await page.memory.why(fact)
    versions = await page.memory.history(fact)
    links = [link for link in await page.store.links(page.bank, [why.fact.id]) if link.kind != "entity"]
    links.sort(key=lambda link: link.weight, reverse=True)
    targets = await page.store.facts(page.bank, FactSelect(ids=[link.target for link in links[:20]]))
    linked = {each.id: each for each in targets}
    return page.render(
        "fact.html",
        why=why,
        fact=why.fact,
        versions=versions,
        newer={each.fact: each for each in why.newer},
        newer_facts=await page.store.facts(page.bank, FactSelect(ids=[each.fact for each in why.newer])),
        links=[(link, linked[link.target]) for link in links[:20] if link.target in linked],
        link_count=len(links),
    )


@router.get("/facts/{fact}/card")
async def card(page: ReadPage, fact: Name) -> Response:
    """Return a fact in short, for a citation or a node that was opened."""
    return page.render("fact_card.html", fact=await page.memory.get(fact))


@router.post("/facts/{fact}/edit")
async def edit(form: WriteForm, fact: Name) -> Response:
    texts = {name: form.form.text(name) for name in ("text", "reason")}
    values = {"fact": fact, **texts, "valid_at": form.form.optional("valid_at")}
    written = await form.memory.run(UpdateFactRequest.of(values))
    return redirect(form.path("facts", written.id), "edited")


@router.post("/facts/{fact}/pin")
async def pin(form: WriteForm, fact: Name) -> Response:
    pinned = form.form.text("pinned") == "true"
    written = await form.memory.run(PinFactRequest.of({"fact": fact, "pinned": pinned}))
    if is_fragment(form.request):
        return form.render("pin_button.html", fact=written)
    return redirect(form.path("facts", written.id), "pinned" if pinned else "unpinned")


@router.post("/facts/{fact}/feedback")
async def judge(form: WriteForm, fact: Name) -> Response:
    """Judge a fact as a hit of a question, or remove the judgement."""
    texts = {name: form.form.text(name) for name in ("question", "reason")}
    useful = {"right": True, "wrong": False}.get(form.form.text("hit"))
    judged = await form.memory.run(FeedbackRequest.of({"fact": fact, "useful": useful, **texts}))
    if is_fragment(form.request):
        return form.render("hit_marks.html", fact=judged, question=texts["question"])
    return redirect(form.path("facts", judged.id), "judged")


@router.get("/facts/{fact}/delete")
async def preview(page: WritePage, fact: Name) -> Response:
    """Show what deleting a fact deletes with it."""
    found = await page.memory.get(fact)
    preview = await page.memory.preview_forget(DeleteFactRequest.of({"fact": fact}))
    return page.render("fact_delete.html", fact=found, preview=preview)


@router.post("/facts/{fact}/delete")
async def delete(form: WriteForm, fact: Name) -> Response:
    return redirect(form.path("facts"), "forgotten", await form.run(DeleteFactRequest.of({"fact": fact})))


async def _timeline(page: BankPage) -> Timeline:
    """Return the axis from the first mention of a fact to the last, the same for every page of the list."""
    ends = [FactSelect(around=EARLIEST, limit=1), FactSelect(newest_first=True, limit=1)]
    found = [fact.mentioned_at for select in ends for fact in await page.store.facts(page.bank, select)]
    return Timeline.between(min(found), max(found)) if found else Timeline.between(utc_now(), utc_now())


async def _entities(page: BankPage, name: str) -> Sequence[Entity]:
    given = name.strip()
    if not given:
        return ()
    by_id = first_of(await page.store.entities(page.bank, EntitySelect(ids=[EntityId(given)])))
    return [by_id] if by_id else await page.store.entities(page.bank, EntitySelect(names=[given]))


OPINIONS = 20
SPARK_WIDTH, SPARK_HEIGHT = 120, 28


@router.get("/opinions")
async def opinions(page: ReadPage, after: str = "") -> Response:
    """List the current opinions, newest first, each with the course of its confidence."""
    found = await _believed(page, "opinion", after)
    courses = {fact.id: spark(await page.memory.trajectory(fact.id), fact) for fact in found[:OPINIONS]}
    more = found[OPINIONS - 1].id if len(found) > OPINIONS else None
    template = "opinions_rows.html" if is_fragment(page.request) else "opinions.html"
    return page.render(template, opinions=found[:OPINIONS], courses=courses, more=more)


@router.get("/opinions/{opinion}")
async def opinion(page: ReadPage, opinion: Name) -> Response:
    """Show an opinion's confidence over time, with the evidence of each change."""
    fact = await page.memory.get(opinion)
    if fact.network != "opinion":
        raise NotFound(f"{fact.short_id} is no opinion; its page is among the facts.")
    changes = await page.memory.trajectory(fact.id)
    ids = [id for change in changes for id in change.evidence]
    evidence = {each.id: each for each in await page.store.facts(page.bank, FactSelect(ids=ids))}
    times = [change.at.timestamp() for change in changes]
    return page.render(
        "opinion.html",
        fact=fact,
        changes=changes,
        evidence=evidence,
        basis=await page.store.facts(page.bank, FactSelect(ids=fact.basis)),
        plot=[times, [round(change.after, 3) for change in changes]],
    )


@router.get("/observations")
async def observations(page: ReadPage, after: str = "") -> Response:
    """List the current observations and the user's standing instructions."""
    found = await _believed(page, "observation", after)
    values = {"observations": found[:OPINIONS], "more": found[OPINIONS - 1].id if len(found) > OPINIONS else None}
    if is_fragment(page.request):
        return page.render("observations_rows.html", **values)
    standing = FactSelect(instructions=True, current=True, newest_first=True, limit=100)
    return page.render("observations.html", instructions=await page.store.facts(page.bank, standing), **values)


async def _believed(page: BankPage, network: Network, after: str) -> list[Fact]:
    cursor = FactId(after) if after else None
    select = FactSelect(networks=(network,), current=True, newest_first=True, after=cursor, limit=OPINIONS + 1)
    return await page.store.facts(page.bank, select)


def spark(changes: Sequence[ConfidenceChange], fact: Fact) -> str:
    """Return the points of a small line of the confidence."""
    values = [change.after for change in changes] or [fact.confidence or 0.0]
    step = SPARK_WIDTH / max(1, len(values) - 1)
    values = [*values, *([values[0]] if len(values) == 1 else ())]
    return " ".join(f"{n * step:.1f},{(1 - value) * (SPARK_HEIGHT - 4) + 2:.1f}" for n, value in enumerate(values))


WIDTH = 240
"""Units of the axis."""
LEAST = timedelta(days=1)
_MARGIN = 6


@dataclass(frozen=True)
class Track:
    """The places of one fact on the axis; None for a time that it has not."""

    learned: float
    happened: tuple[float, float] | None
    held: tuple[float, float]
    closed: bool


@dataclass(frozen=True)
class Timeline:
    """A time axis that all facts of a list share."""

    start: datetime
    end: datetime

    @staticmethod
    def between(first: datetime, last: datetime) -> Timeline:
        """Return the axis from one time to another; times outside are drawn at its ends."""
        return Timeline(first.astimezone(UTC), max(last, first + LEAST).astimezone(UTC))

    def place(self, time: datetime) -> float:
        share = (min(max(time, self.start), self.end) - self.start) / (self.end - self.start)
        return round(_MARGIN + share * (WIDTH - 2 * _MARGIN), 1)

    def track(self, fact: Fact) -> Track:
        over = fact.invalid_at if fact.invalid_at and fact.invalid_at <= utc_now() else None
        closed = over or fact.expired_at
        start = fact.valid_at or fact.mentioned_at
        happened = None
        if fact.occurred_start is not None:
            last = fact.occurred_end or fact.occurred_start
            happened = (self.place(fact.occurred_start), self.place(last))
        until = self.place(closed) if closed else WIDTH - _MARGIN
        return Track(
            learned=self.place(fact.mentioned_at),
            happened=happened,
            held=(min(self.place(start), until), until),
            closed=closed is not None,
        )
