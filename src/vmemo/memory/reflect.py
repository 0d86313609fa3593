"""The verbs that answer from memory, and those that say who answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Unpack

from vmemo.errors import InvalidInput, Unsupported
from vmemo.llm.structured import StructuredLLM
from vmemo.memory import reads
from vmemo.memory.recall import Recalling
from vmemo.models import BankId, Budget, FormerProfile, Profile, utc_now
from vmemo.models.changes import Changes
from vmemo.models.results import Answer, Event, TextDelta
from vmemo.recall.query import Query, RecallOptions, make_query
from vmemo.reflect.answer_prompt import Question
from vmemo.reflect.background import merge_background
from vmemo.reflect.caller_schema import CallerSchema, Schema
from vmemo.reflect.extractive import extractive_answer
from vmemo.reflect.pipeline import MAX_LOOKUPS, Recaller, RecallOutcome, ReflectContext, reflect
from vmemo.reflect.streaming import EventSink, ignore_event
from vmemo.sync import twin, twin_stream

MAX_TOKENS = 8192
"""Tokens that memory may bring for an answer, all rounds together."""


class ReflectOptions(RecallOptions, total=False):
    """What a reflection may be told besides the filters of a recall."""

    max_tokens: int
    budget: Budget
    max_lookups: int
    schema: Schema | None
    opinions: bool


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What was asked for, checked."""

    query: Query
    max_lookups: int
    form: CallerSchema | None
    opinions: bool

    @staticmethod
    def of(text: str, bank: BankId, options: ReflectOptions) -> _Asked:
        own = ReflectOptions.__annotations__.keys() - RecallOptions.__annotations__.keys()
        rest: RecallOptions = {key: value for key, value in options.items() if key not in own}  # pyright: ignore[reportAssignmentType]
        tokens, budget = options.get("max_tokens", MAX_TOKENS), options.get("budget", "mid")
        query = make_query(text, bank, rest, budget=budget, max_tokens=tokens)
        opinions, schema = options.get("opinions", True), options.get("schema")
        lookups = options.get("max_lookups", MAX_LOOKUPS)
        if isinstance(lookups, bool) or not isinstance(lookups, int) or not 0 <= lookups <= MAX_LOOKUPS:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"max_lookups must be an integer from 0 to {MAX_LOOKUPS}, not {lookups!r}.")
        if not isinstance(opinions, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"opinions must be True or False, not {opinions!r}.")
        form = None if schema is None else CallerSchema.of(schema)
        return _Asked(query=query, max_lookups=lookups, form=form, opinions=opinions)

    @property
    def past(self) -> bool:
        """Whether it is about what was true or believed before: no ground for what to think now."""
        scope = self.query.scope
        return scope.at_time is not None or scope.known_at is not None or scope.include_expired


class Reflecting(Recalling):
    """Answering from memory."""

    async def reflect(self, query: str, **options: Unpack[ReflectOptions]) -> Answer:
        """Answer from memory with citations, in the bank's character.

        The model may look up more in up to `max_lookups` rounds (3); `max_tokens` (8,192) limits the facts of all
        rounds together. Opinions that the question calls for are kept, unless `opinions` is False or the past is
        asked about. With a `schema`, a Pydantic model or a JSON schema, the answer also comes in that shape as `data`,
        if there is one. Without a language model the best facts are quoted, and said to be just that.
        """
        return await self._reflect(_Asked.of(query, self._name, options), ignore_event)

    async def reflect_stream(self, query: str, **options: Unpack[ReflectOptions]) -> AsyncGenerator[Event]:
        """Reflect, and tell on the way: what memory is asked, the answer piece by piece, and last the whole `Answer`.

        The pieces since the beginning, or since the last `Withdrawn`, are the answer's text.
        """
        asked = _Asked.of(query, self._name, options)
        events = asyncio.Queue[Event | None]()
        task = asyncio.create_task(self._reflect(asked, events.put_nowait))
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            yield await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _reflect(self, asked: _Asked, emit: EventSink) -> Answer:
        llm = self._shared.context.llm
        if llm is None and asked.form is not None:
            raise Unsupported("Putting an answer into a schema needs a language model; pass llm= to Memory.")
        await self.open()
        if llm is None:
            return await self._quote(asked, emit)
        profile = await reads.profile(self._name, self._store)
        question = Question(
            text=asked.query.text,
            asked_at=asked.query.now or utc_now(),
            profile=profile,
            max_tokens=asked.query.max_tokens or MAX_TOKENS,
            max_lookups=asked.max_lookups,
            opinions=asked.opinions and profile.bias > 0 and not asked.past,
        )
        recaller = self._recaller(asked.query)
        context = ReflectContext.of(self._name, llm, self._shared.context, recaller=recaller, emit=emit)
        try:
            return await reflect(question, context, asked.form)
        finally:
            await self._spend(context.llm)

    async def _quote(self, asked: _Asked, emit: EventSink) -> Answer:
        found = await self._recall(replace(asked.query, explain=True))
        timed = found.explanation is not None and found.explanation.type == "temporal"
        asked_at = (asked.query.now or utc_now()) if timed else None
        answer = extractive_answer(found.query, found.hits, asked_at=asked_at)
        emit(TextDelta(text=answer.text))
        return answer

    def _recaller(self, query: Query) -> Recaller:
        """Return a recaller with the filters, the time and the budget of a query."""

        async def recall(text: str, max_tokens: int) -> RecallOutcome:
            found = await self._recall(replace(query, text=text, max_tokens=max_tokens, explain=True))
            return RecallOutcome(found.hits, found.explanation.type if found.explanation else "general")

        async def is_empty() -> bool:
            return not await self._store.facts(self._name, limit=1) and not await self._store.messages(
                self._name, limit=1
            )

        return Recaller(recall=recall, is_empty=is_empty)

    async def add_background(self, snippet: str) -> Profile:
        """Work a new piece of background into the profile's, in the first person; what it contradicts gives way.

        The background before stays in `former_profiles()`. This needs a language model.
        """
        llm = self._shared.context.llm
        if llm is None:
            raise Unsupported("Merging a background needs a language model; without one, replace it with profile().")
        await self.open()
        desk = StructuredLLM(llm)
        try:
            return await merge_background(self._name, snippet, self._store, desk)
        finally:
            await self._spend(desk)

    async def _spend(self, desk: StructuredLLM) -> None:
        if desk.spending:
            await self._store.commit(Changes(bank=self._name, spending=desk.spending))

    async def former_profiles(self) -> list[FormerProfile]:
        """The profiles that the bank had before, oldest first."""
        await self.open()
        return await self._store.former_profiles(self._name)

    reflect_sync = twin(reflect)
    reflect_stream_sync = twin_stream(reflect_stream)
    add_background_sync = twin(add_background)
    former_profiles_sync = twin(former_profiles)
