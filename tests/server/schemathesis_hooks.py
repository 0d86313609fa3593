"""What schemathesis can't know by itself: how an exported bank is sent, and which bank holds something."""

from __future__ import annotations

import json
import os

import schemathesis
from schemathesis import HookContext

KNOWN: dict[str, str] = json.loads(os.environ.get("VMEMO_KNOWN", "{}"))
"""Names in paths that lead somewhere; what is made up leads nowhere but to a 404."""


@schemathesis.serializer("application/x-ndjson")
def lines(ctx: object, value: object) -> bytes:
    """Text as it is, and anything else as its representation: no bank either way."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@schemathesis.hook  # pyright: ignore[reportUnknownMemberType]
def map_path_parameters(ctx: HookContext, path_parameters: dict[str, object] | None) -> dict[str, object] | None:
    """Three of four requests go to what is there; nothing that they need is deleted."""
    if path_parameters is None or ctx.operation is None or ctx.operation.method == "delete":  # pyright: ignore[reportUnknownMemberType]
        return path_parameters
    if sum(map(ord, str(path_parameters))) % 4 == 0:
        return path_parameters
    return {name: KNOWN.get(name, value) for name, value in path_parameters.items()}
