"""Judging: a strict and a lenient verdict on each answer, by one request, or one verdict by the question's rubric."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, JsonValue, create_model

from vmemo.models.results import Usage
from vmemo.ports import LLM, LLMRequest
from vmemo_bench.datasets import DatasetQuestion
from vmemo_bench.qa.model_json import quote, request_json
from vmemo_bench.qa.records import JUDGES, GivenAnswer, Judge, JudgeVerdict

PROMPTS = Path(__file__).parent / "prompts"
MAX_REASON = 2000
"""Characters of a reason that are kept."""
Rule = Literal[
    "fact", "inference", "temporal", "update", "preference", "assistant", "unanswerable", "criteria", "ordering"
]
RULES: tuple[Rule, ...] = ("fact", "inference", "temporal", "update", "preference", "assistant", "unanswerable")
"""Rules of questions with one correct answer."""
RUBRIC_RULES: tuple[Rule, ...] = ("criteria", "ordering")
_RULE_OF_CATEGORY: Mapping[str, Rule] = {
    "open-domain": "inference",
    "inference": "inference",
    "temporal": "temporal",
    "temporal-reasoning": "temporal",
    "update": "update",
    "knowledge-update": "update",
    "preference": "preference",
    "single-session-preference": "preference",
    "single-session-assistant": "assistant",
}
"""Categories of all datasets with their own rule; the others ask for facts."""
_REASON: JsonValue = {"type": "string", "description": "what the key requires, and what the answer has or lacks of it"}
_SCHEMA: Mapping[str, JsonValue] = {
    "type": "object",
    "properties": {"reason": _REASON, "correct": {"type": "boolean"}},
    "required": ["reason", "correct"],
}
_BOTH_SCHEMA: Mapping[str, JsonValue] = {
    "type": "object",
    "properties": {"reason": _REASON, "strict": {"type": "boolean"}, "lenient": {"type": "boolean"}},
    "required": ["reason", "strict", "lenient"],
}
SCORES = (0.0, 0.5, 1.0)
"""Scores of a criterion; a question is scored by the mean of its criteria."""
_RUBRIC_SCHEMA: Mapping[str, JsonValue] = {
    "type": "object",
    "properties": {
        "criteria": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "reason": {"type": "string", "description": "what the answer has or lacks of this criterion"},
                    "score": {"type": "number", "enum": list(SCORES)},
                },
                "required": ["reason", "score"],
            },
        }
    },
    "required": ["criteria"],
}
PromptName = Judge | Literal["both"]


class _Verdict(BaseModel):
    reason: str
    correct: bool


class _BothVerdicts(BaseModel):
    reason: str
    strict: bool
    lenient: bool


def _allowed(score: float) -> float:
    if score not in SCORES:
        raise ValueError(f"a score is 0, 0.5 or 1, not {score}")
    return score


class CriterionScore(BaseModel):
    reason: str = ""
    score: Annotated[float, AfterValidator(_allowed)]


class RubricScores(BaseModel):
    """The scores of all criteria, in their order."""

    criteria: list[CriterionScore]

    @property
    def scores(self) -> tuple[float, ...]:
        return tuple(each.score for each in self.criteria)

    @property
    def reason(self) -> str:
        """The reasons with their scores, a line for each criterion."""
        return "\n".join(f"{each.score:g}: {each.reason}" for each in self.criteria)


@cache
def scores_of(criteria: int) -> type[RubricScores]:
    """Return the model of a verdict on a rubric of so many criteria."""
    entries = Annotated[list[CriterionScore], Field(min_length=criteria, max_length=criteria)]
    return create_model("RubricScores", __base__=RubricScores, criteria=(entries, ...))


@dataclass(frozen=True)
class JudgePrompt:
    """The prompt file of a judge: a line `version: N`, the system text, and the template of the user text."""

    name: str
    version: int
    system: Template
    user: Template

    @property
    def label(self) -> str:
        return f"{self.name}-{self.version}"


@cache
def prompt_of(judge: PromptName) -> JudgePrompt:
    """Load the prompt of a judge, or that of the strict and the lenient one together."""
    name = f"judge_{judge}"
    version, system, user = (PROMPTS / f"{name}.md").read_text(encoding="utf-8").split("\n---\n")
    return JudgePrompt(name, int(version.removeprefix("version: ")), Template(system.strip()), Template(user.strip()))


@cache
def rule_text(rule: Rule, judge: Judge) -> str:
    """Return the additional instructions of a judge for one kind of question."""
    sections = (PROMPTS / "rules.md").read_text(encoding="utf-8").split("\n## ")[1:]
    texts = dict(section.split("\n", maxsplit=1) for section in sections)
    return texts[f"{rule} {judge}"].strip()


def judges_of(question: DatasetQuestion) -> tuple[Judge, ...]:
    return ("rubric",) if question.rubric else JUDGES


def rule_of(question: DatasetQuestion) -> Rule:
    """Return the rule that a question is judged by."""
    if question.rubric:
        return "ordering" if question.category == "event_ordering" else "criteria"
    return _RULE_OF_CATEGORY.get(question.category, "fact") if question.answerable else "unanswerable"


def labels(judges: Sequence[Judge] = JUDGES) -> str:
    """Return the names and versions of the judges' prompts."""
    together = set(judges) >= set(JUDGES)
    alone: list[Judge] = [judge for judge in judges if not (together and judge in JUDGES)]
    prompts = [*([prompt_of("both")] if together else []), *map(prompt_of, alone)]
    return " ".join(prompt.label for prompt in prompts)


