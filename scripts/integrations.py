"""Test each integration against its real package, in an environment of its own: `make integrations`.

`python scripts/integrations.py [NAME ...]` tests all integrations, or some. `--lock` renews the pinned versions of
`integrations/tests/constraints`. Prints one line per integration, and the output of a step that failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "integrations" / "tests"
ENVIRONMENTS = ROOT / ".venv-integrations"
AT_ONCE = 2
"""Integrations that are tested at the same time."""
PARTLY_TYPED = (
    "reportDeprecated",
    "reportUnknownArgumentType",
    "reportUnknownMemberType",
    "reportUnknownVariableType",
)
"""Checks that fail where the types of a framework are incomplete, or call its documented form deprecated."""
NOTHING_COLLECTED = 5
"""The exit status of pytest if a whole file is skipped, as where its package does not support this Python."""
PIP_SETTINGS = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_CERT": "SSL_CERT_FILE",
    "PIP_DEFAULT_TIMEOUT": "UV_HTTP_TIMEOUT",
}
"""Variables of pip, which installed the tools, and the same settings of uv."""


@dataclass(frozen=True)
class Step:
    """One command of an integration's test."""

    name: str
    command: list[str]


@dataclass(frozen=True)
class Outcome:
    """The result of one integration."""

    name: str
    state: str
    seconds: dict[str, float]
    output: str

    def __str__(self) -> str:
        steps = ", ".join(f"{step} {seconds:.1f}" for step, seconds in self.seconds.items())
        return f"{self.name:<14} {self.state:<7} {sum(self.seconds.values()):6.1f} s ({steps})"


def all_names() -> list[str]:
    """Return the names of the integrations."""
    return sorted(path.stem for path in (TESTS / "constraints").glob("*.txt"))


def constraints(name: str) -> Path:
    """Return the file with the pinned versions of an integration."""
    return TESTS / "constraints" / f"{name}.txt"


def groups(name: str) -> list[str]:
    """Return the options that install the packages of the tests, and those that only this integration's tests need."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    return [part for group in ("integrations", f"integrations-{name}") if group in known for part in ("--group", group)]


def lock(name: str) -> list[str]:
    """Return the command that renews the pinned versions of an integration."""
    shape = [
        "--universal",
        "--python-version=3.11",
        "--no-header",
        "--no-annotate",
        "--no-emit-package=vmemo",
        "--no-emit-package=vmemo-integrations",
    ]
    wanted = ["pyproject.toml", "integrations/pyproject.toml", "--extra", name.replace("_", "-"), *groups(name)]
    return ["uv", "pip", "compile", "--quiet", "--upgrade", *shape, *wanted, "--output-file", str(constraints(name))]


def steps(name: str) -> list[Step]:
    """Return the commands that test an integration: a new environment, its tests and its types."""
    environment = ENVIRONMENTS / name
    python = str(environment / ("Scripts" if os.name == "nt" else "bin") / "python")
    local = f"integrations[{name.replace('_', '-')}]"
    install = ["uv", "pip", "install", "--quiet", "--exact", "--python", python, "--constraint", str(constraints(name))]
    test = f"integrations/tests/test_{name}.py"
    pytest = [python, "-m", "pytest", "--confcutdir", str(TESTS), "-W", "default", test]
    return [
        Step("venv", ["uv", "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(environment)]),
        Step("install", [*install, *groups(name), "--editable", ".", "--editable", "conformance", "--editable", local]),
        Step("tests", pytest),
        Step("types", ["basedpyright", "--pythonpath", python, "--project", str(type_settings(name))]),
    ]


def type_settings(name: str) -> Path:
    """Write the settings of the type check: those of the project for other files. Return the path."""
    shared = ["integrations/src/vmemo_integrations/__init__.py", "integrations/tests/conftest.py"]
    own = [
        f"integrations/src/vmemo_integrations/{name}.py",
        f"integrations/tests/test_{name}.py",
        f"examples/integrations/{name}.py",
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["basedpyright"]
    settings = {key: value for key, value in project.items() if key not in ("venv", "venvPath")}
    settings |= {"include": [str(ROOT / path) for path in (*shared, *own)], "exclude": []}
    settings |= dict.fromkeys(PARTLY_TYPED, False)
    settings["extraPaths"] = [str(ROOT / path) for path in project["extraPaths"]]
    ENVIRONMENTS.mkdir(exist_ok=True)
    file = ENVIRONMENTS / f"{name}.json"
    file.write_text(json.dumps(settings), "utf-8")
    return file


def run(command: list[str]) -> tuple[int, str]:
    """Run a command in the repository's root with the tools of this environment; return its exit status and output."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    environment["VMEMO_INTEGRATIONS"] = "1"
    for pip_name, uv_name in PIP_SETTINGS.items():
        if pip_name in environment:
            environment.setdefault(uv_name, environment[pip_name])
    result = subprocess.run(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return result.returncode, result.stdout


def tested(name: str) -> Outcome:
    """Run the steps of an integration until one fails, and print the outcome."""
    seconds: dict[str, float] = {}
    state, output = "PASS", ""
    for step in steps(name):
        started = time.monotonic()
        status, printed = run(step.command)
        seconds[step.name] = time.monotonic() - started
        if status == NOTHING_COLLECTED and step.name == "tests":
            state, output = "SKIPPED", printed
            break
        if status:
            state, output = "FAIL", printed
            break
    outcome = Outcome(name, state, seconds, output)
    print(f"{outcome}\n{output}" if output else outcome, flush=True)
    return outcome


def main(arguments: list[str]) -> int:
    """Test or lock the named integrations, or all; return the exit status."""
    known = all_names()
    chosen = [name for name in arguments if name != "--lock"] or known
    if unknown := set(chosen) - set(known):
        print(f"No integration is named {', '.join(sorted(unknown))}; there are: {', '.join(known)}.")
        return 2
    if "--lock" in arguments:
        results = [run(lock(name)) for name in chosen]
        print("".join(output for _, output in results), end="")
        return int(any(status for status, _ in results))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return int(any(outcome.state == "FAIL" for outcome in list(pool.map(tested, chosen))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
