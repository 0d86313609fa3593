"""Asking a language model for a question's time, where the rules see one that they can't resolve."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import date, datetime
from datetime import time as clock_time
from pathlib import Path

from vmemo.errors import LLMDenied, LLMFailed, LLMUnavailable, named
from vmemo.llm.answer_parsing import AnswerSchema
from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Interval
from vmemo.models.results import Spending
from vmemo.ports import LLM

PROMPTS = Path(__file__).parent / "prompts"
REMEMBERED = 256
"""Questions whose times are kept in memory."""
REST = 30.0
"""Seconds for which a model that could not be reached is not asked again: recall must not wait for it each time."""
EARLIEST = 1000
"""The first year that a question can be about."""
_Days = tuple[date | None, date]
Spend = Callable[[BankId, Sequence[Spending]], None]


class When(AnswerSchema):
    """A time as a model writes it: ISO days, the end excluded."""

    start: str = ""
    end: str = ""
    none: bool = False


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a model told of a question's time; `trouble` is why it told nothing."""

    during: Interval | None = None
    trouble: str | None = None


@dataclass
class TimeModel:
    """Reads times with a language model. It never raises, and what it costs is handed to `spend`."""

    llm: LLM
    timeout: float
    spend: Spend
    _: KW_ONLY
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: OrderedDict[tuple[str, date], _Days | None] = field(
        default_factory=OrderedDict[tuple[str, date], _Days | None]
    )
    _rests_until: float = float("-inf")

    async def read(self, bank: BankId, question: str, now: datetime) -> Told:
        """The time of a question that is asked at a moment, in that moment's time zone."""
        key = (question, now.date())
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return _told(self._known[key], now)
        if self.clock() < self._rests_until:
            return Told(trouble=f"{self.llm.name} failed a moment ago and is left alone for {REST:.0f} seconds.")
        try:
            days = await self._ask(bank, question, now.date())
        except LLMFailed as error:
            if isinstance(error, LLMUnavailable | LLMDenied):
                self._rests_until = self.clock() + REST
            return Told(trouble=named(error))
        with self._lock:
            self._known[key] = days
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return _told(days, now)

    async def _ask(self, bank: BankId, question: str, today: date) -> _Days | None:
        desk = StructuredLLM(self.llm)
        shown = f"{today:%A}, {today.isoformat()}"
        ask = load_prompt(PROMPTS, "when").request(When, max_tokens=1024, today=shown, question=quote([question]))
        try:
            async with asyncio.timeout(self.timeout):
                return _days(await desk.ask(ask, When, _complaint))
        except TimeoutError as error:
            desk.reject(ask)
            raise LLMUnavailable(f"{desk.name} did not tell a time within {self.timeout:g} seconds") from error
        finally:
            if desk.spending:
                self.spend(bank, desk.spending)


def _complaint(answer: When) -> str | None:
    try:
        days = _days(answer)
    except ValueError:
        return "start and end must be days written as YYYY-MM-DD, or none must be true"
    if days is None:
        return None
    start, end = days
    if (start or end).year < EARLIEST:
        return f"days must be of the years {EARLIEST} to 9999"
    return "start must be before end, which is the day after the last one" if start and start >= end else None


def _days(answer: When) -> _Days | None:
    if answer.none:
        return None
    return date.fromisoformat(answer.start[:10]) if answer.start else None, date.fromisoformat(answer.end[:10])


def _told(days: _Days | None, now: datetime) -> Told:
    if days is None:
        return Told()
    start, end = (day and datetime.combine(day, clock_time.min, now.tzinfo) for day in days)
    return Told(during=Interval(start=start, end=end))
