"""The search structures of one SQLite bank, held in memory beside the file and refreshed by its change counter."""
