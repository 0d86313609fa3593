"""Opinions: how answers form them, and how new facts change their confidence in fixed steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import numpy as np
from pydantic import Field

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import AnswerSchema, StructuredLLM
from vmemo.models import BankId, ConfidenceChange, Fact, FactId, Mention, Stance, new_fact_id, utc_now
from vmemo.models.changes import Changes, FactClosure, Lease, NewFact
from vmemo.models.records import first_expiry
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.ports import Context, Store
from vmemo.reflect.answer_checks import AnswerChecks
from vmemo.reflect.answer_prompt import FormedOpinion, GeneratedAnswer, OpinionAssessment, ShortText, engine_label
from vmemo.reflect.citations import parse_marks, without_citations
from vmemo.reflect.evidence import Evidence
from vmemo.text.temporal.annotation import embed_facts

STEP = 0.15
"""Change of confidence when a fact reinforces or weakens an opinion."""
AFFECTING_COSINE = 0.6
"""Least cosine of a fact that affects an opinion without sharing an entity."""
REWRITTEN = 0.5
"""Confidence of an opinion that takes the place of a contradicted one."""
_STEPS: Mapping[Stance, int] = {"reinforce": 1, "weaken": -1, "contradict": -2, "neutral": 0}
"""Steps by which an assessment changes the confidence of an opinion."""


class OpinionRevision(OpinionAssessment):
    """The effect of new facts on one opinion, and what the agent thinks instead."""

    text: ShortText = Field(default="", description="for contradict: the opinion that follows from the facts instead")


class OpinionAssessments(AnswerSchema):
    """The effect of new facts on each opinion."""

    assessments: list[OpinionRevision]


def evidence_by_opinion(opinions: Sequence[Fact], changes: Sequence[ConfidenceChange]) -> dict[FactId, set[FactId]]:
    """Return the facts that each opinion already rests on or was changed by; none of them counts again."""
    used = {opinion.id: set(opinion.basis) for opinion in opinions}
    for change in changes:
        used.setdefault(change.opinion, set()).update(change.evidence)
    return used


def _affects(fact: Fact, opinion: Fact) -> bool:
    """Return True if a fact shares an entity with an opinion, or is similar to it."""
    entities = {mention.id for mention in opinion.entities}
    if not entities.isdisjoint(mention.id for mention in fact.entities):
        return True
    if not entities and entities_in(opinion.text, [fact]):
        # What the opinion names was not known as an entity yet when it was formed.
        return True
    if fact.embedding is None or opinion.embedding is None:
        return False
    return float(np.dot(fact.embedding, opinion.embedding)) >= AFFECTING_COSINE


def entities_in(text: str, facts: Iterable[Fact]) -> tuple[Mention, ...]:
    """Return the entities of the facts that the text names."""
    found: dict[str, Mention] = {}
    for mention in (mention for fact in facts for mention in fact.entities):
        names = "|".join(re.escape(name) for name in (mention.name, mention.name_in_text) if name)
        if re.search(rf"(?<!\w)(?:{names})(?!\w)", text, re.IGNORECASE):
            found.setdefault(mention.id, mention.model_copy(update={"name_in_text": ""}))
    return tuple(found.values())


async def update_opinions(
    bank: BankId, new: Sequence[FactId], context: Context, llm: StructuredLLM, lease: Lease
) -> list[ConfidenceChange]:
    """Assess the opinions that new facts affect, and write the changes of their confidence; this completes the job."""
    store = context.store
    while True:
        revision = await store.revision(bank)
        named = await store.facts(bank, FactSelect(ids=new, with_embeddings=True))
        facts = [fact for fact in named if fact.expired_at is None]
        held = await store.facts(bank, FactSelect.believed("opinion"))
        used = evidence_by_opinion(held, await store.confidence_changes(bank))
        opinions = [
            each for each in held if any(fact.id not in used[each.id] and _affects(fact, each) for fact in facts)
        ]
        if not opinions:
            await store.commit(Changes(bank=bank, finished=[lease], spending=llm.spending))
            return []
        assessed = await _assess(opinions, facts, llm)
        confidence = _confidence_changes(assessed, opinions, facts, used)
        rewritten = _rewritten(assessed, opinions, facts, confidence, context)
        changes = Changes(
            bank=bank,
            facts=await embed_facts(rewritten, context.embedder),
            closures=[
                FactClosure(fact=f.supersedes, invalid_at=f.valid_at, expired_at=f.recorded_at)
                for f in rewritten
                if f.supersedes is not None
            ],
            confidence=confidence,
            spending=llm.spending,
            finished=[lease],
            revision=revision,
            embedder=context.embedder.name,
        )
        if await store.commit(changes):
            return confidence
        if not await store.renew([lease], lease.seconds):
            return []


async def _assess(opinions: Sequence[Fact], facts: Sequence[Fact], llm: StructuredLLM) -> OpinionAssessments:
    opinion_lines = [f"O{n} | {opinion.text}" for n, opinion in enumerate(opinions, start=1)]
    fact_lines = [f"F{n} | {fact.mentioned_at:%d %B %Y} | {fact.text}" for n, fact in enumerate(facts, start=1)]
    prompt = load_prompt("reflect", "opinions")
    ask = prompt.request(OpinionAssessments, opinions=quote(opinion_lines), facts=quote(fact_lines))
    return await llm.ask(ask, OpinionAssessments, lambda answer: _feedback(answer, len(opinions), len(facts)))


def _feedback(answer: OpinionAssessments, opinions: int, facts: int) -> str | None:
    """Return what the LLM must correct, or None."""
    assessed = [each.opinion for each in answer.assessments]
    expected = {f"O{n}" for n in range(1, opinions + 1)}
    if set(assessed) != expected or len(assessed) != len(expected):
        return f"assess exactly these opinions, once each: {', '.join(sorted(expected))}"
    unknown = {id for each in answer.assessments for id in each.evidence} - {f"F{n}" for n in range(1, facts + 1)}
    if unknown:
        return f"these facts do not exist: {', '.join(id[:8] for id in sorted(unknown)[:5])}"
    unsupported = [each.opinion for each in answer.assessments if each.stance != "neutral" and not each.evidence]
    return f"these name no evidence: {', '.join(unsupported)}" if unsupported else None


def _confidence_changes(
    answer: OpinionAssessments, opinions: Sequence[Fact], facts: Sequence[Fact], used: Mapping[FactId, set[FactId]]
) -> list[ConfidenceChange]:
    now = utc_now()
    by_number = {f"O{n}": opinion for n, opinion in enumerate(opinions, start=1)}
    fact_ids = {f"F{n}": fact.id for n, fact in enumerate(facts, start=1)}
    changes: list[ConfidenceChange] = []
    for each in answer.assessments:
        opinion = by_number[each.opinion]
        ids = dict.fromkeys(fact_ids[number] for number in each.evidence)
        evidence = tuple(id for id in ids if id not in used[opinion.id])
        if each.stance != "neutral" and evidence:
            changes.append(confidence_change(opinion, each.stance, evidence, each.reason, now))
    return changes


def _rewritten(
    answer: OpinionAssessments,
    opinions: Sequence[Fact],
    facts: Sequence[Fact],
    changes: Sequence[ConfidenceChange],
    context: Context,
) -> list[Fact]:
    """Return the opinions that take the place of contradicted ones, with the facts that contradict as their basis."""
    texts = {opinions[int(each.opinion[1:]) - 1].id: _storable(each.text) for each in answer.assessments}
    found: list[Fact] = []
    for change in changes:
        old, text = next(opinion for opinion in opinions if opinion.id == change.opinion), texts[change.opinion]
        if change.stance != "contradict" or _significant_words(text) in ([], _significant_words(old.text)):
            continue
        evidence = [fact for fact in facts if fact.id in change.evidence]
        start = max(old.valid_at or old.mentioned_at, *(fact.mentioned_at for fact in evidence))
        times = {"mentioned_at": change.at, "recorded_at": change.at, "valid_at": start}
        expiry = first_expiry(fact.expires_at for fact in evidence)
        new = {"id": FactId(new_fact_id()), "supersedes": old.id, "embedding": None, "expires_at": expiry}
        rest = {"messages": (), "basis": change.evidence, "confidence": REWRITTEN, "access_count": 0}
        words = {"text": text, "tokens": context.counter(text), "entities": entities_in(text, [old, *evidence])}
        found.append(old.model_copy(update={**times, **new, **rest, **words, "engine": engine_label(context.engine)}))
    return found


def confidence_change(
    opinion: Fact, stance: Stance, evidence: tuple[FactId, ...], reason: str, at: datetime
) -> ConfidenceChange:
    """Return the change that an assessment makes to an opinion's confidence."""
    before = opinion.confidence or 0.0
    return ConfidenceChange(
        opinion=opinion.id,
        stance=stance,
        before=before,
        after=round(min(1.0, max(0.0, before + _STEPS[stance] * STEP)), 6),
        evidence=evidence,
        reason=reason,
        at=at,
    )


