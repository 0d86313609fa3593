"""Anthropic's memory tool with vmemo, driven by a scripted Messages API."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from anthropic import AsyncAnthropic
from anthropic.lib.tools import ToolError
from pydantic import JsonValue

from vmemo import Memory
from vmemo_conformance.embedders import FailingEmbedder, HashEmbedder
from vmemo_integrations.anthropic import VmemoAsyncMemoryTool, VmemoMemoryTool

Block = dict[str, JsonValue]
FOOD = "# Food\n- likes tea\n- eats fish\n"


@contextmanager
def messages_api(replies: Sequence[Block]) -> Generator[tuple[str, list[Block]]]:
    """Run a server that answers with these content blocks in order; yield its URL and the requests."""
    received: list[Block] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Send the next reply."""
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            block = replies[len(received) - 1]
            body = json.dumps(
                {
                    "id": f"msg_{len(received)}",
                    "type": "message",
                    "role": "assistant",
                    "model": "scripted",
                    "content": [block],
                    "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
                    "stop_sequence": None,
                    "usage": {"input_tokens": 1, "output_tokens": 1},
                }
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def call(number: int, **input: JsonValue) -> Block:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "memory", "input": input}


def run(tool: VmemoMemoryTool, command: str, **arguments: object) -> str:
    return str(tool.call({"command": command, **arguments}))


def refusal(tool: VmemoMemoryTool, command: str, **arguments: object) -> str:
    with pytest.raises(ToolError) as raised:
        tool.call({"command": command, **arguments})
    return str(raised.value)


@pytest.fixture
def tool(memory: Memory) -> VmemoMemoryTool:
    """A memory tool with two files."""
    tool = VmemoMemoryTool(memory)
    run(tool, "create", path="/memories/ana/food.md", file_text=FOOD)
    run(tool, "create", path="/memories/plan.txt", file_text="x" * 1536)
    return tool


def test_files_keep_their_exact_text(tool: VmemoMemoryTool, memory: Memory) -> None:
    texts = {"/memories/a": "", "/memories/b": " \n\n", "/memories/c": "é\r\n\ttab  \n", "/memories/d": "no newline"}
    for path, text in texts.items():
        assert run(tool, "create", path=path, file_text=text) == f"File created successfully at: {path}"
    for path, text in texts.items():
        rows = "\n".join(f"{number:6}\t{row}" for number, row in enumerate(text.split("\n"), start=1))
        viewed = run(VmemoMemoryTool(memory), "view", path=path)
        assert viewed == f"Here's the content of {path} with line numbers:\n{rows}"
    assert run(tool, "view", path="/memories/ana/food.md", view_range=[2, -1]).endswith(
        "     2\t- likes tea\n     3\t- eats fish\n     4\t"
    )


def test_a_directory_lists_two_levels_with_sizes(tool: VmemoMemoryTool) -> None:
    run(tool, "create", path="/memories/a/b/c.txt", file_text="deep")
    run(tool, "create", path="/memories/.hidden", file_text="x")
    assert run(tool, "view", path="/memories").splitlines() == [
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:",
        "1.5K\t/memories",
        "4B\t/memories/a/",
        "4B\t/memories/a/b/",
        "31B\t/memories/ana/",
        "31B\t/memories/ana/food.md",
        "1.5K\t/memories/plan.txt",
    ]
    assert run(tool, "view", path="/memories/a/").splitlines()[1:] == [
        "4B\t/memories/a",
        "4B\t/memories/a/b/",
        "4B\t/memories/a/b/c.txt",
    ]


def test_edits_change_the_file_and_what_is_recalled(tool: VmemoMemoryTool, memory: Memory) -> None:
    path = "/memories/ana/food.md"
    assert run(tool, "str_replace", path=path, old_str="likes tea", new_str="likes coffee") == (
        "The memory file has been edited.\n     1\t# Food\n     2\t- likes coffee\n     3\t- eats fish\n     4\t"
    )
    assert run(tool, "insert", path=path, insert_line=1, insert_text="- hates soup") == (
        f"The file {path} has been edited."
    )
    run(tool, "insert", path=path, insert_line=4, insert_text="- drinks water")
    (message,) = memory.messages_sync(document=path)
    assert message.content == "# Food\n- hates soup\n- likes coffee\n- eats fish\n- drinks water"
    texts = [hit.text for hit in memory.recall_sync("coffee tea soup").hits]
    assert any("likes coffee" in text and "hates soup" in text for text in texts)
    assert not any("tea" in text for text in texts)


def test_renamed_and_deleted_files_leave_nothing_behind(tool: VmemoMemoryTool, memory: Memory, tmp_path: Path) -> None:
    assert run(tool, "rename", old_path="/memories/ana", new_path="/memories/bob/notes") == (
        "Successfully renamed /memories/ana to /memories/bob/notes"
    )
    assert "likes tea" in run(tool, "view", path="/memories/bob/notes/food.md")
    assert memory.messages_sync(document="/memories/ana/food.md") == []
    assert run(tool, "delete", path="/memories/bob") == "Successfully deleted /memories/bob"
    assert not any("tea" in fact.text for fact in memory.facts_sync())
    memory.retain_sync("Ana plays chess.", document="chat")
    tool.clear_all_memory()
    assert [message.document for message in memory.messages_sync()] == ["chat"]


