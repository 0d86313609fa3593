"""Query parameters shared by lists."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from vmemo.models.base import Name
from vmemo.models.request_fields import LARGEST_PAGE

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="Records per page.")]
Cursor = Annotated[Name | None, Query(description="`next` of the previous page; omit it for the first page.")]
Document = Annotated[Name | None, Query(description="Only messages of this document.")]
