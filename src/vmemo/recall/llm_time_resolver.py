"""Resolution of a question's time by a language model, where the rules find one that they can't resolve."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import date, datetime, time as clock_time

from vmemo.errors import LLMDenied, LLMFailed, LLMUnavailable, named
from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import AnswerSchema, StructuredLLM
from vmemo.models import BankId, Interval
from vmemo.models.results import Spending
from vmemo.ports import LLM

CACHE_SIZE = 256
PAUSE_SECONDS = 30.0
"""Pause after a model could not be reached, so that not every recall waits for it."""
MIN_YEAR = 1000
"""First year that a question can be about."""
_Days = tuple[date | None, date]
Spend = Callable[[BankId, Sequence[Spending]], None]


class TimeAnswer(AnswerSchema):
    """A model's answer: ISO dates, the end excluded."""

    start: str = ""
    end: str = ""
    none: bool = False


@dataclass(frozen=True, kw_only=True)
class LLMResolvedTime:
    """The time of a question; `problem` is the reason why the model could not resolve it."""

    during: Interval | None = None
    problem: str | None = None


@dataclass
class LLMTimeResolver:
    """Resolves times with a language model. It never raises; its cost is passed to `spend`."""

    llm: LLM
    timeout: float
    spend: Spend
    _: KW_ONLY
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _cache: OrderedDict[tuple[str, date], _Days | None] = field(
        default_factory=OrderedDict[tuple[str, date], _Days | None]
    )
    _paused_until: float = float("-inf")

    async def resolve(self, bank: BankId, question: str, now: datetime) -> LLMResolvedTime:
        """Return the time of a question that is asked at `now`, in the time zone of `now`."""
        key = (question, now.date())
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return _resolved(self._cache[key], now)
        if self.clock() < self._paused_until:
            return LLMResolvedTime(
                problem=f"{self.llm.name} failed and is not called again for {PAUSE_SECONDS:.0f} seconds."
            )
        try:
            days = await self._ask(bank, question, now.date())
        except LLMFailed as error:
            if isinstance(error, LLMUnavailable | LLMDenied):
                self._paused_until = self.clock() + PAUSE_SECONDS
            return LLMResolvedTime(problem=named(error))
        with self._lock:
            self._cache[key] = days
            if len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)
        return _resolved(days, now)

    async def _ask(self, bank: BankId, question: str, today: date) -> _Days | None:
        llm = StructuredLLM(self.llm)
        shown = f"{today:%A}, {today.isoformat()}"
        ask = load_prompt("recall", "when").request(
            TimeAnswer, max_tokens=1024, today=shown, question=quote([question])
        )
        try:
            async with asyncio.timeout(self.timeout):
                return _days(await llm.ask(ask, TimeAnswer, _problem))
        except TimeoutError as error:
            llm.reject(ask)
            raise LLMUnavailable(f"{llm.name} did not return a time within {self.timeout:g} seconds") from error
        finally:
            if llm.spending:
                self.spend(bank, llm.spending)


def _problem(answer: TimeAnswer) -> str | None:
    try:
        days = _days(answer)
    except ValueError:
        return "start and end must be days written as YYYY-MM-DD, or none must be true"
    if days is None:
        return None
    start, end = days
    if (start or end).year < MIN_YEAR:
        return f"days must be of the years {MIN_YEAR} to 9999"
    return "start must be before end, which is the day after the last one" if start and start >= end else None


def _days(answer: TimeAnswer) -> _Days | None:
    if answer.none:
        return None
    return date.fromisoformat(answer.start[:10]) if answer.start else None, date.fromisoformat(answer.end[:10])


def _resolved(days: _Days | None, now: datetime) -> LLMResolvedTime:
    if days is None:
        return LLMResolvedTime()
    start, end = (day and datetime.combine(day, clock_time.min, now.tzinfo) for day in days)
    return LLMResolvedTime(during=Interval(start=start, end=end))
