"""A language model that replays a recording: it answers every prompt of retain from what an LLM once wrote.

It sees only the prompts. A line is known by its date, speaker and words; turns whose lines look the same are the same
to it, as they would be to any model.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from vmemo.embedding.token_counter import count_tokens
from vmemo.errors import LLMDenied
from vmemo.llm.answer_parsing import AnswerSchema
from vmemo.models.results import Usage
from vmemo.ports import Completion, LLMRequest
from vmemo.reflect.llm_schemas import Assessment, Assessments, ProfileOf, Profiles, Statement
from vmemo.retain.extraction_input import Scene, lines_of
from vmemo.retain.llm_schemas import (
    Cause,
    Extraction,
    Group,
    Groups,
    Identity,
    IdentityAnswers,
    Judged,
    Judgements,
    NamedEntity,
    Prediction,
    ReadFact,
    SmallExtraction,
    SmallFact,
    Topic,
)
from vmemo.retain.segment import LARGEST
from vmemo_bench.datasets import Case
from vmemo_bench.recorded import RecordedFact, Recording
from vmemo_bench.runner import sessions_of

_LINE = re.compile(r"^(\d+) \| (.*)$", re.MULTILINE)
_KNOWN = re.compile(r"^K\d+ \| [^|]* \| (.*)$", re.MULTILINE)
_PAIRED = re.compile(r"^(?:(N\d+) \(new\)|beside (K\d+) \(known\)) \| [^|]* \| (.*)$", re.MULTILINE)
_NUMBERED = re.compile(r"^([A-Z])(\d+) \| (.*)$", re.MULTILINE)
_EPISODE = "Lines to read ("
EXPECTED, SHORT = 8, 120
"""Statements of a prediction, and characters of each."""
SAID = 5
"""Statements of a profile."""


class RecordedLLM:
    """Fulfils the LLM port from one conversation's recording. The same question has the same answer.

    A fact is told with the line that is its last source; `split_sources` counts the sources that were not among the
    lines shown then, because an episode ends where it does.
    """

    name = "recorded"

    def __init__(self, case: Case, recording: Recording) -> None:
        self._recording = recording
        self._turns = _renderings(case)
        self._lost: dict[int, int] = {}
        self._answers = {
            "segment": self._segment,
            "predict": self._predict,
            "extract": self._extract,
            "extract_small": self._extract_small,
            "judge": self._judge,
            "identify": self._identify,
            "observe": self._observe,
            "opinions": self._opinions,
        }

    @property
    def split_sources(self) -> int:
        """Sources of facts told so far that could not be named with them."""
        return sum(self._lost.values())

    async def complete(self, request: LLMRequest) -> Completion:
        """The recording's answer, and as many tokens as question, schema and answer have."""
        answering = self._answers.get(request.step)
        if answering is None:
            raise LLMDenied(f"The recording has no answer for the step {request.step}.")
        text = answering(request.user).model_dump_json(exclude_defaults=True)
        asked = sum(map(count_tokens, (request.system, request.user, json.dumps(request.schema))))
        return Completion(text=text, usage=Usage(calls=1, input_tokens=asked, output_tokens=count_tokens(text)))

    def _segment(self, user: str) -> AnswerSchema:
        """Each part in as few groups of equal size as an episode's size allows."""
        groups: list[Group] = []
        for head, *lines in _parts(user):
            size = -(-len(lines) // -(-len(lines) // LARGEST))
            numbers = [int(line.partition(" ")[0]) for line in lines]
            groups += [Group(topic=head, lines=numbers[i : i + size]) for i in range(0, len(numbers), size)]
        return Groups(groups=groups)

    def _predict(self, user: str) -> AnswerSchema:
        """What is known will be said again: as long an answer as a model may give."""
        return Prediction(statements=[text[:SHORT] for text in _KNOWN.findall(user)[:EXPECTED]])

    def _extract(self, user: str) -> AnswerSchema:
        shown = self._shown(user.rpartition(_EPISODE)[2])
        told = self._told(shown)
        numbers = {place: n for n, place in enumerate(told, start=1)}
        facts = [self._read(fact, shown, numbers) for fact in told.values()]
        title = told[min(told)].text[:SHORT] if told else ""
        narrative = " ".join(fact.text[:SHORT] for fact in told.values())
        return Extraction(topics=[Topic(title=title, narrative=narrative, lines=list(shown))], facts=facts)

    def _extract_small(self, user: str) -> AnswerSchema:
        shown = self._shown(user)
        facts = [SmallFact(text=f.text, lines=_sources(f, shown)) for f in self._told(shown).values()]
        return SmallExtraction(facts=facts)

    def _shown(self, text: str) -> dict[int, frozenset[str]]:
        """The turns that each numbered line may be."""
        return {int(n): self._turns[words] for n, words in _LINE.findall(text) if words in self._turns}

    def _told(self, shown: Mapping[int, frozenset[str]]) -> dict[int, RecordedFact]:
        turns = frozenset[str]().union(*shown.values())
        told = self._recording.told(turns)
        self._lost |= {place: len(set(fact.sources) - turns) for place, fact in told.items()}
        return told

    def _read(self, fact: RecordedFact, shown: Mapping[int, frozenset[str]], numbers: Mapping[int, int]) -> ReadFact:
        start, end = fact.days
        return ReadFact(
            what=fact.text,
            kind="experience" if fact.network == "experience" else "world",
            start=start,
            end=end,
            entities=[NamedEntity(name=entity.name, type=entity.type) for entity in fact.entities],
            causes=[
                Cause(fact=numbers[target], relation=cause.type, strength=cause.strength)
                for target, cause in self._recording.causes(fact)
                if target in numbers
            ],
            lines=_sources(fact, shown),
        )

    def _judge(self, user: str) -> AnswerSchema:
        """Only the same words are a duplicate."""
        verdicts: list[Judged] = []
        new = text = ""
        for fresh, known, words in _PAIRED.findall(user):
            if fresh:
                new, text = fresh, words
            else:
                verdicts.append(Judged(new=new, known=known, verdict="duplicate" if words == text else "add"))
        return Judgements(verdicts=verdicts)

    def _identify(self, user: str) -> AnswerSchema:
        asked = [f"Q{n}" for kind, n, _ in _NUMBERED.findall(user) if kind == "Q"]
        return IdentityAnswers(answers=[Identity(name=name, same_as="new") for name in asked])

    def _observe(self, user: str) -> AnswerSchema:
        """The newest facts, cut short, stand for a profile."""
        profiles: dict[str, list[Statement]] = {}
        statements: list[Statement] = []
        for kind, number, words in _NUMBERED.findall(user):
            if kind == "E":
                statements = profiles.setdefault(f"E{number}", [])
            elif len(statements) < SAID:
                statements.append(Statement(text=words.partition(" | ")[2][:SHORT], facts=[f"F{number}"]))
        return Profiles(profiles=[ProfileOf(entity=name, statements=said) for name, said in profiles.items()])

    def _opinions(self, user: str) -> AnswerSchema:
        asked = [f"O{n}" for kind, n, _ in _NUMBERED.findall(user) if kind == "O"]
        return Assessments(assessments=[Assessment(opinion=name, stance="neutral") for name in asked])


def _renderings(case: Case) -> dict[str, frozenset[str]]:
    """For each line as it is shown the turns that look like it."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for _, messages in sessions_of(case):
        lines = lines_of(messages)
        shown = _LINE.findall(Scene(lines=lines).shown())
        for line, (_, words) in zip(lines, shown, strict=True):
            found[words].add(str(line.message.metadata["turn"]))
    return {words: frozenset(turns) for words, turns in found.items()}


def _parts(user: str) -> Iterator[list[str]]:
    """The parts of a question about topics: the heading, then the lines."""
    part: list[str] = []
    for line in user.splitlines():
        if line.startswith("Part "):
            if len(part) > 1:
                yield part
            part = [line]
        elif part and _LINE.fullmatch(line):
            part.append(line)
    if len(part) > 1:
        yield part


def _sources(fact: RecordedFact, shown: Mapping[int, frozenset[str]]) -> list[int]:
    wanted: Sequence[str] = fact.sources
    return [n for n, turns in shown.items() if not turns.isdisjoint(wanted)]