def digest() -> str:
    """Return a digest of everything that judges are given besides the question and the answer."""
    whole = hashlib.sha256()
    both = prompt_of("both")
    whole.update(f"{both.system.template}{both.user.template}".encode())
    for judge in (*JUDGES, "rubric"):
        prompt, rules = prompt_of(judge), RUBRIC_RULES if judge == "rubric" else RULES
        for part in (prompt.system.template, prompt.user.template, *(rule_text(rule, judge) for rule in rules)):
            whole.update(part.encode())
    return whole.hexdigest()[:12]


def judge_request(judge: Judge, question: DatasetQuestion, answer: str) -> LLMRequest:
    """Return the request to a judge. All text of a dataset or a model is quoted."""
    schema = _RUBRIC_SCHEMA if judge == "rubric" else _SCHEMA
    return _request(prompt_of(judge), rule_text(rule_of(question), judge), question, answer, schema=schema)


def both_request(question: DatasetQuestion, answer: str) -> LLMRequest:
    """Return the request for the strict and the lenient verdict."""
    rules = "\n\n".join(f"For `{judge}`: {rule_text(rule_of(question), judge)}" for judge in JUDGES)
    return _request(prompt_of("both"), rules, question, answer, schema=_BOTH_SCHEMA)


def _request(
    prompt: JudgePrompt, rule: str, question: DatasetQuestion, answer: str, *, schema: Mapping[str, JsonValue]
) -> LLMRequest:
    asked = question.asked_at
    return LLMRequest(
        step=prompt.name,
        system=prompt.system.safe_substitute(rule=rule),
        user=prompt.user.substitute(
            today=f"{asked:%A}, {asked.day} {asked:%B %Y}" if asked else "an unknown day",
            question=quote([question.text]),
            key=quote(_key(question)),
            answer=quote(answer.splitlines()),
        ),
        schema=schema,
    )


def _key(question: DatasetQuestion) -> list[str]:
    if question.rubric:
        return [f"{number}. {criterion}" for number, criterion in enumerate(question.rubric, start=1)]
    if question.answerable:
        return question.answer.splitlines()
    lure = [f"This answer would be wrong: {question.lure}"] if question.lure else []
    return [*question.answer.splitlines(), *lure] or ["It is not known."]


async def judge_answer(answer: GivenAnswer, question: DatasetQuestion, *, judge: Judge, llm: LLM) -> JudgeVerdict:
    request = judge_request(judge, question, answer.text)
    if judge == "rubric":
        scored, usage = await request_json(llm, request, scores_of(len(question.rubric)))
        return rubric_verdict(answer, scored, usage)
    verdict, usage = await request_json(llm, request, _Verdict)
    return JudgeVerdict(
        id=question.id,
        judge=judge,
        answer=answer.digest,
        correct=verdict.correct,
        reason=verdict.reason[:MAX_REASON],
        usage=usage,
    )


async def judge_both(answer: GivenAnswer, question: DatasetQuestion, *, llm: LLM) -> list[JudgeVerdict]:
    """Request the strict and the lenient verdict together; the usage is that of the first one."""
    given, usage = await request_json(llm, both_request(question, answer.text), _BothVerdicts)
    correct: Mapping[Judge, bool] = {"strict": given.strict, "lenient": given.lenient or given.strict}
    return [
        JudgeVerdict(
            id=question.id,
            judge=judge,
            answer=answer.digest,
            correct=correct[judge],
            reason=given.reason[:MAX_REASON],
            usage=usage if judge == JUDGES[0] else Usage(),
        )
        for judge in JUDGES
    ]


def rubric_verdict(answer: GivenAnswer, scored: RubricScores, usage: Usage | None = None) -> JudgeVerdict:
    """Return the verdict on an answer by the scores of its criteria."""
    return JudgeVerdict(
        id=answer.id,
        judge="rubric",
        answer=answer.digest,
        correct=all(score == 1 for score in scored.scores),
        scores=scored.scores,
        reason=scored.reason[:MAX_REASON],
        usage=usage or Usage(),
    )
