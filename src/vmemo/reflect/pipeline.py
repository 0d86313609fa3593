"""Reflect: recall, generate an answer, check it, fill the caller's schema and record opinions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import accumulate
from pathlib import Path

from pydantic import JsonValue

from vmemo.llm.caller_schema import CallerSchema
from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Fact, Hit, QueryType, QuestionTense
from vmemo.models.results import Answer, Citation, MemoryLookup
from vmemo.ports import LLM, Context, LLMRequest, TokenCounter
from vmemo.reflect.answer_checks import REPEATS_INSTRUCTIONS, AnswerChecks
from vmemo.reflect.answer_prompt import MAX_QUERIES, GeneratedAnswer, Question, build_ask, instructions
from vmemo.reflect.citations import BACKGROUND, cited_marks, resolve_citations, without_citations
from vmemo.reflect.coverage import FACTS, GATHERED, Recaller, RecallOutcome, gather_by_session
from vmemo.reflect.date_math import describe_times, question_date
from vmemo.reflect.evidence import Evidence, load_sources
from vmemo.reflect.opinions import form_opinions
from vmemo.reflect.streaming import AnswerStreamer, EventSink, StreamTap, ignore_event
from vmemo.text.injection import contains_instructions
from vmemo.text.questions.types import answer_type

MAX_FACTS = 5
MIN_SCORE_SHARE = 0.6
"""Share of the best fact's score that a fact must reach to be quoted."""
MIN_GATHERED_SHARE = 0.25
"""The same for facts that are quoted in the order in which they were said, which should be complete."""
MAX_QUOTED_TOKENS = 576
"""Tokens of those facts: twelve short lines, or six longer ones."""
NO_LLM = "no language model is configured"
_CLOSEST = "The closest facts in memory"
_SAID_IN_ORDER = "What was said about this, in the order in which it was said"
IN_ORDER: Mapping[QueryType, str] = {
    "ordering": _SAID_IN_ORDER,
    "summary": _SAID_IN_ORDER,
    "change": _SAID_IN_ORDER,
    "contradiction": f"{_SAID_IN_ORDER}; statements may contradict each other",
}
"""Headings by the types of questions whose facts are quoted in the order in which they were said."""


def extractive_answer(
    query: str,
    hits: Sequence[Hit],
    *,
    reason: str = NO_LLM,
    asked_at: datetime | None = None,
    type: QueryType = "general",
) -> Answer:
    """Return the best facts as an answer that gives the `reason` for quoting them, or all facts of a type in order.

    With `asked_at`, for questions about time, each fact shows its distance from that date.
    """
    if not hits:
        text = f"Memory holds nothing about this. (Extractive answer: {reason}.)"
        return Answer(query=query, text=text, extractive=True, found=False)
    best = [hit for hit in hits[:MAX_FACTS] if hit.score >= MIN_SCORE_SHARE * hits[0].score]
    quoted = hits if type in IN_ORDER else best
    facts = [hit.fact for hit in quoted]
    heading = f"{IN_ORDER.get(type, _CLOSEST)} (extractive: {reason}, so nothing is inferred and no opinion is formed):"
    marks = (f"{n}." if type == "ordering" else "-" for n in range(1, len(quoted) + 1))
    lines = (f"{mark} {_quote(hit, asked_at)}" for mark, hit in zip(marks, quoted, strict=True))
    return Answer(
        query=query,
        text="\n".join([heading, *lines]),
        citations=tuple(map(citation_of, facts)),
        facts=facts_in(facts, "world", "experience"),
        observations=facts_in(facts, "observation"),
        opinions=facts_in(facts, "opinion"),
        extractive=True,
    )


def citation_of(fact: Fact) -> Citation:
    """Return the citation of a fact."""
    return Citation(fact=fact.id, network=fact.network, text=fact.text, mentioned_at=fact.mentioned_at)


def facts_in(facts: Sequence[Fact], *networks: str) -> tuple[Fact, ...]:
    """Return the facts of these networks."""
    return tuple(fact for fact in facts if fact.network in networks)


def _quote(hit: Hit, asked_at: datetime | None) -> str:
    fact, note = hit.fact, f" ({hit.status_note})" if hit.status_note else ""
    network = f"[{fact.network}] " if fact.network in ("opinion", "observation") else ""
    day = f"{fact.mentioned_at.day} {fact.mentioned_at:%B %Y}"
    return f"{day if asked_at is None else describe_times(fact, asked_at)}{note}: {network}{fact.text} [{fact.id}]"


