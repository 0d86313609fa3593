"""`vmemo-hook AGENT`: the process that a coding agent starts for each of its events.

It reads the event from stdin, asks the local server, which it starts if none runs, and prints the agent's own form of
an answer. It imports nothing of vmemo, so that it takes little longer than Python itself. It never blocks or fails the
agent: its time is bounded, errors go to the log, and it always exits with 0.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from vmemo_agents.paths import address_file, database, log, made_spool_folder, personal_bank

KINDS = {
    **dict.fromkeys(("SessionStart", "sessionStart"), "start"),
    **dict.fromkeys(("UserPromptSubmit", "BeforeAgent"), "prompt"),
    **dict.fromkeys(("Stop", "stop", "AfterAgent"), "retain"),
    **dict.fromkeys(("PreCompact", "preCompact", "PreCompress", "SessionEnd", "sessionEnd"), "retain"),
}
"""The agents' own names of events by what vmemo does: give context, recall, or retain the transcript."""
SECONDS = {"start": 5.0, "prompt": 2.5, "retain": 1.0}
"""The longest time that the hook takes, unless VMEMO_AGENTS_SECONDS sets another; a running server answers at once."""
MAX_EVENT = 64 << 20
"""Characters of an event that are read; an event of OpenCode has the messages of the session in it."""


def main() -> None:
    """Answer one event and exit with 0, whatever happens."""
    started = time.monotonic()
    agent, *options = sys.argv[1:] or ["unknown"]
    answer, problem, kind = "{}", "", ""
    # Reads that a socket's timeout does not bound, such as of a stdin that nobody closes.
    threading.Timer(max(map(limit, SECONDS)) + 1, os._exit, (0,)).start()
    try:
        event = json.loads(sys.stdin.read(MAX_EVENT))
        kind = KINDS.get(event.get("hook_event_name", ""), "")
        if kind:
            text = respond(kind, request_of(agent, kind, event, _options(options)), started + limit(kind))
            answer = json.dumps(answer_of(agent, event["hook_event_name"], text))
    except BaseException as error:  # The agent goes on without memory rather than not at all.
        problem = f" {type(error).__name__}: {error}"
    if problem or kind:
        milliseconds = (time.monotonic() - started) * 1000
        log(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {agent} {kind or 'event'} {milliseconds:.0f} ms{problem}")
    try:
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()
    finally:
        os._exit(0)


def limit(kind: str) -> float:
    """Return the seconds that a hook of a kind may take."""
    return float(os.environ.get("VMEMO_AGENTS_SECONDS") or SECONDS[kind])


def _options(words: list[str]) -> dict[str, str]:
    """Return the values of --db and --bank."""
    return {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=False)}


def request_of(agent: str, kind: str, event: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, Any]:
    """Return the event in the form of the server's requests."""
    # The working folder may change within a session, and the project does not.
    project = os.environ.get({"claude-code": "CLAUDE_PROJECT_DIR", "cursor": "CURSOR_PROJECT_DIR"}.get(agent, ""))
    roots = event.get("workspace_roots") or [None]
    return {
        "kind": kind,
        "agent": agent,
        "session": event.get("session_id") or event.get("conversation_id") or "",
        "folder": project or roots[0] or event.get("cwd") or os.getcwd(),
        "source": event.get("source") or "",
        "prompt": event.get("prompt") or "",
        "transcript": event.get("transcript_path"),
        "messages": event.get("messages"),
        "db": (db := database(options.get("db"))),
        "me": personal_bank(db),
        "bank": options.get("bank"),
    }


def answer_of(agent: str, event: str, text: str) -> dict[str, Any]:
    """Return the form in which the agent adds a text to the context of its model."""
    if not text:
        return {}
    if agent == "cursor":
        return {"additional_context": text}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def respond(kind: str, request: dict[str, Any], deadline: float) -> str:
    """Return the server's answer. An event to retain is written to a file first, and nobody waits for its answer."""
    if kind != "retain":
        return ask(request, deadline)
    if request["transcript"] or request["messages"]:
        spool(request)
        ask({"kind": "work"}, deadline, wait=False)
    return ""


def spool(request: dict[str, Any]) -> None:
    """Keep an event for the server, which deletes the file when the transcript is retained."""
    path = made_spool_folder() / f"{time.time_ns()}-{os.getpid()}.json"
    partial = path.with_suffix(".partial")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(request, file)
    partial.replace(path)


def ask(request: dict[str, Any], deadline: float, *, start: bool = True, wait: bool = True) -> str:
    """Send a request to the server, and start one if none runs; without `wait`, a starting server is not waited for.

    Raises TimeoutError at the deadline, and without `start` another OSError if none runs.
    """
    started = False
    while True:
        try:
            return _exchange(request, deadline)
        except (FileNotFoundError, ConnectionError, ProcessLookupError):
            if not start:
                raise
            if not started:
                start_server()
            if not wait:
                return ""
            started = True
        if time.monotonic() > deadline:
            raise TimeoutError("the server did not start in time")
        time.sleep(0.05)


def _exchange(request: dict[str, Any], deadline: float) -> str:
    address = json.loads(address_file().read_text("utf-8"))
    if os.name == "posix":
        # After a crash of the server, its port may be another program's.
        os.kill(address["pid"], 0)
    left = max(0.01, deadline - time.monotonic())
    with socket.create_connection(("127.0.0.1", address["port"]), left) as connection:
        connection.sendall(json.dumps({"token": address["token"], **request}).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            if not (received := connection.recv(1 << 16)):
                raise ConnectionResetError("the server ended without an answer")
            answer += received
    return json.loads(answer)["text"]


def start_server() -> None:
    """Start a server that outlives this process; if several start, all but one end again at once."""
    import subprocess  # noqa: PLC0415 - most hooks find a running server

    detached = {"creationflags": 0x00000208} if sys.platform == "win32" else {"start_new_session": True}
    server = subprocess.Popen(  # pyright: ignore[reportCallIssue]
        [sys.executable, "-m", "vmemo_agents.server"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=str(made_spool_folder()),
        **detached,  # pyright: ignore[reportArgumentType]
    )
    # Nobody waits for it, and Python is not to warn of that.
    server.returncode = 0
