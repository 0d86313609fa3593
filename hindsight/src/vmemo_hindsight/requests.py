"""Base of request models: options that vmemo does not support are rejected, unless they ask for nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vmemo_server.problems import HttpProblem

Item = TypeVar("Item")


def unsupported_option(option: str, reason: str = "") -> HttpProblem:
    """Return the problem of an option that vmemo does not support."""
    reason = f" {reason}" if reason else ""
    detail = f"vmemo does not support the option {option[:80]!r}.{reason} Nothing was changed."
    return HttpProblem(501, "NotImplemented", detail)


def is_unset(value: object, harmless: Sequence[object] = ()) -> bool:
    """Return True if a value means that the option was not sent; Hindsight's client sends nulls for defaults."""
    return value is None or value in ([], {}, "", [""]) or any(value == each for each in harmless)


class HindsightRequest(BaseModel):
    """A body or query of Hindsight's client. An unknown field is rejected, unless it is unset or harmless."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)
    harmless: ClassVar[Mapping[str, Sequence[object]]] = {}
    """Values of unsupported fields that ask for what vmemo does anyway."""

    @model_validator(mode="after")
    def _reject_unsupported(self) -> Self:
        extra: dict[str, Any] = self.model_extra or {}
        for name, value in extra.items():
            if not is_unset(value, self.harmless.get(name, ())):
                raise unsupported_option(name)
        return self


class OffsetPage(HindsightRequest):
    """Offset pagination of a list."""

    limit: int = Field(default=100, ge=0, le=10_000)
    offset: int = Field(default=0, ge=0, le=2**53)

    def of(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the items of this page."""
        return items[self.offset : self.offset + self.limit]
