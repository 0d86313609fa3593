"""Reflect: recall, let the model answer or use tools, check the answer, fill the caller's schema, record opinions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from pydantic import JsonValue

from vmemo.llm.caller_schema import CallerSchema
from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Fact, Hit
from vmemo.models.results import Answer, Citation
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.ports import Context, LLMRequest
from vmemo.reflect.answer_checks import REPEATS_INSTRUCTIONS, AnswerChecks
from vmemo.reflect.answer_prompt import GeneratedAnswer, Question, build_ask, instructions
from vmemo.reflect.citations import BACKGROUND, cited_marks, resolve_citations
from vmemo.reflect.evidence import Evidence, Recall
from vmemo.reflect.fact_times import describe_event, local_date
from vmemo.reflect.opinions import form_opinions
from vmemo.reflect.streaming import AnswerStreamer
from vmemo.reflect.tools import LookupResult, LookupTools
from vmemo.text.injection import contains_instructions
from vmemo.text.temporal.format import format_date, format_weekday_date

# Answers without a model.

MAX_FACTS = 5
MIN_SCORE_SHARE = 0.6
"""Share of the best fact's score that a fact must reach to be quoted."""
LEAST_ANSWERABLE = 0.5
"""Probability that the facts hold the answer, below which an answer says that memory does not."""
NO_LLM = "no language model is configured"


def extractive_answer(
    query: str, hits: Sequence[Hit], *, asked_at: datetime, reason: str = NO_LLM, answerable: float | None = None
) -> Answer:
    """Return the best facts as an answer that gives the `reason` for quoting them.

    If they are not `answerable` more likely than not, the answer says that memory does not hold it.
    """
    if not hits:
        text = f"Memory holds nothing about this. (Extractive answer: {reason}.)"
        return Answer(query=query, text=text, extractive=True, found=False)
    best = [hit for hit in hits[:MAX_FACTS] if hit.score >= MIN_SCORE_SHARE * hits[0].score]
    facts = [hit.fact for hit in best]
    found = answerable is None or answerable >= LEAST_ANSWERABLE
    heading = f"The closest facts in memory (extractive: {reason}, so nothing is inferred and no opinion is formed):"
    if not found:
        heading = f"Memory does not seem to hold the answer. {heading}"
    return Answer(
        query=query,
        text="\n".join([heading, *(f"- {_quote(hit, asked_at)}" for hit in best)]),
        citations=tuple(map(citation_of, facts)),
        facts=facts_in(facts, "world", "experience"),
        observations=facts_in(facts, "observation"),
        opinions=facts_in(facts, "opinion"),
        extractive=True,
        found=found,
    )


def citation_of(fact: Fact) -> Citation:
    return Citation(fact=fact.id, network=fact.network, text=fact.text, mentioned_at=fact.mentioned_at)


def facts_in(facts: Sequence[Fact], *networks: str) -> tuple[Fact, ...]:
    return tuple(fact for fact in facts if fact.network in networks)


def _quote(hit: Hit, asked_at: datetime) -> str:
    fact, note = hit.fact, f" ({hit.status_note})" if hit.status_note else ""
    network = f"[{fact.network}] " if fact.network in ("opinion", "observation") else ""
    event = describe_event(fact, asked_at, closed=False)
    dates = "; ".join(filter(None, [format_date(local_date(fact.mentioned_at, asked_at)), event]))
    return f"{dates}{note}: {network}{fact.text} [{fact.id}]"


# Answers of a model.

EMPTY = "I don't know: memory holds nothing about this."
"""The answer of an empty bank, which needs no model."""
FIRST_RECALL_SHARE = 0.5
"""Share of the token budget for the first recall, if tools are allowed."""
SMALL_BUDGET = 1000
"""Tokens up to which the first recall has a greater share: half of them would be a few facts."""
SMALL_FIRST_SHARE = 0.7
WHOLE_REPLIES, LONG_REPLY = 2, 60
"""Best facts that are shown whole, and tokens to which others are shortened that the agent itself said."""
MIN_SHARE = 0.25
"""Share of the best score that a fact must have to be shown."""
NEAR_SHARE, LEADING_SHARE, LEAD = 0.4, 0.5, 0.1
"""The same for facts beyond a small budget, if more can be found with tools; the second if the best fact leads the next
one by the third, a share of its score. Chosen on conversations of four authors."""


