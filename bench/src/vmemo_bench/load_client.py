"""A small HTTP client of the load benchmark.

It shares the processors with the server that it measures, so it does no more than a client must: one connection, one
request at a time, and responses that are read and not parsed. `vmemo.client` takes several times as long per call.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote, urlsplit

from vmemo.client import RetryPolicy
from vmemo.errors import ServerFailed, ServerUnavailable

_PASSING = (HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
"""Statuses of requests that may be sent again; a conflict is an earlier attempt that is still running."""


@dataclass(frozen=True)
class _Response:
    status: int
    keeps_open: bool


class LoadClient:
    """One client of a bank. A request is sent again while the server is busy, is away or breaks the connection."""

    def __init__(self, url: str, bank: str, *, timeout: float, retry: RetryPolicy) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "", address.port or 80
        self._path = f"/v1/banks/{quote(bank, safe='')}"
        self._timeout, self._retry = timeout, retry
        self._open: tuple[StreamReader, StreamWriter] | None = None

    async def retain(self, text: str, speaker: str) -> None:
        """Store a message; an attempt that is repeated stores it once."""
        body = {"messages": [{"content": text, "speaker": speaker}]}
        await self._post("/messages", body, f"Idempotency-Key: {secrets.token_hex(16)}\r\n")

    async def recall(self, query: str, max_tokens: int) -> None:
        await self._post("/recall", {"query": query, "max_tokens": max_tokens})

    async def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    async def _post(self, path: str, body: Mapping[str, object], headers: str = "") -> None:
        content = json.dumps(body).encode()
        head = (
            f"POST {self._path}{path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n{headers}"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        attempt = 0
        while True:
            attempt += 1
            status = await self._attempt(head.encode() + content)
            if status is not None and status < HTTPStatus.MULTIPLE_CHOICES:
                return
            if status is not None and status not in _PASSING:
                raise ServerFailed(f"The server answered {status} to POST {path}.")
            pause = self._retry.pause(attempt, None)
            if pause is None:
                raise ServerUnavailable(f"The server answered none of {attempt} attempts of POST {path}.")
            await self._retry.sleep(pause)

    async def _attempt(self, request: bytes) -> int | None:
        """Send a request; return the status of its response, or None without one."""
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._exchange(request)
        except (OSError, EOFError, TimeoutError):
            await self.close()
            return None
        if not response.keeps_open:
            await self.close()
        return response.status

    async def _exchange(self, request: bytes) -> _Response:
        if self._open is None:
            self._open = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._open
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        _, _, length = head.partition(b"\r\ncontent-length:")
        await reader.readexactly(int(length.partition(b"\r\n")[0] or 0))
        return _Response(status=int(head.split(b" ", 2)[1]), keeps_open=b"\r\nconnection: close" not in head)
