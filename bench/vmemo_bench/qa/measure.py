"""E1 in QA mode, from options to a report."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vmemo.errors import InvalidInput
from vmemo.ports import Embedder
from vmemo.reflect.answer import MOST_LOOKS
from vmemo.settings import Settings
from vmemo_bench.datasets import Case, Dataset, load
from vmemo_bench.options import BenchOptions, ProgressSink
from vmemo_bench.qa import judging
from vmemo_bench.qa.imported_answers import Given, read_answers
from vmemo_bench.qa.journal import Books, open_books
from vmemo_bench.qa.models import Models, models
from vmemo_bench.qa.qa_run import Exam
from vmemo_bench.qa.summary import summarise
from vmemo_bench.report import Report, Setting
from vmemo_bench.retrieval import config_of, setup_of
from vmemo_bench.runner import Setup
from vmemo_bench.steps import Steps

ELSEWHERE = "elsewhere"
"""Who answered what a file holds."""


async def measure_qa(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Answer and judge what is left of the dataset and report on all of it.

    A question that a model fails is named in the error at the end; all others are noted, and the next run takes only
    what is open.
    """
    if options.qa.parallel < 1:
        raise InvalidInput("parallel must be at least one")
    if not 0 <= options.qa.looks <= MOST_LOOKS:
        raise InvalidInput(f"looks must be from 0 to {MOST_LOOKS}")
    dataset = load(options)
    setup = qa_setup(options, dataset, embedder, settings)
    given = None if options.qa.answers is None else answers_of(dataset, options.qa.answers)
    async with models(options, judged=given is not None and not given.unjudged) as chosen:
        _judged_by_someone(given, chosen)
        config = qa_config(dataset, setup)
        books = open_books(options.work_folder, dataset, config=config, models=chosen)
        if given is not None:
            enter(given, books)
        steps = Steps(sink, f"{dataset.name} qa", sum(map(_length, dataset.cases)))
        exam = Exam(setup=setup, books=books, models=chosen, steps=steps, parallel=options.qa.parallel)
        await exam.run(dataset.cases)
        # A crash between the last answer of a case and the removal of its bank leaves a file behind.
        shutil.rmtree(books.banks, ignore_errors=True)
        named = {**config, **setup.engine.counts, **_named(chosen, given)}
    return summarise(options, dataset, books, config=named)


def qa_setup(options: BenchOptions, dataset: Dataset, embedder: Embedder, settings: Settings) -> Setup:
    """How banks are filled: by the run's engine, whatever model is configured to answer."""
    return replace(setup_of(options, dataset, embedder, replace(settings, llm=None)), looks=options.qa.looks)


def qa_config(dataset: Dataset, setup: Setup) -> dict[str, Setting]:
    """What recollections and answers depend on, apart from who answers."""
    return {**config_of(dataset, setup), "mode": "qa", "looks": setup.looks}


def answers_of(dataset: Dataset, file: Path) -> Given:
    """What a file says of the questions that are asked; it may speak of those that a limit leaves out."""
    known, asked = (_ids(cases) for cases in (dataset.parsed.cases, dataset.cases))
    return read_answers(file, known).within(asked)


def _ids(cases: Sequence[Case]) -> set[str]:
    return {question.id for case in cases for question in case.questions}


def enter(given: Given, books: Books) -> None:
    """Take answers and verdicts from elsewhere for those of this run."""
    for answered in given.answers.values():
        books.answered.put(answered)
    for verdict in given.verdicts.values():
        books.verdicts.put(verdict)


def _judged_by_someone(given: Given | None, chosen: Models) -> None:
    if given is not None and given.unjudged and chosen.judge is None:
        raise InvalidInput(
            f"{len(given.unjudged)} verdicts are missing: pass --judge MODEL, or --dump-prompts FOLDER to have them "
            "given elsewhere"
        )


def _named(chosen: Models, given: Given | None) -> dict[str, Setting]:
    return {
        "answerer": ELSEWHERE if given is not None or chosen.answerer is None else chosen.answerer.name,
        "judge": ELSEWHERE if chosen.judge is None else chosen.judge.name,
        "judge_prompts": judging.labels(),
        **({} if given is None else {"verdicts_elsewhere": len(given.verdicts)}),
    }


def _length(case: Case) -> int:
    return len(case.sessions) + 2 * len(case.questions)
