"""Prefixes that embedding models were trained with, by family, as their model cards state them."""

from __future__ import annotations

from collections.abc import Mapping

from vmemo.ports import TextKind

Prefixes = Mapping[TextKind, str]
NO_PREFIXES: Prefixes = {}
_E5: Prefixes = {"query": "query: ", "document": "passage: "}
_ARCTIC_2: Prefixes = {"query": "query: "}
_SEARCH: Prefixes = {"query": "Represent this sentence for searching relevant passages: "}
_FAMILIES: Mapping[str, Prefixes] = {
    "nomic-embed-text": {"query": "search_query: ", "document": "search_document: "},
    # The large E5 models with "instruct" in their names take a task description.
    "instruct": NO_PREFIXES,
    **dict.fromkeys(("e5-small", "e5-base", "e5-large"), _E5),
    **dict.fromkeys(("bge-small-en", "bge-base-en", "bge-large-en", "mxbai-embed-large"), _SEARCH),
    **dict.fromkeys(("arctic-embed2", "arctic-embed-m-v2", "arctic-embed-l-v2"), _ARCTIC_2),
    "arctic-embed": _SEARCH,
}
"""The first family whose name a model's name contains applies."""


def prefixes_of(model: str) -> Prefixes:
    """Return the prefixes of a model's queries and documents; empty for a model of an unknown family."""
    folded = model.casefold()
    return next((prefixes for family, prefixes in _FAMILIES.items() if family in folded), NO_PREFIXES)
