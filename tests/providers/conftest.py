"""LiteLLM, or a stand-in for it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Make a stand-in importable where LiteLLM is not installed.

    It can't be installed beside the newest versions of what PydanticAI needs, so CI does without it.
    """
    if find_spec("litellm") is not None:
        yield
        return
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parent / "stand_in"), *sys.path])
    yield
    # For other tests the package is missing.
    sys.modules.pop("litellm", None)
