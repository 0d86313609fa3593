"""A scripted OpenAI-compatible server: real HTTP on loopback, with network faults."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
import uuid
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Literal, Self, TypeAlias, cast

from pydantic import JsonValue

from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import (
    EMBED_STEP,
    ConnectionDropped,
    ConnectionReset,
    CutOff,
    Drip,
    EmptyBody,
    Fault,
    Hang,
    HtmlPage,
    NoUsage,
    RawText,
    ReceivedRequest,
    Refusal,
    Reply,
    Script,
    ScriptPlayer,
    StatusResponse,
    ToolCall,
    answer_text,
    estimate_tokens,
    text_deltas,
)

_Request: TypeAlias = "socket.socket | tuple[bytes, socket.socket]"
_Address: TypeAlias = object
_ModelAnswer: TypeAlias = JsonValue | Refusal | CutOff | NoUsage | ConnectionDropped | RawText | ToolCall
_CREDENTIAL_HEADERS = ("authorization", "api-key", "x-api-key", "cookie")
_ROUTES: Mapping[str, str | None] = {"/chat/completions": None, "/embeddings": EMBED_STEP}
"""The step of the requests of each route; None if the request names it."""
_LOGIN_PAGE = "<!doctype html><html><body>Please log in</body></html>"


class ScriptedServer:
    """A server for a `with` block: `url` is its base URL, `received` the recorded requests.

    Streaming requests are answered with server-sent events of a few characters each. Requests for embeddings, step
    "embed", get the vectors of `HashEmbedder` unless the script has that step: a reply None gives these vectors, any
    other is the body. If the script raises or has no reply left, the client gets status 400 and the `with` block raises
    AssertionError at its end.
    """

    def __init__(self, script: Script, *, port: int = 0) -> None:
        self._player = ScriptPlayer(script)
        self._port = port
        self._server: _ScriptedHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL, which ends in /v1."""
        return f"http://127.0.0.1:{self._running.server_address[1]}/v1"

    @property
    def received(self) -> list[ReceivedRequest]:
        """The requests so far, in order."""
        server = self._running
        with server.lock:
            return list(server.received)

    def faults(self, step: str, faults: Iterable[Fault]) -> None:
        """Queue faults that precede the script's replies to a step."""
        self._player.faults(step, faults)

    def __enter__(self) -> Self:
        self._server = _ScriptedHTTPServer(self._player, self._port)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        server = self._running
        server.stop()
        if self._thread:
            self._thread.join()
        if server.problems and error is None:
            raise AssertionError("; ".join(server.problems))

    @property
    def _running(self) -> _ScriptedHTTPServer:
        if self._server is None:
            raise RuntimeError("ScriptedServer runs only inside its with block")
        return self._server


