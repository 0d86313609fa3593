"""Words on the outcome of a procedure become a source of that procedure, in place of a fact.

`why` shows them among the messages of the procedure, and prompts below its steps.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

from vmemo.models import BankId, FactId, Message
from vmemo.models.changes import AddedSource, ExtractionResult, FactDraft
from vmemo.models.records import IS_PROCEDURE
from vmemo.models.search import Scope, SearchRequest
from vmemo.ports import BankReader, Store
from vmemo.text.procedures import is_outcome, title_of
from vmemo.text.tokens import terms

SAME_TALK = timedelta(hours=4)
"""Time after a procedure in which words on an outcome are about it, if they are of the same conversation."""
COMPARED = 5
"""Known procedures whose titles are compared with words on an outcome."""


async def note_outcomes(bank: BankId, result: ExtractionResult, store: Store) -> ExtractionResult:
    """Make words on the outcome of a procedure a source of it.

    It is the last one of the same batch and conversation, or a known one whose title has a word in common with them or
    with the message before. Otherwise they stay a fact.
    """
    kept: list[FactDraft] = []
    restated = list(result.restated)
    latest: dict[str | None, int] = {}
    for draft in result.drafts:
        message = None if draft.source is None else draft.source.message
        if message is not None and is_procedure(draft):
            latest[message.document] = len(kept)
        elif message is not None and is_outcome(message.content):
            place = latest.get(message.document)
            if place is not None and message.timestamp - kept[place].mentioned_at <= SAME_TALK:
                kept[place] = replace(kept[place], messages=(*kept[place].messages, message.id))
                continue
            if (known := await _known(bank, draft, message, store)) is not None:
                restated.append(AddedSource(fact=known, messages=(message.id,)))
                continue
        kept.append(draft)
    return replace(result, drafts=tuple(kept), restated=tuple(restated))


def is_procedure(draft: FactDraft) -> bool:
    return IS_PROCEDURE.items() <= draft.metadata.items()


async def _known(bank: BankId, draft: FactDraft, message: Message, store: Store) -> FactId | None:
    words = f"{message.content} {draft.context}"
    return await store.read(bank, partial(_find, Scope(bank=bank, metadata=dict(IS_PROCEDURE)), words))


def _find(scope: Scope, words: str, reader: BankReader) -> FactId | None:
    found = reader.search(SearchRequest(scope=scope, limit=COMPARED, keyword=[words]))
    numbers = [number for ranking in found.keyword for number in ranking.numbers.tolist()]
    loaded, said = reader.load(numbers).facts, set(terms(words))
    facts = [loaded[number] for number in numbers if number in loaded]
    return next((fact.id for fact in facts if said.intersection(terms(title_of(fact.text.partition(": ")[2])))), None)
