"""All tools by name."""

from __future__ import annotations

from collections.abc import Mapping

from vmemo.mcp.tool import Tool, ToolArguments, ToolResult
from vmemo.mcp.tools.banks import create_bank, delete_bank, list_banks, profile, set_profile, status
from vmemo.mcp.tools.inspect import browse, why
from vmemo.mcp.tools.messages import forget, retain
from vmemo.mcp.tools.query import recall, reflect

_ALL = (
    *(recall, retain, reflect, why, browse, forget),
    *(status, list_banks, create_bank, delete_bank, profile, set_profile),
)
# Each tool validates its own type of arguments before it runs.
TOOLS: Mapping[str, Tool[ToolArguments, ToolResult]] = {tool.name: tool for tool in _ALL}  # pyright: ignore[reportAssignmentType]
"""The tools by name, the most used first."""