class _ScriptedHTTPServer(ThreadingHTTPServer):
    request_queue_size = 512
    # Non-daemon threads are joined when the server closes, so none outlives the block.
    daemon_threads = False

    def __init__(self, player: ScriptPlayer, port: int) -> None:
        self.player = player
        self.lock = threading.Lock()
        self.received: list[ReceivedRequest] = []
        self.problems: list[str] = []
        self.open: set[socket.socket] = set()
        self.reset_on_close: set[socket.socket] = set()
        self.stopped = threading.Event()
        super().__init__(("127.0.0.1", port), _Handler)

    def stop(self) -> None:
        """Stop immediately, aborting responses in progress."""
        self.stopped.set()
        self.shutdown()
        with self.lock:
            for connection in self.open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def process_request(self, request: _Request, client_address: _Address) -> None:
        """Register the connection before its thread starts, so that `stop` cannot miss it."""
        with self.lock:
            self.open.add(cast("socket.socket", request))
        super().process_request(request, client_address)

    def shutdown_request(self, request: _Request) -> None:
        """Close a connection, with a TCP reset if one was requested."""
        connection = cast("socket.socket", request)
        with self.lock:
            self.open.discard(connection)
        if connection in self.reset_on_close:
            # Closing with a linger time of zero sends a reset.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def handle_error(self, request: _Request, client_address: _Address) -> None:
        """Ignore errors: many tests disconnect in mid-response."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Send head and body together, and each event without waiting for the acknowledgement of the previous one.
    wbufsize = -1
    disable_nagle_algorithm = True

    @property
    def scripted(self) -> _ScriptedHTTPServer:
        return cast("_ScriptedHTTPServer", self.server)

    def do_POST(self) -> None:
        """Record the request and send the next reply."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        route = next((route for route in _ROUTES if self.path.endswith(route)), None)
        if route is None:
            self._send(404, b'{"error": {"message": "Only /chat/completions and /embeddings exist"}}')
            return
        received = _parse_request(json.loads(body), dict(self.headers.items()), step=_ROUTES[route])
        with self.scripted.lock:
            self.scripted.received.append(received)
        try:
            reply = self.scripted.player.reply(received)
        # The script is the test's code; report what it raises to the test instead of this thread.
        except Exception as error:
            with self.scripted.lock:
                self.scripted.problems.append(f"{type(error).__name__}: {error}")
            self._send(400, b'{"error": {"message": "The script failed"}}')
        else:
            self._play(reply, received)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _play(self, reply: Reply, received: ReceivedRequest) -> None:
        match reply:
            case Hang() | ConnectionReset() | Drip():
                self._network_fault(reply, received)
            case StatusResponse(code, text, retry_after):
                self._send(code, text.encode(), {} if retry_after is None else {"Retry-After": str(retry_after)})
            case EmptyBody() | HtmlPage():
                page = _LOGIN_PAGE if isinstance(reply, HtmlPage) else ""
                self._send(200, page.encode(), {"Content-Type": "text/html"})
            case _ if received.step == EMBED_STEP:
                self._send_vectors(reply, received)
            case _:
                self._play_answer(reply, received)

    def _play_answer(self, reply: _ModelAnswer, received: ReceivedRequest) -> None:
        match reply:
            case Refusal(text):
                self._answer(received, text, field="refusal")
            case CutOff(text):
                self._answer(received, text, finish="length")
            case NoUsage(value):
                self._answer(received, answer_text(value), usage=False)
            case ConnectionDropped(text):
                self._answer(received, text, dropped=reply)
            case ToolCall():
                self._call_tool(received, reply)
            case RawText(text):
                self._answer(received, text)
            case value:
                self._answer(received, answer_text(value))

    def _answer(
        self,
        received: ReceivedRequest,
        text: str,
        *,
        field: Literal["content", "refusal"] = "content",
        finish: str = "stop",
        usage: bool = True,
        dropped: ConnectionDropped | None = None,
    ) -> None:
        if not _wants_stream(received):
            message: dict[str, JsonValue] = {"content": None, field: text}
            body = _completion_body(received, message, finish, usage=usage)
            self._send(200, body, keep=dropped.keep if dropped else None)
            return
        with_usage = usage and _wants_usage(received)
        deltas = text_deltas(dropped.kept if dropped else text)
        final_events = [] if dropped else _final_events(received, finish, text=text if with_usage else None)
        self._send_events(
            [*(_chunk(received, {field: delta}) for delta in deltas), *final_events], complete=dropped is None
        )

    def _call_tool(self, received: ReceivedRequest, call: ToolCall) -> None:
        function: JsonValue = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
        # Agents match results to calls by id, so each id occurs once.
        tool_call: dict[str, JsonValue] = {"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}
        if _wants_stream(received):
            delta: dict[str, JsonValue] = {"role": "assistant", "tool_calls": [{"index": 0, **tool_call}]}
            usage = "" if _wants_usage(received) else None
            self._send_events(
                [_chunk(received, delta), *_final_events(received, "tool_calls", text=usage)], complete=True
            )
        else:
            message: dict[str, JsonValue] = {"content": None, "tool_calls": [tool_call]}
            self._send(200, _completion_body(received, message, "tool_calls", usage=True))

    def _send_vectors(self, reply: _ModelAnswer, received: ReceivedRequest) -> None:
        match reply:
            case ConnectionDropped(keep=keep):
                self._send(200, json.dumps(_embeddings(received.body)).encode(), keep=keep)
            case RawText(text):
                self._send(200, text.encode())
            case None:
                self._send(200, json.dumps(_embeddings(received.body)).encode())
            case value:
                self._send(200, answer_text(cast("JsonValue", value)).encode())

    def _network_fault(self, fault: Hang | ConnectionReset | Drip, received: ReceivedRequest) -> None:
        self.close_connection = True
        match fault:
            case Hang(seconds):
                self.scripted.stopped.wait(seconds)
            case ConnectionReset():
                self.scripted.reset_on_close.add(self.connection)
            case Drip(pause):
                self._drip(pause, "text/event-stream" if _wants_stream(received) else "application/json")

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

    def _send_events(self, events: Iterable[bytes], *, complete: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()
        if complete:
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        else:
            self.close_connection = True

    def _drip(self, pause: float, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        while not self.scripted.stopped.wait(pause):
            self.wfile.write(b" ")
            self.wfile.flush()


def _parse_request(body: Mapping[str, JsonValue], headers: Mapping[str, str], *, step: str | None) -> ReceivedRequest:
    shape = body.get("response_format")
    named = shape.get("json_schema") if isinstance(shape, dict) else None
    wanted = named if isinstance(named, dict) else {}
    schema = wanted.get("schema")
    shown = {name.lower(): value for name, value in headers.items() if name.lower() not in _CREDENTIAL_HEADERS}
    return ReceivedRequest(
        step=step or shown.get("x-vmemo-step", str(wanted.get("name", ""))),
        system=_text_of_roles(body, ("system", "developer")),
        user=_text_of_roles(body, ("user",)),
        schema=schema if isinstance(schema, dict) else None,
        model=str(body.get("model", "")),
        headers=shown,
        body=body,
        at=datetime.now(UTC),
    )


def _text_of_roles(body: Mapping[str, JsonValue], roles: tuple[str, ...]) -> str:
    messages = body.get("messages")
    rows = [row for row in messages if isinstance(row, dict)] if isinstance(messages, list) else []
    return "\n\n".join(_text(row.get("content")) for row in rows if row.get("role") in roles)


def _text(content: JsonValue) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _wants_stream(received: ReceivedRequest) -> bool:
    return received.body.get("stream") is True


def _wants_usage(received: ReceivedRequest) -> bool:
    options = received.body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _completion_body(received: ReceivedRequest, message: Mapping[str, JsonValue], finish: str, *, usage: bool) -> bytes:
    choice: JsonValue = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    answer = _response_object(received, "chat.completion", [choice])
    if usage:
        answer["usage"] = _usage(received, str(message["content"] or ""))
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")


def _chunk(received: ReceivedRequest, delta: Mapping[str, JsonValue], finish: str | None = None) -> bytes:
    return _event(
        _response_object(received, "chat.completion.chunk", [{"index": 0, "delta": {**delta}, "finish_reason": finish}])
    )


def _final_events(received: ReceivedRequest, finish: str, *, text: str | None) -> list[bytes]:
    """Return the events after the last delta; with usage only if `text` is given."""
    ends = [_chunk(received, {}, finish)]
    if text is not None:
        ends.append(
            _event({**_response_object(received, "chat.completion.chunk", []), "usage": _usage(received, text)})
        )
    return [*ends, b"data: [DONE]\n\n"]


def _event(value: Mapping[str, JsonValue]) -> bytes:
    return b"data: %s\n\n" % json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _response_object(received: ReceivedRequest, kind: str, choices: list[JsonValue]) -> dict[str, JsonValue]:
    return {
        "id": "chatcmpl-scripted",
        "object": kind,
        "created": int(time.time()),
        "model": received.model,
        "choices": choices,
    }


def _usage(received: ReceivedRequest, text: str) -> JsonValue:
    prompt = estimate_tokens(received.system) + estimate_tokens(received.user)
    answer = estimate_tokens(text)
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def _embeddings(request: Mapping[str, JsonValue]) -> JsonValue:
    """Return the response of an embeddings server with the vectors of `HashEmbedder`, packed if the request asks."""
    given = request.get("input")
    texts = [str(text) for text in given] if isinstance(given, list) else [str(given)]
    rows = [HashEmbedder().vector(text) for text in texts]
    packed = request.get("encoding_format") == "base64"
    data: list[JsonValue] = [
        {"index": number, "embedding": b64encode(row.astype("<f4").tobytes()).decode() if packed else row.tolist()}
        for number, row in enumerate(rows)
    ]
    return {"object": "list", "model": request.get("model"), "data": data}
