"""Decisions that need a language model: verdicts on fact pairs, and ambiguous names. One call for all of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Entity, EntityId
from vmemo.models.changes import NewFact
from vmemo.models.drafts import FactDraft, Judgement
from vmemo.models.select import EntitySelect, FactSelect
from vmemo.ports import Store
from vmemo.retain.extraction_input import describe_fact
from vmemo.retain.llm_schemas import NameIdentities, PairVerdicts
from vmemo.retain.resolve import AmbiguousName
from vmemo.retain.revise import FactPair

PROMPTS = Path(__file__).parent / "prompts"
FACTS_PER_CANDIDATE = 3
"""Facts shown about each candidate entity."""


async def judge_pairs(
    pairs: Sequence[FactPair], new: Sequence[NewFact], llm: StructuredLLM
) -> dict[int, list[Judgement]]:
    """Return the verdicts on pairs of new and known facts, by the index of the new fact."""
    new_by_number = {f"N{n}": at for n, at in enumerate(dict.fromkeys(pair.new for pair in pairs), start=1)}
    numbers = {at: number for number, at in new_by_number.items()}
    known = {f"K{n}": pair for n, pair in enumerate(pairs, start=1)}
    lines: list[str] = []
    for number, at in new_by_number.items():
        lines.append(f"{number} (new) | {describe_fact(new[at].fact)}")
        lines += [
            f"    beside {id} (known) | {describe_fact(pair.known)}" for id, pair in known.items() if pair.new == at
        ]

    def problems(answer: PairVerdicts) -> str | None:
        wrong = [
            f"{v.new}/{v.known}"
            for v in answer.verdicts
            if (pair := known.get(v.known)) is None or numbers[pair.new] != v.new
        ]
        return f"these pairs were not asked about: {', '.join(wrong[:5])}" if wrong else None

    request = load_prompt(PROMPTS, "judge").request(PairVerdicts, pairs=quote(lines))
    answer = await llm.ask(request, PairVerdicts, problems)
    found: dict[int, list[Judgement]] = {}
    for each in answer.verdicts:
        pair = known[each.known]
        verdict = Judgement(
            verdict=each.verdict, fact=pair.known.id, text=each.text, keep=tuple(each.keep), mistaken=each.mistaken
        )
        found.setdefault(pair.new, []).append(verdict)
    return found


async def identify_names(
    bank: BankId, ambiguous: Sequence[AmbiguousName], drafts: Sequence[FactDraft], store: Store, llm: StructuredLLM
) -> dict[str, EntityId | None]:
    """Return the entity of each ambiguous name (casefolded), or None for a new entity."""
    ids = list(dict.fromkeys(id for name in ambiguous for id in name.candidates))
    entities = {entity.id: entity for entity in await store.entities(bank, EntitySelect(ids=ids))}
    numbers = {id: f"E{n}" for n, id in enumerate(ids, start=1) if id in entities}
    questions = {f"Q{n}": name for n, name in enumerate(ambiguous, start=1)}
    lines: list[str] = []
    for id, number in numbers.items():
        lines.append(f"{number} | {_describe_entity(entities[id])}")
        lines += [
            f"    {describe_fact(fact)}"
            for fact in await store.facts(bank, FactSelect.about(id, limit=FACTS_PER_CANDIDATE))
        ]
    for question, name in questions.items():
        candidates = " or ".join(numbers[id] for id in name.candidates if id in numbers)
        lines.append(
            f"{question} | Is {name.name!r} here one of {candidates}, or new? | {_text_with(name.name, drafts)}"
        )
    request = load_prompt(PROMPTS, "identify").request(NameIdentities, max_tokens=2048, questions=quote(lines))
    answer = await llm.ask(request, NameIdentities, lambda found: _unanswered(found, questions))
    chosen = {each.name: each.same_as for each in answer.answers}
    by_number = {number: id for id, number in numbers.items()}
    return {name.name.casefold(): _choice(by_number.get(chosen.get(q, "new")), name) for q, name in questions.items()}


def _unanswered(answer: NameIdentities, questions: Mapping[str, AmbiguousName]) -> str | None:
    missing = questions.keys() - {each.name for each in answer.answers}
    return f"these questions are not answered: {', '.join(sorted(missing))}" if missing else None


def _choice(id: EntityId | None, name: AmbiguousName) -> EntityId | None:
    """Return the entity if it is a candidate."""
    return id if id in name.candidates else None


def _describe_entity(entity: Entity) -> str:
    others = f" (also {', '.join(entity.aliases)})" if entity.aliases else ""
    return f"{entity.name}{others}, {entity.type}, last mentioned {entity.last_seen:%d %B %Y}"


def _text_with(name: str, drafts: Sequence[FactDraft]) -> str:
    folded = name.casefold()
    return next((d.text for d in drafts if any(found.name.casefold() == folded for found in d.entities)), "")
