"""The parameters that listings share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from vmemo.browse import LARGEST_PAGE
from vmemo.record import MAX_NAME

Limit = Annotated[int, Query(ge=1, lt=LARGEST_PAGE, description="Records of a page.")]
Cursor = Annotated[
    str | None, Query(min_length=1, max_length=MAX_NAME, description="`next` of the page before; the first without it.")
]
Document = Annotated[
    str | None, Query(min_length=1, max_length=MAX_NAME, description="Only messages of this document.")
]