PROMPTS = Path(__file__).parent / "prompts"


async def fill_schema(
    schema: CallerSchema, answer: str, facts: Sequence[Fact], llm: StructuredLLM, **values: str
) -> dict[str, JsonValue]:
    """Return the answer in the caller's schema; `values` are the prompt's `question` and `today`."""
    prompt = load_prompt(PROMPTS, "structure")
    lines = [f"{fact.mentioned_at:%d %B %Y} | {fact.text}" for fact in facts]
    values |= {"answer": quote([answer]), "facts": quote(lines) if lines else "(none)"}
    ask = LLMRequest(
        step=prompt.step,
        system=prompt.system.safe_substitute(values),
        user=prompt.user.substitute(values),
        schema=schema.schema,
    )
    return await llm.ask_text(ask, schema.parse)


MAX_LOOKUPS = 3
"""Rounds of further recalls that the LLM may request."""
FIRST_RECALL_SHARE = 0.5
"""Share of the token budget for the first recall, if further ones are allowed."""
SMALL_BUDGET = 1000
"""Tokens up to which the first recall has a greater share: half of them would be a few facts."""
SMALL_FIRST_SHARE = 0.7
FIRST_LOOK_SHARE = 0.6
"""Share of the first tokens for the whole question, if it has sub-queries."""
LINKED_SHARE = 0.3
"""Share of the first tokens for traits of the persons in a request for advice."""
NARROW: frozenset[QueryType] = frozenset(("factual", "update", "temporal", "assistant"))
"""Types of questions that few facts answer, so that distant ones are only noise."""
NEAR_SHARE = 0.4
"""Share of the best score that facts beyond a small budget must have, for these types."""
MAX_LOOKED_UP = 8
"""New facts that one lookup adds."""
GATHERED_SHARE = 0.9
"""Share of the token budget for what is gathered by session, if further lookups are allowed."""
MAX_QUERY_LENGTH = 500


@dataclass(frozen=True, kw_only=True)
class ReflectContext:
    """The bank that a reflection answers from, its LLM and the receiver of its events."""

    bank: BankId
    recaller: Recaller
    llm: StructuredLLM
    streamer: AnswerStreamer
    context: Context

    @staticmethod
    def of(bank: BankId, llm: LLM, context: Context, *, recaller: Recaller, emit: EventSink) -> ReflectContext:
        """Return a context that streams the answer to `emit`; with `ignore_event`, nothing is streamed."""
        streamer = AnswerStreamer(emit)
        model = llm if emit is ignore_event else StreamTap(llm, streamer)
        return ReflectContext(
            bank=bank, recaller=recaller, llm=StructuredLLM(model), streamer=streamer, context=context
        )


@dataclass(frozen=True, kw_only=True)
class DraftAnswer:
    """The LLM's answer with its evidence, its checks and the lookups made for it."""

    generated: GeneratedAnswer
    evidence: Evidence
    checks: AnswerChecks
    lookups: tuple[MemoryLookup, ...]


async def reflect(question: Question, context: ReflectContext, schema: CallerSchema | None) -> Answer:
    """Answer a question from memory, fill the schema if one is given, and record the opinions it leads to."""
    draft = await generate(question, context)
    answer = _empty_bank_answer(question.text) if draft is None else conclude(question, draft)
    context.streamer.finish(answer.text)
    if draft is None:
        return answer
    if schema is not None and answer.found and not answer.extractive:
        answer = answer.model_copy(update={"data": await _fill(schema, question, answer, context.llm)})
    answer = answer.model_copy(update={"usage": context.llm.usage})
    if not question.opinions or answer.extractive:
        return answer
    made = await form_opinions(context.bank, draft.generated, draft.checks, question.asked_at, context.context)
    return answer.model_copy(update={"formed": made.opinions, "confidence_changes": made.confidence_changes})


