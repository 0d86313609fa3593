"""Export of prompts as JSON Lines, to have questions answered or judged by other systems."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

from vmemo.errors import InvalidInput, LLMFailed
from vmemo.ports import Completion, LLMRequest
from vmemo.settings import Settings
from vmemo_bench.datasets import Case, Dataset, DatasetQuestion, load
from vmemo_bench.embedders import DocumentCacheEmbedder
from vmemo_bench.environment import embedder_of, embedding_cache, make_folder
from vmemo_bench.llms import open_llms
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink, StepCounter, silent
from vmemo_bench.qa.answering import answering_memory, dated_questions, make_neutral, reflect
from vmemo_bench.qa.journal import QaModels, open_journal
from vmemo_bench.qa.judging import judge_request
from vmemo_bench.qa.run import EXTERNAL, QaRun, imported_answers, qa_config, qa_setup


class _PromptCaptured(LLMFailed):
    """Ends a call whose prompt was captured."""


class _PromptCapture:
    """Language model that keeps the first prompt and never answers."""

    name = EXTERNAL

    def __init__(self) -> None:
        self.prompt: LLMRequest | None = None

    async def complete(self, request: LLMRequest) -> Completion:
        self.prompt = self.prompt or request
        raise _PromptCaptured("The prompt was captured.")


async def dump_prompts(options: BenchOptions, folder: Path, progress: ProgressSink = silent) -> tuple[Path, int]:
    """Write prompts to a file in the folder; return the file and the number of prompts.

    `answer.jsonl` contains the first prompt of reflect for each question of the dataset. With a file of answers,
    `judge.jsonl` contains a prompt for each missing verdict.
    """
    if options.mode != "qa":
        raise InvalidInput("Prompts are exported in QA mode only: pass --mode qa.")
    async with open_llms(options) as opened:
        return await _dump(opened, folder, progress)


async def _dump(options: BenchOptions, folder: Path, progress: ProgressSink) -> tuple[Path, int]:
    dataset = load(options)
    make_folder(folder)
    if options.qa.answers is not None:
        return _dump_judge_prompts(dataset, options.qa.answers, folder / "judge.jsonl")
    count, file = 0, folder / "answer.jsonl"
    with file.open("w", encoding="utf-8") as lines:
        async for question, request in _answer_prompts(options, dataset, progress):
            lines.write(_line(request, id=question.id, category=question.category, step=request.step))
            count += 1
    return file, count


def _dump_judge_prompts(dataset: Dataset, answers: Path, file: Path) -> tuple[Path, int]:
    unjudged = imported_answers(dataset, answers).unjudged
    questions = {question.id: question for case in dataset.cases for question in dated_questions(case)}
    with file.open("w", encoding="utf-8") as lines:
        for answer, judge in unjudged:
            lines.write(_line(judge_request(judge, questions[answer.id], answer.text), id=answer.id, judge=judge))
    return file, len(unjudged)


def _line(request: LLMRequest, **fields: str) -> str:
    body = {**fields, "system": request.system, "user": request.user, "schema": dict(request.schema)}
    return json.dumps(body, ensure_ascii=False) + "\n"


async def _answer_prompts(
    options: BenchOptions, dataset: Dataset, progress: ProgressSink
) -> AsyncGenerator[tuple[DatasetQuestion, LLMRequest]]:
    settings = (options.settings or Settings()).model_copy(update={"embedding_cache": None})
    models = QaModels(answerer=_PromptCapture())
    total = sum(len(case.sessions) + len(case.questions) for case in dataset.cases)
    steps = StepCounter(progress, f"prompts of {dataset.name}", total)
    with embedding_cache(options) as cache:
        embedder = DocumentCacheEmbedder(embedder_of(options), cache)
        setup = qa_setup(options, dataset, embedder, settings)
        journal = open_journal(options, dataset, config=qa_config(dataset, setup), models=models)
        run = QaRun(setup=setup, journal=journal, models=models, steps=steps)
        for case in dataset.cases:
            await run.fill(case)
            async for prompt in _case_prompts(case, run):
                yield prompt
            journal.banks.remove(case.id)
        journal.banks.clear()


async def _case_prompts(case: Case, run: QaRun) -> AsyncGenerator[tuple[DatasetQuestion, LLMRequest]]:
    """Yield each question with reflect's first prompt; a question that needs no model is omitted."""
    capture = _PromptCapture()
    async with answering_memory(run.setup, case, run.journal.banks.location(case.id), capture) as memory:
        await make_neutral(memory)
        for question in dated_questions(case):
            capture.prompt = None
            with suppress(_PromptCaptured):
                await reflect(memory, question, setup=run.setup)
            run.steps.advance()
            if capture.prompt is not None:
                yield question, capture.prompt
