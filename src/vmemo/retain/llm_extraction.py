"""Reading an episode with a language model: predict what is to be expected, then write down what it missed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from vmemo.errors import LLMUnusable
from vmemo.llm.prompt_files import Prompt, load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import FactId, Message, MessageId
from vmemo.models.drafts import ExtractionResult, FactDraft, Restated
from vmemo.models.results import Skipped
from vmemo.ports import LLMRequest
from vmemo.retain import drafts_from_llm
from vmemo.retain.extraction_input import Line, Scene, windows
from vmemo.retain.llm_schemas import Extraction, Prediction, ReadFact, SmallExtraction
from vmemo.text.noise import is_grounded, is_meta_text, is_small_talk

PROMPTS = Path(__file__).parent / "prompts"
COLD = 3
"""Known facts below which nothing can be predicted."""
Style = Literal["narrative", "atomic"]
_AMOUNT: dict[Style, str] = {
    "narrative": "Two to five comprehensive facts for each topic, each of which tells one matter whole: all that "
    "belongs together in one fact, and matters that a question would ask for separately in separate ones.",
    "atomic": "As many facts as there are, each of them a single statement that can't be divided further.",
}


@dataclass(frozen=True, kw_only=True)
class Topic:
    """Messages that belong together, and how they can be summed up."""

    title: str
    narrative: str
    messages: tuple[MessageId, ...]


@dataclass(frozen=True, kw_only=True)
class Told:
    """What an episode told: its reading, and the topics that it turned out to have."""

    reading: ExtractionResult
    topics: tuple[Topic, ...] = ()


@dataclass
class LLMExtractor:
    """A reading model's habits; `small` is set once it has proved too small for the full schema."""

    style: Style = "narrative"
    small: bool = False

    async def read(self, scene: Scene, desk: StructuredLLM) -> Told:
        """Everything worth remembering of a scene, in as many calls as its length takes."""
        if all(is_small_talk(line.words) for line in scene.lines):
            return Told(reading=ExtractionResult(drafts=(), engine=_engine(desk, load_prompt(PROMPTS, "extract"))))
        expected = await self._predict(scene, desk)
        parts = [
            await self._window(replace(scene, lines=lines), desk, expected, n)
            for n, lines in enumerate(windows(scene.lines))
        ]
        return parts[0] if len(parts) == 1 else _joined(parts)

    async def _predict(self, scene: Scene, desk: StructuredLLM) -> Sequence[str] | None:
        """What was to be expected, or None where too little is known."""
        if len(scene.known) < COLD or self.small:
            return None
        prompt = load_prompt(PROMPTS, "predict")
        topic = quote([scene.topic or scene.lines[0].words[:80]])
        ask = prompt.request(
            Prediction, max_tokens=1024, known=scene.remembered(), when=scene.day, who=scene.voices, topic=topic
        )
        return (await desk.ask(ask, Prediction)).statements

    async def _window(self, scene: Scene, desk: StructuredLLM, expected: Sequence[str] | None, n: int) -> Told:
        if not self.small:
            try:
                return await self._full(scene, desk, expected, n)
            except LLMUnusable:
                told = await self._least(scene, desk, n)
                self.small = True
                return told
        return await self._least(scene, desk, n)

    async def _full(self, scene: Scene, desk: StructuredLLM, expected: Sequence[str] | None, n: int) -> Told:
        prompt = load_prompt(PROMPTS, "extract")
        ask = prompt.request(
            Extraction,
            max_tokens=8192,
            amount=_AMOUNT[self.style],
            agent=scene.agent,
            known=scene.remembered(),
            expected="nothing in particular" if not expected else quote(expected),
            before=scene.overheard(),
            lines=scene.shown(),
        )
        answer = await desk.ask(ask, Extraction, lambda found: _complaint(found, scene), lenient=True)
        reading = _reading(answer, scene, n, expected=expected is not None)
        _demand_something(reading, answer.facts, desk, ask)
        engine = _engine(desk, prompt)
        return Told(reading=replace(reading, engine=engine), topics=_topics(answer, scene))

    async def _least(self, scene: Scene, desk: StructuredLLM, n: int) -> Told:
        """The same with the smallest schema there is; what it leaves out is found by rules, or later."""
        prompt = load_prompt(PROMPTS, "extract_small")
        ask = prompt.request(SmallExtraction, lines=scene.shown())
        answer = await desk.ask(ask, SmallExtraction)
        facts = [ReadFact(what=fact.text, start=fact.date, lines=fact.lines) for fact in answer.facts]
        blind = replace(scene, known=())
        reading = _reading(Extraction(facts=facts), blind, n, expected=False)
        _demand_something(reading, facts, desk, ask)
        return Told(reading=replace(reading, engine=_engine(desk, prompt)))


def _engine(desk: StructuredLLM, prompt: Prompt) -> str:
    return f"{desk.name}/{prompt.label}"