async def generate(question: Question, context: ReflectContext) -> DraftAnswer | None:
    """Recall evidence and ask the LLM until it answers, looking up what it requests in between.

    An answer that fails its checks is repaired once. Return None if the bank is empty and has no background.
    """
    recalled = await context.recaller.recall(question.text, _first_tokens(question))
    if not recalled.hits and not question.profile.background and await context.recaller.is_empty():
        return None
    recalled = replace(recalled, type=answer_type(question.text, recalled.type))
    evidence = await _first_evidence(question, recalled, context)
    context.streamer.fact_id = evidence.fact_id
    lookups: list[MemoryLookup] = []
    rounds_left = question.max_lookups
    while True:
        new_queries = partial(_new_queries, question=question, lookups=tuple(lookups), rounds_left=rounds_left)
        checks = AnswerChecks(
            question=question.text,
            type=recalled.type,
            evidence=evidence,
            instructions=instructions(question, recalled.type),
            background=question.profile.background,
            new_queries=new_queries,
        )
        context.streamer.may_look_up = rounds_left > 0
        ask = build_ask(question, evidence, recalled.type, lookups, rounds_left)
        generated = await context.llm.ask(ask, GeneratedAnswer, checks.feedback, lenient=True)
        queries = new_queries(generated)
        if not queries and (generated.text.strip() or not rounds_left):
            return DraftAnswer(generated=generated, evidence=evidence, checks=checks, lookups=tuple(lookups))
        for shares, query in zip(range(rounds_left * len(queries), 0, -1), queries, strict=False):
            tense = recalled.shared_tense
            lookups.append(await _look_up(query, evidence, question, context.recaller, shares=shares, tense=tense))
            context.streamer.emit(lookups[-1])
        # Without a new query and without an answer, the next round must answer.
        rounds_left = rounds_left - 1 if queries else 0


def _first_tokens(question: Question) -> int:
    if not question.max_lookups:
        return question.max_tokens
    share = SMALL_FIRST_SHARE if question.max_tokens <= SMALL_BUDGET else FIRST_RECALL_SHARE
    return max(1, int(question.max_tokens * share))


async def _first_evidence(question: Question, recalled: RecallOutcome, context: ReflectContext) -> Evidence:
    """Return the evidence of the first recall, and of a second look by the program where the type calls for one."""
    evidence = Evidence(
        question.asked_at,
        context.context.counter,
        question=question.text,
        timed=recalled.type == "temporal",
        events=recalled.parts if recalled.type == "temporal" else (),
        chronological=recalled.type in GATHERED,
        sequenced=recalled.type in ("temporal", "update"),
        recalled_instructions=recalled.instructions,
    )
    if evidence.chronological:
        await _gather(question, recalled, evidence, context.recaller)
        return evidence
    queries, tokens = (*recalled.parts, *recalled.links), _first_tokens(question)
    whole = FIRST_LOOK_SHARE if recalled.parts else 1 - LINKED_SHARE if recalled.links else 1
    hits = close_hits(recalled.hits) if recalled.type in NARROW else recalled.hits
    await _add(evidence, hits, int(tokens * whole), context.recaller)
    for place, query in enumerate(queries):
        share = (tokens - evidence.tokens) // (len(queries) - place)
        if share > 0:
            found = await context.recaller.recall(query, evidence.tokens + share, tense=recalled.shared_tense)
            await _add(evidence, found.hits, share, context.recaller)
    return evidence


