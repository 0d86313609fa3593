"""A scripted extraction model: it answers by the words that the prompt contains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from vmemo_conformance.fake_llm import ReceivedRequest

_LINE = re.compile(r"^(\d+) \| [^|]* \| (.*)$", re.MULTILINE)
_NUMBERED = re.compile(r"^([A-Z]\d+)(?:[^|\n]*\|)? (.*)$", re.MULTILINE)
_ABOUT = re.compile(r"^(F\d+) ([E\d ]*) \| (.*)$", re.MULTILINE)
Answer = dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class ScriptedFact:
    """A fact that the model extracts from every line that contains `words`."""

    words: str
    what: str
    entities: Sequence[tuple[str, str]] = ()
    since: str = ""
    start: str = ""
    kind: str = "world"
    confidence: float | None = None
    until: str = ""
    supersedes: str = ""
    words_that_end: str = ""
    """Several parts are joined by a slash."""
    mistaken: bool = False
    on: str = ""
    due: str = ""
    every: str = ""
    relation: str = ""
    causes: tuple[str, str, float] | None = None
    """Words of the other fact, relation and strength."""


@dataclass
class ScriptedModel:
    """Answers every step; without a matching script, with the smallest valid answer."""

    taught: list[ScriptedFact] = field(default_factory=list[ScriptedFact])
    again: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Words of a line, and of the known fact that it repeats."""
    verdicts: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """Words of a new fact, of a known one, and the verdict."""
    merged: str = ""
    """The text of merged facts."""
    identities: dict[str, str] = field(default_factory=dict[str, str])
    """A name, and words of its entity."""
    instead: str = ""
    """The opinion that replaces a contradicted one."""
    reranked: list[str] = field(default_factory=list[str])
    """Words of the texts that help, best first."""
    stances: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """Words of an opinion, of a fact, and the stance."""

    def extracts(self, words: str, what: str, **more: object) -> None:
        """Script a fact."""
        self.taught.append(ScriptedFact(words=words, what=what, **more))  # pyright: ignore[reportArgumentType]

    def __call__(self, asked: ReceivedRequest) -> JsonValue:
        """Return the answer to a request."""
        return getattr(self, f"_{asked.step}")(asked)

    def _segment(self, asked: ReceivedRequest) -> JsonValue:
        lines: list[JsonValue] = [int(number) for number, _ in _LINE.findall(asked.user)]
        return {"groups": [{"topic": "talk", "lines": lines}]}

    def _predict(self, asked: ReceivedRequest) -> JsonValue:
        return {"statements": []}

    def _extract(self, asked: ReceivedRequest) -> JsonValue:
        known = dict(_NUMBERED.findall(asked.user.partition("Said before")[0]))
        lines = [(int(n), words) for n, words in _LINE.findall(asked.user.rpartition("Lines to read (")[2])]
        read = [(taught, n) for n, words in lines for taught in self.taught if taught.words in words]
        places = {taught.words: place for place, (taught, _) in enumerate(read, start=1)}
        again: JsonValue = {
            id: [n]
            for words, told in self.again
            for n, line in lines
            for id, text in known.items()
            if words in line and told in text
        }
        facts: list[JsonValue] = [_fact(taught, n, known, places) for taught, n in read]
        topics: JsonValue = {"A talk": [n for n, _ in lines]}
        names = names_by_type(entity for taught, _ in read for entity in taught.entities)
        return {"topics": topics, "facts": facts, "names": names, "repeated": again}

    def _extract_small(self, asked: ReceivedRequest) -> JsonValue:
        lines = [(int(n), words) for n, words in _LINE.findall(asked.user)]
        return {
            "facts": [{"text": t.what, "lines": [n]} for n, words in lines for t in self.taught if t.words in words]
        }

    def _judge(self, asked: ReceivedRequest) -> JsonValue:
        verdicts: list[JsonValue] = []
        new, text = "", ""
        for line in asked.user.splitlines():
            if match := re.match(r"(N\d+) \(new\) \| (.*)", line):
                new, text = match[1], match[2]
            elif match := re.match(r"beside (K\d+) \(known\) \| (.*)", line):
                said = next((v for n, k, v in self.verdicts if n in text and k in match[2]), "add")
                text_of_both = self.merged if said == "merge" else ""
                verdicts.append({"new": new, "known": match[1], "verdict": said, "text": text_of_both})
        return {"verdicts": verdicts}

    def _identify(self, asked: ReceivedRequest) -> JsonValue:
        numbered = _NUMBERED.findall(asked.user)
        entities = {id: text for id, text in numbered if id.startswith("E")}
        answers: list[JsonValue] = []
        for id, text in numbered:
            if id.startswith("Q"):
                wanted = next((words for name, words in self.identities.items() if f"'{name}'" in text), None)
                same = next((e for e, named in entities.items() if wanted is not None and wanted in named), "new")
                answers.append({"name": id, "same_as": same})
        return {"answers": answers}

    def _opinions(self, asked: ReceivedRequest) -> JsonValue:
        numbered = dict(_NUMBERED.findall(asked.user))
        return {"assessments": [self._assessed(id, text, numbered) for id, text in numbered.items() if id[0] == "O"]}

    def _assessed(self, id: str, text: str, numbered: Mapping[str, str]) -> JsonValue:
        for opinion, fact, stance in self.stances:
            evidence: list[JsonValue] = [f for f, news in numbered.items() if f[0] == "F" and fact in news]
            if opinion in text and evidence:
                text = self.instead if stance == "contradict" else ""
                reason = f"because of {fact}"
                return {"opinion": id, "stance": stance, "evidence": evidence, "reason": reason, "text": text}
        return {"opinion": id, "stance": "neutral", "evidence": [], "reason": ""}

    def _rerank(self, asked: ReceivedRequest) -> JsonValue:
        found = _NUMBERED.findall(asked.user)
        return {"best": [id for words in self.reranked for id, text in found if words in text]}

    def _observe(self, asked: ReceivedRequest) -> JsonValue:
        """Record each fact of each entity, up to five statements, and drop what is outdated."""
        profiles, facts = asked.user.split("New facts:")
        counts: dict[str, int] = {}
        updates: dict[str, Answer] = {}
        for id, _ in _NUMBERED.findall(profiles):
            if id.startswith("E"):
                counts[id], updates[id] = 0, {"entity": id, "write": []}
            else:
                counts[next(reversed(counts))] += 1
        for id, about, text in _ABOUT.findall(facts):
            for entity in about.split():
                written = updates[entity]["write"]
                if counts[entity] < 5 and isinstance(written, list):
                    counts[entity] += 1
                    written.append({"text": f"It is recorded: {text}", "facts": [id]})
        return {"profiles": list(updates.values())}


def names_by_type(entities: Iterable[tuple[str, str]]) -> dict[str, JsonValue]:
    """Return the names of an extraction, by the type that each has."""
    names: dict[str, list[JsonValue]] = {}
    for name, type in dict.fromkeys(entities):
        names.setdefault(type.lower(), []).append(name)
    return dict(names.items())


def _fact(taught: ScriptedFact, line: int, known: Mapping[str, str], places: Mapping[str, int]) -> Answer:
    ended: list[JsonValue] = [
        {"id": id, "mistaken": taught.mistaken, "words": words, "on": taught.on}
        for id, text in known.items()
        if taught.supersedes and taught.supersedes in text
        for words in taught.words_that_end.split(" / ")
    ]
    causes: list[JsonValue] = []
    if taught.causes and taught.causes[0] in places:
        words, relation, strength = taught.causes
        causes = [{"fact": places[words], "relation": relation, "strength": strength}]
    return {
        "what": taught.what,
        "kind": taught.kind,
        "confidence": taught.confidence,
        "start": taught.start,
        "since": taught.since,
        "until": taught.until,
        "due": taught.due,
        "every": taught.every,
        "relation": taught.relation,
        "causes": causes,
        "lines": [line],
        "ends": ended,
    }
