"""The recall lab (how a recall finds its facts, stage by stage) and the chat, whose citations open."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import get_args

from fastapi import Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from vmemo.errors import InvalidInput, VmemoError
from vmemo.models import Channel, FactId, MessageId, Network
from vmemo.models.recalled import Recalled
from vmemo.models.records import TagsMatch
from vmemo.models.requests import RecallRequest, ReflectRequest
from vmemo.models.results import Answer, Citation, MemoryLookup, Retracted, TextDelta
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.providers import count_tokens
from vmemo_server.console.dependencies import BankPage, ReadForm, ReadPage
from vmemo_server.console.render import is_fragment
from vmemo_server.console.route import console_router
from vmemo_server.console.session import Form
from vmemo_server.dependencies import begin_write
from vmemo_server.routes.query import EVENT_STREAM, PING_SECONDS

router = console_router("/banks/{bank}")
NETWORKS: tuple[Network, ...] = get_args(Network)
CHANNELS: tuple[Channel, ...] = get_args(Channel)
TAG_RULES: tuple[TagsMatch, ...] = get_args(TagsMatch)
BUDGETS = ("low", "mid", "high")
DEFAULT_TOKENS = "1024"


@router.get("/recall")
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
    explained = recalled.explanation
    used = set[str]() if explained is None else explained.weights.keys() | explained.candidates.keys()
    # In a thread, because counting tokens of a long prompt takes long.
    prompt = await asyncio.to_thread(recalled.to_prompt)
    tokens = await asyncio.to_thread(count_tokens, prompt)
    template = "recall_result.html" if is_fragment(page.request) else "recall.html"
    return page.render(
        template,
        recalled=recalled,
        columns=[channel for channel in CHANNELS if channel in used],
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
    facts = await page.store.facts(page.bank, FactSelect(ids=[FactId(id) for id in wanted if id not in known]))
    said = await page.store.messages(page.bank, MessageSelect(ids=[id for id in messages if id not in known]))
    return known | {fact.id: fact.text for fact in facts} | {message.id: message.content for message in said}


def _listed(form: Form, name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in form.text(name).split(",") if part.strip())


def _number(form: Form, name: str, default: str) -> int:
    given = form.optional(name) or default
    if not given.isdecimal() or len(given) > 9:
        raise InvalidInput(f"{name} must be a whole number, not {given!r:.40}.")
    return int(given)


@dataclass(frozen=True)
class AnswerPart:
    """A part of an answer: text, or a citation with its number."""

    text: str = ""
    citation: Citation | None = None
    number: int = 0


@router.get("/chat")
async def chat(page: ReadPage) -> Response:
    """Show an empty conversation."""
    forms = page.can_write and page.memory.forms_opinions
    return page.render("chat.html", forms_opinions=forms, has_model=page.memory.forms_opinions, answer=None)


@router.post("/chat")
async def ask(form: ReadForm) -> Response:
    """Answer a question: as a stream of events, or as a page for a browser without scripts."""
    forms = form.can_write and form.memory.forms_opinions
    opinions = forms and form.form.text("opinions") == "true"
    request = ReflectRequest.of({"query": form.form.text("query"), "opinions": opinions})
    form.principal.check_max_tokens(request.max_tokens)
    if opinions:
        await begin_write(form.request, "console", form.bank)
    if EVENT_STREAM in form.request.headers.get("accept", ""):
        return EventSourceResponse(_events(form, request), ping=PING_SECONDS)
    answer = await form.memory.run(request)
    values = {"answer": answer, "parts": answer_parts(answer)}
    return form.render("chat.html", forms_opinions=forms, has_model=form.memory.forms_opinions, **values)


async def _events(form: BankPage, request: ReflectRequest) -> AsyncGenerator[ServerSentEvent]:
    try:
        async with aclosing(form.memory.stream(request)) as events:
            async for event in events:
                match event:
                    case TextDelta(text=text):
                        yield ServerSentEvent(text, event="delta")
                    case MemoryLookup(query=query, found=found, tool=tool):
                        yield ServerSentEvent(f"{tool}: {query} ({found} more)", event="lookup")
                    case Retracted(reason=reason):
                        yield ServerSentEvent(reason, event="retracted")
                    case Answer():
                        page = form.render("answer.html", answer=event, parts=answer_parts(event))
                        yield ServerSentEvent(bytes(page.body).decode("utf-8"), event="answer")
    except VmemoError as error:
        # The response has started, so its status can't report the error.
        yield ServerSentEvent(str(error), event="problem")


def answer_parts(answer: Answer) -> list[AnswerPart]:
    """Return the text of an answer and its citations, in order."""
    numbered = {str(citation.fact): (n, citation) for n, citation in enumerate(answer.citations, start=1)}
    if not numbered:
        return [AnswerPart(text=answer.text)]
    pattern = re.compile(rf"\s*\[({'|'.join(map(re.escape, numbered))})\]")
    found: list[AnswerPart] = []
    # Texts and the ids between them alternate.
    for place, part in enumerate(pattern.split(answer.text)):
        if place % 2:
            number, citation = numbered[part]
            found.append(AnswerPart(citation=citation, number=number))
        elif part:
            found.append(AnswerPart(text=part))
    return found
