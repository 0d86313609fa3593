"""The queue worker and its job handlers."""
