"""All tools by name."""

from __future__ import annotations

from collections.abc import Mapping

from vmemo_server.mcp.tool import Tool, ToolArguments
from vmemo_server.mcp.tools.banks import delete_bank, list_banks, set_profile, status
from vmemo_server.mcp.tools.inspect import browse, edit_memory, why
from vmemo_server.mcp.tools.messages import forget, retain
from vmemo_server.mcp.tools.query import context, recall, reflect

_ALL = (
    *(recall, retain, context, reflect, why, edit_memory, browse, forget),
    *(status, set_profile, list_banks, delete_bank),
)
# Each tool validates its own type of arguments before it runs.
TOOLS: Mapping[str, Tool[ToolArguments]] = {tool.name: tool for tool in _ALL}  # pyright: ignore[reportAssignmentType]
"""The tools by name, the most used first."""
