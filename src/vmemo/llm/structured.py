"""The desk where questions to a model are asked: every answer is checked, repaired once, and its cost noted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from vmemo.errors import LLMFailed, LLMUnusable
from vmemo.llm.answer_parsing import Misfit, Shape, fitted
from vmemo.models.results import Spending, Usage
from vmemo.ports import LLM, Ask, Completion

S = TypeVar("S", bound=Shape)
R = TypeVar("R")
Readout: TypeAlias = tuple[str | None, R | None]
"""What is wrong with an answer, or None, and what could be read of it, or None."""
Check = Callable[[S], str | None]
"""What is wrong with an answer that has the right shape, or None."""
_AGAIN = """

Your former answer can't be used: {why}.
This was it:
{answer}
Answer the whole question again, and correct that."""
_MOST_QUOTED = 6000


@runtime_checkable
class _Remembering(Protocol):
    def forget(self, ask: Ask) -> None: ...


@dataclass
class StructuredLLM:
    """A model and what has been spent on it since the desk was set up."""

    llm: LLM
    _spent: dict[str, Spending] = field(default_factory=dict[str, Spending])

    @property
    def name(self) -> str:
        """The model's name."""
        return self.llm.name

    @property
    def spent(self) -> tuple[Spending, ...]:
        """What each step cost."""
        return tuple(self._spent.values())

    @property
    def usage(self) -> Usage:
        """What all steps cost together."""
        return sum((_usage(each) for each in self._spent.values()), Usage())

    def settle(self) -> Usage:
        """What was spent, now that it is written down; the account begins anew."""
        usage = self.usage
        self._spent.clear()
        return usage

    async def ask(self, ask: Ask, shape: type[S], check: Check[S] | None = None, *, lenient: bool = False) -> S:
        """An answer that fits. One that does not is asked for once more with what is wrong about it.

        `lenient` takes a second answer that has the right shape, though the check still complains; the caller sorts
        out what can be used of it.
        """
        return await self.read(ask, lambda text: _read(text, shape, check), lenient=lenient)

    async def read(self, ask: Ask, reading: Callable[[str], Readout[R]], *, lenient: bool = False) -> R:
        """The same for answers of any kind: `reading` tells what is wrong with a text, and what can be made of it."""
        written = await self._complete(ask)
        why, answer = reading(written.text)
        if why is None and answer is not None:
            return answer
        again = replace(ask, user=ask.user + _AGAIN.format(why=why, answer=written.text[:_MOST_QUOTED]))
        why, answer = reading((await self._complete(again)).text)
        if answer is not None and (why is None or lenient):
            return answer
        self.refuse(ask)
        self.refuse(again)
        raise LLMUnusable(f"{self.name} gave no usable answer for {ask.step}, and repaired it in vain: {why}.")

    def refuse(self, ask: Ask) -> None:
        """Count an answer as a failure, so that a model which remembers its answers does not give this one again."""
        self._failed(ask.step)
        if isinstance(self.llm, _Remembering):
            self.llm.forget(ask)

    async def _complete(self, ask: Ask) -> Completion:
        try:
            done = await self.llm.complete(ask)
        except LLMFailed:
            self._failed(ask.step)
            raise
        self._add(ask.step, done.usage)
        return done

    def _add(self, step: str, usage: Usage) -> None:
        known = self._of(step)
        self._spent[step] = known.model_copy(
            update={
                "calls": known.calls + usage.calls,
                "input_tokens": known.input_tokens + usage.input_tokens,
                "output_tokens": known.output_tokens + usage.output_tokens,
                "cost": known.cost + usage.cost,
            }
        )

    def _failed(self, step: str) -> None:
        known = self._of(step)
        self._spent[step] = known.model_copy(update={"failures": known.failures + 1})

    def _of(self, step: str) -> Spending:
        return self._spent.get(step) or Spending(step=step, model=self.name)


def _read(text: str, shape: type[S], check: Check[S] | None) -> Readout[S]:
    """What is wrong with an answer, if anything, and the answer, if it has the right shape."""
    try:
        answer = fitted(text, shape)
    except Misfit as error:
        return str(error), None
    return (None if check is None else check(answer)), answer


def _usage(spent: Spending) -> Usage:
    return Usage(calls=spent.calls, input_tokens=spent.input_tokens, output_tokens=spent.output_tokens, cost=spent.cost)
