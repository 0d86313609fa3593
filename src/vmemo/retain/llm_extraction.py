"""Extraction of an episode with a language model: predict its content, then extract what the prediction missed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from vmemo.errors import LLMUnusable
from vmemo.llm.prompt_files import Prompt, load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import Message, MessageId
from vmemo.models.drafts import ExpectedStatement, ExtractionResult, FactDraft, RestatedFact
from vmemo.models.results import Skipped
from vmemo.ports import LLMRequest
from vmemo.retain import drafts_from_llm
from vmemo.retain.agent_users import agent_users
from vmemo.retain.custom_extraction import CustomExtraction
from vmemo.retain.extraction_input import ExtractionInput, describe_fact, windows
from vmemo.retain.llm_schemas import ExtractedFact, Extraction, Prediction, SmallExtraction
from vmemo.retain.revise import is_rest_of
from vmemo.retain.topics_from_llm import (
    EpisodeTopic,
    combine_excess,
    episode_topics,
    excess_problem,
)
from vmemo.text.noise import is_grounded, is_meta_text, is_small_talk
from vmemo.text.own_words import begins_persona

PROMPTS = Path(__file__).parent / "prompts"
MIN_KNOWN_FACTS = 3
"""Known facts below which nothing is predicted."""
Style = Literal["narrative", "atomic"]
_FACTS_PER_TOPIC: dict[Style, str] = {
    "narrative": "two to five per topic",
    "atomic": "as many as there are, each a single statement that cannot be divided further",
}


@dataclass(frozen=True, kw_only=True)
class EpisodeExtraction:
    """The facts of an episode, and the topics into which the model divided it."""

    result: ExtractionResult
    topics: tuple[EpisodeTopic, ...] = ()


@dataclass
class LLMExtractor:
    """Extracts facts in a style; `small` is set once the model has failed with the full schema."""

    style: Style = "narrative"
    custom: CustomExtraction = field(default_factory=CustomExtraction)
    small: bool = False

    async def extract(self, source: ExtractionInput, llm: StructuredLLM) -> EpisodeExtraction:
        """Return the facts and topics of an input, with one call per window of lines."""
        if all(is_small_talk(line.text) for line in source.lines):
            return EpisodeExtraction(
                result=ExtractionResult(drafts=(), engine=_engine_label(llm, load_prompt(PROMPTS, "extract")))
            )
        expected = await self._predict(source, llm)
        parts = [
            await self._extract_window(replace(source, lines=lines), llm, expected, n)
            for n, lines in enumerate(windows(source.lines))
        ]
        return parts[0] if len(parts) == 1 else _combined(parts)

    async def _predict(self, source: ExtractionInput, llm: StructuredLLM) -> Sequence[str]:
        """Return the predicted statements; none if too little is known, or if little of it comes up again."""
        if len(source.known) < MIN_KNOWN_FACTS or not source.repeats or self.small:
            return ()
        prompt = load_prompt(PROMPTS, "predict")
        known = quote(describe_fact(fact) for fact in source.known)
        request = prompt.request(
            Prediction, max_tokens=1024, known=known, when=source.date, title=quote([source.title])
        )
        return (await llm.ask(request, Prediction)).statements

    async def _extract_window(
        self, source: ExtractionInput, llm: StructuredLLM, expected: Sequence[str], n: int
    ) -> EpisodeExtraction:
        if not self.small:
            try:
                return await self._extract_full(source, llm, expected, n)
            except LLMUnusable:
                extraction = await self._extract_small(source, llm, n)
                self.small = True
                return extraction
        return await self._extract_small(source, llm, n)

    async def _extract_full(
        self, source: ExtractionInput, llm: StructuredLLM, expected: Sequence[str], n: int
    ) -> EpisodeExtraction:
        prompt = load_prompt(PROMPTS, "extract")
        request = prompt.request(
            Extraction,
            max_tokens=8192,
            amount=_FACTS_PER_TOPIC[self.style],
            agent=source.agent,
            context=source.context(expected),
            lines=source.quoted_lines(),
        )
        request = replace(self.custom.applied(request), omit_empty=True)
        limited = self.style == "narrative"
        answer = await llm.ask(
            request, Extraction, lambda found: _problems(found, source, limited=limited), lenient=True
        )
        if limited:
            answer = combine_excess(answer, len(source.lines))
        result = _usable_result(answer, source, n, self.custom)
        _require_usable(result, answer.facts, llm, request)
        at = source.lines[0].message.timestamp
        foreseen = [ExpectedStatement(text=text, at=at) for text in expected]
        foreseen += [ExpectedStatement(text=fact.text, at=fact.mentioned_at) for fact in source.known]
        result = replace(result, engine=_engine_label(llm, prompt), expected=tuple(foreseen))
        return EpisodeExtraction(result=result, topics=episode_topics(answer, result.drafts, source.lines))

    async def _extract_small(self, source: ExtractionInput, llm: StructuredLLM, n: int) -> EpisodeExtraction:
        """Extract with the smallest schema, for models that fail with the full one."""
        prompt = load_prompt(PROMPTS, "extract_small")
        request = self.custom.applied(prompt.request(SmallExtraction, lines=source.quoted_lines()))
        answer = await llm.ask(request, SmallExtraction)
        facts = [
            ExtractedFact(what=fact.text, start=fact.date, lines=fact.lines, categories=fact.categories)
            for fact in answer.facts
        ]
        unaware, found = replace(source, known=()), Extraction(facts=facts)
        if self.style == "narrative":
            found = combine_excess(found, len(source.lines))
        result = _usable_result(found, unaware, n, self.custom)
        _require_usable(result, facts, llm, request)
        return EpisodeExtraction(result=replace(result, engine=_engine_label(llm, prompt)))


def _engine_label(llm: StructuredLLM, prompt: Prompt) -> str:
    return f"{llm.name}/{prompt.label}"


def _combined(parts: Sequence[EpisodeExtraction]) -> EpisodeExtraction:
    placed: set[MessageId] = set()
    topics: list[EpisodeTopic] = []
    for topic in (topic for part in parts for topic in part.topics):
        # A long message spans several windows and belongs to its first topic.
        own = tuple(id for id in topic.messages if id not in placed)
        placed.update(own)
        topics += [replace(topic, messages=own)] if own else []
    whole = ExtractionResult.combined([part.result for part in parts])
    return EpisodeExtraction(result=whole, topics=tuple(topics))


def _problems(answer: Extraction, source: ExtractionInput, *, limited: bool) -> str | None:
    """Return the problems to correct: facts without existing lines, too many of them, and wrong K numbers and rests."""
    problems = [problem for n, fact in enumerate(answer.facts, start=1) if (problem := _line_problem(n, fact, source))]
    relations = [each for fact in answer.facts for each in fact.supersedes]
    known = {
        id: drafts_from_llm.known_fact(id, source.known) for id in (each.id for each in (*answer.repeated, *relations))
    }
    unknown = sorted(id for id, fact in known.items() if fact is None)
    if unknown:
        problems.append("these numbers are not known facts: " + ", ".join(id[:8] for id in unknown[:5]))
    problems += [
        f"`keep` of {each.id} must be a part of {each.id}, in its words"
        for each in relations
        if (old := known[each.id]) is not None and not all(is_rest_of(text, old.text) for text in each.keep)
    ]
    excess = excess_problem(answer, len(source.lines)) if limited else None
    return "; ".join([*problems[:6], *([excess] if excess else [])]) or None


def _line_problem(n: int, fact: ExtractedFact, source: ExtractionInput) -> str | None:
    if not _source_messages(fact, source):
        return f"fact {n} has no line of the episode, whose lines are 1 to {len(source.lines)}"
    if not _is_grounded(fact, source):
        return f"fact {n} has nothing in common with its lines"
    return None


def _source_messages(fact: ExtractedFact, source: ExtractionInput) -> tuple[Message, ...]:
    return drafts_from_llm.sources(fact.lines, [line.message for line in source.lines])


def _is_grounded(fact: ExtractedFact, source: ExtractionInput) -> bool:
    wanted = set(fact.lines)
    texts = [f"{line.message.voice}: {line.text}" for n, line in enumerate(source.lines, start=1) if n in wanted]
    return is_grounded(drafts_from_llm.fact_text(fact), texts, [known.text for known in source.known])


def _is_from(messages: Sequence[MessageId], users: set[MessageId], others: set[MessageId]) -> bool:
    """Return True if a user states it to the agent, and nobody else does."""
    return not users.isdisjoint(messages) and others.isdisjoint(messages)


def _usable_result(
    answer: Extraction, source: ExtractionInput, window: int, custom: CustomExtraction
) -> ExtractionResult:
    """Return drafts of the usable facts; the others are reported as skipped with the reason."""
    numbered = dict(enumerate(answer.facts, start=1))
    problems = {n: problem for n, fact in numbered.items() if (problem := _problem(n, fact, source)) is not None}
    skipped = [Skipped(what=numbered[n].what[:200], reason=problem) for n, problem in problems.items()]
    usable = _distinct({n: fact for n, fact in numbered.items() if n not in problems})
    key = source.lines[0].message.id
    names = drafts_from_llm.found_names(answer.names)

    def draft(n: int, fact: ExtractedFact) -> FactDraft:
        messages = _source_messages(fact, source)
        found = drafts_from_llm.draft(fact, messages, names, source.known, key=f"{key}/{window}.{n}")
        return custom.tagged(found, fact.categories)

    drafts: dict[int, FactDraft] = {n: draft(n, fact) for n, fact in usable.items()}
    causes = drafts_from_llm.causes_by_fact(drafts, answer.facts)
    conversation = [*source.before, *(line.message for line in source.lines)]
    users = agent_users(conversation)
    personas = {message.id for message in conversation if begins_persona(message.content)}
    # The agent may repeat an instruction to confirm it.
    others = {message.id for message in conversation if message.role != "assistant"} - users
    return ExtractionResult(
        drafts=tuple(
            replace(
                draft,
                causes=causes[n],
                instruction=draft.instruction and _is_from(draft.messages, users - personas, others),
            )
            for n, draft in drafts.items()
        ),
        restated=tuple(_restated(answer, source)),
        known=frozenset(fact.id for fact in source.known),
        skipped=tuple(skipped),
    )


def _distinct(facts: Mapping[int, ExtractedFact]) -> dict[int, ExtractedFact]:
    """Return the facts by number; one that repeats the words of an earlier one only adds its lines to that one."""
    first: dict[str, int] = {}
    found: dict[int, ExtractedFact] = {}
    for n, fact in facts.items():
        kept = first.setdefault(drafts_from_llm.fact_text(fact), n)
        lines = [*found[kept].lines, *fact.lines] if kept in found else fact.lines
        found[kept] = found.get(kept, fact).model_copy(update={"lines": lines})
    return found


def _problem(n: int, fact: ExtractedFact, source: ExtractionInput) -> str | None:
    if is_meta_text(fact.what):
        return "is about the conversation, not about the world"
    return _line_problem(n, fact, source)


def _restated(answer: Extraction, source: ExtractionInput) -> Iterator[RestatedFact]:
    messages = [line.message for line in source.lines]
    for each in answer.repeated:
        fact = drafts_from_llm.known_fact(each.id, source.known)
        sources = drafts_from_llm.sources(each.lines, messages)
        if fact is not None and sources:
            yield RestatedFact(fact=fact.id, messages=tuple(message.id for message in sources))


def _require_usable(
    result: ExtractionResult, facts: Sequence[ExtractedFact], llm: StructuredLLM, request: LLMRequest
) -> None:
    """Raise if no fact is usable: an answer of unusable facts does not mean that there was nothing to remember."""
    unusable = [fact for fact in facts if not is_meta_text(fact.what)]
    if unusable and not result.drafts:
        llm.reject(request)
        raise LLMUnusable(f"{llm.name} returned {len(unusable)} facts, none of which is supported by the episode.")
