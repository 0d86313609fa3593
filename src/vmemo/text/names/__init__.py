"""Names of entities: found in text and compared with each other."""

from __future__ import annotations

from vmemo.text.names.compare import (
    PLAIN_USE,
    NameForm,
    NameUse,
    name_form,
    name_similarity,
    name_use,
    names_apart,
    nicknames,
)
from vmemo.text.names.find import MAX_NAMES, find_names, merge_names, name_spans

__all__ = [
    "MAX_NAMES",
    "PLAIN_USE",
    "NameForm",
    "NameUse",
    "find_names",
    "merge_names",
    "name_form",
    "name_similarity",
    "name_spans",
    "name_use",
    "names_apart",
    "nicknames",
]
