"""The parameters that listings share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from vmemo.memory.reads import LARGEST_PAGE
from vmemo.models.base import Name

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="Records of a page.")]
Cursor = Annotated[Name | None, Query(description="`next` of the page before; the first without it.")]
Document = Annotated[Name | None, Query(description="Only messages of this document.")]
