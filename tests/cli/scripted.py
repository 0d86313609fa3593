"""A scripted model for the command line: it answers lines that contain given words with given facts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from vmemo_conformance.fake_llm import ReceivedRequest

_LINE = re.compile(r"^(\d+) \| [^|]* \| (.*)$", re.MULTILINE)
_NUMBERED = re.compile(r"^([A-Z]\d+)[^|\n]*\| (.*)$", re.MULTILINE)
_NEW = re.compile(r"^(N\d+) \(new\)|^beside (K\d+) \(known\)", re.MULTILINE)


@dataclass(frozen=True)
class Fact:
    """A fact as the model writes it, and the types and names of its entities."""

    answer: Mapping[str, JsonValue]
    entities: Sequence[tuple[str, str]]


def fact(what: str, *entities: tuple[str, str], **more: JsonValue) -> Fact:
    """Return a fact."""
    return Fact({"what": what, **more}, [(type, name) for name, type in entities])


@dataclass
class Reader:
    """The fact for each word of a line, and the model's stance on opinions."""

    taught: Mapping[str, Fact]
    stance: str = "reinforce"
    asked: list[str] = field(default_factory=list[str])

    def __call__(self, asked: ReceivedRequest) -> JsonValue:
        """The answer to one question."""
        self.asked.append(asked.step)
        match asked.step:
            case "check":
                return {"ready": True}
            case "segment":
                lines: list[JsonValue] = [int(number) for number, _ in _LINE.findall(asked.user)]
                return {"groups": [{"topic": "talk", "lines": lines}]}
            case "predict":
                return {"statements": []}
            case "extract":
                return self._extraction(asked.user)
            case "judge":
                return {"verdicts": _added(asked.user)}
            case "opinions":
                return {"assessments": self._assessed(asked.user)}
            case "observe":
                return {"profiles": _profiles(asked.user)}
            case step:
                raise AssertionError(f"nobody expected {step}")

    def _extraction(self, user: str) -> JsonValue:
        lines = _LINE.findall(user.rpartition("Lines to read (")[2])
        read = [(told, int(n)) for n, words in lines for key, told in self.taught.items() if key in words]
        names: dict[str, list[JsonValue]] = {}
        for type, name in (entity for told, _ in read for entity in told.entities):
            names.setdefault(type.lower(), []).append(name)
        return {
            "topics": {"A talk": [1]},
            "facts": [{**told.answer, "lines": [n]} for told, n in read],
            "names": dict(names.items()),
        }

    def _assessed(self, user: str) -> list[JsonValue]:
        numbered = dict(_NUMBERED.findall(user))
        facts: list[JsonValue] = [id for id in numbered if id.startswith("F")]
        return [
            {"opinion": id, "stance": self.stance, "evidence": facts, "reason": "the news"}
            for id in numbered
            if id.startswith("O")
        ]


def _added(user: str) -> list[JsonValue]:
    verdicts: list[JsonValue] = []
    new = ""
    for started, known in _NEW.findall(user):
        if started:
            new = started
        else:
            verdicts.append({"new": new, "known": known, "verdict": "add"})
    return verdicts


def _profiles(user: str) -> list[JsonValue]:
    """Record each fact in the profile of each entity that it is about."""
    entities = [id for id, _ in _NUMBERED.findall(user) if id.startswith("E")]
    facts = re.findall(r"^(F\d+) ([E\d ]*) \| (.*)$", user, re.MULTILINE)
    return [
        {
            "entity": entity,
            "write": [
                {"text": f"Recorded: {text}", "facts": [id]} for id, about, text in facts if entity in about.split()
            ],
        }
        for entity in entities
    ]
