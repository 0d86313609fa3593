"""The loop of an adapter: lines of JSON in, lines of JSON out. It runs without vmemo, beside the product."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable


def serve(add: Callable[[dict[str, str]], None], search: Callable[[str, int], list[str]]) -> None:
    """Answer requests until the input ends. What the product prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            answer = {"ids": _answer(json.loads(line), add, search)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _answer(
    request: dict[str, object], add: Callable[[dict[str, str]], None], search: Callable[[str, int], list[str]]
) -> list[str]:
    match request:
        case {"add": dict(turns)}:
            add(turns)
            return []
        case {"search": str(question), "limit": int(limit)}:
            return search(question, limit)
        case _:
            raise ValueError("a request has add, or search and limit")
