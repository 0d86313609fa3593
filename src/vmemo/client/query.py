"""The client's verbs that search a bank and answer from it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Unpack

import httpx2
from pydantic import TypeAdapter, ValidationError

from vmemo.client.administration import Tending
from vmemo.client.base import dumped
from vmemo.client.connection import Call
from vmemo.client.errors import Problem, raised
from vmemo.errors import ServerFailed
from vmemo.llm.streaming import sse_events
from vmemo.memory.reflect import MAX_TOKENS, ReflectOptions
from vmemo.models import Budget
from vmemo.models.recalled import Recalled
from vmemo.models.results import Answer, Event, MemoryLookup, Retracted, TextDelta
from vmemo.recall.query import RecallOptions, make_query
from vmemo.reflect.caller_schema import CallerSchema
from vmemo.sync import twin, twin_stream

_STREAM = "text/event-stream"
_Told = MemoryLookup | TextDelta | Retracted | Answer | Problem


class Asking(Tending):
    """Searching a bank and answering from it."""

    async def recall(
        self, query: str, max_tokens: int = 4096, budget: Budget = "mid", **options: Unpack[RecallOptions]
    ) -> Recalled:
        """Facts by relevance whose tokens sum to at most `max_tokens`; `budget` is how much to explore."""
        asked = make_query(query, self._name, options, budget=budget, max_tokens=max_tokens)
        body = {**options, "query": asked.text, "max_tokens": max_tokens, "budget": budget}
        return await self._ask(Recalled, "recall", body=body)

    async def retrieve(self, query: str, top_k: int = 10, **options: Unpack[RecallOptions]) -> Recalled:
        """The same as recall, with a count in place of the token budget."""
        asked = make_query(query, self._name, options, top_k=top_k)
        return await self._ask(Recalled, "retrieve", body={**options, "query": asked.text, "top_k": top_k})

    async def reflect(self, query: str, **options: Unpack[ReflectOptions]) -> Answer:
        """Answer from memory with citations, in the bank's character.

        The model may look up more in up to `max_lookups` rounds (3); `max_tokens` (8,192) limits the facts of all
        rounds together. Opinions that the question calls for are kept, unless `opinions` is False, the past is
        asked about or the key may only read. With a `schema`, a Pydantic model or a JSON schema, the answer also comes
        in that shape as `data`, if there is one. Without a language model the best facts are quoted, and said to be
        just that.
        """
        body = dumped(self._reflection(query, options))
        call = Call(method="POST", path=self._path("reflect"), body=body, reads=False)
        return self._read(Answer, await self._connection.ask(call))

    async def reflect_stream(self, query: str, **options: Unpack[ReflectOptions]) -> AsyncGenerator[Event]:
        """Reflect, and tell on the way: what memory is asked, the answer piece by piece, and last the whole `Answer`.

        The pieces since the beginning, or since the last `Retracted`, are the answer's text.
        """
        body = dumped(self._reflection(query, options))
        call = Call(method="POST", path=self._path("reflect"), body=body, accept=_STREAM, reads=False)
        async with self._connection.heard(call) as response, aclosing(self._events(response)) as told:
            async for event in told:
                yield event
                if isinstance(event, Answer):
                    return
        raise ServerFailed(f"{self._connection.host} ended its answer before it was whole.")

    async def _events(self, response: httpx2.Response) -> AsyncGenerator[Event]:
        async with aclosing(sse_events(response.aiter_bytes())) as told:
            async for data in told:
                event = self._event(data)
                if isinstance(event, Problem):
                    raise raised(event)
                yield event

    def _event(self, data: str) -> Event | Problem:
        """The event whose shape this is: no two kinds can be taken for one another."""
        try:
            return TypeAdapter[_Told](_Told).validate_json(data)
        except ValidationError:
            raise ServerFailed(
                f"{self._connection.host} told an event of no known kind. Client and server should be of one version."
            ) from None

    def _reflection(self, query: str, options: ReflectOptions) -> Mapping[str, object]:
        own = ReflectOptions.__annotations__.keys() - RecallOptions.__annotations__.keys()
        rest: RecallOptions = {key: value for key, value in options.items() if key not in own}  # pyright: ignore[reportAssignmentType]
        tokens, budget = options.get("max_tokens", MAX_TOKENS), options.get("budget", "mid")
        asked = make_query(query, self._name, rest, budget=budget, max_tokens=tokens)
        schema = options.get("schema")
        form = {} if schema is None else {"schema": CallerSchema.of(schema).schema}
        return {**options, "query": asked.text, **form}

    recall_sync = twin(recall)
    retrieve_sync = twin(retrieve)
    reflect_sync = twin(reflect)
    reflect_stream_sync = twin_stream(reflect_stream)
