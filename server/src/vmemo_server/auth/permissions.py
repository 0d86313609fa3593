"""Permission levels and bank patterns."""

from __future__ import annotations

from collections.abc import Iterable

from vmemo.models.base import Permission

_RANK: dict[Permission, int] = {"read": 0, "write": 1, "admin": 2}


def includes(held: Permission, needed: Permission) -> bool:
    """Return True if one permission includes another: admin includes write, and write includes read."""
    return _RANK[held] >= _RANK[needed]


def matches(patterns: Iterable[str], bank: str) -> bool:
    """Return True if a bank name equals one of the patterns or starts with one that ends in an asterisk."""
    return any(bank.startswith(each[:-1]) if each.endswith("*") else bank == each for each in patterns)
