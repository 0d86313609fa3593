"""A QA run: fill the banks, answer the questions and judge the answers, several at a time, each step in the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vmemo import Memory
from vmemo.errors import InvalidInput, LLMFailed, VmemoError, named
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.case_run import Origins, RunSetup, fill_bank, origins_of
from vmemo_bench.concurrency import plain_errors
from vmemo_bench.datasets import Case, Dataset, DatasetQuestion, load
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink, StepCounter
from vmemo_bench.qa import judging
from vmemo_bench.qa.answering import (
    answer_question,
    answering_memory,
    dated_questions,
    make_neutral,
    record_recall,
)
from vmemo_bench.qa.imported_answers import ImportedAnswers, read_answers
from vmemo_bench.qa.journal import QaJournal, QaModels, models_of, open_journal
from vmemo_bench.qa.records import JUDGES, BankSize, GivenAnswer, Judge, verdict_key
from vmemo_bench.qa.summary import summarise
from vmemo_bench.report import Report, Setting
from vmemo_bench.retrieval import config_of, setup_of

MAX_CONSECUTIVE_FAILURES = 8
"""Questions that may fail one after the other before the run stops."""
LOOKUP_LIMIT = 3
"""Lookups that reflect allows at most."""
EXTERNAL = "external"
"""Name of an answerer or judge whose output was imported."""
_LISTED = 5


async def measure_qa(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Answer and judge the questions that are not finished yet, and report on all of them.

    Questions that a model fails are named in the error at the end. All others are in the journal, and the next run
    takes only the open ones.
    """
    if options.qa.parallel < 1:
        raise InvalidInput("parallel must be at least one.")
    if not 0 <= options.qa.max_lookups <= LOOKUP_LIMIT:
        raise InvalidInput(f"max_lookups must be from 0 to {LOOKUP_LIMIT}.")
    dataset = load(options)
    setup = qa_setup(options, dataset, embedder, settings)
    imported = None if options.qa.answers is None else imported_answers(dataset, options.qa.answers)
    models = models_of(options, judged=imported is not None and not imported.unjudged)
    config = qa_config(dataset, setup)
    journal = open_journal(options, dataset, config=config, models=models)
    if imported is not None:
        _add_imported(imported, journal, models)
    steps = StepCounter(sink, f"{dataset.name} qa", sum(map(_steps_of, dataset.cases)))
    run = QaRun(
        setup=setup,
        journal=journal,
        models=models,
        steps=steps,
        parallel=options.qa.parallel,
        concurrency=options.concurrency,
    )
    await run.run(dataset.cases)
    # A crash between the last answer of a case and the removal of its bank leaves a file behind.
    journal.banks.clear()
    config |= {**setup.engine.counts, **_model_config(dataset, models, imported)}
    return summarise(options, dataset, journal, config=config)


def qa_setup(options: BenchOptions, dataset: Dataset, embedder: Embedder, settings: Settings) -> RunSetup:
    """Return the setup of a QA run; the engine fills the banks, not the model that answers.

    The times of questions are resolved by rules alone, so that a slow model and a replay see the same contexts.
    """
    quiet = settings.model_copy(update={"llm": None, "question_timeout": 0.0})
    setup = setup_of(options, dataset, embedder, quiet)
    return replace(setup, max_lookups=options.qa.max_lookups)


def qa_config(dataset: Dataset, setup: RunSetup) -> dict[str, Setting]:
    """Return the configuration that recalled contexts depend on."""
    return {**config_of(dataset, setup), "mode": "qa", "max_lookups": setup.max_lookups}


def imported_answers(dataset: Dataset, file: Path) -> ImportedAnswers:
    """Read the answers to the selected questions; the file may contain answers to others of the dataset."""
    known, selected = (_by_id(cases) for cases in (dataset.parsed.cases, dataset.cases))
    return read_answers(file, known).of_questions(selected)


def _by_id(cases: Sequence[Case]) -> dict[str, DatasetQuestion]:
    return {question.id: question for case in cases for question in case.questions}


def _add_imported(imported: ImportedAnswers, journal: QaJournal, models: QaModels) -> None:
    """Use imported answers and verdicts in this run. Raise InvalidInput if there is no judge for the others."""
    if imported.unjudged and models.judge is None:
        raise InvalidInput(
            f"{len(imported.unjudged)} verdicts are missing: pass --judge MODEL, or export the prompts with "
            "--dump-prompts FOLDER and add the verdicts to the file."
        )
    for answer in imported.answers.values():
        journal.answers.put(answer)
    for verdict in imported.verdicts.values():
        journal.verdicts.put(verdict)


def _model_config(dataset: Dataset, models: QaModels, imported: ImportedAnswers | None) -> dict[str, Setting]:
    questions = _by_id(dataset.cases).values()
    judges: dict[Judge, None] = {judge: None for question in questions for judge in judging.judges_of(question)}
    return {
        "answerer": EXTERNAL if imported is not None or models.answerer is None else models.answerer.name,
        "judge": EXTERNAL if models.judge is None else models.judge.name,
        "judge_prompts": judging.labels(tuple(judges)),
        **({} if imported is None else {"external_verdicts": len(imported.verdicts)}),
    }


def _steps_of(case: Case) -> int:
    return len(case.sessions) + 2 * len(case.questions)


