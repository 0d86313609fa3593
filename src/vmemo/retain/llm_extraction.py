"""Extraction of an episode with a language model: predict its content, then extract what the prediction missed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import date
from hashlib import blake2b
from itertools import groupby
from typing import Literal, cast

from pydantic import JsonValue

from vmemo.errors import LLMUnusable
from vmemo.llm.prompt_files import Prompt, load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import Entity, Fact, Message, MessageId
from vmemo.models.changes import AddedSource, ExpectedStatement, ExtractionResult, FactDraft, FoundName
from vmemo.models.results import Skipped
from vmemo.ports import LLMRequest
from vmemo.retain import llm_answers
from vmemo.retain.local_extraction import agent_users, annotate_message
from vmemo.retain.revise import ended_span
from vmemo.text.meta_text import is_grounded, is_meta_text, strip_recalled
from vmemo.text.own_words import begins_persona
from vmemo.text.small_talk import is_small_talk
from vmemo.text.split import split_text

# The input of the prompts.
WINDOW = 24_000
"""Characters per extraction call; a longer episode takes several calls."""
PRECEDING_MESSAGES, MAX_ALIASES = 4, 3
"""Messages before an episode, and aliases of each known entity, that are shown."""
_CONTEXT_CHARACTERS = 200


@dataclass(frozen=True)
class ExtractionLine:
    """A message, or a chunk of a long one, as the model sees it."""

    message: Message
    text: str
    noise: bool = False
    """It probably holds nothing to remember, by the packaged reader."""


@dataclass(frozen=True, kw_only=True)
class ExtractionInput:
    """The input of one extraction: lines, the messages before them, and known facts."""

    lines: tuple[ExtractionLine, ...]
    before: tuple[Message, ...] = ()
    known: tuple[Fact, ...] = ()
    instructions: tuple[Fact, ...] = ()
    entities: tuple[Entity, ...] = ()
    """Known entities that the lines may name."""
    title: str = ""
    """The subject of the episode, for the prediction; it quotes no line."""
    repeats: bool = False
    """Most of the lines are close to known facts, so that a prediction saves more than it costs."""
    agent: str = "assistant"

    @property
    def messages(self) -> list[Message]:
        return [line.message for line in self.lines]

    def sources(self, numbers: Sequence[int]) -> tuple[Message, ...]:
        """Return the messages of lines, without probable noise beside others."""
        said = {n: self.lines[n - 1] for n in sorted(set(numbers)) if 1 <= n <= len(self.lines)}
        chosen = [line for line in said.values() if not line.noise] or said.values()
        return tuple({line.message.id: line.message for line in chosen}.values())

    def quoted_lines(self) -> str:
        """Return the numbered lines, with the date above the first line of each day."""
        shown: list[str] = []
        day: date | None = None
        for n, line in enumerate(self.lines, start=1):
            at = line.message.timestamp
            if at.date() != day:
                day = at.date()
                shown.append(f"{at:%A %d %B %Y, %H:%M}")
            shown.append(f"{n} | {_speaker(line.message)}{' ~' * line.noise} | {line.text}")
        return quote(shown)

    @property
    def known_names(self) -> list[FoundName]:
        """The names of the known entities and facts."""
        known = {each.name: FoundName(name=each.name, type=each.type, aliases=each.aliases) for each in self.entities}
        mentioned = [mention for fact in self.numbered.values() for mention in fact.entities]
        return [*({each.name: FoundName(name=each.name, type=each.type) for each in mentioned} | known).values()]

    def context(self, expected: Sequence[str]) -> str:
        """Return the sections above the lines: known facts, expected statements and preceding messages, if any."""
        names = [" = ".join(_distinct_names(entity)) for entity in self.entities]
        said, listed = " ".join(fact.text for fact in self.known), {each.id for each in self.entities}
        # A fact may call what it is about otherwise: "Joan" for "Joan (Pauline's sister)".
        about = {each.id: each.name for fact in self.known for each in fact.entities if each.name not in said}
        names += [name for id, name in about.items() if id not in listed]
        known: list[str] = []
        for day, facts in groupby(self.numbered.items(), lambda item: f"{item[1].mentioned_at:%d %b %Y}:"):
            known += [day, *(f"{id} {fact.text_with_ends}" for id, fact in facts)]
        sections = {
            "Known names:": ["; ".join(names)] if names else [],
            "Known:": known,
            "Expected:": expected,
            "Said before, for context only:": [
                f"{_speaker(message)} | {message.content[-_CONTEXT_CHARACTERS:]}" for message in self.before
            ],
        }
        return "\n".join(f"{heading}\n{quote(lines)}" for heading, lines in sections.items() if lines)

    @property
    def numbered(self) -> dict[str, Fact]:
        """The known facts by their K numbers, and the standing instructions by their W numbers, in their order."""
        known = {f"K{n}": fact for n, fact in enumerate(self.known, start=1)}
        known |= {f"W{n}": fact for n, fact in enumerate(self.instructions, start=1)}
        return dict(sorted(known.items(), key=lambda item: item[1].mentioned_at))


def _distinct_names(entity: Entity) -> list[str]:
    """Return the name of an entity and a few of its other names."""
    distinct = {name.casefold(): name for name in (*reversed(entity.aliases), entity.name)}
    return list(reversed(distinct.values()))[: MAX_ALIASES + 1]


def _speaker(message: Message) -> str:
    return f"{message.voice} (agent)" if message.role in ("assistant", "tool") else message.voice


def extraction_lines(messages: Sequence[Message], *, southern: bool = False) -> tuple[ExtractionLine, ...]:
    """Return messages as lines: without recalled memories, with relative times resolved, long messages in chunks."""
    return tuple(
        ExtractionLine(message, annotate_message(message, chunk, southern=southern).certain)
        for message in messages
        if (content := strip_recalled(message.content).strip())
        for chunk in split_text(content)
    )


def windows(lines: Sequence[ExtractionLine]) -> Iterator[tuple[ExtractionLine, ...]]:
    """Split lines into runs of at most WINDOW characters."""
    window: list[ExtractionLine] = []
    size = 0
    for line in lines:
        if window and size + len(line.text) > WINDOW:
            yield tuple(window)
            window, size = [], 0
        window.append(line)
        size += len(line.text)
    if window:
        yield tuple(window)


# Instructions and categories of the caller. Without them a request is unchanged, byte for byte.
_INSTRUCTIONS = """

