"""Benchmark reports: the JSON and HTML files of a folder that the operator names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse

from vmemo.errors import InvalidInput, NotFound
from vmemo.models.base import Name
from vmemo_server.console.dependencies import SignedIn
from vmemo_server.console.render import render
from vmemo_server.console.route import ConsoleRoute

router = APIRouter(include_in_schema=False, prefix="/console/reports", route_class=ConsoleRoute)
SUFFIXES = (".json", ".html")
MAX_FILES = 500
MAX_BYTES = 5_000_000
"""Size of a JSON report that is shown as a table."""
MAX_VALUES = 2000
_SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""An HTML report has its own scripts and styles: it runs without the console's origin and reaches no host."""


@dataclass(frozen=True)
class ReportFile:
    """A report in the folder."""

    name: str
    size: int
    written_at: datetime


@router.get("")
async def reports(request: Request, principal: SignedIn) -> Response:
    """List the reports, newest first."""
    folder = _folder(request)
    found = [] if folder is None else await anyio.to_thread.run_sync(_files, folder)
    return render(request, "reports.html", {"reports": found, "folder": folder})


@router.get("/{name}")
async def report(request: Request, principal: SignedIn, name: Name) -> Response:
    """Show one report."""
    folder = _folder(request)
    found = [] if folder is None else await anyio.to_thread.run_sync(_files, folder)
    # Only names of the listing: no path leads out of the folder.
    if folder is None or name not in {each.name for each in found}:
        raise NotFound(f"There is no report {name!r:.80}.")
    path = folder / name
    if path.suffix == ".html":
        return FileResponse(path, media_type="text/html", headers={"content-security-policy": _SANDBOX})
    values = await anyio.to_thread.run_sync(_values, path)
    return render(request, "report.html", {"name": name, "values": values[:MAX_VALUES], "count": len(values)})


def _folder(request: Request) -> Path | None:
    return request.app.state.reports


def _files(folder: Path) -> list[ReportFile]:
    if not folder.is_dir():
        return []
    paths = [path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file()]
    found = [(path.name, path.stat()) for path in paths]
    files = [ReportFile(name, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC)) for name, stat in found]
    return sorted(files, key=lambda file: file.written_at, reverse=True)[:MAX_FILES]


def _values(path: Path) -> list[tuple[str, str]]:
    if path.stat().st_size > MAX_BYTES:
        raise InvalidInput(f"The report is larger than {MAX_BYTES:,} bytes; open the file itself.")
    try:
        content: object = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput("The file is not valid JSON.") from error
    return list(_flat("", content))


def _flat(prefix: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the values of nested objects with their paths."""
    match value:
        case dict():
            for name, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
                yield from _flat(f"{prefix}.{name}" if prefix else str(name), inner)  # pyright: ignore[reportUnknownArgumentType]
        case list():
            yield prefix, json.dumps(value)[:400]
        case float():
            yield prefix, f"{value:.4g}"
        case _:
            yield prefix, str(value)
