"""docs/mcp.md describes every tool, option and resource."""

from __future__ import annotations

import json
import re
from pathlib import Path

from typer.testing import CliRunner

from vmemo.cli.app import app
from vmemo.mcp.resources import TEMPLATES
from vmemo.mcp.tools import TOOLS

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")


def test_table_lists_every_tool_with_its_permission() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE, re.MULTILINE)
    assert rows == [(tool.name, tool.permission) for tool in TOOLS.values()]


def test_every_resource_template_is_named() -> None:
    assert all(f"`{template.uri_template}`" in PAGE for template in TEMPLATES)


def test_host_configuration_is_json_and_uses_existing_options() -> None:
    local, remote = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    command, *options = local["mcpServers"]["memory"]["args"]
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).stdout
    assert all(option in shown for option in options if option.startswith("--"))
    assert remote["mcpServers"]["memory"]["url"].endswith("/mcp")
