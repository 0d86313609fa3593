"""Observers of finished requests and jobs, and the handler of unexpected errors."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from traceback import extract_tb
from typing import Protocol

from fastapi import Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vmemo.models.results import Job

_log = logging.getLogger("vmemo.server")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""The methods that logs and metrics name."""
OTHER_METHOD = "_OTHER"
"""Any other method, as in OpenTelemetry's conventions: a client may send any word."""
UNROUTED = "-"
"""The route of a request that matched none; its path may hold anything and is not logged."""

ErrorResponder = Callable[[Request, BaseException], Response]
"""Returns the response to an unexpected error."""


@dataclass(frozen=True, kw_only=True)
class RequestLog:
    """A finished request, without any text of its body or response."""

    method: str
    route: str
    status: int
    seconds: float
    interface: str = "rest"
    key: str | None = None
    bank: str | None = None
    request: str = ""
    unexpected: str | None = None
    """The type and location of an unexpected error."""


class Observer(Protocol):
    """Receives finished requests and jobs, and errors that no response reports, for logs and metrics."""

    def request(self, log: RequestLog) -> None: ...
    def job(self, job: Job, error: Exception | None, seconds: float) -> None: ...
    def background_error(self, source: str, error: Exception) -> None: ...


@dataclass(frozen=True)
class CompositeObserver:
    """Several observers as one; the failure of one is logged and reaches neither the others nor the caller."""

    observers: Sequence[Observer]

    def request(self, log: RequestLog) -> None:
        self._each(lambda observer: observer.request(log))

    def job(self, job: Job, error: Exception | None, seconds: float) -> None:
        self._each(lambda observer: observer.job(job, error, seconds))

    def background_error(self, source: str, error: Exception) -> None:
        self._each(lambda observer: observer.background_error(source, error))

    def _each(self, notify: Callable[[Observer], None]) -> None:
        for observer in self.observers:
            try:
                notify(observer)
            except Exception:
                # An observer may be the program's own, and must not fail the request or stop the worker.
                _log.exception("The observer %s failed.", type(observer).__name__)


class ObserverMiddleware:
    """Times every request and reports it; an unexpected error becomes a response without the error's text."""

    def __init__(self, app: ASGIApp, observer: Observer, respond: ErrorResponder) -> None:
        self._app, self._observer, self._respond = app, observer, respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status, unexpected = time.perf_counter(), 0, None

        async def send_observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_observed)
        except asyncio.CancelledError as error:
            # The server stops, and the time to finish running requests is over.
            if status:
                raise
            await self._respond(Request(scope), error)(scope, receive, send_observed)
        except Exception as error:
            unexpected = location_of(error)
            if not status:
                await self._respond(Request(scope), error)(scope, receive, send_observed)
        finally:
            seconds = time.perf_counter() - started
            # Without a response the client has left; nginx logs this as 499.
            self._observer.request(_request_log(scope, status or 499, seconds, unexpected))


def _request_log(scope: Scope, status: int, seconds: float, unexpected: str | None) -> RequestLog:
    state = scope.get("state", {})
    return RequestLog(
        method=method_label(scope),
        route=getattr(scope.get("route"), "path", UNROUTED),
        status=status,
        seconds=seconds,
        interface=state.get("interface", "rest"),
        key=getattr(state.get("principal"), "key_id", None),
        bank=state.get("bank"),
        request=state.get("request_id", ""),
        unexpected=unexpected,
    )


def method_label(scope: Scope) -> str:
    """Return the method of a request for logs, metrics and traces."""
    return scope["method"] if scope["method"] in METHODS else OTHER_METHOD


def location_of(error: BaseException) -> str:
    """Return the type of an error and where it was raised; its text may quote a memory."""
    frames = extract_tb(error.__traceback__)
    where = f" at {frames[-1].name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
