"""The exam itself: banks are filled, questions answered and answers judged, several at a time, each step noted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from vmemo import Memory
from vmemo.errors import LLMFailed, VmemoError, named
from vmemo.models import MessageId
from vmemo_bench.datasets import Case, Question
from vmemo_bench.environment import make_folder
from vmemo_bench.qa.answering import answer
from vmemo_bench.qa.banks import answering, be_neutral, dated, file_of, recollect
from vmemo_bench.qa.journal import Books
from vmemo_bench.qa.judging import verdict_on
from vmemo_bench.qa.models import Models
from vmemo_bench.qa.records import JUDGES, Answered, Held, verdict_key
from vmemo_bench.runner import Place, Setup, keep, places_of
from vmemo_bench.steps import Steps
from vmemo_bench.stores import in_file, remove

PATIENCE = 8
"""Questions that fail one after the other until the rest is left for another day."""
_TOLD = 5


@dataclass
class Failures:
    """Questions that a model failed, by id, with the error, and how many of them in a row."""

    found: dict[str, str] = field(default_factory=dict[str, str])
    in_a_row: int = 0

    @property
    def gone(self) -> bool:
        """Whether it is no use to go on."""
        return self.in_a_row >= PATIENCE

    def add(self, question: str, error: LLMFailed) -> None:
        """One more."""
        self.found[question] = named(error)
        self.in_a_row += 1

    def check(self) -> None:
        """Raise what failed, by name."""
        if not self.found:
            return
        told = "; ".join(f"{question}: {error.rstrip('.')}" for question, error in sorted(self.found.items())[:_TOLD])
        rest = f"; and {len(self.found) - _TOLD} more" if len(self.found) > _TOLD else ""
        stopped = " The model seems to be gone, so no more were tried." if self.gone else ""
        raise VmemoError(
            f"A model failed {len(self.found)} of the questions: {told}{rest}.{stopped} "
            "All other answers and verdicts are noted; the same command again takes only what is open."
        )


@dataclass(frozen=True, kw_only=True)
class Exam:
    """One run over the cases of a dataset."""

    setup: Setup
    books: Books
    models: Models
    steps: Steps
    parallel: int
    failures: Failures = field(default_factory=Failures)

    async def run(self, cases: Sequence[Case]) -> None:
        """Do all that is not noted yet. A bank is filled while the questions of the ones before it are answered."""
        slots = asyncio.Semaphore(self.parallel)
        try:
            async with asyncio.TaskGroup() as group:
                for case in cases:
                    if self.failures.gone:
                        break
                    await self.fill(case)
                    started = asyncio.Event()
                    group.create_task(self._case(case, slots, started))
                    await started.wait()
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors
        self.failures.check()

    async def fill(self, case: Case) -> None:
        """Put a case into its bank and note what is recalled for its questions, as far as that is wanted.

        Answers from elsewhere need no bank.
        """
        unseen = [question for question in dated(case) if question.id not in self.books.recalled]
        done = not unseen and case.id in self.books.held and not self._open(case)
        if done or self.models.answerer is None:
            self.steps.advance(len(case.sessions))
            return
        database = file_of(case, make_folder(self.books.banks))
        async with self.setup.memory(case, in_file(database, case.id)) as memory:
            kept = await keep(memory, case, self.steps.advance)
            for question in unseen:
                self.books.recalled.note(await recollect(memory, question, places=kept.places, setup=self.setup))
        if case.id not in self.books.held:
            self.books.held.note(Held(case=case.id, messages=kept.messages, facts=kept.facts))

    def _open(self, case: Case) -> list[Question]:
        """Questions that have no answer yet."""
        return [question for question in case.questions if question.id not in self.books.answered]

    async def _case(self, case: Case, slots: asyncio.Semaphore, started: asyncio.Event) -> None:
        """Answer and judge a case's questions; its bank goes once all are answered."""
        database = file_of(case, self.books.banks)
        llm = self.models.answerer
        if llm is None or not self._open(case):
            await self._questions(case, None, slots=slots, started=started)
        else:
            async with answering(self.setup, case, database=database, llm=llm) as memory:
                await be_neutral(memory)
                await self._questions(case, memory, slots=slots, started=started)
        if not self._open(case):
            remove(database)

    async def _questions(
        self, case: Case, memory: Memory | None, *, slots: asyncio.Semaphore, started: asyncio.Event
    ) -> None:
        """Begin each question as soon as there is room for it."""
        places = places_of(case)
        async with asyncio.TaskGroup() as group:
            for question in dated(case):
                await slots.acquire()
                if self.failures.gone:
                    slots.release()
                    break
                task = group.create_task(self._question(question, memory, places))
                task.add_done_callback(lambda _: slots.release())
            started.set()

    async def _question(self, question: Question, memory: Memory | None, places: Mapping[MessageId, Place]) -> None:
        """One question from where it stands to its verdicts. What a model fails stays open."""
        try:
            answered = self.books.answered.get(question.id)
            if answered is None and memory is not None:
                found = await answer(memory, question, places=places, setup=self.setup)
                answered = self.books.answered.note(found)
                self.failures.in_a_row = 0
            self.steps.advance()
            if answered is not None:
                await self.judge(question, answered)
            self.steps.advance()
        except LLMFailed as error:
            self.failures.add(question.id, error)

    async def judge(self, question: Question, answered: Answered) -> None:
        """Ask for the verdicts that are not noted yet."""
        for judge in JUDGES:
            if self.models.judge and verdict_key(question.id, judge, answered.digest) not in self.books.verdicts:
                verdict = await verdict_on(answered, question, judge=judge, llm=self.models.judge)
                self.books.verdicts.note(verdict)
                self.failures.in_a_row = 0


def _first(error: BaseException) -> BaseException:
    """The error that ended a run: whoever calls it asked for a run and not for a group of tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
