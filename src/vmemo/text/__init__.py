"""Language rules as pure functions."""
