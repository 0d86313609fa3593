"""The tools, and all of them by name."""

from __future__ import annotations

from collections.abc import Mapping

from vmemo.mcp.tool import Arguments, Told, Tool
from vmemo.mcp.tools.banks import create_bank, delete_bank, list_banks, profile, set_profile, status
from vmemo.mcp.tools.inspect import browse, why
from vmemo.mcp.tools.messages import forget, retain
from vmemo.mcp.tools.query import recall, reflect

_ALL = (
    *(recall, retain, reflect, why, browse, forget),
    *(status, list_banks, create_bank, delete_bank, profile, set_profile),
)
# Each tool takes arguments of its own kind; it checks them itself before it is run.
TOOLS: Mapping[str, Tool[Arguments, Told]] = {tool.name: tool for tool in _ALL}  # pyright: ignore[reportAssignmentType]
"""The tools by name, the most used first."""
