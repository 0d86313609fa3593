"""From what was recalled to an answer."""
