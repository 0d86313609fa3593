"""OpenTelemetry tracing, an optional extra: one span per request, a child of the caller's span.

The process's tracer provider and OpenTelemetry's OTEL_* variables decide where spans go.
"""

from __future__ import annotations

from fastapi import Request
from opentelemetry import trace
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vmemo_server.observability import method_label


class TracingMiddleware:
    """Creates a span for every request; its attributes hold no memory text."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._tracer = trace.get_tracer("vmemo.server")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        parent = extract(dict(Request(scope).headers))
        with self._tracer.start_as_current_span(method_label(scope), context=parent, kind=SpanKind.SERVER) as span:

            async def send_traced(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(StatusCode.ERROR)
                await send(message)

            await self._app(scope, receive, send_traced)
            route = getattr(scope.get("route"), "path", "")
            span.update_name(f"{method_label(scope)} {route}".strip())
            span.set_attribute("http.request.method", method_label(scope))
            span.set_attribute("http.route", route)
            span.set_attribute("vmemo.request_id", scope.get("state", {}).get("request_id", ""))
