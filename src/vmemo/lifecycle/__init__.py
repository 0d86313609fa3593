"""Rules for maintaining, re-embedding and re-deriving a bank."""
