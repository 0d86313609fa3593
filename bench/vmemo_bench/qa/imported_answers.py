"""Answers and verdicts from elsewhere, as a file of JSON Lines tells them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from vmemo.errors import InvalidInput
from vmemo.llm.answer_parsing import InvalidAnswer, parse_answer
from vmemo.reflect.citations import resolved
from vmemo.reflect.llm_schemas import Reflected
from vmemo_bench.qa.records import JUDGES, Answered, Judge, Verdict

_NAMED = 5
"""Ids that an error names; of more it gives the number."""


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True)

    id: str
    answer: JsonValue = None
    strict: bool | None = None
    lenient: bool | None = None
    judge: Judge | None = None
    correct: bool | None = None
    reason: str = ""

    @property
    def verdicts(self) -> list[tuple[Judge, bool]]:
        """Those of this line."""
        told: list[tuple[Judge | None, bool | None]] = [
            ("strict", self.strict),
            ("lenient", self.lenient),
            (self.judge, self.correct),
        ]
        return [(judge, correct) for judge, correct in told if judge is not None and correct is not None]


@dataclass(frozen=True, kw_only=True)
class Given:
    """Answers by question, and the verdicts on them by question and judge."""

    answers: Mapping[str, Answered]
    verdicts: Mapping[tuple[str, Judge], Verdict]

    def within(self, ids: Collection[str]) -> Given:
        """What of it is about some questions."""
        return Given(
            answers={id: answered for id, answered in self.answers.items() if id in ids},
            verdicts={key: verdict for key, verdict in self.verdicts.items() if key[0] in ids},
        )

    @property
    def unjudged(self) -> list[tuple[Answered, Judge]]:
        """Answers with the judges whose verdict they lack."""
        answers = self.answers.values()
        return [(answer, judge) for answer in answers for judge in JUDGES if (answer.id, judge) not in self.verdicts]


def read_answers(file: Path, known: Collection[str]) -> Given:
    """What the file holds. Whatever does not belong to one known question, once, is an `InvalidInput`."""
    lines = list(_lines(file))
    if strangers := sorted({line.id for line in lines} - set(known)):
        raise InvalidInput(f"{file} speaks of questions that the dataset has not: {_listed(strangers)}")
    answers = _answers(file, lines)
    verdicts: dict[tuple[str, Judge], Verdict] = {}
    for line in lines:
        for judge, correct in line.verdicts:
            if line.id not in answers:
                raise InvalidInput(f"{file} has a verdict on {line.id}, and no answer of it")
            if (line.id, judge) in verdicts:
                raise InvalidInput(f"{file} has two {judge} verdicts on {line.id}")
            digest = answers[line.id].digest
            verdicts[line.id, judge] = Verdict(
                id=line.id, judge=judge, answer=digest, correct=correct, reason=line.reason
            )
    return Given(answers=answers, verdicts=verdicts)


def _lines(file: Path) -> Iterable[_Line]:
    if not file.is_file():
        raise InvalidInput(f"no such file: {file}")
    try:
        texts = file.read_text(encoding="utf-8").split("\n")
    except ValueError as error:
        raise InvalidInput(f"{file} is no text in UTF-8: {error}") from error
    for number, text in enumerate(texts, start=1):
        if text.strip():
            try:
                yield _Line.model_validate_json(text)
            except ValidationError as error:
                what = error.errors()[0]["msg"]
                raise InvalidInput(f"line {number} of {file} is neither an answer nor a verdict: {what}") from error


def _answers(file: Path, lines: Iterable[_Line]) -> dict[str, Answered]:
    answers: dict[str, Answered] = {}
    for line in lines:
        if line.answer is None:
            continue
        if line.id in answers:
            raise InvalidInput(f"{file} has two answers to {line.id}")
        answers[line.id] = _answered(line.id, line.answer)
    if not answers:
        raise InvalidInput(f'{file} holds no answer; its lines read {{"id": ..., "answer": ...}}')
    return answers


def _answered(id: str, answer: JsonValue) -> Answered:
    """Plain text, or the JSON that the prompt asks for, as text or as it is; marks are taken out."""
    written = json.dumps(answer) if isinstance(answer, dict | list) else str(answer)
    try:
        told = parse_answer(written, Reflected)
    except InvalidAnswer:
        if isinstance(answer, dict | list):
            raise InvalidInput(f"the answer to {id} is neither text nor what the prompt asks for") from None
        return Answered(id=id, text=_unmarked(written))
    return Answered(id=id, text=_unmarked(told.text), found=told.found, steps=tuple(told.steps))


def _unmarked(text: str) -> str:
    return resolved(text, lambda _: None)


def _listed(ids: list[str]) -> str:
    rest = len(ids) - _NAMED
    return ", ".join(ids[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