def close_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits that fit into a small budget, and of those after them the ones with a near score."""
    best = max((hit.score for hit in hits), default=0.0)
    used = accumulate(hit.tokens for hit in hits)
    return [
        hit for hit, total in zip(hits, used, strict=True) if total <= SMALL_BUDGET or hit.score >= NEAR_SHARE * best
    ]


async def _gather(question: Question, recalled: RecallOutcome, evidence: Evidence, recaller: Recaller) -> None:
    """Add lines from every session, and then the observations and opinions that were recalled."""
    tokens = max(1, int(question.max_tokens * GATHERED_SHARE)) if question.max_lookups else question.max_tokens
    chosen, sources = await gather_by_session(
        question.text, recalled, recaller, max_tokens=tokens, count=evidence.counter
    )
    evidence.sources.update(sources)
    evidence.add(chosen, tokens)
    others = [hit for hit in recalled.hits if hit.fact.network not in FACTS]
    await _add(evidence, others, question.max_tokens - evidence.tokens, recaller)


async def _add(evidence: Evidence, hits: Sequence[Hit], max_tokens: int, recaller: Recaller) -> int:
    """Add hits with their sources, and return their number."""
    new = [hit for hit in hits if hit.id not in evidence.sources]
    evidence.sources.update(await load_sources(new, recaller.messages))
    return evidence.add(hits, max_tokens)


async def _look_up(
    query: str,
    evidence: Evidence,
    question: Question,
    recaller: Recaller,
    *,
    shares: int,
    tense: QuestionTense | None,
) -> MemoryLookup:
    """Recall again, using one of `shares` equal parts of the remaining tokens."""
    available = (question.max_tokens - evidence.tokens) // shares
    if available < 1:
        return MemoryLookup(query=query, found=0)
    # Evidence that is shown already is recalled again, so the limit covers both.
    recalled = await recaller.recall(query, evidence.tokens + available, tense=tense)
    shown = {hit.id for hit in evidence.hits.values()}
    new = [hit for hit in recalled.hits if hit.id not in shown][:MAX_LOOKED_UP]
    return MemoryLookup(query=query, found=await _add(evidence, new, available, recaller))


def _new_queries(
    generated: GeneratedAnswer, *, question: Question, lookups: Sequence[MemoryLookup], rounds_left: int
) -> list[str]:
    """Return the queries that the LLM requests and that were not made yet."""
    if not rounds_left:
        return []
    made = {"", _normalized(question.text), *(_normalized(each.query) for each in lookups)}
    plain = (" ".join(without_citations(each[:2000]).split())[:MAX_QUERY_LENGTH] for each in generated.look_for)
    requested = {_normalized(query): query for query in plain if query}
    return [query for key, query in requested.items() if key not in made][:MAX_QUERIES]


def _normalized(query: str) -> str:
    return " ".join(re.findall(r"\w+", query.casefold()))


async def quote_memory(
    question: str, asked_at: datetime, recaller: Recaller, *, max_tokens: int, count: TokenCounter
) -> Answer:
    """Answer without a model, by quoting facts: orders, summaries and questions of yes or no by session."""
    recalled = await recaller.recall(question, max_tokens)
    if recalled.type not in IN_ORDER:
        return extractive_answer(question, recalled.hits, asked_at=asked_at if recalled.type == "temporal" else None)
    limit = min(max_tokens, MAX_QUOTED_TOKENS)
    hits, _ = await gather_by_session(
        question,
        recalled,
        recaller,
        max_tokens=limit,
        count=count,
        score_share=MIN_GATHERED_SHARE,
    )
    return extractive_answer(question, hits or recalled.hits, type=recalled.type if hits else "general")


def conclude(question: Question, draft: DraftAnswer) -> Answer:
    """Return the answer with fact ids as citations, and with a note for each remaining flaw."""
    generated, evidence = draft.generated, draft.evidence
    flaws = [problem.flaw for problem in draft.checks.problems(generated)]
    if REPEATS_INSTRUCTIONS.flaw in flaws:
        return _quote_instead(question, draft)
    marks = cited_marks(generated.text)
    facts = evidence.facts(marks)
    notes = [f"(Not supported: {flaw})" for flaw in flaws]
    if not generated.found and draft.lookups:
        notes.append("(I also looked for: " + "; ".join(each.query for each in draft.lookups) + ")")
    return Answer(
        query=question.text,
        text="\n".join([resolve_citations(generated.text, evidence.fact_id), *notes]).strip(),
        citations=tuple(map(citation_of, facts)),
        facts=facts_in(facts, "world", "experience"),
        observations=facts_in(facts, "observation"),
        opinions=facts_in(facts, "opinion"),
        background=bool(question.profile.background) and BACKGROUND in marks,
        lookups=draft.lookups,
        steps=tuple(step for each in generated.steps if (step := resolve_citations(each[:2000], evidence.fact_id))),
        flaws=tuple(flaws),
        notes=tuple(notes),
        found=generated.found,
    )


def _quote_instead(question: Question, draft: DraftAnswer) -> Answer:
    """Quote the evidence in place of an answer that repeats the instructions."""
    reason = "the model repeated its instructions instead of answering, so its answer was dropped"
    hits = [hit for hit in draft.evidence.hits.values() if not contains_instructions(hit.text)]
    answer = extractive_answer(question.text, hits, reason=reason)
    return answer.model_copy(update={"flaws": (REPEATS_INSTRUCTIONS.flaw,), "lookups": draft.lookups})


def _empty_bank_answer(query: str) -> Answer:
    return Answer(query=query, text="I don't know: memory holds nothing about this.", found=False)


async def _fill(schema: CallerSchema, question: Question, answer: Answer, llm: StructuredLLM) -> object:
    facts = (*answer.facts, *answer.observations, *answer.opinions)
    values = {"today": question_date(question.asked_at), "question": quote([question.text])}
    return await fill_schema(schema, answer.plain, facts, llm, **values)
