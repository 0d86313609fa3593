"""The HTML pages of the server: `/` and `/docs`. They use no script and nothing from another host."""

from __future__ import annotations

import shlex
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.metadata import version

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from vmemo_server import api_reference
from vmemo_server.dependencies import AppState

router = APIRouter(include_in_schema=False)
_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code,pre{font:.9em/1.5 ui-monospace,monospace}"
    "pre{background:#8882;padding:.6rem;border-radius:.4rem;white-space:pre-wrap;overflow-wrap:anywhere;user-select:all}"
    "details{border:1px solid #8884;border-radius:.4rem;margin:.4rem 0;padding:.3rem .7rem}"
    "summary{cursor:pointer}summary span{opacity:.75}"
    "table{border-collapse:collapse;width:100%}"
    "td{border-top:1px solid #8883;padding:.25rem .5rem;vertical-align:top}h4{margin:.7rem 0 .2rem}"
)
_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    f"style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
}

_PURPOSES = {
    "console": "see what the banks remember",
    "docs": "API reference",
    "openapi": "OpenAPI description",
    "health": "health check",
    "mcp": "address for MCP clients (streamable HTTP, POST only)",
}
_KEYS = (
    "<p>Send an API key with every request, as <code>Authorization: Bearer …</code> or <code>X-Api-Key: …</code>. "
    "The operator creates one with <code>vmemo keys create NAME --permission write</code>.</p>"
)
_LOCAL_KEYS = (
    "<p>This server listens on the local machine and requires no key until the first one is created "
    "(<code>vmemo keys create NAME</code>). Then send it as <code>Authorization: Bearer …</code>.</p>"
)


@router.get("/")
@router.head("/")
async def home(request: Request) -> Response:
    """Describe the server: as JSON if the client asks for that, else as HTML."""
    links = {"console": "/console", "docs": "/docs", "openapi": "/openapi.json", "health": "/health"}
    if request.app.state.mcp:
        links["mcp"] = "/mcp"
    if _wants_json(request):
        return JSONResponse({"name": "vmemo", "version": version("vmemo"), **links})
    return _page("vmemo", _home(request, links))


@router.get("/docs")
@router.head("/docs")
async def docs(request: Request) -> Response:
    """Show the API reference."""
    app: FastAPI = request.app
    if not hasattr(app.state, "reference"):
        app.state.reference = api_reference.render(app.openapi())
    return _page("vmemo API reference", app.state.reference)


def _home(request: Request, links: dict[str, str]) -> str:
    base = str(request.base_url).rstrip("/")
    body = '{"messages": [{"content": "I moved to Lisbon last week.", "speaker": "Ana"}]}'
    key = "" if AppState.of(request).keyless else ' -H "Authorization: Bearer $VMEMO_API_KEY"'
    curl = f"curl {shlex.quote(f'{base}/v1/banks/ana/messages')}{key} -H 'Content-Type: application/json' -d '{body}'"
    items = "".join(f'<li><a href="{path}">{path}</a>: {_PURPOSES[name]}</li>' for name, path in links.items())
    return (
        f"<h1>vmemo {escape(version('vmemo'))}</h1><p>Long-term memory for AI agents.</p><ul>{items}</ul>"
        f"<h2>Authenticate</h2>{_LOCAL_KEYS if AppState.of(request).keyless else _KEYS}"
        f"<h2>Store a first message</h2><pre>{escape(curl)}</pre>"
    )


def _wants_json(request: Request) -> bool:
    accept = request.headers.get("accept", "")
    return "json" in accept and "text/html" not in accept


def _page(title: str, body: str) -> Response:
    """Return a page whose only style is the one that its policy names by hash."""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body>{body}</body></html>",
        headers=_HEADERS,
    )
