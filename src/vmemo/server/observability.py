"""What is told of every request when it has ended, and what becomes of an error that nobody foresaw."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from traceback import extract_tb
from typing import Protocol

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vmemo.models.results import Job
from vmemo.server.problems import of_surprise

UNROUTED = "-"
"""The route of a request that no route took: its path may hold anything."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A request that has ended, without a word of what it said or was answered."""

    method: str
    route: str
    status: int
    seconds: float
    door: str = "rest"
    key: str | None = None
    bank: str | None = None
    request: str = ""
    surprise: str | None = None
    """Where and with what kind of error it failed, if nobody foresaw that."""


class Watcher(Protocol):
    """Told of requests and of queued work that have ended."""

    def request(self, seen: Seen) -> None:
        """A request has ended."""
        ...

    def work(self, job: Job, error: Exception | None, seconds: float) -> None:
        """A piece of queued work has ended."""
        ...

    def trouble(self, what: str, error: Exception) -> None:
        """Something else went wrong that no answer tells."""
        ...


@dataclass(frozen=True)
class Everyone:
    """Several watchers as one."""

    watchers: Sequence[Watcher]

    def request(self, seen: Seen) -> None:
        """Tell each of a request."""
        for watcher in self.watchers:
            watcher.request(seen)

    def work(self, job: Job, error: Exception | None, seconds: float) -> None:
        """Tell each of a piece of work."""
        for watcher in self.watchers:
            watcher.work(job, error, seconds)

    def trouble(self, what: str, error: Exception) -> None:
        """Tell each of a trouble."""
        for watcher in self.watchers:
            watcher.trouble(what, error)


class Watched:
    """Times every request and tells the watcher; an unforeseen error becomes a problem without its text."""

    def __init__(self, app: ASGIApp, watcher: Watcher) -> None:
        self._app, self._watcher = app, watcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, surprise = time.perf_counter(), 0, None

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, told)
        except Exception as error:
            surprise = place_of(error)
            if not status:
                await (await of_surprise(Request(scope), error))(scope, receive, told)
        finally:
            self._watcher.request(_seen(scope, status or 499, time.perf_counter() - began, surprise))


def _seen(scope: Scope, status: int, seconds: float, surprise: str | None) -> Seen:
    state = scope.get("state", {})
    key = getattr(state.get("guest"), "key", None)
    return Seen(
        method=scope["method"],
        route=getattr(scope.get("route"), "path", UNROUTED),
        status=status,
        seconds=seconds,
        door=state.get("door", "rest"),
        key=None if key is None else key.id,
        bank=state.get("bank"),
        request=state.get("request_id", ""),
        surprise=surprise,
    )


def place_of(error: BaseException) -> str:
    """The kind of an error and where it arose; its text may quote a memory."""
    frames = extract_tb(error.__traceback__)
    where = f" at {frames[-1].name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