@dataclass
class ModelFailures:
    """Questions that a model failed, by id with the error, and the number of consecutive failures."""

    errors: dict[str, str] = field(default_factory=dict[str, str])
    consecutive: int = 0

    @property
    def stopped(self) -> bool:
        """True if the run stops, because the model fails every question."""
        return self.consecutive >= MAX_CONSECUTIVE_FAILURES

    def add(self, question: str, error: LLMFailed) -> None:
        self.errors[question] = named(error)
        self.consecutive += 1

    def reset(self) -> None:
        self.consecutive = 0

    def raise_if_any(self) -> None:
        """Raise VmemoError with the failed questions."""
        if not self.errors:
            return
        first = sorted(self.errors.items())[:_LISTED]
        listed = "; ".join(f"{question}: {error.rstrip('.')}" for question, error in first)
        more = f"; and {len(self.errors) - _LISTED} more" if len(self.errors) > _LISTED else ""
        stopped = f" The run stopped after {self.consecutive} consecutive failures." if self.stopped else ""
        raise VmemoError(
            f"A model failed {len(self.errors)} questions: {listed}{more}.{stopped} "
            "All other answers and verdicts are saved; run the same command again to retry the open questions."
        )


@dataclass(frozen=True, kw_only=True)
class QaRun:
    """One run over the cases of a dataset."""

    setup: RunSetup
    journal: QaJournal
    models: QaModels
    steps: StepCounter
    parallel: int = 1
    concurrency: int = 1
    failures: ModelFailures = field(default_factory=ModelFailures)

    async def run(self, cases: Sequence[Case]) -> None:
        """Do everything that is not in the journal. Banks are filled while questions of earlier cases are answered."""
        questions, filling = asyncio.Semaphore(self.parallel), asyncio.Semaphore(self.concurrency)
        async with plain_errors(), asyncio.TaskGroup() as group:
            for case in cases:
                group.create_task(self._start_case(case, group, filling=filling, questions=questions))
        self.failures.raise_if_any()

    async def _start_case(
        self, case: Case, group: asyncio.TaskGroup, *, filling: asyncio.Semaphore, questions: asyncio.Semaphore
    ) -> None:
        """Fill the bank of a case and start its questions; then the next bank may be filled."""
        async with filling:
            if self.failures.stopped:
                return
            await self.fill(case)
            started = asyncio.Event()
            group.create_task(self._run_case(case, questions, started))
            await started.wait()

    async def fill(self, case: Case) -> None:
        """Fill the bank of a case and record the recalled contexts, if needed. Imported answers need no bank."""
        missing = [question for question in dated_questions(case) if question.id not in self.journal.recalled]
        done = not missing and case.id in self.journal.sizes and not self._unanswered(case)
        if done or self.models.answerer is None:
            self.steps.advance(len(case.sessions))
            return
        async with self.setup.memory(case, self.journal.banks.location(case.id)) as memory:
            bank = await fill_bank(memory, case, self.steps.advance)
            for question in missing:
                context = await record_recall(memory, question, origins=bank.origins, setup=self.setup)
                self.journal.recalled.append(context)
        if case.id not in self.journal.sizes:
            self.journal.sizes.append(BankSize(case=case.id, messages=bank.messages, facts=bank.facts))

    def _unanswered(self, case: Case) -> list[DatasetQuestion]:
        return [question for question in case.questions if question.id not in self.journal.answers]

    async def _run_case(self, case: Case, slots: asyncio.Semaphore, started: asyncio.Event) -> None:
        """Answer and judge a case's questions; delete its bank when all are answered."""
        llm = self.models.answerer
        if llm is None or not self._unanswered(case):
            await self._run_questions(case, None, slots=slots, started=started)
        else:
            async with answering_memory(self.setup, case, self.journal.banks.location(case.id), llm) as memory:
                await make_neutral(memory)
                await self._run_questions(case, memory, slots=slots, started=started)
        if not self._unanswered(case):
            self.journal.banks.remove(case.id)

    async def _run_questions(
        self, case: Case, memory: Memory | None, *, slots: asyncio.Semaphore, started: asyncio.Event
    ) -> None:
        """Start each question as soon as a slot is free."""
        origins = origins_of(case)
        async with asyncio.TaskGroup() as group:
            for question in dated_questions(case):
                await slots.acquire()
                if self.failures.stopped:
                    slots.release()
                    break
                task = group.create_task(self._run_question(question, memory, origins))
                task.add_done_callback(lambda _: slots.release())
            started.set()

    async def _run_question(self, question: DatasetQuestion, memory: Memory | None, origins: Origins) -> None:
        """Do the open steps of one question. A question that a model fails stays open."""
        try:
            answer = self.journal.answers.get(question.id)
            if answer is None and memory is not None:
                answer = await answer_question(memory, question, origins=origins, setup=self.setup)
                self.journal.answers.append(answer)
                self.failures.reset()
            self.steps.advance()
            if answer is not None:
                await self._judge(question, answer)
            self.steps.advance()
        except LLMFailed as error:
            self.failures.add(question.id, error)

    async def _judge(self, question: DatasetQuestion, answer: GivenAnswer) -> None:
        """Request the verdicts that are not in the journal."""
        llm, known = self.models.judge, self.journal.verdicts
        if llm is None:
            return
        missing: list[Judge] = [
            judge
            for judge in judging.judges_of(question)
            if verdict_key(question.id, judge, answer.digest) not in known
        ]
        if tuple(missing) == JUDGES:
            verdicts = await judging.judge_both(answer, question, llm=llm)
        else:
            verdicts = [await judging.judge_answer(answer, question, judge=judge, llm=llm) for judge in missing]
        for verdict in verdicts:
            known.append(verdict)
            self.failures.reset()
