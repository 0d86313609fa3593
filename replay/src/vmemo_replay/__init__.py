"""Replays of conversations, and test cases of memories."""
