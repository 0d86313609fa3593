"""Answering: each question is put to reflect, as a user would."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vmemo import Memory
from vmemo.models import MessageId
from vmemo.models.results import Answer
from vmemo_bench.clock import timed
from vmemo_bench.datasets import Question
from vmemo_bench.qa.banks import Sources
from vmemo_bench.qa.records import Answered
from vmemo_bench.runner import Place, Setup

_MARK = re.compile(r"\s*\[[0-9a-f]{8}-[0-9a-f-]{27}\]")
"""A fact's id, which differs from bank to bank."""


async def answer(memory: Memory, question: Question, *, places: Mapping[MessageId, Place], setup: Setup) -> Answered:
    """What reflect says to a question; nothing that the dataset knows of the answer is told."""
    found, ms = await timed(reflecting(memory, question, setup=setup))
    sources = Sources(places=places, evidence=question.evidence)
    rests_on = (*found.facts, *found.observations, *found.opinions)
    return Answered(
        id=question.id,
        text=_said(found),
        found=found.found,
        steps=tuple(_MARK.sub("", step) for step in found.steps),
        looked=found.looked,
        cited=tuple(map(sources.cited, rests_on)),
        flaws=found.flaws,
        usage=found.usage,
        ms=ms,
    )


def _said(answer: Answer) -> str:
    """The model's own words: what reflect notes below them is not for a judge, and stands in the report by itself."""
    return answer.plain.removesuffix("\n".join(answer.notes)).strip()


async def reflecting(memory: Memory, question: Question, *, setup: Setup) -> Answer:
    """The answer itself, without opinions: they would be kept, and the next question would find them."""
    return await memory.reflect(
        question.text,
        max_tokens=setup.max_tokens,
        budget=setup.budget,
        looks=setup.looks,
        now=question.asked_at,
        opinions=False,
    )
