"""Memory: the library's verbs over one bank."""

from vmemo.memory.memory import Memory

__all__ = ["Memory"]
