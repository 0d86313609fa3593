"""The verbs that search a bank."""

from __future__ import annotations

from vmemo.memory.session import MemorySession
from vmemo.models import QuestionTense
from vmemo.models.recalled import Recalled
from vmemo.recall import pipeline
from vmemo.recall.run import SUFFICIENT, Precision, RecallQuery


async def recall(
    session: MemorySession,
    request: RecallQuery,
    *,
    tense: QuestionTense | None = None,
    with_questions: bool = False,
    precision: Precision = SUFFICIENT,
) -> Recalled:
    """Return facts by relevance, and count them as accessed."""
    runtime = session.runtime
    found = await pipeline.recall(
        request,
        session.bank,
        runtime.reading,
        runtime.time_resolver,
        tense=tense,
        with_questions=with_questions,
        precision=precision,
    )
    runtime.access.add(session.bank, [hit.fact.id for hit in found.hits if not hit.verbatim])
    return found
