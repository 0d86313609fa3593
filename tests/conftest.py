"""Failures of the shipped suite show their values, as those of our own tests do."""

import pytest

pytest.register_assert_rewrite("vmemo.testing.conformance")
