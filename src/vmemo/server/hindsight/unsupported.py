"""What is not there: options and calls of Hindsight that this memory can't honour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from vmemo.server.dependencies import AnyGuest
from vmemo.server.hindsight.dependencies import BANK, PREFIX
from vmemo.server.paths import ExactRoute
from vmemo.server.problems import Refused

router = APIRouter(route_class=ExactRoute)
"""The paths that are left."""
shadowed = APIRouter(route_class=ExactRoute)
"""A path that would be taken for the name of an entity."""
Item = TypeVar("Item")
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def absent(option: str, why: str = "") -> Refused:
    """An option that can't be honoured."""
    told = f" {why}" if why else ""
    return Refused(501, "NotThere", f"vmemo can't honour the option {option[:80]!r}.{told} Nothing was changed.")


def unset(value: object, harmless: Sequence[object] = ()) -> bool:
    """Whether an option is as if it had not been sent. Hindsight's client sends nulls for what was left out."""
    return value is None or value in ([], {}, "", [""]) or any(value == each for each in harmless)


class Wish(BaseModel):
    """What Hindsight's client sends. A field that has no place here is refused, unless it asks for nothing."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)
    harmless: ClassVar[Mapping[str, Sequence[object]]] = {}
    """Values of such fields that ask for what happens anyway."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        extra: dict[str, Any] = self.model_extra or {}
        for name, value in extra.items():
            if not unset(value, self.harmless.get(name, ())):
                raise absent(name)
        return self


class Page(Wish):
    """Which part of a list is wanted."""

    limit: int = Field(default=100, ge=0, le=10_000)
    offset: int = Field(default=0, ge=0, le=2**53)

    def of(self, items: Sequence[Item]) -> Sequence[Item]:
        """That part."""
        return items[self.offset : self.offset + self.limit]


@shadowed.get(f"{BANK}/entities/graph")
@router.api_route("/v1/bank-template-schema", methods=METHODS)
@router.api_route(f"{PREFIX}/{{rest:path}}", methods=METHODS)
async def not_there(request: Request, guest: AnyGuest) -> Response:
    """Every call of Hindsight that stands nowhere else."""
    what = f"{request.method} {request.url.path[:200]}"
    raise Refused(501, "NotThere", f"vmemo does not have {what}; docs/hindsight.md lists what it has.")
