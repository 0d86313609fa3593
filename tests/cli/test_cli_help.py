"""Every command is documented, with examples that fit it."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import pytest
from typer.testing import CliRunner

from vmemo.cli.app import COMMANDS as OWN_COMMANDS, app
from vmemo.cli.command import Command
from vmemo_bench.command import benchmark
from vmemo_replay.case_command import run_test
from vmemo_replay.commands import replay
from vmemo_server.commands.keys import keys
from vmemo_server.commands.mcp import mcp
from vmemo_server.commands.serve import serve

COMMANDS = (*OWN_COMMANDS, serve, mcp, replay, run_test, *keys.commands, *benchmark.commands)
NAMES = """demo retain process recall context reflect inspect why opinions observations profile forget reprocess reembed
    maintain worker jobs export import migrate rekey doctor serve mcp replay test""".split()
BANK = {"bank list", "bank create", "bank show", "bank set", "bank delete"}
ENTITY = {"entity list", "entity merges", "entity merge", "entity undo"}
FACT = ("fact get", "fact history", "fact update", "fact delete", "fact pin", "fact unpin", "fact feedback")
KEYS = {"keys create", "keys list", "keys revoke"}
WEBHOOK = ("webhook add", "webhook list", "webhook delete")
BENCHMARK = {
    f"benchmark {name}"
    for name in (
        "sample locomo longmemeval beam ours engines ablation compare speed scale retain load updates dates "
        "languages lives precision".split()
    )
}


@cache
def help_of(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "220", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    return result.stdout


def by_name(command: Command) -> str:
    return command.name


def test_the_command_line_has_every_verb() -> None:
    assert {command.name for command in COMMANDS} == {*NAMES, *BANK, *ENTITY, *FACT, *KEYS, *WEBHOOK, *BENCHMARK}
    shown = help_of()
    assert all(name in shown for name in (*NAMES, "bank", "entity", "fact", "keys", "benchmark"))
    for name in (*BANK, *ENTITY, *FACT, *KEYS, *WEBHOOK, *BENCHMARK):
        group, command = name.split()
        assert command in help_of(group)


@pytest.mark.parametrize("command", COMMANDS, ids=by_name)
def test_help_of_each_command_has_a_description_and_examples(command: Command) -> None:
    shown = help_of(*command.name.split())
    assert command.run.__doc__
    assert command.run.__doc__.splitlines()[0] in shown
    assert "Examples" in shown
    assert any(f"vmemo {command.name}" in example for example in command.examples)
    assert all(example.split("   ")[0] in shown for example in command.examples)


@pytest.mark.parametrize("command", COMMANDS, ids=by_name)
def test_examples_use_options_that_exist(command: Command) -> None:
    shown = help_of(*command.name.split())
    for example in command.examples:
        assert all(option in shown.split("Examples")[0] for option in re.findall(r"(?<!\S)--[a-z-]+", example))


@pytest.mark.parametrize("command", COMMANDS, ids=by_name)
def test_every_command_and_option_has_a_help_text(command: Command) -> None:
    shown = help_of(*command.name.split()).split("Examples")[0]
    assert "--json" in shown
    lines = [line.strip("│ ") for line in shown.splitlines() if line.startswith("│")]
    assert lines
    assert all(re.search(r"\s{2,}\S.*\s\S", line) for line in lines), lines


def test_version_is_printed() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout[:6]) == (0, "vmemo ")


def test_an_unknown_command_is_a_usage_error() -> None:
    assert CliRunner().invoke(app, ["remember"]).exit_code == 2


def test_help_imports_neither_the_benchmarks_nor_a_model_runtime() -> None:
    script = """
import sys
from vmemo.cli.app import app
try:
    app(["--help"])
finally:
    print("imported:", sys.modules.keys() & {"vmemo_bench", "onnxruntime", "sqlalchemy"})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "benchmark" in done.stdout
    assert "imported: set()" in done.stdout
