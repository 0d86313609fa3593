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
from vmemo.reflect import background, extractive
from vmemo.reflect.answer import MOST_LOOKS, Found, Sight
from vmemo.reflect.pipeline import Mind, reflect, told
from vmemo.reflect.prompt_building import Question
from vmemo.reflect.schema_answer import Form, Schema
from vmemo.reflect.streaming import Tell, silent
from vmemo.sync import twin, twin_stream

MAX_TOKENS = 8192
"""Tokens that memory may bring for an answer, all rounds together."""


class ReflectOptions(RecallOptions, total=False):
    """What a reflection may be told besides the filters of a recall."""

    max_tokens: int
    budget: Budget
    looks: int
    schema: Schema | None
    opinions: bool


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What was asked for, checked."""

    query: Query
    looks: int
    form: Form | None
    opinions: bool

    @staticmethod
    def of(text: str, bank: BankId, options: ReflectOptions) -> _Asked:
        own = ReflectOptions.__annotations__.keys() - RecallOptions.__annotations__.keys()
        rest: RecallOptions = {key: value for key, value in options.items() if key not in own}  # pyright: ignore[reportAssignmentType]
        tokens, budget = options.get("max_tokens", MAX_TOKENS), options.get("budget", "mid")
        query = make_query(text, bank, rest, budget=budget, max_tokens=tokens)
        looks, opinions, schema = options.get("looks", MOST_LOOKS), options.get("opinions", True), options.get("schema")
        if isinstance(looks, bool) or not isinstance(looks, int) or not 0 <= looks <= MOST_LOOKS:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"looks must be a whole number from 0 to {MOST_LOOKS}, not {looks!r}.")
        if not isinstance(opinions, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"opinions must be True or False, not {opinions!r}.")
        form = None if schema is None else Form.of(schema)
        return _Asked(query=query, looks=looks, form=form, opinions=opinions)

    @property
    def past(self) -> bool:
        """Whether it is about what was true or believed before: no ground for what to think now."""
        scope = self.query.scope
        return scope.at_time is not None or scope.known_at is not None or scope.include_expired


class Reflecting(Recalling):
    """Answering from memory."""

    async def reflect(self, query: str, **options: Unpack[ReflectOptions]) -> Answer:
        """Answer from memory with citations, in the bank's character.

        Memory is asked again up to `looks` times (3) where what it brought does not do; `max_tokens` (8,192) is what
        all of it may bring. Opinions that the question calls for are kept, unless `opinions` is False or the past is
        asked about. With a `schema`, a Pydantic model or a JSON schema, the answer also comes in that shape as `data`,
        if there is one. Without a language model the best facts are quoted, and said to be just that.
        """
        return await self._reflect(_Asked.of(query, self._name, options), silent)

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

    async def _reflect(self, asked: _Asked, tell: Tell) -> Answer:
        llm = self._shared.context.llm
        if llm is None and asked.form is not None:
            raise Unsupported("Putting an answer into a schema needs a language model; pass llm= to Memory.")
        await self.open()
        if llm is None:
            return await self._quote(asked, tell)
        profile = await reads.profile(self._name, self._store)
        desk, teller = told(StructuredLLM(llm), tell)
        question = Question(
            text=asked.query.text,
            asked=asked.query.now or utc_now(),
            profile=profile,
            max_tokens=asked.query.max_tokens or MAX_TOKENS,
            looks=asked.looks,
            judges=asked.opinions and profile.bias > 0 and not asked.past,
        )
        mind = Mind(bank=self._name, sight=self._sight(asked.query), desk=desk, context=self._shared.context)
        try:
            return await reflect(question, mind, teller, asked.form)
        finally:
            await self._spend(desk)

    async def _quote(self, asked: _Asked, tell: Tell) -> Answer:
        found = await self._recall(replace(asked.query, explain=True))
        timed = found.explanation is not None and found.explanation.type == "temporal"
        asked_at = (asked.query.now or utc_now()) if timed else None
        answer = extractive.answer(found.query, found.hits, asked=asked_at)
        tell(TextDelta(text=answer.text))
        return answer

    def _sight(self, query: Query) -> Sight:
        """Memory as it may be searched for this question: with its filters, its time and how much to explore."""

        async def look(text: str, max_tokens: int) -> Found:
            found = await self._recall(replace(query, text=text, max_tokens=max_tokens, explain=True))
            return Found(found.hits, found.explanation.type if found.explanation else "general")

        async def blank() -> bool:
            return not await self._store.facts(self._name, limit=1) and not await self._store.messages(
                self._name, limit=1
            )

        return Sight(look=look, blank=blank)

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
            return await background.merge(self._name, snippet, self._store, desk)
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
