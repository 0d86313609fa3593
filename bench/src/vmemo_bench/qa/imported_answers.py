"""Answers and verdicts of other systems, imported from JSON Lines."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, JsonValue

from vmemo.errors import InvalidInput
from vmemo_bench.datasets import DatasetQuestion
from vmemo_bench.json_files import FileRecord, read_records
from vmemo_bench.qa.judging import CriterionScore, RubricScores, judges_of, rubric_verdict
from vmemo_bench.qa.model_json import InvalidModelAnswer, parse
from vmemo_bench.qa.records import GivenAnswer, Judge, JudgeVerdict

_LISTED = 5
"""Ids that an error lists; further ones are counted."""
_CITATION = re.compile(r"\s*[\[【]\s*[FSO]\d{1,5}(?:[\s,;/&+–-]+[FSO]?\d{1,5})*\s*[\]】]")


class _Line(FileRecord):
    id: str
    answer: JsonValue = None
    strict: bool | None = None
    lenient: bool | None = None
    judge: Judge | None = None
    correct: bool | None = None
    reason: str = ""
    scores: tuple[float, ...] | None = None
    criteria: list[CriterionScore] | None = None

    @property
    def scored(self) -> RubricScores | None:
        """The scores of a rubric: alone, or in the form that the prompt asks for."""
        if self.scores is not None:
            return RubricScores.model_validate({"criteria": [{"score": score} for score in self.scores]})
        return None if self.criteria is None else RubricScores(criteria=self.criteria)

    @property
    def verdicts(self) -> list[tuple[Judge, bool]]:
        given: list[tuple[Judge | None, bool | None]] = [
            ("strict", self.strict),
            ("lenient", self.lenient),
            (self.judge, self.correct),
        ]
        return [(judge, correct) for judge, correct in given if judge is not None and correct is not None]


class _ReflectAnswer(BaseModel):
    """The fields of reflect's JSON answer that are used here."""

    text: str
    found: bool = True
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ImportedAnswers:
    """Answers by question, the verdicts on them by question and judge, and the judges of each question."""

    answers: Mapping[str, GivenAnswer]
    verdicts: Mapping[tuple[str, Judge], JudgeVerdict]
    judges: Mapping[str, tuple[Judge, ...]]

    def of_questions(self, ids: Collection[str]) -> ImportedAnswers:
        """Return the answers and verdicts of some questions."""
        return ImportedAnswers(
            answers={id: answer for id, answer in self.answers.items() if id in ids},
            verdicts={key: verdict for key, verdict in self.verdicts.items() if key[0] in ids},
            judges=self.judges,
        )

    @property
    def unjudged(self) -> list[tuple[GivenAnswer, Judge]]:
        """Answers, each with a judge whose verdict is missing."""
        answers = self.answers.values()
        return [
            (answer, judge)
            for answer in answers
            for judge in self.judges[answer.id]
            if (answer.id, judge) not in self.verdicts
        ]


def read_answers(file: Path, questions: Mapping[str, DatasetQuestion]) -> ImportedAnswers:
    """Read a file. Raise InvalidInput for unknown questions, duplicates, and verdicts without an answer."""
    lines = read_records(file, _Line)
    if unknown := sorted({line.id for line in lines} - questions.keys()):
        raise InvalidInput(f"{file} contains questions that are not in the dataset: {_listed(unknown)}")
    answers = _answers(file, lines)
    verdicts: dict[tuple[str, Judge], JudgeVerdict] = {}
    for line in lines:
        for judge, verdict in _verdicts(file, line, answers, questions[line.id]):
            if (line.id, judge) in verdicts:
                raise InvalidInput(f"{file} contains two {judge} verdicts on {line.id}.")
            verdicts[line.id, judge] = verdict
    judges = {id: judges_of(question) for id, question in questions.items()}
    return ImportedAnswers(answers=answers, verdicts=verdicts, judges=judges)


def _verdicts(
    file: Path, line: _Line, answers: Mapping[str, GivenAnswer], question: DatasetQuestion
) -> Iterable[tuple[Judge, JudgeVerdict]]:
    scored = line.scored
    if not line.verdicts and scored is None:
        return
    answer = answers.get(line.id)
    if answer is None:
        raise InvalidInput(f"{file} contains a verdict on {line.id}, but no answer to it.")
    for judge, correct in line.verdicts:
        yield judge, JudgeVerdict(id=line.id, judge=judge, answer=answer.digest, correct=correct, reason=line.reason)
    if scored is not None:
        if len(scored.criteria) != len(question.rubric):
            raise InvalidInput(
                f"{file} scores {len(scored.criteria)} criteria of {line.id}, which has {len(question.rubric)}."
            )
        yield "rubric", rubric_verdict(answer, scored)


def _answers(file: Path, lines: Iterable[_Line]) -> dict[str, GivenAnswer]:
    answers: dict[str, GivenAnswer] = {}
    for line in lines:
        if line.answer is None:
            continue
        if line.id in answers:
            raise InvalidInput(f"{file} contains two answers to {line.id}.")
        answers[line.id] = _answer(line.id, line.answer)
    if not answers:
        raise InvalidInput(f'{file} contains no answer; a line has the form {{"id": ..., "answer": ...}}.')
    return answers


def _answer(id: str, answer: JsonValue) -> GivenAnswer:
    """Return an answer given as plain text, or as the JSON that the prompt asks for; citation marks are removed."""
    written = json.dumps(answer) if isinstance(answer, dict | list) else str(answer)
    try:
        parsed = parse(written, _ReflectAnswer)
    except InvalidModelAnswer:
        if isinstance(answer, dict | list):
            raise InvalidInput(f"The answer to {id} is neither text nor the JSON that the prompt asks for.") from None
        return GivenAnswer(id=id, text=_without_citations(written))
    return GivenAnswer(id=id, text=_without_citations(parsed.text), found=parsed.found, steps=parsed.steps)


def _without_citations(text: str) -> str:
    return _CITATION.sub("", text).strip()


def _listed(ids: list[str]) -> str:
    more = len(ids) - _LISTED
    return ", ".join(ids[:_LISTED]) + (f" and {more} more" if more > 0 else "")
