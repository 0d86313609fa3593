"""JSON answers of language models: quoting of prompt material, parsing, and one retry of an invalid answer."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from vmemo.errors import LLMUnusable
from vmemo.models.results import Usage
from vmemo.ports import LLM, LLMRequest

M = TypeVar("M", bound=BaseModel)
_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_RETRY = """

Your previous answer is invalid: {reason}.
It was:
{answer}
Answer the whole question again and correct this."""
_MAX_QUOTED = 6000


class InvalidModelAnswer(Exception):
    """An answer that does not have the requested form."""


def quote(lines: Iterable[str]) -> str:
    """Quote text between marks derived from the text, so that the text cannot contain the closing mark."""
    text = "\n".join(line.rstrip() for line in lines)
    mark = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    return f"<<{mark}\n{text}\n{mark}>>"


def parse(text: str, model: type[M]) -> M:
    """Parse the first JSON object of an answer. Raise InvalidAnswer if it does not fit the model."""
    plain = _THINKING.sub("", text)
    try:
        value, _ = json.JSONDecoder().raw_decode(plain[max(0, plain.find("{")) :])
        return model.model_validate(value)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, each['loc'])) or 'answer'}: {each['msg']}" for each in error.errors())
        raise InvalidModelAnswer("; ".join(problems)) from error
    except (ValueError, RecursionError) as error:
        raise InvalidModelAnswer("the answer contains no complete JSON object") from error


async def request_json(llm: LLM, request: LLMRequest, model: type[M]) -> tuple[M, Usage]:
    """Return the parsed answer and its usage; an invalid answer is requested once more with the reason."""
    first = await llm.complete(request)
    try:
        return parse(first.text, model), first.usage
    except InvalidModelAnswer as error:
        retry = _RETRY.format(reason=error, answer=first.text[:_MAX_QUOTED])
    second = await llm.complete(replace(request, user=request.user + retry))
    try:
        return parse(second.text, model), first.usage + second.usage
    except InvalidModelAnswer as error:
        message = f"{llm.name} returned an invalid answer for {request.step!r}, and the retry was invalid too: {error}."
        raise LLMUnusable(message) from error
