"""Every integration has an extra, pinned versions, tests, an example and a page that shows the example."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ADAPTERS = ("cross_encoder", "fastembed", "importers", "litellm", "stated_facts")
"""Modules that vmemo itself uses by an extra; they are tested with it."""
NAMES = sorted(
    path.stem
    for path in (ROOT / "integrations/src/vmemo_integrations").glob("*.py")
    if path.stem not in ("__init__", *ADAPTERS)
)


def text(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def test_integrations_work_with_their_packages() -> None:
    pytest.skip("each is tested in an environment of its own: run make integrations")


@pytest.mark.parametrize("name", NAMES)
def test_an_integration_is_complete(name: str) -> None:
    extras = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
    assert name.replace("_", "-") in extras
    assert "==" in text(f"integrations/tests/constraints/{name}.txt")
    assert "def test_" in text(f"integrations/tests/test_{name}.py")
    assert f"```python\n{text(f'examples/integrations/{name}.py')}```" in text(f"docs/integrations/{name}.md")
    assert f"({name}.md)" in text("docs/integrations/index.md")
    assert f"docs/integrations/{name}.md" in text("README.md")
