"""What you need to test code that uses vmemo, and stores and embedders of your own."""

from vmemo.testing.conformance import StoreConformance
from vmemo.testing.embedders import FailingEmbedder, HashEmbedder

__all__ = ["FailingEmbedder", "HashEmbedder", "StoreConformance"]
