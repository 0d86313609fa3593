"""Asking a language model: prompts from files, answers checked, repaired once, and paid for."""
