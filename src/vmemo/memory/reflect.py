"""The verbs that answer from memory, and that merge background into the profile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from vmemo.errors import Unsupported
from vmemo.llm.caller_schema import CallerSchema
from vmemo.llm.structured import StructuredLLM
from vmemo.memory.inspect import bank_profile
from vmemo.memory.recall import recall
from vmemo.memory.session import MemorySession
from vmemo.models import Profile, QuestionTense, utc_now
from vmemo.models.changes import Changes
from vmemo.models.recalled import Recalled
from vmemo.models.requests import BackgroundRequest, ReflectRequest
from vmemo.models.results import Answer, Event, TextDelta
from vmemo.models.select import MessageSelect
from vmemo.recall.run import NODES, nodes_of
from vmemo.reflect import pipeline
from vmemo.reflect.answer_prompt import Question
from vmemo.reflect.background import merge_background
from vmemo.reflect.evidence import Recall
from vmemo.reflect.pipeline import ReflectContext
from vmemo.reflect.streaming import AnswerStreamer, EventSink, StreamTap, ignore_event
from vmemo.retain.pipeline import redact_text

SAMPLED_MESSAGES = 50
"""Messages that are read to learn if one user speaks in a bank, or several."""


async def reflect(session: MemorySession, request: ReflectRequest, emit: EventSink = ignore_event) -> Answer:
    """Answer a question, and pass events to `emit` on the way."""
    schema = None if request.answer_schema is None else await asyncio.to_thread(CallerSchema.of, request.answer_schema)
    llm = session.context.llm
    if llm is None and schema is not None:
        raise Unsupported("An answer in a schema needs a language model; pass llm= to Memory.")
    if llm is None:
        found = await recall(session, request)
        asked_at = request.now or utc_now()
        answer = pipeline.extractive_answer(request.query, found.hits, asked_at=asked_at, answerable=found.answerable)
        emit(TextDelta(text=answer.text))
        return answer
    question, streamer = await _question(session, request), AnswerStreamer(emit)
    structured = StructuredLLM(llm if emit is ignore_event else StreamTap(llm, streamer))
    context = ReflectContext(
        bank=session.bank,
        recall=_recall_for(session, request),
        llm=structured,
        streamer=streamer,
        context=session.context,
    )
    try:
        return await pipeline.reflect(question, context, schema)
    finally:
        await _write_spending(session, structured)


async def reflect_stream(session: MemorySession, request: ReflectRequest) -> AsyncGenerator[Event]:
    """Yield the events of a reflection; the last one is the answer."""
    started = time.perf_counter()
    await session.recheck()
    events = asyncio.Queue[Event | None]()
    task = asyncio.create_task(reflect(session, request, events.put_nowait))
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        answer = await task
        session.on_done(request, answer, time.perf_counter() - started)
        yield answer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def add_background(session: MemorySession, request: BackgroundRequest) -> Profile:
    llm = session.context.llm
    if llm is None:
        raise Unsupported("Merging a background needs a language model; without one, replace it with profile().")
    structured = StructuredLLM(llm)
    snippet = await redact_text(request.snippet, session.context.redactor)
    try:
        return await merge_background(session.bank, snippet, session.store, structured)
    finally:
        await _write_spending(session, structured)


async def _question(session: MemorySession, request: ReflectRequest) -> Question:
    profile = await bank_profile(session)
    first = await session.store.messages(session.bank, MessageSelect(limit=SAMPLED_MESSAGES))
    return Question(
        text=request.query,
        asked_at=request.now or utc_now(),
        profile=profile,
        max_tokens=request.max_tokens,
        max_lookups=request.max_lookups,
        opinions=request.opinions and profile.bias > 0 and not request.asks_about_the_past,
        users=frozenset(message.speaker for message in first if message.role == "user"),
    )


def _recall_for(session: MemorySession, request: ReflectRequest) -> Recall:
    """Return the recall of a reflection, with the question's filters, time and budget."""

    async def search(text: str, max_tokens: int, *, tense: QuestionTense | None = None, wide: bool = False) -> Recalled:
        changes: dict[str, object] = {"query": text, "max_tokens": max_tokens, "explain": True}
        if wide:
            changes["budget"] = max(nodes_of(request), NODES["high"])
        return await recall(session, request.model_copy(update=changes), tense=tense, with_questions=wide)

    return search


async def _write_spending(session: MemorySession, llm: StructuredLLM) -> None:
    if llm.spending:
        await session.store.commit(Changes(bank=session.bank, spending=llm.spending))
