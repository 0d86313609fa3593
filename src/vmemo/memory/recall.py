"""The verbs that search a bank."""

from __future__ import annotations

from vmemo.memory.session import MemorySession
from vmemo.models.recalled import Recalled
from vmemo.models.requests import RecallRequest, RetrieveRequest
from vmemo.recall import pipeline
from vmemo.recall.query import Query, make_query


async def recall(session: MemorySession, request: RecallRequest | RetrieveRequest) -> Recalled:
    """Return facts by relevance."""
    return await search(session, make_query(request, session.bank))


async def search(session: MemorySession, query: Query) -> Recalled:
    """Run a query, and count the recalled facts as accessed."""
    await session.open()
    found = await pipeline.recall(query, session.runtime.reading, session.runtime.time_resolver)
    session.runtime.access.add(session.bank, [hit.fact.id for hit in found.hits if not hit.verbatim])
    return found
