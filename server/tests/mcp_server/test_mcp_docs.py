"""docs/mcp.md describes every tool, option and resource."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from vmemo.cli.app import app
from vmemo_server.mcp.resources import TEMPLATES
from vmemo_server.mcp.tools import TOOLS

PAGE = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text(encoding="utf-8")


def test_table_lists_every_tool_with_its_permission() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE, re.MULTILINE)
    assert rows == [(tool.name, tool.permission) for tool in TOOLS.values()]


def test_every_resource_template_is_named() -> None:
    assert all(f"`{template.uri_template}`" in PAGE for template in TEMPLATES)


def test_every_host_has_a_configuration_in_its_format() -> None:
    shown = CliRunner().invoke(app, ["mcp", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).stdout
    assert "Claude Desktop, Claude Code, Cursor and VS Code" in " ".join(shown.split())
    found = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    servers = [next(iter(each[root].values())) for each in found for root in ("mcpServers", "servers") if root in each]
    assert [("servers" in each, *server_kind(server)) for each, server in zip(found, servers, strict=True)] == [
        (False, None, "vmemo"),  # Claude Desktop
        (False, "stdio", "vmemo"),  # Claude Code
        (False, None, "vmemo"),  # Cursor
        (True, "stdio", "vmemo"),  # VS Code
        (False, "http", "Bearer ${VMEMO_API_KEY}"),
        (False, None, "Bearer ${env:VMEMO_API_KEY}"),
        (True, "http", "Bearer ${input:vmemo-key}"),
    ]
    assert found[-1]["inputs"][0]["id"] == "vmemo-key"
    for command, *options in [server["args"] for server in servers if "args" in server]:
        assert command == "mcp"
        assert all(option in shown for option in options if option.startswith("--"))
    assert all(server["url"].endswith("/mcp") for server in servers if "url" in server)


def server_kind(server: dict[str, Any]) -> tuple[str | None, str]:
    """Return the type of a server and its command, or the key that it sends."""
    return server.get("type"), server.get("command") or server["headers"]["Authorization"]
