"""The recall lab: how a recall finds its facts, stage by stage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import get_args

from fastapi import APIRouter, Response

from vmemo.errors import InvalidInput
from vmemo.models import Channel, ChannelCandidate, FactId, MessageId, Network
from vmemo.models.base import TagsMatch
from vmemo.models.recalled import Recalled
from vmemo.models.requests import RecallRequest
from vmemo_server.console.dependencies import ReadPage
from vmemo_server.console.render import is_fragment
from vmemo_server.console.route import ConsoleRoute
from vmemo_server.console.session import Form

router = APIRouter(include_in_schema=False, prefix="/console/banks/{bank}/recall", route_class=ConsoleRoute)
NETWORKS: tuple[Network, ...] = get_args(Network)
CHANNELS: tuple[Channel, ...] = get_args(Channel)
TAG_RULES: tuple[TagsMatch, ...] = get_args(TagsMatch)
BUDGETS = ("low", "mid", "high")
DEFAULT_TOKENS = "1024"


@dataclass(frozen=True)
class ChannelColumn:
    """The first candidates of one channel, in the order of that channel."""

    channel: Channel
    weight: float
    count: int
    """All candidates of the channel."""
    candidates: tuple[ChannelCandidate, ...]


@router.get("")
async def lab(page: ReadPage) -> Response:
    """Show the form, and the result of its query if there is one."""
    fields = page.request.query_params
    form = Form({name: fields.getlist(name) for name in fields})
    values = {"form": form, "networks": NETWORKS, "tag_rules": TAG_RULES, "budgets": BUDGETS}
    if form.optional("query") is None:
        return page.render("recall.html", recalled=None, default_tokens=DEFAULT_TOKENS, **values)
    request = recall_request(form)
    page.principal.check_max_tokens(request.max_tokens)
    recalled = await page.memory.run(request)
    # In a thread, because counting tokens of a long prompt takes long.
    prompt = await asyncio.to_thread(recalled.to_prompt)
    tokens = await asyncio.to_thread(page.memory.lookup.tokens, prompt)
    template = "recall_result.html" if is_fragment(page.request) else "recall.html"
    return page.render(
        template,
        recalled=recalled,
        columns=columns(recalled),
        places={hit.id: place for place, hit in enumerate(recalled.hits, start=1)},
        names=await _names(page, recalled),
        longest=max(recalled.timings.values(), default=1.0) or 1.0,
        prompt=prompt,
        prompt_tokens=tokens,
        default_tokens=DEFAULT_TOKENS,
        **values,
    )


def recall_request(form: Form) -> RecallRequest:
    """Return the request that the fields of the form describe, with an explanation."""
    values: dict[str, object] = {
        "query": form.text("query"),
        "max_tokens": _number(form, "max_tokens", DEFAULT_TOKENS),
        "budget": form.optional("budget") or "mid",
        "networks": form.all("networks"),
        "tags": _listed(form, "tags"),
        "tags_match": form.optional("tags_match") or "all",
        "entities": _listed(form, "entities"),
        "at_time": form.optional("at_time"),
        "known_at": form.optional("known_at"),
        "now": form.optional("now"),
        "include_expired": form.text("include_expired") == "true",
        "explain": True,
    }
    if days := _number(form, "half_life", "0"):
        values["recency_half_life"] = timedelta(days=days)
    return RecallRequest.of(values)


def columns(recalled: Recalled) -> list[ChannelColumn]:
    """Return the ranking of each channel, also with candidates that were not returned."""
    explained = recalled.explanation
    if explained is None:
        return []
    return [
        ChannelColumn(
            channel,
            explained.weights.get(channel, 0.0),
            explained.candidates.get(channel, 0),
            explained.rankings.get(channel, ()),
        )
        for channel in CHANNELS
        if channel in explained.weights or channel in explained.candidates
    ]


async def _names(page: ReadPage, recalled: Recalled) -> Mapping[str, str]:
    """Return the texts and names of all candidates that are shown and of the ends of the graph's paths, by id."""
    wanted = {id for hit in recalled.hits for step in hit.path for id in (step.source, step.target)}
    known: dict[str, str] = {hit.id: hit.text for hit in recalled.hits}
    messages: list[MessageId] = []
    if recalled.explanation is not None:
        known |= {mention.id: mention.name for mention in recalled.explanation.entities}
        rankings = dict(recalled.explanation.rankings)
        messages = [MessageId(each.id) for each in rankings.pop("verbatim", ())]
        wanted |= {each.id for ranking in rankings.values() for each in ranking}
    facts = await page.memory.lookup.facts([FactId(id) for id in wanted if id not in known])
    said = await page.memory.lookup.messages([id for id in messages if id not in known])
    return known | {fact.id: fact.text for fact in facts} | {message.id: message.content for message in said}


def _listed(form: Form, name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in form.text(name).split(",") if part.strip())


def _number(form: Form, name: str, default: str) -> int:
    given = form.optional(name) or default
    if not given.isdecimal() or len(given) > 9:
        raise InvalidInput(f"{name} must be a whole number, not {given!r:.40}.")
    return int(given)
