"""Memory: the library's verbs over one bank."""

from vmemo.memory.memory import Memory
from vmemo.memory.verbs import Verbs

__all__ = ["Memory", "Verbs"]
