"""Retrieval of vmemo beside plain search and other memory products, without language models."""