MAX_OPINIONS = 5
_FILLER_WORDS = frozenset("i a an the that think believe feel find really very quite".split())
"""Words that do not distinguish two opinions."""


class _Revision(NamedTuple):
    """An assessment of a held opinion with its evidence."""

    opinion: FactId
    stance: Stance
    evidence: tuple[FactId, ...]
    reason: str


async def form_opinions(
    bank: BankId, answer: GeneratedAnswer, checks: AnswerChecks, asked_at: datetime, context: Context
) -> Changes:
    """Write the opinions of an answer that pass the checks, and its revisions of held opinions; return the changes."""
    usable = [each for each in answer.opinions if checks.opinion_problem(each) is None][:MAX_OPINIONS]
    facts = [_opinion(bank, each, checks.evidence, asked_at, context) for each in usable]
    formed = await embed_facts(facts, context.embedder)
    revisions = _revisions(answer, checks)
    while formed or revisions:
        revision = await context.store.revision(bank)
        changes = await _planned(bank, formed, revisions, asked_at, context.store)
        if not changes.derives:
            break
        if await context.store.commit(replace(changes, revision=revision, embedder=context.embedder.name)):
            return changes
    return Changes(bank=bank)


def _opinion(bank: BankId, formed: FormedOpinion, evidence: Evidence, asked_at: datetime, context: Context) -> Fact:
    supporting = evidence.facts(mark for mark in parse_marks(formed.facts) if mark[0] in "FS")
    messages = (id for fact in supporting if fact.engine == "verbatim" for id in fact.messages)
    text = _storable(formed.text)
    return Fact(
        id=FactId(new_fact_id()),
        bank=bank,
        network="opinion",
        text=text,
        tokens=context.counter(text),
        mentioned_at=asked_at,
        valid_at=asked_at,
        confidence=formed.confidence or 0.0,
        entities=entities_in(text, supporting),
        messages=tuple(dict.fromkeys(messages)),
        basis=tuple(dict.fromkeys(id for fact in supporting for id in _basis(fact))),
        supersedes=next(map(evidence.fact_id, parse_marks([formed.instead_of])), None),
        engine=engine_label(context.engine),
    )


