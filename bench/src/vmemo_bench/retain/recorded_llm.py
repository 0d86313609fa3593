"""A language model that answers the prompts of retain from a recording, and the parsing of those prompts.

The model sees only prompts. It recognises a turn by the time, speaker and words of its line; turns whose lines look the
same are the same to it, as they would be to any model. Answers are plain JSON in the shape of the prompt's schema.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vmemo import Message
from vmemo.errors import LLMDenied
from vmemo.models.results import Usage
from vmemo.ports import Completion, LLMRequest
from vmemo.providers import count_tokens
from vmemo_bench.case_run import sessions_of
from vmemo_bench.datasets import Case
from vmemo_bench.recordings import RecordedFact, Recording

Json = dict[str, object]
_LINE = re.compile(r"^(?:(\w+ \d{2} \w+ \d{4}), \d{2}:\d{2}|(\d+) \| ([^|\n]*) \| (.*))$", re.MULTILINE)
"""The day of the messages below it, or a message: number, speaker, words."""
_NUMBERED_LINE = re.compile(r"\d+ \|")
_KNOWN = re.compile(r"^K\d+ \| [^|\n]* \| (.*)$", re.MULTILINE)
_PAIR = re.compile(r"^[^|\n]*\b([NK]\d+)\b[^|\n]*\| [^|\n]* \| (.*)$", re.MULTILINE)
"""A new (N) or known (K) fact in a prompt of the judge step."""
_NUMBERED = re.compile(r"^([A-Z])(\d+) \| (.*)$", re.MULTILINE)
_PROFILE = re.compile(r"^([ES])(\d+)(?: outdated)? \| (.*)$", re.MULTILINE)
_ABOUT = re.compile(r"^(F\d+) ([E\d ]*) \| (.*)$", re.MULTILINE)
"""A fact in a prompt of the observe step, and the entities that it is about."""
MAX_EPISODE_LINES = 25
PREDICTED_STATEMENTS, STATEMENT_LENGTH = 8, 120
PROFILE_STATEMENTS, KEPT_STATEMENTS = 5, 3
TOPIC_FACTS = 5


@dataclass(frozen=True)
class PromptLine:
    """One message, or a part of one, in a prompt."""

    number: int
    day: str
    speaker: str
    words: str


def lines_in(prompt: str) -> list[PromptLine]:
    """Return the messages that a prompt asks to process."""
    found: list[PromptLine] = []
    day = ""
    for date, number, speaker, words in _LINE.findall(prompt):
        if date:
            day = date
        else:
            found.append(PromptLine(int(number), day, speaker, words))
    return found


def pairs_in(prompt: str) -> Iterator[tuple[str, str, bool]]:
    """Yield each new and known fact that a prompt asks to compare, and True if their texts are equal."""
    new = new_text = ""
    for label, text in _PAIR.findall(prompt):
        if label.startswith("N"):
            new, new_text = label, text
        else:
            yield new, label, text == new_text


def labels_in(prompt: str, letter: str) -> list[str]:
    """Return the labels of the items with this letter, such as Q1 and Q2."""
    return [f"{letter}{number}" for kind, number, _ in _NUMBERED.findall(prompt) if kind == letter]


class RecordedLLM:
    """Language model that replays the recording of one conversation; equal prompts get equal answers.

    A fact is returned with the line of its last source. `split_sources` counts sources that were in another prompt,
    because an episode ended between them.
    """

    name = "recorded"

    def __init__(self, case: Case, recording: Recording) -> None:
        self._recording = recording
        self._turns = _TurnIndex(case)
        self._split: dict[int, int] = {}
        self._steps = {
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
        """Number of sources of the returned facts that were in another prompt."""
        return sum(self._split.values())

    async def complete(self, request: LLMRequest) -> Completion:
        """Return the recorded answer, and the tokens of prompt, schema and answer."""
        step = self._steps.get(request.step)
        if step is None:
            raise LLMDenied(f"The recording has no answer for the step {request.step}.")
        text = json.dumps(step(request.user), ensure_ascii=False, separators=(",", ":"))
        tokens = sum(map(count_tokens, (request.system, request.user, json.dumps(request.schema))))
        return Completion(text=text, usage=Usage(calls=1, input_tokens=tokens, output_tokens=count_tokens(text)))

    def _segment(self, prompt: str) -> Json:
        """Divide each part into as few groups of equal size as the size of an episode allows."""
        groups: list[Json] = []
        for part, numbers in enumerate(_parts(prompt), start=1):
            size = -(-len(numbers) // -(-len(numbers) // MAX_EPISODE_LINES))
            for start in range(0, len(numbers), size):
                groups.append({"topic": f"Part {part}", "lines": numbers[start : start + size]})
        return {"groups": groups}

    def _predict(self, prompt: str) -> Json:
        """Predict that known facts are repeated: the longest answer that a model may give."""
        return {"statements": [text[:STATEMENT_LENGTH] for text in _KNOWN.findall(prompt)[:PREDICTED_STATEMENTS]]}

    def _extract(self, prompt: str) -> Json:
        shown = self._turns_in(prompt)
        facts = self._facts(shown)
        numbers = {position: number for number, position in enumerate(facts, start=1)}
        return {
            "topics": _topics(list(facts.values()), shown),
            "facts": [self._fact(fact, shown, numbers) for fact in facts.values()],
            "names": _names(facts.values()),
        }

    def _extract_small(self, prompt: str) -> Json:
        shown = self._turns_in(prompt)
        facts = self._facts(shown).values()
        return {"facts": [{"text": fact.text, "lines": _sources(fact, shown)} for fact in facts]}

    def _turns_in(self, prompt: str) -> dict[int, frozenset[str]]:
        """Return the turns that each numbered line may be."""
        found = {line.number: self._turns.find(line) for line in lines_in(prompt)}
        return {number: turns for number, turns in found.items() if turns}

    def _facts(self, shown: Mapping[int, frozenset[str]]) -> dict[int, RecordedFact]:
        turns = frozenset[str]().union(*shown.values())
        facts = self._recording.facts_of(turns)
        self._split |= {position: len(set(fact.sources) - turns) for position, fact in facts.items()}
        return facts

    def _fact(self, fact: RecordedFact, shown: Mapping[int, frozenset[str]], numbers: Mapping[int, int]) -> Json:
        start, end = fact.days
        answer: Json = {
            "what": fact.text,
            "kind": "experience" if fact.network == "experience" else None,
            "start": start,
            "end": end,
            "causes": [
                {"fact": numbers[target], "relation": cause.type, "strength": cause.strength}
                for target, cause in self._recording.causes(fact)
                if target in numbers
            ],
        }
        return {**{key: value for key, value in answer.items() if value}, "lines": _sources(fact, shown)}

    def _judge(self, prompt: str) -> Json:
        """Take only equal texts for duplicates."""
        verdicts = [
            {"new": new, "known": known, "verdict": "duplicate" if equal else "add"}
            for new, known, equal in pairs_in(prompt)
        ]
        return {"verdicts": verdicts}

    def _identify(self, prompt: str) -> Json:
        return {"answers": [{"name": label, "same_as": "new"} for label in labels_in(prompt, "Q")]}

    def _observe(self, prompt: str) -> Json:
        """Keep the first statements of each profile, and write the newest facts, shortened, in place of the others."""
        statements: dict[str, list[str]] = {}
        for letter, number, _ in _PROFILE.findall(prompt):
            if letter == "E":
                statements[f"E{number}"] = []
            else:
                statements[next(reversed(statements))].append(f"S{number}")
        facts = [(label, about.split(), words[:STATEMENT_LENGTH]) for label, about, words in _ABOUT.findall(prompt)]
        return {"profiles": [_profile_update(entity, held, facts) for entity, held in statements.items()]}

    def _opinions(self, prompt: str) -> Json:
        return {"assessments": [{"opinion": label, "stance": "neutral"} for label in labels_in(prompt, "O")]}


def _profile_update(entity: str, held: Sequence[str], facts: Sequence[tuple[str, list[str], str]]) -> Json:
    keep, drop = list(held[:KEPT_STATEMENTS]), list(held[KEPT_STATEMENTS:])
    own = [(label, words) for label, about, words in facts if entity in about]
    write = [{"text": words, "facts": [label]} for label, words in own[len(keep) - PROFILE_STATEMENTS :]]
    return {"entity": entity, "keep": keep, "drop": drop, "write": write}


class _TurnIndex:
    """Finds the turns of a line by its day, its speaker and its words."""

    def __init__(self, case: Case) -> None:
        self._messages: defaultdict[tuple[str, str], list[Message]] = defaultdict(list)
        for _, messages in sessions_of(case):
            for message in messages:
                self._messages[f"{message.timestamp:%A %d %B %Y}", message.voice].append(message)

    def find(self, line: PromptLine) -> frozenset[str]:
        """Return the turns whose words are most similar; retain adds dates to the words of a line."""
        candidates = self._messages[line.day, line.speaker.removesuffix(" (agent)")]
        similar = {str(message.metadata["turn"]): _similarity(message.content, line.words) for message in candidates}
        best = max(similar.values(), default=0.0)
        return frozenset(turn for turn, similarity in similar.items() if best and similarity == best)


def _similarity(one: str, other: str) -> float:
    """Return the share of words that two texts have in common."""
    words, others = set(one.split()), set(other.split())
    return len(words & others) / max(1, len(words | others))


def _parts(prompt: str) -> Iterator[list[int]]:
    """Yield the line numbers of each part of a segment prompt: a run of numbered lines."""
    numbers: list[int] = []
    for line in (*prompt.splitlines(), ""):
        if _NUMBERED_LINE.match(line):
            numbers.append(int(line.partition(" ")[0]))
        elif numbers:
            yield numbers
            numbers = []


def _topics(facts: Sequence[RecordedFact], shown: Mapping[int, frozenset[str]]) -> Json:
    """Return topics of as many facts as one may have, in the order of their lines."""
    ordered = sorted(facts, key=lambda fact: _sources(fact, shown)[:1])
    groups = [ordered[start : start + TOPIC_FACTS] for start in range(0, len(ordered), TOPIC_FACTS)]
    return {
        group[0].text[:STATEMENT_LENGTH]: list(dict.fromkeys(line for fact in group for line in _sources(fact, shown)))
        for group in groups
    }


def _names(facts: Iterable[RecordedFact]) -> dict[str, list[str]]:
    names: defaultdict[str, list[str]] = defaultdict(list)
    for entity in dict.fromkeys((entity.name, entity.type) for fact in facts for entity in fact.entities):
        names[entity[1].lower()].append(entity[0])
    return dict(names)


def _sources(fact: RecordedFact, shown: Mapping[int, frozenset[str]]) -> list[int]:
    wanted: Sequence[str] = fact.sources
    return [number for number, turns in shown.items() if not turns.isdisjoint(wanted)]
