"""Embedders, rerankers, embedding caches and the token counter."""
