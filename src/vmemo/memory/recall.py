"""The verbs that search a bank."""

from __future__ import annotations

from typing import Unpack

from vmemo.memory.administration import Keeping
from vmemo.models import Budget
from vmemo.models.recalled import Recalled
from vmemo.recall.pipeline import recall
from vmemo.recall.query import Query, RecallOptions, make_query
from vmemo.sync import twin


class Recalling(Keeping):
    """Searching a bank."""

    async def recall(
        self, query: str, max_tokens: int = 4096, budget: Budget = "mid", **options: Unpack[RecallOptions]
    ) -> Recalled:
        """Facts by relevance whose tokens sum to at most `max_tokens`; `budget` is how much to explore."""
        return await self._recall(make_query(query, self._name, options, budget=budget, max_tokens=max_tokens))

    async def retrieve(self, query: str, top_k: int = 10, **options: Unpack[RecallOptions]) -> Recalled:
        """The same as recall, with a count in place of the token budget."""
        return await self._recall(make_query(query, self._name, options, top_k=top_k))

    async def _recall(self, query: Query) -> Recalled:
        await self.open()
        found = await recall(query, self._shared.context, self._shared.when)
        self._shared.access.add(self._name, (hit.id for hit in found.hits if not hit.verbatim))
        return found

    recall_sync = twin(recall)
    retrieve_sync = twin(retrieve)
