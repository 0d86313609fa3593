"""Adapters for agent frameworks, one module and one extra per framework.

A module imports its framework, so import the one that you use: `from vmemo.integrations.openai_agents import …`.
"""

from __future__ import annotations

from typing import TypeAlias

from vmemo import Memory
from vmemo.client import Client
from vmemo.errors import MissingExtra

AnyMemory: TypeAlias = Memory | Client
"""A memory in this process, or one on a server."""


def missing_extra(package: str, extra: str) -> MissingExtra:
    """Return the error of an adapter whose framework is not installed."""
    return MissingExtra(f"{package} is required and not installed. Run: pip install 'vmemo[{extra}]'")
