"""The Python snippets of the README run as pasted into a script."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from live_server import live_server

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
OUTPUT = re.findall(r"It prints the following.*?```text\n(.*?)```", README, re.DOTALL)[0]


def printed(snippet: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a snippet as a script, and return what it prints."""
    exec(compile(snippet, "README.md", "exec"), {"__name__": "__main__"})
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def _empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")


def test_the_first_snippet_prints_what_the_readme_shows(capsys: pytest.CaptureFixture[str]) -> None:
    def without_ids(text: str) -> list[str]:
        return [re.sub(r"\[[0-9a-f]{8}\]", "[id]", line).rstrip() for line in text.splitlines()]

    assert without_ids(printed(SNIPPETS[0], capsys)) == without_ids(OUTPUT)


@pytest.mark.parametrize("snippet", [each for each in SNIPPETS[1:] if "vmemo.client" not in each])
def test_the_snippets_that_configure_a_memory_run(snippet: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(snippet, capsys) == ""


def test_the_snippet_of_the_client_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (snippet,) = [each for each in SNIPPETS if "vmemo.client" in each]
    with live_server(":memory:") as server:
        snippet = snippet.replace("http://127.0.0.1:8000", server.url).replace("vmemo_…", server.key())
        assert "I just started at Anthropic." in printed(snippet, capsys)


def test_links_are_absolute_and_lead_to_files_of_the_repository() -> None:
    root, base = Path(__file__).parents[1], re.compile(r"https://[^/]+/vmemo/vmemo/(?:(?:blob|tree)/)?main/([^#]*)")
    targets = re.findall(r"\]\(([^)\s]+)\)", README)
    assert targets
    for target in targets:
        found = base.match(target)
        assert found is not None, f"PyPI shows the README alone, so the link {target} must be absolute."
        assert (root / found[1]).exists(), target
