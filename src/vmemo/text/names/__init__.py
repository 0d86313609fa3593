"""Finding and comparing names in text."""
