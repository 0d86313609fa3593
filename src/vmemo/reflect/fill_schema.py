"""Answers in the caller's schema: a second LLM call puts the checked answer into it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from vmemo.llm.caller_schema import CallerSchema
from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import Fact
from vmemo.ports import LLMRequest

PROMPTS = Path(__file__).parent / "prompts"


async def fill_schema(
    schema: CallerSchema, answer: str, facts: Sequence[Fact], llm: StructuredLLM, **values: str
) -> dict[str, JsonValue]:
    """Return the answer in the caller's schema; `values` are the prompt's `question` and `today`."""
    prompt = load_prompt(PROMPTS, "structure")
    lines = [f"{fact.mentioned_at:%d %B %Y} | {fact.text}" for fact in facts]
    values |= {"answer": quote([answer]), "facts": quote(lines) if lines else "(none)"}
    ask = LLMRequest(
        step=prompt.step,
        system=prompt.system.safe_substitute(values),
        user=prompt.user.substitute(values),
        schema=schema.schema,
    )
    return await llm.ask_text(ask, schema.parse)
