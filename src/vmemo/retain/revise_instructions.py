"""Revision of standing instructions: a newer one about the same property of an answer replaces the earlier one."""

from __future__ import annotations

from collections.abc import Sequence

from vmemo.models import BankId, Fact
from vmemo.models.changes import NewFact
from vmemo.models.drafts import Judgement
from vmemo.models.select import FactSelect
from vmemo.ports import Store
from vmemo.retain.revise import FactPair
from vmemo.text.instruction_topics import replaces_instruction


async def replaced_instructions(
    bank: BankId, new: Sequence[NewFact], store: Store
) -> tuple[list[FactPair], dict[int, list[Judgement]]]:
    """Return the instructions that new ones replace, known and of the same batch, and the verdicts on them."""
    given = {at: item.fact for at, item in enumerate(new) if item.fact.instruction}
    if not given:
        return [], {}
    known = await store.facts(bank, FactSelect(instructions=True, current=True))
    pairs = [
        FactPair(at, earlier)
        for at, fact in given.items()
        for earlier in (*known, *(other for place, other in given.items() if place < at))
        if _replaces(fact, earlier)
    ]
    verdicts: dict[int, list[Judgement]] = {}
    for pair in pairs:
        verdicts.setdefault(pair.new, []).append(Judgement(verdict="supersede", fact=pair.known.id))
    return pairs, verdicts


def _replaces(new: Fact, earlier: Fact) -> bool:
    """Return True for two instructions of one user on the same subject; tags may separate users."""
    if new.id == earlier.id or set(new.tags) != set(earlier.tags) or not set(new.messages).isdisjoint(earlier.messages):
        return False
    return replaces_instruction(_said(new), _said(earlier))


def _said(fact: Fact) -> str:
    return fact.text.partition(": ")[2] or fact.text
