"""Permissions and API keys as clients and settings see them; the server stores the keys."""

from __future__ import annotations

from typing import Literal

Permission = Literal["read", "write", "admin"]
"""Access to a bank; each level includes those before it."""
ALL_BANKS = "*"
"""The pattern of an API key that matches every bank."""


def is_placeholder(secret: str) -> bool:
    """Return True for text that documentation has in the place of a key, such as `vmemo_…` or `${VMEMO_API_KEY}`."""
    return "…" in secret or secret.endswith("...") or secret.startswith(("${", "<"))
