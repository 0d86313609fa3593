"""Scripts and styles of the console."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse

from vmemo_server.problems import HttpProblem

router = APIRouter(include_in_schema=False, prefix="/console")
_FOLDER = Path(__file__).parent.parent / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FILES: Mapping[str, Path] = {
    path.relative_to(_FOLDER).as_posix(): path for path in _FOLDER.rglob("*") if path.suffix in _TYPES
}
CACHE = "public, max-age=86400, immutable"
"""Addresses have the version of vmemo in them."""


@router.get("/static/{version}/{name:path}")
async def file(version: str, name: str) -> Response:
    path = FILES.get(name)
    if path is None:
        raise HttpProblem(404, "NotFound", "There is no such file.")
    return FileResponse(path, media_type=_TYPES[path.suffix], headers={"cache-control": CACHE})
