"""Merging of new information about an agent into its background, in the first person."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import AnswerSchema, StructuredLLM
from vmemo.models import BankId, Profile
from vmemo.models.changes import Changes, ProfileChange
from vmemo.models.records import MAX_BACKGROUND
from vmemo.ports import BankNotFound, Store
from vmemo.text.wording import contains_sentences, content_overlap, is_second_person, lacks_first_person, lost_clauses

_MIN_KEPT = 0.5
"""Share of a snippet's words that must be kept; polite words around the information need not be."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class MergedBackground(AnswerSchema):
    """A background with the new text merged into it."""

    background: Annotated[str, Field(max_length=4000)]
    replaced: list[Annotated[str, Field(max_length=1000)]] = Field(
        default_factory=list[str], description="passages of the old background that the new text contradicts"
    )


async def merge_background(bank: BankId, snippet: str, store: Store, llm: StructuredLLM) -> Profile:
    """Merge a snippet into the background, unless it is there, and record the former profile with it as the reason."""
    new = snippet.strip()
    while True:
        if (stored := await store.bank(bank)) is None:
            raise BankNotFound(bank)
        profile = stored.profile
        if contains_sentences(profile.background, new):
            return profile
        merged = profile.model_copy(update={"background": await _merge(profile.background, new, llm)})
        change = ProfileChange(profile=merged, reason=new, expected=profile)
        if await store.commit(Changes(bank=bank, profile=change)):
            return merged


async def _merge(old: str, new: str, llm: StructuredLLM) -> str:
    ask = load_prompt("reflect", "background").request(
        MergedBackground,
        background=quote([old]) if old.strip() else "(none yet)",
        snippet=quote([new]),
        longest=str(MAX_BACKGROUND),
    )
    answer = await llm.ask(ask, MergedBackground, lambda merged: _feedback(merged, old, new))
    return answer.background.strip()


def _feedback(merged: MergedBackground, old: str, new: str) -> str | None:
    """Return what the LLM must correct in a merged background, or None."""
    text = merged.background.strip()
    if not text:
        return "the background is empty"
    if _CONTROL.search(text):
        return "the background contains control characters"
    if len(text) > MAX_BACKGROUND:
        return f"the background has {len(text)} characters, but at most {MAX_BACKGROUND} are allowed"
    if is_second_person(text):
        return 'a sentence addresses "you"; the agent speaks about itself as "I"'
    if lacks_first_person(text):
        return 'nothing is in the first person; the agent speaks about itself as "I"'
    return _omission(merged, old, new)


def _omission(merged: MergedBackground, old: str, new: str) -> str | None:
    """Return what is missing. If both texts do not fit together, part of each may be left out."""
    fits = len(old) + 1 + len(new) <= MAX_BACKGROUND
    if content_overlap(new, merged.background) < (_MIN_KEPT if fits else _MIN_KEPT * _share_that_fits(new)):
        return "most of the new text is missing"
    if not fits:
        kept = content_overlap(old, merged.background, without=merged.replaced)
        return None if kept >= _MIN_KEPT * _share_that_fits(old) else "most of the old background is missing"
    if missing := lost_clauses(old, merged.background, merged.replaced):
        return f"this part of the old background is missing and is not listed in `replaced`: {'; '.join(missing)}"
    return None


def _share_that_fits(text: str) -> float:
    return min(1.0, MAX_BACKGROUND / 2 / max(1, len(text)))
