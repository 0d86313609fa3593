"""Embedders for tests of code that uses vmemo; scripted language models are in `vmemo_conformance.fake_llm`."""

from vmemo.testing.embedders import FailingEmbedder as FailingEmbedder, HashEmbedder as HashEmbedder
