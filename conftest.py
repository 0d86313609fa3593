"""Fixtures that the tests of all distributions share."""

pytest_plugins = ("store_fixtures",)
