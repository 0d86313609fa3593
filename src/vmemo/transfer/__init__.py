"""Export, import and migration of banks."""