def _joined(parts: Sequence[Told]) -> Told:
    readings = [part.reading for part in parts]
    whole = ExtractionResult(
        drafts=tuple(draft for reading in readings for draft in reading.drafts),
        restated=tuple(each for reading in readings for each in reading.restated),
        known=frozenset[FactId]().union(*(reading.known for reading in readings)),
        skipped=tuple(each for reading in readings for each in reading.skipped),
        engine=readings[0].engine,
    )
    placed: set[MessageId] = set()
    topics: list[Topic] = []
    for topic in (topic for part in parts for topic in part.topics):
        # A long message reaches into several windows, and belongs to the first topic that it is in.
        own = tuple(id for id in topic.messages if id not in placed)
        placed.update(own)
        topics += [replace(topic, messages=own)] if own else []
    return Told(reading=whole, topics=tuple(topics))


def _topics(answer: Extraction, scene: Scene) -> tuple[Topic, ...]:
    """The topics with their messages; a line that none names goes with the one before it, and none is in two."""
    chosen: dict[int, int] = {}
    for place, topic in enumerate(answer.topics):
        for number in topic.lines:
            chosen.setdefault(number, place)
    members: dict[int, dict[MessageId, None]] = {}
    placed: set[MessageId] = set()
    last = 0
    for number, line in enumerate(scene.lines, start=1):
        last = chosen.get(number, last)
        if line.message.id not in placed:
            placed.add(line.message.id)
            members.setdefault(last, {})[line.message.id] = None
    return tuple(
        Topic(title=topic.title.strip()[:200], narrative=topic.narrative.strip(), messages=tuple(members[place]))
        for place, topic in enumerate(answer.topics)
        if place in members
    )


def _complaint(answer: Extraction, scene: Scene) -> str | None:
    """What the model is asked to correct: facts without a line that is there, and numbers of facts that are not."""
    troubles = [trouble for n, fact in enumerate(answer.facts, start=1) if (trouble := _trouble(n, fact, scene))]
    unknown = {each.id for each in answer.told_again if drafts_from_llm.reference(each.id, scene.known) is None}
    unknown |= {k.id for f in answer.facts for k in f.known if drafts_from_llm.reference(k.id, scene.known) is None}
    if unknown:
        troubles.append("there is no known fact of these numbers: " + ", ".join(id[:8] for id in sorted(unknown)[:5]))
    return "; ".join(troubles[:6]) or None


def _trouble(n: int, fact: ReadFact, scene: Scene) -> str | None:
    told = _told(fact, scene)
    if not told:
        return f"fact {n} names no line of the episode, which has the lines 1 to {len(scene.lines)}"
    if not _is_grounded(fact, scene):
        return f"fact {n} has nothing in common with the lines that it names"
    return None


def _told(fact: ReadFact, scene: Scene) -> tuple[Message, ...]:
    return drafts_from_llm.sources(fact.lines, [line.message for line in scene.lines])


def _is_grounded(fact: ReadFact, scene: Scene) -> bool:
    wanted = set(fact.lines)
    said = [_spoken(line) for n, line in enumerate(scene.lines, start=1) if n in wanted]
    return is_grounded(drafts_from_llm.whole_text(fact), said, [known.text for known in scene.known])


def _spoken(line: Line) -> str:
    return f"{line.message.voice}: {line.words}"


def _reading(answer: Extraction, scene: Scene, window: int, *, expected: bool) -> ExtractionResult:
    """Drafts of what can be used of an answer; the rest is named with the reason."""
    numbered = dict(enumerate(answer.facts, start=1))
    flaws = {n: flaw for n, fact in numbered.items() if (flaw := _flaw(n, fact, scene)) is not None}
    skipped = [Skipped(what=numbered[n].what[:200], reason=flaw) for n, flaw in flaws.items()]
    usable = {n: fact for n, fact in numbered.items() if n not in flaws}
    key = scene.lines[0].message.id
    drafts: dict[int, FactDraft] = {
        n: drafts_from_llm.draft(fact, _told(fact, scene), scene.known, key=f"{key}/{window}.{n}", expected=expected)
        for n, fact in usable.items()
    }
    causes = drafts_from_llm.with_causes(drafts, answer.facts)
    return ExtractionResult(
        drafts=tuple(replace(draft, causes=causes[n]) for n, draft in drafts.items()),
        restated=tuple(_restated(answer, scene)),
        known=frozenset(fact.id for fact in scene.known),
        skipped=tuple(skipped),
    )


def _flaw(n: int, fact: ReadFact, scene: Scene) -> str | None:
    return "is about the conversation and not about the world" if is_meta_text(fact.what) else _trouble(n, fact, scene)


def _restated(answer: Extraction, scene: Scene) -> Iterator[Restated]:
    spoken = [line.message for line in scene.lines]
    for each in answer.told_again:
        fact, told = drafts_from_llm.reference(each.id, scene.known), drafts_from_llm.sources(each.lines, spoken)
        if fact is not None and told:
            yield Restated(fact=fact, messages=tuple(message.id for message in told))


def _demand_something(
    reading: ExtractionResult, facts: Sequence[ReadFact], desk: StructuredLLM, request: LLMRequest
) -> None:
    """An answer of which nothing can be used is a failure, and no sign that there was nothing to remember."""
    unusable = [fact for fact in facts if not is_meta_text(fact.what)]
    if unusable and not reading.drafts:
        desk.reject(request)
        raise LLMUnusable(f"{desk.name} wrote {len(unusable)} facts, none of which the episode tells.")
