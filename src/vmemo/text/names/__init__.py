"""Names of entities: found in text and compared with each other."""

from __future__ import annotations

from vmemo.text.names.compare import (
    PLAIN_USE as PLAIN_USE,
    NameUse as NameUse,
    name_use as name_use,
    names_apart as names_apart,
)
from vmemo.text.names.find import (
    MAX_NAMES as MAX_NAMES,
    find_names as find_names,
    merge_names as merge_names,
    name_spans as name_spans,
)
