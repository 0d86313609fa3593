"""Judging: two verdicts on each answer, asked apart so that neither colours the other."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import Field

from vmemo.llm.answer_parsing import AnswerSchema
from vmemo.llm.prompt_files import Prompt, load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.ports import LLM, LLMRequest
from vmemo_bench.datasets import Question
from vmemo_bench.qa.records import JUDGES, Answered, Judge, Verdict
from vmemo_bench.qa.rules import RULES, WORDS, rule_of

PROMPTS = Path(__file__).parent / "prompts"
LONGEST_REASON = 2000
"""Characters that are kept of a reason."""


class Judged(AnswerSchema):
    """A verdict as the model writes it."""

    reason: str = Field(description="what the key asks for, and what the answer has or lacks of it")
    correct: bool


def prompt_of(judge: Judge) -> Prompt:
    """The judge's prompt file."""
    return load_prompt(PROMPTS, f"judge_{judge}")


def labels() -> str:
    """Names and versions of the judges' prompts."""
    return " ".join(prompt_of(judge).label for judge in JUDGES)


def digest() -> str:
    """Of all that judges are told apart from the question itself."""
    whole = hashlib.sha256()
    for judge in JUDGES:
        prompt = prompt_of(judge)
        for part in (prompt.system.template, prompt.user.template, *(WORDS[rule][judge] for rule in RULES)):
            whole.update(part.encode())
    return whole.hexdigest()[:12]


def ask_for(judge: Judge, question: Question, answer: str) -> LLMRequest:
    """What a judge is asked about one answer. All that comes from a dataset or a model is quoted."""
    asked = question.asked_at
    return prompt_of(judge).request(
        Judged,
        rule=WORDS[rule_of(question)][judge],
        today=f"{asked:%A}, {asked.day} {asked:%B %Y}" if asked else "an unknown day",
        question=quote([question.text]),
        key=quote(_key(question)),
        answer=quote(answer.splitlines()),
    )


def _key(question: Question) -> list[str]:
    if question.answerable:
        return question.answer.splitlines()
    lure = [f"This answer would be wrong: {question.lure}"] if question.lure else []
    return [*question.answer.splitlines(), *lure] or ["It is not known."]


async def verdict_on(answered: Answered, question: Question, *, judge: Judge, llm: LLM) -> Verdict:
    """One verdict, with what it cost."""
    desk = StructuredLLM(llm)
    judged = await desk.ask(ask_for(judge, question, answered.text), Judged)
    return Verdict(
        id=question.id,
        judge=judge,
        answer=answered.digest,
        correct=judged.correct,
        reason=judged.reason[:LONGEST_REASON],
        usage=desk.usage,
    )
