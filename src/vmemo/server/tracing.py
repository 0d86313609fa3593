"""Traces for OpenTelemetry, an extra: a span for every request, as child of the caller's own.

Where spans go is set by OpenTelemetry's own OTEL_* variables and the provider that the process has set up.
"""

from __future__ import annotations

from fastapi import Request
from opentelemetry import trace
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind, StatusCode, TracerProvider
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Traced:
    """Makes a span of every request; its attributes hold no text of a memory."""

    def __init__(self, app: ASGIApp, provider: TracerProvider | None = None) -> None:
        self._app = app
        self._tracer = trace.get_tracer("vmemo.server", tracer_provider=provider)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on inside a span."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        carried = extract(dict(Request(scope).headers))
        with self._tracer.start_as_current_span(scope["method"], context=carried, kind=SpanKind.SERVER) as span:

            async def told(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(StatusCode.ERROR)
                await send(message)

            await self._app(scope, receive, told)
            route = getattr(scope.get("route"), "path", "")
            span.update_name(f"{scope['method']} {route}".strip())
            span.set_attribute("http.request.method", scope["method"])
            span.set_attribute("http.route", route)
            span.set_attribute("vmemo.request_id", scope.get("state", {}).get("request_id", ""))
