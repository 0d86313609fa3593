"""Structured calls to language models: prompt files, validation, retries and provider adapters."""