def test_errors_are_worded_as_documented(tool: VmemoMemoryTool) -> None:
    food, none = "/memories/ana/food.md", "/memories/none"
    run(tool, "create", path="/memories/twice", file_text="tea\nmilk\ntea")
    replace = {"old_str": "tea", "new_str": "soup"}
    expected = {
        refusal(tool, "view", path=none): f"The path {none} does not exist. Please provide a valid path.",
        refusal(tool, "create", path=food, file_text=""): f"Error: File {food} already exists",
        refusal(tool, "create", path="/memories/ana", file_text=""): "Error: File /memories/ana already exists",
        refusal(tool, "create", path=f"{food}/x", file_text=""): f"Error: The path {food} is a file, not a directory",
        refusal(tool, "str_replace", path=none, **replace): (
            f"Error: The path {none} does not exist. Please provide a valid path."
        ),
        refusal(tool, "str_replace", path=food, old_str="cake", new_str=""): (
            f"No replacement was performed, old_str `cake` did not appear verbatim in {food}."
        ),
        refusal(tool, "str_replace", path="/memories/twice", **replace): (
            "No replacement was performed. Multiple occurrences of old_str `tea` in lines: 1, 3. "
            "Please ensure it is unique"
        ),
        refusal(tool, "insert", path=none, insert_line=0, insert_text=""): f"Error: The path {none} does not exist",
        refusal(tool, "insert", path=food, insert_line=4, insert_text=""): (
            "Error: Invalid `insert_line` parameter: 4. It should be within the range of lines of the file: [0, 3]"
        ),
        refusal(tool, "delete", path=none): f"Error: The path {none} does not exist",
        refusal(tool, "delete", path="/memories"): "Error: The /memories directory itself can't be deleted",
        refusal(tool, "rename", old_path=none, new_path=food): f"Error: The path {none} does not exist",
        refusal(tool, "rename", old_path="/memories/twice", new_path=food): (
            f"Error: The destination {food} already exists"
        ),
        refusal(tool, "rename", old_path="/memories/ana", new_path="/memories/ana/x"): (
            "Error: The path /memories/ana can't be renamed to /memories/ana/x"
        ),
    }
    assert list(expected) == list(expected.values())
    assert "NUL" in refusal(tool, "create", path=none, file_text="a\0b")
    assert FOOD.splitlines()[1] in run(tool, "view", path=food)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/memories/../etc/passwd",
        "/memories/%2e%2e/etc",
        "/memories/..\\x",
        "/memories2/x",
        "memories/x",
        "/memories//x",
        "",
    ],
)
def test_paths_outside_of_the_directory_are_refused(tool: VmemoMemoryTool, memory: Memory, path: str) -> None:
    for command, arguments in {"view": {}, "create": {"file_text": "x"}, "delete": {}}.items():
        assert "/memories" in refusal(tool, command, path=path, **arguments)
    assert "/memories" in refusal(tool, "rename", old_path="/memories/plan.txt", new_path=path)
    assert len(memory.messages_sync()) == 2


def test_a_file_is_stored_if_facts_cannot_be_derived(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory.db", embedder=FailingEmbedder(HashEmbedder(), times=1)) as memory:
        tool = VmemoMemoryTool(memory)
        run(tool, "create", path="/memories/a", file_text="Ana plays chess.")
        assert "chess" in run(tool, "view", path="/memories/a")
        memory.process_sync()
        assert "chess" in memory.recall_sync("chess").hits[0].text


def test_an_agent_reads_what_it_wrote_and_the_models_errors_reach_it(memory: Memory) -> None:
    replies: list[Block] = [
        call(1, command="create", path="/memories/ana.md", file_text="Ana plays chess."),
        call(2, command="view", path="/memories/ana.md"),
        call(3, command="delete", path="/memories/../ana.md"),
        {"type": "text", "text": "Done."},
    ]

    async def check(url: str) -> str:
        async with AsyncAnthropic(base_url=url, api_key="unused") as client:
            runner = client.beta.messages.tool_runner(
                model="scripted",
                max_tokens=100,
                messages=[{"role": "user", "content": "Who plays chess?"}],
                tools=[VmemoAsyncMemoryTool(memory)],
            )
            return str((await runner.until_done()).content)

    with messages_api(replies) as (url, received):
        assert "Done." in asyncio.run(check(url))
    assert received[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    results = [json.dumps(request["messages"]) for request in received[1:]]
    assert "File created successfully at: /memories/ana.md" in results[0]
    assert "Ana plays chess." in results[1]
    assert '"is_error": true' in results[2]
    assert "chess" in memory.recall_sync("Who plays chess?").hits[0].text


def test_the_example_runs(
    run_example: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replies: list[Block] = [
        call(1, command="create", path="/memories/health.md", file_text="The user is allergic to peanuts."),
        {"type": "text", "text": "Noted."},
    ]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "unused")
    with messages_api(replies) as (url, _):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        run_example("anthropic")
    assert capsys.readouterr().out == "Noted.\nAssistant: The user is allergic to peanuts.\n"