@dataclass(frozen=True, kw_only=True)
class ReflectContext:
    """The bank that a reflection answers from, its LLM and the receiver of its events."""

    bank: BankId
    recall: Recall
    llm: StructuredLLM
    streamer: AnswerStreamer
    context: Context


async def reflect(question: Question, context: ReflectContext, schema: CallerSchema | None) -> Answer:
    """Answer a question from memory, fill the schema if one is given, and record the opinions it leads to."""
    draft = await generate(question, context)
    if draft is None:
        context.streamer.finish(EMPTY)
        return Answer(query=question.text, text=EMPTY, found=False)
    generated, checks = draft
    answer = conclude(question, generated, checks)
    context.streamer.finish(answer.text)
    if schema is not None and answer.found and not answer.extractive:
        answer = answer.model_copy(update={"data": await _fill(schema, question, answer, context.llm)})
    answer = answer.model_copy(update={"usage": context.llm.usage})
    if not question.opinions or answer.extractive:
        return answer
    made = await form_opinions(context.bank, generated, checks, question.asked_at, context.context)
    formed = tuple(new.fact for new in made.facts)
    return answer.model_copy(update={"formed": formed, "confidence_changes": tuple(made.confidence)})


async def generate(question: Question, context: ReflectContext) -> tuple[GeneratedAnswer, AnswerChecks] | None:
    """Recall evidence and ask the LLM until it answers, running the tools that it requests in between.

    An answer that fails its checks is repaired once. Return it with its checks, or None if the bank is empty and there
    is no background.
    """
    bank, store = context.bank, context.context.store
    recalled = await context.recall(question.text, _first_tokens(question))
    unknown = not recalled.hits and not question.profile.background and not await store.facts(bank, FactSelect(limit=1))
    if unknown and not await store.messages(bank, MessageSelect(limit=1)):
        return None
    evidence = Evidence(question.asked_at, context.context.counter, recalled_instructions=recalled.instructions)
    hits = close_hits(recalled.hits, may_search=question.max_lookups > 0)
    await evidence.load_sources(hits, bank, store)
    asked = recalled.explanation
    own = asked is not None and asked.type == "assistant"
    short = [evidence.shortened(hit, question.text, LONG_REPLY) if evidence.is_own(hit) else hit for hit in hits]
    whole = MAX_FACTS if own else WHOLE_REPLIES
    evidence.add([*hits[:whole], *short[whole:]], _first_tokens(question))
    context.streamer.fact_id = evidence.fact_id
    tense = None if asked is None or asked.tense == "present" else asked.tense
    tools = LookupTools(bank=bank, store=store, recall=context.recall, evidence=evidence, tense=tense, own=own)
    results: list[LookupResult] = []
    rounds_left = question.max_lookups
    while True:
        checks = AnswerChecks(
            question=question.text,
            evidence=evidence,
            instructions=instructions(question),
            background=question.profile.background,
            made=[each.lookup for each in results],
            may_call=rounds_left > 0,
        )
        context.streamer.may_call = checks.may_call
        ask = build_ask(question, evidence, results, rounds_left)
        generated = await context.llm.ask(ask, GeneratedAnswer, checks.feedback, lenient=True)
        calls = checks.new_calls(generated)
        if not calls and (generated.text.strip() or not rounds_left):
            return generated, checks
        before = dict(evidence.hits)
        for shares, call in zip(range(min(rounds_left, 2) * len(calls), 0, -1), calls, strict=False):
            # The calls of a round share half of the tokens that are left, those of the last round all.
            results.append(await tools.run(call, (question.max_tokens - evidence.tokens) // shares))
            context.streamer.emit(results[-1].lookup)
        evidence.new.clear()
        evidence.new.update(
            mark for mark, hit in evidence.hits.items() if mark[0] == "F" and before.get(mark) is not hit
        )
        # Without a new call and without an answer, the next round must answer.
        rounds_left = rounds_left - 1 if calls else 0


def _first_tokens(question: Question) -> int:
    if not question.max_lookups:
        return question.max_tokens
    share = SMALL_FIRST_SHARE if question.max_tokens <= SMALL_BUDGET else FIRST_RECALL_SHARE
    return max(1, int(question.max_tokens * share))


def close_hits(hits: Sequence[Hit], *, may_search: bool) -> list[Hit]:
    """Return the first hits, and of the others those near enough to the best; beyond a small budget, nearer ones.

    Observations and opinions have a share of the tokens of their own.
    """
    best, second = [*sorted((hit.score for hit in hits), reverse=True), 0.0, 0.0][:2]
    far = LEADING_SHARE if second < (1 - LEAD) * best else NEAR_SHARE
    used = accumulate(hit.tokens for hit in hits)
    least = (far if may_search and total > SMALL_BUDGET else MIN_SHARE for total in used)
    return [
        hit
        for place, (hit, least_share) in enumerate(zip(hits, least, strict=True))
        if place < MAX_FACTS or hit.score >= best * least_share or hit.fact.network in ("observation", "opinion")
    ]


def conclude(question: Question, generated: GeneratedAnswer, checks: AnswerChecks) -> Answer:
    """Return the answer with fact ids as citations, and with a note for each remaining flaw."""
    evidence, lookups = checks.evidence, tuple(checks.made)
    flaws = [problem.flaw for problem in checks.problems(generated)]
    if REPEATS_INSTRUCTIONS.flaw in flaws:
        return _quote_instead(question, checks)
    marks = cited_marks(generated.text)
    facts = evidence.facts(marks)
    notes = [f"(Not supported: {flaw})" for flaw in flaws]
    if not generated.found and lookups:
        notes.append("(I also looked for: " + "; ".join(each.query for each in lookups) + ")")
    return Answer(
        query=question.text,
        text="\n".join([resolve_citations(generated.text, evidence.fact_id), *notes]).strip(),
        citations=tuple(map(citation_of, facts)),
        facts=facts_in(facts, "world", "experience"),
        observations=facts_in(facts, "observation"),
        opinions=facts_in(facts, "opinion"),
        background=bool(question.profile.background) and BACKGROUND in marks,
        lookups=lookups,
        steps=tuple(step for each in generated.steps if (step := resolve_citations(each[:2000], evidence.fact_id))),
        flaws=tuple(flaws),
        notes=tuple(notes),
        found=generated.found,
    )


def _quote_instead(question: Question, checks: AnswerChecks) -> Answer:
    """Quote the evidence in place of an answer that repeats the instructions."""
    reason = "the model repeated its instructions instead of answering, so its answer was dropped"
    hits = [hit for hit in checks.evidence.hits.values() if not contains_instructions(hit.text)]
    answer = extractive_answer(question.text, hits, asked_at=question.asked_at, reason=reason)
    return answer.model_copy(update={"flaws": (REPEATS_INSTRUCTIONS.flaw,), "lookups": tuple(checks.made)})


async def _fill(schema: CallerSchema, question: Question, answer: Answer, llm: StructuredLLM) -> JsonValue:
    """Return the answer in the caller's schema."""
    prompt = load_prompt("reflect", "structure")
    facts = (*answer.facts, *answer.observations, *answer.opinions)
    lines = [f"{fact.mentioned_at:%d %B %Y} | {fact.text}" for fact in facts]
    values = {
        "today": format_weekday_date(question.asked_at.date()),
        "question": quote([question.text]),
        "answer": quote([answer.plain]),
        "facts": quote(lines) if lines else "(none)",
    }
    system, user = prompt.system.safe_substitute(values), prompt.user.substitute(values)
    ask = LLMRequest(step=prompt.step, system=system, user=user, schema=schema.schema)
    return await llm.ask_text(ask, schema.parse)
