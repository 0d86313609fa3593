"""Hooks of schemathesis: the serializer of an exported bank, and path parameters that name existing records."""

from __future__ import annotations

import json
import os

import schemathesis
from schemathesis import HookContext

KNOWN: dict[str, str] = json.loads(os.environ.get("VMEMO_KNOWN", "{}"))
"""Path parameters of existing records; generated ones only reach a 404."""


@schemathesis.serializer("application/x-ndjson")
def lines(ctx: object, value: object) -> bytes:
    """Return text as it is, and any other value as its representation; neither is a valid bank."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@schemathesis.hook  # pyright: ignore[reportUnknownMemberType]
def map_path_parameters(ctx: HookContext, path_parameters: dict[str, object] | None) -> dict[str, object] | None:
    """Send three of four requests to existing records, except deletions, which would remove what others need."""
    if path_parameters is None or ctx.operation is None or ctx.operation.method == "delete":  # pyright: ignore[reportUnknownMemberType]
        return path_parameters
    if sum(map(ord, str(path_parameters))) % 4 == 0:
        return path_parameters
    return {name: KNOWN.get(name, value) for name, value in path_parameters.items()}
