"""Structured LLM calls: parse and check each answer, retry an invalid one once, and record what the calls cost."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from vmemo.errors import LLMFailed, LLMUnusable
from vmemo.models.results import Spending, Usage
from vmemo.ports import LLM, Completion, LLMRequest

_THINKING_START = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_THINKING_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)


class AnswerSchema(BaseModel):
    """Base of all answer schemas. Null stands for a field's default, and unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, values: object) -> object:
        if isinstance(values, dict):
            given = cast("dict[str, object]", values)
            return {key: value for key, value in given.items() if value is not None}
        return values


S = TypeVar("S", bound=AnswerSchema)


class InvalidAnswer(Exception):
    """An answer that is not JSON or does not match its schema; the message is sent to the model and logged."""


def parse_answer(text: str, schema: type[S]) -> S:
    """Return the answer as an instance of `schema`, or raise `InvalidAnswer`."""
    value: object = find_json(text)
    if isinstance(value, list) and len(schema.model_fields) == 1:
        # Small models leave out the object around a list.
        value = {next(iter(schema.model_fields)): cast("list[object]", value)}
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        # The problems do not quote the answer, which may contain text that must not be logged.
        problems = (f"{'.'.join(map(str, each['loc'])) or 'answer'}: {each['msg']}" for each in error.errors()[:8])
        raise InvalidAnswer("; ".join(problems)) from error


def find_json(text: str) -> Any:
    """Return the first JSON value in the text, or raise `InvalidAnswer`. Text around it is ignored."""
    plain = _without_thinking(text).strip()
    start = min((at for at in (plain.find("{"), plain.find("[")) if at >= 0), default=-1)
    if start < 0:
        raise InvalidAnswer("the answer contains no JSON")
    try:
        value, _ = json.JSONDecoder().raw_decode(plain[start:])
    except (ValueError, RecursionError) as error:
        raise InvalidAnswer("the answer is not complete JSON") from error
    return value


def _without_thinking(text: str) -> str:
    kept: list[str] = []
    at = 0
    while (start := _THINKING_START.search(text, at)) and (end := _THINKING_END.search(text, start.end())):
        kept.append(text[at : start.start()])
        at = end.end()
    return "".join(kept) + text[at:]


R = TypeVar("R")
ParseResult: TypeAlias = tuple[str | None, R | None]
"""The problem with an answer and the parsed value; either can be None."""
Check: TypeAlias = Callable[[S], str | None]
"""Return the problem with an answer that matches its schema, or None."""
_RETRY = """

Your previous answer is invalid: {problem}.
Your previous answer was:
{answer}
Answer the whole request again and fix this."""
_QUOTED_CHARACTERS = 6000


@runtime_checkable
class CachingLLM(Protocol):
    """A model with a cache of answers."""

    def forget(self, request: LLMRequest) -> None: ...


@dataclass
class StructuredLLM:
    """An LLM whose answers are validated; `spending` accumulates the cost of each step until `take_usage`."""

    llm: LLM
    _spending: dict[str, Spending] = field(default_factory=dict[str, Spending])

    @property
    def name(self) -> str:
        return self.llm.name

    @property
    def spending(self) -> tuple[Spending, ...]:
        """The cost of each step since the last `take_usage`."""
        return tuple(self._spending.values())

    @property
    def usage(self) -> Usage:
        return sum((step.usage for step in self._spending.values()), Usage())

    def take_usage(self) -> Usage:
        """Return `usage` and reset `spending`. Call it after the spending has been stored."""
        usage = self.usage
        self._spending.clear()
        return usage

    async def ask(
        self, request: LLMRequest, schema: type[S], check: Check[S] | None = None, *, lenient: bool = False
    ) -> S:
        """Return an answer that matches `schema` and passes `check`, after one retry that names the problem.

        With `lenient`, accept a second answer that matches the schema even if `check` still fails; the caller then
        selects the usable parts of it.
        """

        def parse(text: str) -> ParseResult[S]:
            try:
                answer = parse_answer(text, schema)
            except InvalidAnswer as error:
                return str(error), None
            return (None if check is None else check(answer)), answer

        return await self.ask_text(request, parse, lenient=lenient)

    async def ask_text(
        self, request: LLMRequest, parse: Callable[[str], ParseResult[R]], *, lenient: bool = False
    ) -> R:
        """Like `ask`, with a parser of the caller's own, which may be slow: answers are parsed in a thread."""
        first = await self._complete(request)
        problem, answer = await asyncio.to_thread(parse, first.text)
        if problem is None and answer is not None:
            return answer
        retry = replace(
            request, user=request.user + _RETRY.format(problem=problem, answer=first.text[:_QUOTED_CHARACTERS])
        )
        problem, answer = await asyncio.to_thread(parse, (await self._complete(retry)).text)
        if answer is not None and (problem is None or lenient):
            return answer
        self.reject(request)
        self.reject(retry)
        raise LLMUnusable(
            f"{self.name} returned an invalid answer for {request.step!r}, and the retry was invalid too: {problem}."
        )

    def reject(self, request: LLMRequest) -> None:
        """Count the answer to `request` as a failure, and drop it from the model's cache if it has one."""
        self._count(request.step, failures=1)
        if isinstance(self.llm, CachingLLM):
            self.llm.forget(request)

    async def _complete(self, request: LLMRequest) -> Completion:
        try:
            completion = await self.llm.complete(request)
        except LLMFailed:
            self._count(request.step, failures=1)
            raise
        self._count(request.step, completion.usage)
        return completion

    def _count(self, step: str, usage: Usage | None = None, *, failures: int = 0) -> None:
        counts = {} if usage is None else usage.model_dump(exclude={"embedded_texts"})
        new = Spending(step=step, model=self.name, failures=failures, **counts)
        self._spending[step] = self._spending[step] + new if step in self._spending else new
