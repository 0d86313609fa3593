"""Paths whose names may hold anything, slashes too."""

from __future__ import annotations

import re
from urllib.parse import unquote

from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

_KEPT = re.compile(rb"%(2f|25)", re.IGNORECASE)
_IMPORT = re.compile(r"/v1/banks/[^/]+/import")
_UPLOAD = re.compile(r"/v1/default/banks/[^/]+/(files/retain|document-transfer|transfer/import)")


class ExactRoute(APIRoute):
    """A route to which `%2F` is a part of a name, and only a bare slash the end of one."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path as it was sent; names are decoded one by one."""
        match, child = super().matches({**scope, "path": _sent(scope)})
        if "path_params" in child:
            child["path_params"] = {name: unquote(value) for name, value in child["path_params"].items()}
        return match, child


def _sent(scope: Scope) -> str:
    """The path with all but slashes and percent signs decoded, so that a second decoding does the rest."""
    raw: bytes | None = scope.get("raw_path")
    return scope["path"] if raw is None else unquote(_KEPT.sub(rb"%25\1", raw).decode("ascii", "replace"))


def imports(scope: Scope) -> bool:
    """Whether a request brings an exported bank, which may be larger than other bodies and is no JSON."""
    return scope["method"] == "POST" and _IMPORT.fullmatch(_sent(scope)) is not None


def uploads(scope: Scope) -> bool:
    """Whether a request brings a file as Hindsight takes them; no such call is there, which is what it is told."""
    return scope["method"] == "POST" and _UPLOAD.fullmatch(_sent(scope)) is not None