The application that keeps this memory adds the rules below. They decide which facts to write (a topic may have none)
and how to word them, also where the rules above say otherwise. The form of the answer, `lines`, dates and the rule on
quoted text stay.
=== rules of the application ===
{instructions}
=== end of these rules ==="""
_CATEGORIES = """

`categories` of a fact: all of these that it clearly belongs to, spelled as here; leave the field out if none fits:
{categories}."""


@dataclass(frozen=True)
class CustomExtraction:
    """The instructions and categories of a memory's settings."""

    instructions: str = ""
    categories: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """A short code of both, by which a derivation with others is distinguished; empty without any."""
        if not self.instructions and not self.categories:
            return ""
        return blake2b(repr((self.instructions, self.categories)).encode(), digest_size=4).hexdigest()

    def applied(self, request: LLMRequest) -> LLMRequest:
        """Return the request with the instructions and categories, or itself if there are none."""
        system = request.system
        if self.instructions:
            system += _INSTRUCTIONS.format(instructions=self.instructions.strip())
        if self.categories:
            system += _CATEGORIES.format(categories=", ".join(f'"{name}"' for name in self.categories))
        schema = self._with_categories(request.schema) if self.categories else request.schema
        return request if system == request.system else replace(request, system=system, schema=schema)

    def _with_categories(self, schema: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the schema in which every fact has categories."""
        changed = deepcopy(dict(schema))
        types = cast("dict[str, dict[str, dict[str, JsonValue]]]", changed["$defs"])
        field: JsonValue = {"type": "array", "items": {"type": "string", "enum": list(self.categories)}}
        for name in ("ExtractedFact", "SmallFact"):
            if name in types:
                types[name]["properties"]["categories"] = field
        return changed

    def tagged(self, draft: FactDraft, named: Sequence[str]) -> FactDraft:
        """Return the draft with the categories that the model named as tags; names that are no category are dropped."""
        known = {category.casefold(): category for category in self.categories}
        found = [known[name.strip().casefold()] for name in named if name.strip().casefold() in known]
        return replace(draft, tags=tuple(dict.fromkeys((*draft.tags, *found)))) if found else draft


# Extraction.
MIN_KNOWN_FACTS = 3
"""Known facts below which nothing is predicted."""
Style = Literal["narrative", "atomic"]
_FACTS_PER_TOPIC: dict[Style, str] = {
    "narrative": "at most five on each subject (a long line may have several)",
    "atomic": "as many as there are, each a single statement that cannot be divided further",
}


@dataclass(frozen=True, kw_only=True)
class EpisodeExtraction:
    """The facts of an episode, and the topics into which the model divided it."""

    result: ExtractionResult
    topics: tuple[llm_answers.EpisodeTopic, ...] = ()


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
                result=ExtractionResult(drafts=(), engine=_engine_label(llm, load_prompt("retain", "extract")))
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
        prompt = load_prompt("retain", "predict")
        known = quote(llm_answers.describe_fact(fact) for fact in source.known)
        when = f"{source.lines[0].message.timestamp:%A %d %B %Y}"
        request = prompt.request(
            llm_answers.Prediction, max_tokens=1024, known=known, when=when, title=quote([source.title])
        )
        return (await llm.ask(request, llm_answers.Prediction)).statements

    async def _extract_window(
        self, source: ExtractionInput, llm: StructuredLLM, expected: Sequence[str], n: int
    ) -> EpisodeExtraction:
        if not self.small:
            with suppress(LLMUnusable):
                return await self._extract_full(source, llm, expected, n)
        extraction = await self._extract_small(source, llm, n)
        self.small = True
        return extraction

    async def _extract_full(
        self, source: ExtractionInput, llm: StructuredLLM, expected: Sequence[str], n: int
    ) -> EpisodeExtraction:
        prompt = load_prompt("retain", "extract")
        request = prompt.request(
            llm_answers.Extraction,
            max_tokens=8192,
            amount=_FACTS_PER_TOPIC[self.style],
            agent=source.agent,
            context=source.context(expected),
            lines=source.quoted_lines(),
        )
        request = replace(self.custom.applied(request), omit_empty=True)
        answer = await llm.ask(request, llm_answers.Extraction, lambda found: _problems(found, source), lenient=True)
        result = _usable_result(answer, source, n, self.custom)
        _require_usable(result, answer.facts, llm, request)
        at = source.lines[0].message.timestamp
        foreseen = [ExpectedStatement(text=text, at=at) for text in expected]
        foreseen += [ExpectedStatement(text=fact.text, at=fact.mentioned_at) for fact in source.known]
        result = replace(result, engine=_engine_label(llm, prompt), expected=tuple(foreseen))
        return EpisodeExtraction(
            result=result, topics=llm_answers.episode_topics(answer, result.drafts, source.messages)
        )

    async def _extract_small(self, source: ExtractionInput, llm: StructuredLLM, n: int) -> EpisodeExtraction:
        """Extract with the smallest schema, for models that fail with the full one."""
        prompt = load_prompt("retain", "extract_small")
        request = self.custom.applied(prompt.request(llm_answers.SmallExtraction, lines=source.quoted_lines()))
        answer = await llm.ask(request, llm_answers.SmallExtraction)
        facts = [
            llm_answers.ExtractedFact(what=fact.text, start=fact.date, lines=fact.lines, categories=fact.categories)
            for fact in answer.facts
        ]
        unaware, found = replace(source, known=(), instructions=()), llm_answers.Extraction(facts=facts)
        result = _usable_result(found, unaware, n, self.custom)
        _require_usable(result, facts, llm, request)
        return EpisodeExtraction(result=replace(result, engine=_engine_label(llm, prompt)))


def _engine_label(llm: StructuredLLM, prompt: Prompt) -> str:
    return f"{llm.name}/{prompt.label}"


def _combined(parts: Sequence[EpisodeExtraction]) -> EpisodeExtraction:
    placed: set[MessageId] = set()
    topics: list[llm_answers.EpisodeTopic] = []
    for topic in (topic for part in parts for topic in part.topics):
        # A long message spans several windows and belongs to its first topic.
        own = tuple(id for id in topic.messages if id not in placed)
        placed.update(own)
        topics += [replace(topic, messages=own)] if own else []
    whole = ExtractionResult.combined([part.result for part in parts])
    return EpisodeExtraction(result=whole, topics=tuple(topics))


def _problems(answer: llm_answers.Extraction, source: ExtractionInput) -> str | None:
    """Return the problems to correct: facts without existing lines, and wrong K numbers and rests."""
    problems = [problem for n, fact in enumerate(answer.facts, start=1) if (problem := _line_problem(n, fact, source))]
    ended = [each for fact in answer.facts for each in fact.ends]
    numbered = source.numbered
    known = {id: llm_answers.known_fact(id, numbered) for id in (*answer.repeated, *(each.id for each in ended))}
    unknown = sorted(id for id, fact in known.items() if fact is None)
    if unknown:
        problems.append("these numbers are not known facts: " + ", ".join(id[:8] for id in unknown[:5]))
    problems += [
        f"`words` of {each.id} must be copied from {each.id}"
        for each in ended
        if (old := known[each.id]) is not None and ended_span(each.words, old.text) is None
    ]
    return "; ".join(problems[:6]) or None


def _line_problem(n: int, fact: llm_answers.ExtractedFact, source: ExtractionInput) -> str | None:
    own = [line for number, line in enumerate(source.lines, start=1) if number in fact.lines]
    if not own:
        return f"fact {n} has no line of the episode, whose lines are 1 to {len(source.lines)}"
    texts, known = [f"{line.message.voice}: {line.text}" for line in own], source.numbered.values()
    if not is_grounded(llm_answers.fact_text(fact), texts, [each.text for each in known]):
        return f"fact {n} has nothing in common with its lines"
    return None


def _usable_result(
    answer: llm_answers.Extraction, source: ExtractionInput, window: int, custom: CustomExtraction
) -> ExtractionResult:
    """Return drafts of the usable facts; the others are reported as skipped with the reason."""
    numbered = dict(enumerate(answer.facts, start=1))
    about = "is about the conversation, not about the world"
    found = {n: about if is_meta_text(f.what) else _line_problem(n, f, source) for n, f in numbered.items()}
    problems = {n: problem for n, problem in found.items() if problem is not None}
    skipped = [Skipped(what=numbered[n].what[:200], reason=problem) for n, problem in problems.items()]
    usable = _distinct({n: fact for n, fact in numbered.items() if n not in problems})
    key = source.lines[0].message.id
    names, numbered = llm_answers.found_names(answer.names, source.known_names), source.numbered

    def draft(n: int, fact: llm_answers.ExtractedFact) -> FactDraft:
        messages = source.sources(fact.lines)
        found = llm_answers.draft(fact, messages, names, numbered, key=f"{key}/{window}.{n}")
        return custom.tagged(found, fact.categories)

    drafts: dict[int, FactDraft] = {n: draft(n, fact) for n, fact in usable.items()}
    causes = llm_answers.causes_by_fact(drafts, answer.facts)
    skipped += [
        Skipped(what=f"`causes` of fact {n}: {fact.what}"[:200], reason=f"fact {cause.fact} is no usable fact")
        for n, fact in usable.items()
        for cause in fact.causes
        if cause.fact not in drafts
    ]
    conversation = [*source.before, *source.messages]
    users = agent_users(conversation)
    personas = {message.id for message in conversation if begins_persona(message.content)}
    # The agent may repeat an instruction to confirm it.
    others = {message.id for message in conversation if message.role != "assistant"} - users
    standing = {fact.id for fact in source.instructions}

    def checked(n: int, draft: FactDraft) -> FactDraft:
        if not (users - personas).isdisjoint(draft.messages) and others.isdisjoint(draft.messages):
            return replace(draft, causes=causes[n])
        # Only the user gives instructions, and ends them.
        judged = tuple(each for each in draft.judgements if each.fact not in standing)
        return replace(draft, causes=causes[n], instruction=False, judgements=judged)

    return ExtractionResult(
        drafts=tuple(checked(n, draft) for n, draft in drafts.items()),
        restated=tuple(_restated(answer, source)),
        known=frozenset(fact.id for fact in numbered.values()),
        skipped=tuple(skipped),
    )


def _distinct(facts: Mapping[int, llm_answers.ExtractedFact]) -> dict[int, llm_answers.ExtractedFact]:
    """Return the facts by number; one that repeats the words of an earlier one only adds its lines to that one."""
    first: dict[str, int] = {}
    found: dict[int, llm_answers.ExtractedFact] = {}
    for n, fact in facts.items():
        kept = first.setdefault(llm_answers.fact_text(fact), n)
        lines = [*found[kept].lines, *fact.lines] if kept in found else fact.lines
        found[kept] = found.get(kept, fact).model_copy(update={"lines": lines})
    return found


def _restated(answer: llm_answers.Extraction, source: ExtractionInput) -> Iterator[AddedSource]:
    numbered = source.numbered
    for id, lines in answer.repeated.items():
        fact, sources = llm_answers.known_fact(id, numbered), source.sources(lines)
        if fact is not None and sources:
            yield AddedSource(fact=fact.id, messages=tuple(message.id for message in sources))


def _require_usable(
    result: ExtractionResult, facts: Sequence[llm_answers.ExtractedFact], llm: StructuredLLM, request: LLMRequest
) -> None:
    """Raise if no fact is usable: an answer of unusable facts does not mean that there was nothing to remember."""
    unusable = [fact for fact in facts if not is_meta_text(fact.what)]
    if unusable and not result.drafts:
        llm.reject(request)
        raise LLMUnusable(f"{llm.name} returned {len(unusable)} facts, none of which is supported by the episode.")
