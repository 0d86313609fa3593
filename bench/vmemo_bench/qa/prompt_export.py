"""Prompts for models that run elsewhere: what answering and judging would be asked, as files of JSON Lines."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.errors import InvalidInput, LLMFailed
from vmemo.ports import Completion, LLMRequest
from vmemo.settings import Settings
from vmemo_bench.datasets import Case, Dataset, Question, load
from vmemo_bench.embedders import StoredDocuments
from vmemo_bench.environment import embedding_cache, make_folder
from vmemo_bench.options import BenchOptions, ProgressSink, silent
from vmemo_bench.qa.answering import reflecting
from vmemo_bench.qa.banks import answering, be_neutral, dated, file_of
from vmemo_bench.qa.journal import open_books
from vmemo_bench.qa.judging import ask_for
from vmemo_bench.qa.measure import answers_of, qa_config, qa_setup
from vmemo_bench.qa.models import Models
from vmemo_bench.qa.qa_run import Exam
from vmemo_bench.steps import Steps
from vmemo_bench.stores import remove


class _Caught(LLMFailed):
    """The question is known; nobody answers it here."""


class _Listener:
    """A model that keeps what it is asked first and says nothing."""

    name = "elsewhere"

    def __init__(self) -> None:
        self.heard: LLMRequest | None = None

    async def complete(self, request: LLMRequest) -> Completion:
        self.heard = self.heard or request
        raise _Caught("This model only listens")


async def dump_prompts(options: BenchOptions, folder: Path, progress: ProgressSink = silent) -> tuple[Path, int]:
    """Write what models are to be asked, and say where and how much it is.

    `answer.jsonl` has the first question that reflect would put to a model, for each question of the dataset. With a
    file of answers it is `judge.jsonl`, with a line for each verdict that they lack.
    """
    if options.mode != "qa":
        raise InvalidInput("prompts are written in QA mode only: pass --mode qa")
    dataset = load(options)
    make_folder(folder)
    if options.qa.answers is not None:
        return _judging(dataset, options.qa.answers, folder / "judge.jsonl")
    count, file = 0, folder / "answer.jsonl"
    with file.open("w", encoding="utf-8") as lines:
        async for question, ask in _asked(options, dataset, progress):
            lines.write(_line(ask, id=question.id, category=question.category, step=ask.step))
            count += 1
    return file, count


def _judging(dataset: Dataset, answers: Path, file: Path) -> tuple[Path, int]:
    wanted = answers_of(dataset, answers).unjudged
    asked = {question.id: question for case in dataset.cases for question in dated(case)}
    with file.open("w", encoding="utf-8") as lines:
        for answered, judge in wanted:
            lines.write(_line(ask_for(judge, asked[answered.id], answered.text), id=answered.id, judge=judge))
    return file, len(wanted)


def _line(request: LLMRequest, **about: str) -> str:
    body = {**about, "system": request.system, "user": request.user, "schema": dict(request.schema)}
    return json.dumps(body, ensure_ascii=False) + "\n"


async def _asked(
    options: BenchOptions, dataset: Dataset, progress: ProgressSink
) -> AsyncGenerator[tuple[Question, LLMRequest]]:
    settings = replace(options.settings or Settings(), embedding_cache=None)
    models = Models(answerer=_Listener())
    steps = Steps(progress, f"prompts of {dataset.name}", sum(map(_length, dataset.cases)))
    with embedding_cache(options) as cache:
        embedder = StoredDocuments(options.embedder or PackagedEmbedder(), cache)
        setup = qa_setup(options, dataset, embedder, settings)
        books = open_books(options.work_folder, dataset, config=qa_config(dataset, setup), models=models)
        exam = Exam(setup=setup, books=books, models=models, steps=steps, parallel=1)
        for case in dataset.cases:
            await exam.fill(case)
            async for heard in _heard(case, exam):
                yield heard
            remove(file_of(case, books.banks))
        shutil.rmtree(books.banks, ignore_errors=True)


async def _heard(case: Case, exam: Exam) -> AsyncGenerator[tuple[Question, LLMRequest]]:
    """Each question with what reflect asks about it; one that it answers by itself is left out."""
    listener = _Listener()
    # Nobody is there to tell which time a question is about.
    setup = replace(exam.setup, settings=replace(exam.setup.settings, question_timeout=0.0))
    bank = answering(setup, case, database=file_of(case, exam.books.banks), llm=listener)
    async with bank as memory:
        await be_neutral(memory)
        for question in dated(case):
            listener.heard = None
            with suppress(_Caught):
                await reflecting(memory, question, setup=setup)
            exam.steps.advance()
            if listener.heard is not None:
                yield question, listener.heard


def _length(case: Case) -> int:
    return len(case.sessions) + len(case.questions)
