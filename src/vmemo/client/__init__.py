"""The Python client: the library's own verbs over HTTP."""

from vmemo.client.client import Client
from vmemo.client.connection import RetryPolicy

__all__ = ["Client", "RetryPolicy"]
