"""Revision of standing instructions: a newer one about the same property of an answer replaces the earlier one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from vmemo.models import BankId, Fact
from vmemo.models.changes import NewFact
from vmemo.models.drafts import Judgement
from vmemo.models.select import FactSelect
from vmemo.ports import Store
from vmemo.retain.revise import FactPair, said_in, speaker_of
from vmemo.text.instructions import InstructionTopic, instruction_topic, replaces_instruction

MAX_COMPARED = 100
"""Newest instructions of the bank, and last ones of the batch, that a new one is compared with."""


async def replaced_instructions(
    bank: BankId, new: Sequence[NewFact], store: Store
) -> tuple[list[FactPair], dict[int, list[Judgement]]]:
    """Return the instructions that new ones replace, known and of the same batch, and the verdicts on them."""
    given = {at: item.fact for at, item in enumerate(new) if item.fact.instruction}
    if not given:
        return [], {}
    newest = FactSelect(instructions=True, current=True, newest_first=True, limit=MAX_COMPARED)
    known = [(fact, instruction_topic(said_in(fact))) for fact in reversed(await store.facts(bank, newest))]
    in_batch: deque[tuple[Fact, InstructionTopic]] = deque(maxlen=MAX_COMPARED)
    pairs: list[FactPair] = []
    for at, fact in given.items():
        topic = instruction_topic(said_in(fact))
        pairs += [
            FactPair(at, earlier)
            for earlier, settled in (*known, *in_batch)
            if _are_of_one_user(fact, earlier) and replaces_instruction(topic, settled)
        ]
        in_batch.append((fact, topic))
    verdicts: dict[int, list[Judgement]] = {}
    for pair in pairs:
        verdicts.setdefault(pair.new, []).append(Judgement(verdict="supersede", fact=pair.known.id))
    return pairs, verdicts


def _are_of_one_user(new: Fact, earlier: Fact) -> bool:
    """Return True for instructions of different messages of one user; tags may separate users too."""
    if new.id == earlier.id or set(new.tags) != set(earlier.tags) or speaker_of(new) != speaker_of(earlier):
        return False
    return set(new.messages).isdisjoint(earlier.messages)
