"""The Python client: the library's own verbs over HTTP."""
