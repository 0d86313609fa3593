"""Background merging: what is told about an agent becomes part of its background, in the first person."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field

from vmemo.errors import InvalidInput, NotFound
from vmemo.llm.answer_parsing import AnswerSchema
from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Profile
from vmemo.models.base import MAX_BACKGROUND
from vmemo.models.changes import Changes, ProfileChange
from vmemo.ports import Store
from vmemo.text.paraphrase import (
    contains_sentences,
    content_overlap,
    is_second_person,
    lacks_first_person,
    lost_clauses,
)

PROMPTS = Path(__file__).parent / "prompts"
MOST = 2000
"""Characters of a snippet."""
_TOLD = 0.5
"""Share of a snippet's words that must come back; polite words around it need not."""
_BARE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Merged(AnswerSchema):
    """A background that something new was merged into."""

    background: Annotated[str, Field(max_length=4000)]
    replaced: list[Annotated[str, Field(max_length=1000)]] = Field(
        default_factory=list[str], description="words of the old background that the new contradicts"
    )


async def merge(bank: BankId, snippet: str, store: Store, desk: StructuredLLM) -> Profile:
    """Merge a snippet into the bank's background; the one before stays in history with the snippet as its reason.

    If the background changes meanwhile, the model is asked again about the newer one. What is there already word for
    word changes nothing.
    """
    told = checked(snippet)
    while True:
        profile = await _profile(bank, store)
        if contains_sentences(profile.background, told):
            return profile
        merged = profile.model_copy(update={"background": await _merged(profile.background, told, desk)})
        if await store.commit(Changes(bank=bank, profile=ProfileChange(profile=merged, reason=told, expected=profile))):
            return merged


def checked(snippet: object) -> str:
    """A snippet that can be merged, or InvalidInput."""
    if not isinstance(snippet, str):
        raise InvalidInput(f"A piece of background must be text, not {type(snippet).__name__}.")
    if not snippet.strip():
        raise InvalidInput("A piece of background must not be empty or blank.")
    if len(snippet) > MOST:
        raise InvalidInput(f"A piece of background may have {MOST:,} characters; this one has {len(snippet):,}.")
    if "\x00" in snippet:
        raise InvalidInput("A piece of background must not contain NUL characters.")
    try:
        snippet.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput("A piece of background must be valid Unicode without lone surrogates.") from error
    return snippet.strip()


async def _profile(bank: BankId, store: Store) -> Profile:
    stored = await store.bank(bank)
    if stored is None:
        raise NotFound(f"There is no bank {bank!r} here.")
    return stored.profile


async def _merged(old: str, told: str, desk: StructuredLLM) -> str:
    shown = quote([old]) if old.strip() else "(none yet)"
    ask = load_prompt(PROMPTS, "background").request(
        Merged, background=shown, snippet=quote([told]), longest=str(MAX_BACKGROUND)
    )
    answer = await desk.ask(ask, Merged, lambda given: _complaint(given, old, told))
    return answer.background.strip()


def _complaint(given: Merged, old: str, told: str) -> str | None:
    """What is wrong with a merged background, for the model."""
    new = given.background.strip()
    if not new:
        return "the background is empty"
    if _BARE.search(new):
        return "the background holds control characters"
    if len(new) > MAX_BACKGROUND:
        return f"the background has {len(new)} characters, and may have {MAX_BACKGROUND}"
    if is_second_person(new):
        return 'a sentence speaks of "you"; the agent itself speaks, as "I"'
    if lacks_first_person(new):
        return 'nothing is said in the first person; the agent itself speaks, as "I"'
    return _omission(given, old, told)


def _omission(given: Merged, old: str, told: str) -> str | None:
    """What is missing. Where both texts don't fit together, some of each has to be."""
    fits = len(old) + 1 + len(told) <= MAX_BACKGROUND
    if content_overlap(told, given.background) < (_TOLD if fits else _TOLD * _room(told)):
        return "most of what is new is missing"
    if not fits:
        kept = content_overlap(old, given.background, without=given.replaced)
        return None if kept >= _TOLD * _room(old) else "most of the old background is missing"
    if gone := lost_clauses(old, given.background, given.replaced):
        return f"this part of the old background is missing and is not among `replaced`: {'; '.join(gone)}"
    return None


def _room(text: str) -> float:
    """Which share of a text half a background holds."""
    return min(1.0, MAX_BACKGROUND / 2 / max(1, len(text)))
