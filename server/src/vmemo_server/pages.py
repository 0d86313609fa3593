"""The HTML pages of the server: `/`, and FastAPI's API reference at `/docs`. Nothing is loaded from another host."""

from __future__ import annotations

import shlex
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.metadata import version
from importlib.resources import files

from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse

from vmemo_server.dependencies import AppState
from vmemo_server.problems import HttpProblem

router = APIRouter(include_in_schema=False)
_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code,pre{font:.9em/1.5 ui-monospace,monospace}"
    "pre{background:#8882;padding:.6rem;border-radius:.4rem;white-space:pre-wrap;overflow-wrap:anywhere;user-select:all}"
)
_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_ASSETS = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
"""The files of Swagger UI in the package fastapi_offline, which FastAPI's page would load from a CDN."""
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
async def docs() -> Response:
    """Show the API reference."""
    page = get_swagger_ui_html(
        openapi_url="openapi.json",
        title="vmemo API reference",
        swagger_js_url="docs/swagger-ui-bundle.js",
        swagger_css_url="docs/swagger-ui.css",
        swagger_favicon_url="data:,",
        swagger_ui_parameters={"validatorUrl": None},
    )
    script = bytes(page.body).rpartition(b"<script>")[2].partition(b"</script>")[0]
    page.headers["content-security-policy"] = (
        f"{_POLICY}; script-src 'self' {_hash(script)}; style-src 'self'; img-src data:; connect-src 'self'"
    )
    return page


@router.get("/docs/{name}")
async def docs_asset(name: str) -> Response:
    """Return a script or style of the API reference."""
    if name not in _ASSETS:
        raise HttpProblem(404, "NotFound", "There is no such file.")
    content = (files("fastapi_offline") / "static" / name).read_bytes()
    return Response(content, media_type=_ASSETS[name], headers={"cache-control": "public, max-age=86400"})


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
        headers={"content-security-policy": f"{_POLICY}; style-src {_hash(_STYLE.encode())}"},
    )


def _hash(content: bytes) -> str:
    return f"'sha256-{b64encode(sha256(content).digest()).decode()}'"
