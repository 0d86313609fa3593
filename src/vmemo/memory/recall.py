"""The verbs that search a bank, or several."""

from __future__ import annotations

from dataclasses import replace

from vmemo.memory.session import MemorySession, bank_id
from vmemo.models import QuestionTense
from vmemo.models.recalled import Recalled
from vmemo.models.requests import SeveralBanks
from vmemo.recall import pipeline
from vmemo.recall.run import SUFFICIENT, RecallQuery


async def recall(
    session: MemorySession,
    request: RecallQuery,
    *,
    tense: QuestionTense | None = None,
    with_questions: bool = False,
    share: float = SUFFICIENT,
) -> Recalled:
    """Return facts by relevance, and count them as accessed."""
    runtime = session.runtime
    banks = [each.bank for each in sessions_of(session, request)]
    found = await pipeline.recall(
        request,
        banks,
        runtime.reading,
        runtime.time_resolver,
        tense=tense,
        with_questions=with_questions,
        share=share,
    )
    for bank in banks:
        runtime.access.add(bank, [hit.fact.id for hit in found.hits if hit.fact.bank == bank and not hit.verbatim])
    return found


def sessions_of(session: MemorySession, request: object) -> list[MemorySession]:
    """Return the sessions of the banks that a request names, or the one that it came to.

    Only the bank that it came to is created if it is missing.
    """
    names = [bank_id(name) for name in request.banks] if isinstance(request, SeveralBanks) else []
    others = [replace(session, bank=name, creates=session.creates and name == session.bank) for name in names]
    return others or [session]
