"""Extraction instructions and categories of the caller: additions to the extraction prompt and its answer.

Without them a request is unchanged, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import cast

from pydantic import JsonValue

from vmemo.models.drafts import FactDraft
from vmemo.ports import LLMRequest

_INSTRUCTIONS = """

The application that keeps this memory adds the rules below. They decide which facts to write (a topic may have none)
and how to word them, also where the rules above say otherwise. The form of the answer, `lines`, dates and the rule on
quoted text stay.
=== rules of the application ===
{instructions}
=== end of these rules ==="""
_CATEGORIES = """

`categories` of a fact: all of these that it clearly belongs to, spelled as here; leave the field out if none fits:
{categories}."""


@dataclass(frozen=True)
class CustomExtraction:
    """The instructions and categories of a memory's settings."""

    instructions: str = ""
    categories: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """A short code of both, by which a derivation with others is distinguished; empty without any."""
        if not self.instructions and not self.categories:
            return ""
        return blake2b(repr((self.instructions, self.categories)).encode(), digest_size=4).hexdigest()

    def applied(self, request: LLMRequest) -> LLMRequest:
        """Return the request with the instructions and categories, or itself if there are none."""
        system = request.system
        if self.instructions:
            system += _INSTRUCTIONS.format(instructions=self.instructions.strip())
        if self.categories:
            system += _CATEGORIES.format(categories=", ".join(f'"{name}"' for name in self.categories))
        schema = self._with_categories(request.schema) if self.categories else request.schema
        return request if system == request.system else replace(request, system=system, schema=schema)

    def _with_categories(self, schema: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the schema in which every fact has categories."""
        changed = deepcopy(dict(schema))
        types = cast("dict[str, dict[str, dict[str, JsonValue]]]", changed["$defs"])
        field: JsonValue = {"type": "array", "items": {"type": "string", "enum": list(self.categories)}}
        for name in ("ExtractedFact", "SmallFact"):
            if name in types:
                types[name]["properties"]["categories"] = field
        return changed

    def tagged(self, draft: FactDraft, named: Sequence[str]) -> FactDraft:
        """Return the draft with the categories that the model named as tags; names that are no category are dropped."""
        known = {category.casefold(): category for category in self.categories}
        found = [known[name.strip().casefold()] for name in named if name.strip().casefold() in known]
        return replace(draft, tags=tuple(dict.fromkeys((*draft.tags, *found)))) if found else draft
