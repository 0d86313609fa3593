"""A scripted server that speaks OpenAI's protocol: real HTTP on loopback, with every fault a network can have."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Literal, Self, TypeAlias, cast

from pydantic import JsonValue

from vmemo.testing.llm import (
    CutOff,
    Drip,
    EmptyBody,
    Fault,
    Hang,
    Html,
    NoUsage,
    Prompter,
    Raw,
    Received,
    Refusal,
    Reply,
    Reset,
    Script,
    Status,
    Torn,
    pieces,
    tokens,
    written,
)

_Request: TypeAlias = "socket.socket | tuple[bytes, socket.socket]"
_Address: TypeAlias = object
_SECRET = ("authorization", "api-key", "x-api-key", "cookie")
_PAGE = "<!doctype html><html><body>Please log in</body></html>"


class ScriptedServer:
    """A server for a `with` block: `url` is its base, `received` what it was asked, `script` what it answers.

    A question that asks for a stream is answered with server-sent events of a few characters each.

    A script that fails or has no answer left is status 400 for the client, and an AssertionError when the block ends.
    """

    def __init__(self, script: Script, *, port: int = 0) -> None:
        self._prompter = Prompter(script)
        self._port = port
        self._house: _House | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL, which ends in /v1."""
        return f"http://127.0.0.1:{self._running.server_address[1]}/v1"

    @property
    def received(self) -> list[Received]:
        """What arrived so far, in order."""
        house = self._running
        with house.lock:
            return list(house.received)

    def faults(self, step: str, faults: Iterable[Fault]) -> None:
        """Queue faults that are played before the script's own answers to a step."""
        self._prompter.faults(step, faults)

    def __enter__(self) -> Self:
        self._house = _House(self._prompter, self._port)
        self._thread = threading.Thread(target=self._house.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        house = self._running
        house.stop()
        if self._thread:
            self._thread.join()
        if house.problems and error is None:
            raise AssertionError("; ".join(house.problems))

    @property
    def _running(self) -> _House:
        if self._house is None:
            raise RuntimeError("The scripted server runs only inside its with block")
        return self._house


class _House(ThreadingHTTPServer):
    request_queue_size = 512
    # Threads that are no daemons are joined when the server closes, so nothing outlives the block.
    daemon_threads = False

    def __init__(self, prompter: Prompter, port: int) -> None:
        self.prompter = prompter
        self.lock = threading.Lock()
        self.received: list[Received] = []
        self.problems: list[str] = []
        self.open: set[socket.socket] = set()
        self.abrupt: set[socket.socket] = set()
        self.over = threading.Event()
        super().__init__(("127.0.0.1", port), _Handler)

    def stop(self) -> None:
        """End at once, whatever is being said."""
        self.over.set()
        self.shutdown()
        with self.lock:
            for connection in self.open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def process_request(self, request: _Request, client_address: _Address) -> None:
        """Start a thread. Noted here, before there is a thread, no connection can be missed by `stop`."""
        with self.lock:
            self.open.add(cast("socket.socket", request))
        super().process_request(request, client_address)

    def shutdown_request(self, request: _Request) -> None:
        """End a connection politely, or with a reset where one was asked for."""
        connection = cast("socket.socket", request)
        with self.lock:
            self.open.discard(connection)
        if connection in self.abrupt:
            # Closing with no time to linger sends a reset in place of a polite end.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def handle_error(self, request: _Request, client_address: _Address) -> None:
        """A client that goes away in the middle is what many tests want."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave together, and no event of a stream waits for the receipt of the one before.
    wbufsize = -1
    disable_nagle_algorithm = True

    @property
    def house(self) -> _House:
        return cast("_House", self.server)

    def do_POST(self) -> None:
        """Record the question and play the next reply."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if not self.path.endswith("/chat/completions"):
            self._send(404, b'{"error": {"message": "There is only /chat/completions here"}}')
            return
        received = _read(json.loads(body), dict(self.headers.items()))
        with self.house.lock:
            self.house.received.append(received)
        try:
            reply = self.house.prompter.reply(received)
        # The script is a test's own code: whatever it raises belongs to the test, not to this thread.
        except Exception as error:
            with self.house.lock:
                self.house.problems.append(f"{type(error).__name__}: {error}")
            self._send(400, b'{"error": {"message": "The script failed"}}')
        else:
            self._play(reply, received)

    def log_message(self, format: str, *args: object) -> None:
        """Tests print nothing."""

    def _play(self, reply: Reply, received: Received) -> None:
        match reply:
            case Hang() | Reset() | Drip():
                self._trouble(reply, received)
            case Status(code, text, retry_after):
                self._send(code, text.encode(), {} if retry_after is None else {"Retry-After": str(retry_after)})
            case EmptyBody():
                self._send(200, b"")
            case Html():
                self._send(200, _PAGE.encode(), {"Content-Type": "text/html"})
            case Refusal(text):
                self._say(received, text, field="refusal")
            case CutOff(text):
                self._say(received, text, finish="length")
            case NoUsage(value):
                self._say(received, written(value), usage=False)
            case Torn(text):
                self._say(received, text, torn=reply)
            case Raw(text):
                self._say(received, text)
            case value:
                self._say(received, written(value))

    def _say(
        self,
        received: Received,
        text: str,
        *,
        field: Literal["content", "refusal"] = "content",
        finish: str = "stop",
        usage: bool = True,
        torn: Torn | None = None,
    ) -> None:
        if not _streaming(received):
            message: dict[str, JsonValue] = {"content": None, field: text}
            body = _envelope(received, message, finish, usage=usage)
            self._send(200, body, keep=torn.keep if torn else None)
            return
        counted = usage and _counted(received)
        told = pieces(torn.kept if torn else text)
        ends = [] if torn else _ends(received, finish, text=text if counted else None)
        self._tell([*(_chunk(received, {field: piece}) for piece in told), *ends], whole=torn is None)

    def _trouble(self, fault: Hang | Reset | Drip, received: Received) -> None:
        self.close_connection = True
        match fault:
            case Hang(seconds):
                self.house.over.wait(seconds)
            case Reset():
                self.house.abrupt.add(self.connection)
            case Drip(pause):
                self._drip(pause, "text/event-stream" if _streaming(received) else "application/json")

    def _send(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None, *, keep: float | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if keep is not None:
            self.close_connection = True
            body = body[: int(len(body) * keep)]
        self.wfile.write(body)
        self.wfile.flush()

    def _tell(self, events: Iterable[bytes], *, whole: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()
        if whole:
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        else:
            self.close_connection = True

    def _drip(self, pause: float, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        while not self.house.over.wait(pause):
            self.wfile.write(b" ")
            self.wfile.flush()


def _read(body: Mapping[str, JsonValue], headers: Mapping[str, str]) -> Received:
    shape = body.get("response_format")
    named = shape.get("json_schema") if isinstance(shape, dict) else None
    wanted = named if isinstance(named, dict) else {}
    schema = wanted.get("schema")
    shown = {name.lower(): value for name, value in headers.items() if name.lower() not in _SECRET}
    return Received(
        step=shown.get("x-vmemo-step", str(wanted.get("name", ""))),
        system=_said(body, ("system", "developer")),
        user=_said(body, ("user",)),
        schema=schema if isinstance(schema, dict) else None,
        model=str(body.get("model", "")),
        headers=shown,
        body=body,
        at=datetime.now(UTC),
    )


def _said(body: Mapping[str, JsonValue], roles: tuple[str, ...]) -> str:
    messages = body.get("messages")
    rows = [row for row in messages if isinstance(row, dict)] if isinstance(messages, list) else []
    return "\n\n".join(_text(row.get("content")) for row in rows if row.get("role") in roles)


def _text(content: JsonValue) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _streaming(received: Received) -> bool:
    return received.body.get("stream") is True


def _counted(received: Received) -> bool:
    options = received.body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _envelope(received: Received, message: Mapping[str, JsonValue], finish: str, *, usage: bool) -> bytes:
    choice: JsonValue = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    answer = _named(received, "chat.completion", [choice])
    if usage:
        answer["usage"] = _usage(received, str(message["content"] or ""))
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")


def _chunk(received: Received, delta: Mapping[str, JsonValue], finish: str | None = None) -> bytes:
    return _event(
        _named(received, "chat.completion.chunk", [{"index": 0, "delta": {**delta}, "finish_reason": finish}])
    )


def _ends(received: Received, finish: str, *, text: str | None) -> list[bytes]:
    """What stands after the last piece; the usage only where there is a text to count."""
    ends = [_chunk(received, {}, finish)]
    if text is not None:
        ends.append(_event({**_named(received, "chat.completion.chunk", []), "usage": _usage(received, text)}))
    return [*ends, b"data: [DONE]\n\n"]


def _event(value: Mapping[str, JsonValue]) -> bytes:
    return b"data: %s\n\n" % json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _named(received: Received, kind: str, choices: list[JsonValue]) -> dict[str, JsonValue]:
    return {
        "id": "chatcmpl-scripted",
        "object": kind,
        "created": int(time.time()),
        "model": received.model,
        "choices": choices,
    }


def _usage(received: Received, text: str) -> JsonValue:
    asked, said = tokens(received.system) + tokens(received.user), tokens(text)
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
