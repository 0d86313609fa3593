"""The longest time that a test waits for something that must happen."""

from __future__ import annotations

MAX_WAIT = 240.0
"""Seconds; many times what it takes, because a busy host may stop a virtual machine for a minute."""
