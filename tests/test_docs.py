"""The documentation is true: its Python runs, its commands parse, and its generated pages are current."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from scripts.cli_reference import TARGET, all_commands, reference
from typer.core import TyperCommand, TyperGroup

from live_server import live_server
from vmemo import Memory
from vmemo_conformance.fake_llm import RawText
from vmemo_conformance.llm_server import ScriptedServer

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# The pages of integrations are run by `make integrations`, with the packages that they need.
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "integrations"]
# These show packages of others, which are not installed here.
FOREIGN = ("hindsight.md", "migration.md")
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[str]:
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def named(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


@pytest.fixture(autouse=True)
def _empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """An OpenAI-compatible endpoint that says the same to everything."""
    with ScriptedServer(lambda _: RawText("Lentil curry would suit you.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


def run(code: str, names: dict[str, object]) -> None:
    """Run a block, which may await at its top level."""
    compiled = compile(code, "a page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    waiting = eval(compiled, names)
    if inspect.iscoroutine(waiting):
        asyncio.run(waiting)


@pytest.mark.parametrize("block", blocks(DOCS / "quickstart.md"))
def test_each_block_of_the_quickstart_runs_as_pasted(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    if block == blocks(DOCS / "quickstart.md")[1]:
        run(blocks(DOCS / "quickstart.md")[0], {"__name__": "__main__"})
        capsys.readouterr()
    run(block, {"__name__": "__main__"})
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page) and page.name not in ("quickstart.md", *FOREIGN)], ids=named
)
def test_the_blocks_of_a_page_run_in_their_order(page: Path, postgres_url: str, model: ScriptedServer) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    with live_server(":memory:") as server:
        try:
            for block in blocks(page):
                code = block.replace("http://localhost:8000", server.url).replace("vmemo_…", server.key())
                # The local engine answers these blocks as well, but for schemas; the model engine has tests of its own.
                if "schema=" in code:
                    continue
                code = code.replace('llm="openai:gpt-5-mini"', "llm=None")
                run(code.replace("postgresql://user:password@host:5432/memories", postgres_url), names)
        finally:
            for opened in names.values():
                if isinstance(opened, Memory):
                    opened.close_sync()


def commands() -> Iterator[tuple[str, str]]:
    for page in (ROOT / "README.md", *PAGES):
        for block in _CONSOLE.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                shown = re.match(r"\$ (?:[A-Z_]+=\S+ )*(vmemo .*)", line)
                if shown is not None and page != TARGET:
                    yield page.name, shown[1]


@pytest.mark.parametrize(("page", "line"), list(commands()))
def test_a_command_of_the_documentation_exists_with_its_options(page: str, line: str) -> None:
    words = shlex.split(re.split(r" [|>&;]|  ", line)[0], comments=True)[1:]
    if words[0] == "benchmark" or words[0].startswith("-"):
        return
    command: TyperCommand | TyperGroup = all_commands()
    while isinstance(command, TyperGroup) and words and words[0] in command.commands:
        command = cast("TyperCommand | TyperGroup", command.commands[words.pop(0)])
    for word in words:
        if word.endswith((".json", ".jsonl", ".yaml", ".zip")):
            Path(word).touch()
    command.make_context(line, words)


def test_the_page_of_the_command_line_is_current() -> None:
    assert TARGET.read_text(encoding="utf-8") == reference(), "Run: python scripts/cli_reference.py"


def test_every_code_fence_of_a_page_is_closed() -> None:
    for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))):
        fences = re.findall(r"^ *```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        for opening, closing in zip(fences[::2], [*fences[1::2], "nothing"], strict=False):
            assert (bool(opening), closing) == (True, ""), (
                f"{page.name}: the block {opening!r} is closed by {closing!r}."
            )


def test_lists_and_tables_follow_a_blank_line() -> None:
    """MkDocs shows them as running text otherwise, where GitHub does not."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        joined = re.findall(r"^ *```$\n(?:[-*] |\d+\. |\|).*", text, re.MULTILINE)
        assert joined == [], page.name


def test_every_row_of_a_table_has_the_cells_of_its_head() -> None:
    for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))):
        text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
            rows = [len(re.split(r"(?<!\\)\|", row)) for row in table.splitlines()]
            assert set(rows) == {rows[0]}, f"{page.name}: {table[:200]}"


def test_readme_and_quickstart_write_to_different_files() -> None:
    first, second = (
        set(re.findall(r'Memory\("([^"]+)"', (ROOT / page).read_text(encoding="utf-8")))
        for page in ("README.md", "docs/quickstart.md")
    )
    assert first
    assert second
    assert first.isdisjoint(second)


def test_make_without_a_target_lists_the_targets() -> None:
    targets = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[0].split()
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^make (\w+) ", listed, re.MULTILINE)) == {*targets} - {"help", "pytest"}


def test_every_link_between_pages_leads_to_a_file() -> None:
    missing = [
        f"{page.name}: {target}"
        for page in sorted(DOCS.rglob("*.md"))
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert missing == []
