"""Scripts and styles of the console."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse

from vmemo_server.console.extension import packages
from vmemo_server.problems import HttpProblem

router = APIRouter(include_in_schema=False, prefix="/console")
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
CACHE = "public, max-age=86400, immutable"
"""Addresses have the version of vmemo in them."""


@cache
def files() -> Mapping[str, Path]:
    """Return the files of the console and of its extensions by their names in addresses."""
    folders = [Path(str(resources.files(package))) / "static" for package in packages()]
    found = [(path, folder) for folder in folders for path in folder.rglob("*") if path.suffix in _TYPES]
    return {path.relative_to(folder).as_posix(): path for path, folder in found}


@router.get("/static/{version}/{name:path}")
async def file(version: str, name: str) -> Response:
    path = files().get(name)
    if path is None:
        raise HttpProblem(404, "NotFound", "There is no such file.")
    return FileResponse(path, media_type=_TYPES[path.suffix], headers={"cache-control": CACHE})
