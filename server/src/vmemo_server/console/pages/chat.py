"""Chat: streamed answers from memory, whose citations open."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from fastapi import APIRouter, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from vmemo.errors import VmemoError
from vmemo.models.requests import ReflectRequest
from vmemo.models.results import Answer, Citation, MemoryLookup, Retracted, TextDelta
from vmemo_server.console.dependencies import BankForm, ReadForm, ReadPage
from vmemo_server.console.route import ConsoleRoute
from vmemo_server.dependencies import begin_write

router = APIRouter(include_in_schema=False, prefix="/console/banks/{bank}/chat", route_class=ConsoleRoute)
PING_SECONDS = 15
_EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True)
class AnswerPart:
    """A part of an answer: text, or a citation with its number."""

    text: str = ""
    citation: Citation | None = None
    number: int = 0


@router.get("")
async def chat(page: ReadPage) -> Response:
    """Show an empty conversation."""
    forms = page.can_write and page.memory.forms_opinions
    return page.render("chat.html", forms_opinions=forms, has_model=page.memory.lookup.models, answer=None)


@router.post("")
async def ask(form: ReadForm) -> Response:
    """Answer a question: as a stream of events, or as a page for a browser without scripts."""
    forms = form.can_write and form.memory.forms_opinions
    opinions = forms and form.form.text("opinions") == "true"
    request = ReflectRequest.of({"query": form.form.text("query"), "opinions": opinions})
    form.principal.check_max_tokens(request.max_tokens)
    if opinions:
        await begin_write(form.request, "console", form.bank)
    if _EVENT_STREAM in form.request.headers.get("accept", ""):
        return EventSourceResponse(_events(form, request), ping=PING_SECONDS)
    answer = await form.memory.run(request)
    values = {"answer": answer, "parts": answer_parts(answer)}
    return form.render("chat.html", forms_opinions=forms, has_model=form.memory.lookup.models, **values)


async def _events(form: BankForm, request: ReflectRequest) -> AsyncGenerator[ServerSentEvent]:
    try:
        async with aclosing(form.memory.stream(request)) as events:
            async for event in events:
                match event:
                    case TextDelta(text=text):
                        yield ServerSentEvent(text, event="delta")
                    case MemoryLookup(query=query, found=found):
                        yield ServerSentEvent(f"{query} ({found} more)", event="lookup")
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
