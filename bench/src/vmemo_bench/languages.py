"""Languages: recall from conversations in languages other than English, by the local engine.

A question counts as `first` if the first hit of a recall comes from its evidence, and as `in_three` if one of the first
three does. Questions in the language of the conversation have these names alone. `mixed_` are questions in that
language with English words, `cross_` are English questions about text in another language.
"""

from __future__ import annotations

from collections import defaultdict

from pydantic import BaseModel

from vmemo import Memory
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.annotated import (
    AnnotatedConversation,
    Reference,
    count_table,
    first_ranks,
    measure_conversations,
    retain_conversation,
)
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink
from vmemo_bench.report import Report
from vmemo_bench.statistics import Outcome, shares

MAX_TOKENS = 600
RANKS = {"first": 1, "in_three": 3}


class LanguageQuestion(BaseModel):
    question: str
    language: str
    evidence: list[Reference]


class LanguageConversation(AnnotatedConversation):
    """A conversation in the file. The language of a mixed question is neither that of the conversation nor `en`."""

    language: str
    questions: list[LanguageQuestion]


async def measure_languages(
    options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink
) -> Report:
    """Retain every conversation, ask its questions, and report the shares by language."""
    measured, config = await measure_conversations(
        options, embedder, settings, sink, model=LanguageConversation, measure=_measure
    )
    by_language: defaultdict[str, list[Outcome]] = defaultdict(list)
    for conversation, outcomes in sorted(measured, key=lambda each: each[0].language):
        by_language[conversation.language] += outcomes
    return Report(
        benchmark="languages",
        metrics=shares(outcome for _, outcomes in measured for outcome in outcomes),
        tables={
            "all languages": count_table(measured),
            "languages": {language: shares(outcomes) for language, outcomes in by_language.items()},
        },
        config=config,
    )


async def _measure(memory: Memory, conversation: LanguageConversation) -> list[Outcome]:
    turns = await retain_conversation(memory, conversation)
    outcomes: list[Outcome] = []
    for asked in conversation.questions:
        ranks = first_ranks((await memory.recall(asked.question, max_tokens=MAX_TOKENS)).hits, turns)
        own, english = asked.language == conversation.language, asked.language == "en"
        kind = "" if own else "cross_" if english else "mixed_"
        for name, limit in RANKS.items():
            outcomes.append((kind + name, any(ranks.get(turn, limit) < limit for turn in asked.evidence)))
    return outcomes
