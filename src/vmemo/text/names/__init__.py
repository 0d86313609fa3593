"""Names of entities: found in text and compared with each other."""

from __future__ import annotations

from vmemo.text.names.compare import NameForm, name_form, name_similarity, names_apart, nicknames
from vmemo.text.names.find import MAX_NAMES, find_names, merge_names

__all__ = [
    "MAX_NAMES",
    "NameForm",
    "find_names",
    "merge_names",
    "name_form",
    "name_similarity",
    "names_apart",
    "nicknames",
]