def _storable(text: str) -> str:
    """Remove citation marks, which have no meaning later, and control characters, which stores reject."""
    return " ".join(without_citations(text).split())


def _basis(fact: Fact) -> tuple[FactId, ...]:
    """Return the facts that a cited fact stands for; an observation stands for the facts it summarizes."""
    if fact.engine == "verbatim":
        return ()
    return fact.basis if fact.network == "observation" else (fact.id,)


def _revisions(answer: GeneratedAnswer, checks: AnswerChecks) -> list[_Revision]:
    evidence = checks.evidence
    return [
        _Revision(
            opinion=evidence.facts(parse_marks([each.opinion]))[0].id,
            stance=each.stance,
            evidence=tuple(fact.id for fact in evidence.facts(parse_marks(each.evidence)) if fact.engine != "verbatim"),
            reason=_storable(each.reason),
        )
        for each in answer.revised
        if checks.assessment_problem(each) is None and each.stance != "neutral"
    ]


async def _planned(
    bank: BankId, formed: Sequence[NewFact], revisions: Sequence[_Revision], asked_at: datetime, store: Store
) -> Changes:
    """Return the changes of new opinions and of revisions; a new one that is already held reinforces the held one."""
    opinions = await store.facts(bank, FactSelect.believed("opinion"))
    used = evidence_by_opinion(opinions, await store.confidence_changes(bank))
    held = {fact.id: fact for fact in opinions}
    existing = await _expiries(bank, formed, revisions, store)
    new, closed, repeated = list[NewFact](), list[FactClosure](), list[_Revision]()
    for each in formed:
        fact = each.fact
        basis = tuple(id for id in fact.basis if id in existing)
        messages = tuple(id for id in fact.messages if id in existing)
        if not (basis or messages) or any(_same_words(fact, other.fact) for other in new):
            continue
        replaced = fact.supersedes if fact.supersedes in held else None
        same = next((id for id, other in held.items() if id != replaced and _same_words(fact, other)), None)
        if same is not None:
            repeated.append(_Revision(same, "reinforce", basis, "The same opinion was formed again."))
            continue
        expiry = first_expiry(existing[id] for id in (*basis, *messages))
        update = {"basis": basis, "messages": messages, "supersedes": replaced, "expires_at": expiry}
        new.append(replace(each, fact=fact.model_copy(update=update)))
        if replaced is not None:
            # A question asked as of an earlier date must not close the opinion before it started.
            closed_at = max(asked_at, held.pop(replaced).valid_at or asked_at)
            closed.append(FactClosure(fact=replaced, invalid_at=closed_at, expired_at=utc_now()))
    changes: dict[FactId, ConfidenceChange] = {}
    for revision in (*revisions, *repeated):
        # An opinion is changed once, and only by evidence that has not counted yet.
        evidence = tuple(id for id in revision.evidence if id in existing and id not in used.get(revision.opinion, ()))
        if revision.opinion in held and evidence and revision.opinion not in changes:
            change = confidence_change(held[revision.opinion], revision.stance, evidence, revision.reason, utc_now())
            changes[revision.opinion] = change
    return Changes(bank=bank, facts=new, closures=closed, confidence=list(changes.values()))


async def _expiries(
    bank: BankId, formed: Sequence[NewFact], revisions: Sequence[_Revision], store: Store
) -> dict[str, datetime | None]:
    """Return the expiry, by id, of the facts and messages that were not forgotten meanwhile."""
    facts = {id for each in formed for id in each.fact.basis} | {id for each in revisions for id in each.evidence}
    messages = {id for each in formed for id in each.fact.messages}
    found = [
        *await store.facts(bank, FactSelect(ids=sorted(facts))),
        *await store.messages(bank, MessageSelect(ids=sorted(messages))),
    ]
    return {str(each.id): each.expires_at for each in found}


def _same_words(one: Fact, other: Fact) -> bool:
    """Compare by words: by embedding, an opinion and its opposite are similar."""
    return _significant_words(one.text) == _significant_words(other.text)


def _significant_words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.casefold()) if word not in _FILLER_WORDS]
