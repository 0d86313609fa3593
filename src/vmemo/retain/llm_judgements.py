"""Asking a model what only a reader can decide: how facts relate, and who a name is; one question for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Entity, EntityId
from vmemo.models.changes import NewFact
from vmemo.models.drafts import FactDraft, Judgement
from vmemo.ports import Store
from vmemo.retain.extraction_input import known as told
from vmemo.retain.llm_schemas import IdentityAnswers, Judgements
from vmemo.retain.resolve import Doubt
from vmemo.retain.revise import Pair

PROMPTS = Path(__file__).parent / "prompts"
ABOUT = 3
"""Facts that tell the model who a candidate is."""


async def judge(pairs: Sequence[Pair], new: Sequence[NewFact], desk: StructuredLLM) -> dict[int, list[Judgement]]:
    """Verdicts on new facts beside known ones, by the place of the new fact."""
    names = {f"N{n}": at for n, at in enumerate(dict.fromkeys(pair.new for pair in pairs), start=1)}
    numbers = {at: name for name, at in names.items()}
    known = {f"K{n}": pair for n, pair in enumerate(pairs, start=1)}
    shown: list[str] = []
    for name, at in names.items():
        shown.append(f"{name} (new) | {told(new[at].fact)}")
        shown += [f"    beside {id} (known) | {told(pair.known)}" for id, pair in known.items() if pair.new == at]

    def complaint(answer: Judgements) -> str | None:
        wrong = [
            f"{v.new}/{v.known}"
            for v in answer.verdicts
            if (pair := known.get(v.known)) is None or numbers[pair.new] != v.new
        ]
        return f"there are no such pairs: {', '.join(wrong[:5])}" if wrong else None

    ask = load_prompt(PROMPTS, "judge").request(Judgements, pairs=quote(shown))
    answer = await desk.ask(ask, Judgements, complaint)
    found: dict[int, list[Judgement]] = {}
    for each in answer.verdicts:
        pair = known[each.known]
        verdict = Judgement(verdict=each.verdict, fact=pair.known.id, text=each.text, mistaken=each.mistaken)
        found.setdefault(pair.new, []).append(verdict)
    return found


async def identify(
    bank: BankId, doubts: Sequence[Doubt], drafts: Sequence[FactDraft], store: Store, desk: StructuredLLM
) -> dict[str, EntityId | None]:
    """Who each name in doubt is, casefolded: one of its candidates, or None for somebody new."""
    ids = list(dict.fromkeys(id for doubt in doubts for id in doubt.candidates))
    entities = {entity.id: entity for entity in await store.entities(bank, ids)}
    numbers = {id: f"E{n}" for n, id in enumerate(ids, start=1) if id in entities}
    questions = {f"Q{n}": doubt for n, doubt in enumerate(doubts, start=1)}
    shown: list[str] = []
    for id, number in numbers.items():
        shown.append(f"{number} | {_named(entities[id])}")
        shown += [f"    {told(fact)}" for fact in await store.facts_about(bank, id, limit=ABOUT)]
    for name, doubt in questions.items():
        candidates = " or ".join(numbers[id] for id in doubt.candidates if id in numbers)
        shown.append(f"{name} | Is {doubt.name!r} here one of {candidates}, or new? | {_text_of(doubt.name, drafts)}")
    ask = load_prompt(PROMPTS, "identify").request(IdentityAnswers, max_tokens=2048, questions=quote(shown))
    answer = await desk.ask(ask, IdentityAnswers, lambda found: _unasked(found, questions))
    chosen = {each.name: each.same_as for each in answer.answers}
    by_number = {number: id for id, number in numbers.items()}
    return {
        doubt.name.casefold(): _choice(by_number.get(chosen.get(q, "new")), doubt) for q, doubt in questions.items()
    }


def _unasked(answer: IdentityAnswers, questions: Mapping[str, Doubt]) -> str | None:
    missing = questions.keys() - {each.name for each in answer.answers}
    return f"these are not answered: {', '.join(sorted(missing))}" if missing else None


def _choice(id: EntityId | None, doubt: Doubt) -> EntityId | None:
    """The entity, if it is one that was asked about."""
    return id if id in doubt.candidates else None


def _named(entity: Entity) -> str:
    others = f" (also {', '.join(entity.aliases)})" if entity.aliases else ""
    return f"{entity.name}{others}, {entity.type}, last mentioned {entity.last_seen:%d %B %Y}"


def _text_of(name: str, drafts: Sequence[FactDraft]) -> str:
    folded = name.casefold()
    return next((d.text for d in drafts if any(found.name.casefold() == folded for found in d.entities)), "")
