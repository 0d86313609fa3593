"""`vmemo install`, `vmemo uninstall` and `vmemo code`, and the checks that this distribution adds to `vmemo doctor`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from vmemo import InvalidInput, Memory, MissingExtra
from vmemo.cli.command import CommandGroup, Output, command
from vmemo.cli.doctor import Check
from vmemo.cli.options import AsJson, Yes
from vmemo_agents.agents import AGENTS, Agent, Commands, Scope, installed
from vmemo_agents.anchored_recall import AnchoredHit, recall as anchored_recall
from vmemo_agents.config_files import FileChange
from vmemo_agents.hook import ask
from vmemo_agents.paths import address_file, database, log_file, spool_folder
from vmemo_agents.repository import Repository, with_notes
from vmemo_agents.transcripts import AgentName

AgentArgument = Annotated[AgentName, typer.Argument(metavar="AGENT", help=f"One of {', '.join(AGENTS)}.")]
ScopeOption = Annotated[
    Scope,
    typer.Option("--scope", help="user: every project, each with a bank of its own; project: this one only."),
]
ProjectOption = Annotated[
    Path, typer.Option("--project", metavar="FOLDER", file_okay=False, exists=True, help="The project's folder.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the changes and write nothing.")]
DbOption = Annotated[
    str | None,
    typer.Option("--db", metavar="URL|FILE", help="The database. Default: VMEMO_URL, or agents.db in the data folder."),
]
BankOption = Annotated[
    str | None, typer.Option("--bank", metavar="NAME", help="The bank. Default: that of the repository.")
]
CommitOption = Annotated[
    str | None,
    typer.Option("--at-commit", metavar="COMMIT", help="Only what was known and said at this commit or before it."),
]
FilesOption = Annotated[
    list[str] | None, typer.Option("--file", metavar="PATH", help="Only what was said about this file. Repeatable.")
]
_HERE = Path()


@command(
    "vmemo install claude-code",
    "vmemo install codex --scope project",
    "vmemo install cursor --dry-run   shows the changes",
    "vmemo install gemini-cli --db team.db --bank my-project --yes",
)
def install(  # noqa: PLR0913 - each is an option of the command
    agent: AgentArgument,
    scope: ScopeOption = "user",
    project: ProjectOption = _HERE,
    db: DbOption = None,
    bank: BankOption = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> Output:
    """Add memory to a coding agent: hooks and an MCP server in its own configuration.

    Shows the changes and asks before it writes them; files are copied first. Running it again changes nothing.
    """
    known = Repository.of(project.resolve()).name if scope == "project" else None
    commands = Commands.of(db=None if db is None else database(db), bank=bank, mcp_bank=known)
    output = _apply(AGENTS[agent], scope, project, commands, dry_run=dry_run, yes=yes, as_json=as_json)
    if dry_run or not output.value["changes"]:  # pyright: ignore[reportIndexIssue, reportUnknownMemberType]
        return output
    about = AGENTS[agent]
    lines = [str(output.shown), *([about.note] if about.note else []), _import_hint(about, project, db, bank)]
    return Output(output.value, "\n".join(lines))


def _import_hint(agent: Agent, project: Path, db: str | None, bank: str | None) -> str:
    name = bank or Repository.of(project.resolve()).name
    target = f"--db {database(db)} --bank {name}"
    return f"To import earlier sessions: vmemo import --from {agent.name} {agent.transcripts()} {target}"


@command("vmemo uninstall claude-code", "vmemo uninstall codex --scope project --yes")
def uninstall(
    agent: AgentArgument,
    scope: ScopeOption = "user",
    project: ProjectOption = _HERE,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> Output:
    """Remove what `vmemo install` added to a coding agent; memories stay."""
    return _apply(AGENTS[agent], scope, project, None, dry_run=dry_run, yes=yes, as_json=as_json)


def _apply(
    agent: Agent, scope: Scope, project: Path, commands: Commands | None, *, dry_run: bool, yes: bool, as_json: bool
) -> Output:
    """Show the changes of a plan, and write them if that is wanted."""
    if as_json and not (yes or dry_run):
        raise InvalidInput("--json asks nothing: pass --yes to write the changes, or --dry-run. Nothing was changed.")
    planned = agent.plan(scope, project.resolve(), commands)
    changes = [change for change in planned if change.is_needed]
    value: dict[str, Any] = {
        "agent": agent.name,
        "scope": scope,
        "changes": [{"file": str(change.path), "diff": change.diff} for change in changes],
        "backups": [],
    }
    if not changes:
        state = "has nothing of vmemo" if commands is None else "is set up already"
        return Output(value, f"{agent.title} {state}; nothing was changed.")
    diffs = "\n".join(change.diff for change in changes)
    if dry_run:
        return Output(value, f"{diffs}\nNothing was written.")
    if not as_json:
        typer.echo(diffs)
    if not yes and not typer.confirm("Write these changes?"):
        return Output({**value, "changes": []}, "Nothing was written.", exit_code=1)
    value["backups"] = [str(backup) for backup in map(FileChange.write, changes) if backup is not None]
    written = ", ".join(str(change.path) for change in changes)
    copies = f" Copies of the files before: {', '.join(value['backups'])}." if value["backups"] else ""
    return Output(value, f"{agent.title}: changed {written}.{copies}\nIt applies from the agent's next session on.")


@command(
    'vmemo code recall "How do we run the tests?"',
    'vmemo code recall "Why advisory locks?" --at-commit v1.2',
    'vmemo code recall "What did we decide?" --file src/jobs/lock.py',
    name="code recall",
)
def code_recall(
    query: Annotated[str, typer.Argument(help="The question.")],
    at_commit: CommitOption = None,
    file: FilesOption = None,
    project: ProjectOption = _HERE,
    db: DbOption = None,
    bank: BankOption = None,
    as_json: AsJson = False,
) -> Output:
    """Recall what was said about this repository, with commits and files, and with notes where files changed since."""
    repository = Repository.of(project.resolve())

    async def search() -> tuple[str, list[AnchoredHit]]:
        memory = Memory(database(db), bank or repository.name).without_creation()
        try:
            found, hits = await anchored_recall(
                memory, query, repository, at_commit=at_commit, files=[_inside(repository, each) for each in file or ()]
            )
            return found.to_prompt(), hits
        finally:
            await memory.close()

    text, hits = asyncio.run(search())
    notes = {each.hit.short_id: f"said before {', '.join(each.changed)} changed" for each in hits if each.changed}
    return Output([_as_value(each) for each in hits], with_notes(text, notes))


def _inside(repository: Repository, path: str) -> str:
    inside = repository.relative(os.path.abspath(path))
    if inside is None:
        raise InvalidInput(f"{path} is not in {repository.root}; name a file of the repository.")
    return inside


def _as_value(each: AnchoredHit) -> dict[str, Any]:
    fact = each.hit.fact
    anchor = {"commit": each.commit, "branch": fact.metadata.get("branch"), "files": each.files}
    return {"id": fact.id, "text": fact.text, "said_at": fact.mentioned_at, **anchor, "changed": each.changed}


@command("vmemo code mcp", "vmemo code mcp --bank my-project", name="code mcp")
def code_mcp(db: DbOption = None, bank: BankOption = None) -> None:
    """Run the MCP server of the repository in the working folder, on stdin and stdout."""
    folder = os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd()
    name = bank or Repository.of(Path(folder)).name
    arguments = [sys.executable, "-m", "vmemo", "mcp", "--db", database(db), "--bank", name]
    raise typer.Exit(subprocess.run(arguments, check=False).returncode)


@command("vmemo code stop", name="code stop")
def code_stop(as_json: AsJson = False) -> Output:
    """Stop the local server of the hooks; the next hook starts it again."""
    if not address_file().exists():
        return Output({"stopped": False}, "No server runs.")
    try:
        ask({"kind": "stop"}, time.monotonic() + 5, start=False)
    except OSError:
        address_file().unlink(missing_ok=True)
        return Output({"stopped": False}, "No server runs; the address of one that crashed is removed.")
    return Output({"stopped": True}, "The server was stopped.")


code = CommandGroup(
    "code", "Memory of a repository, and the local server of hooks.", (code_recall, code_mcp, code_stop)
)


def checks() -> Iterator[Check]:
    """Yield the state of each agent that has something of ours, of events that are not retained, and of the log."""
    project = Path.cwd()
    found = False
    for agent in AGENTS.values():
        for scope in ("user", "project"):
            try:
                paths = installed(agent, scope, project)
            except InvalidInput as error:
                yield Check(agent.name, "warn", str(error))
                continue
            if paths:
                found = True
                yield _agent_check(agent, scope, project, paths)
    if not found:
        return
    waiting = len(list(spool_folder().glob("*.json")))
    failed = len(list((spool_folder() / "failed").glob("*.json")))
    if failed:
        yield Check("transcripts", "warn", f"{failed} could not be retained; {log_file()} names the reasons")
    else:
        yield Check("transcripts", "ok", f"{waiting} waiting to be retained; the log is {log_file()}")


def _agent_check(agent: Agent, scope: Scope, project: Path, paths: list[Path]) -> Check:
    """Return whether all files have what an installation of today writes; another database or bank is fine."""
    try:
        planned = agent.plan(scope, project, Commands.of())
    except (InvalidInput, MissingExtra) as error:
        return Check(agent.name, "fail", str(error))
    missing = [str(change.path) for change in planned if change.path not in paths and change.is_needed]
    if missing:
        again = f"run vmemo install {agent.name} --scope {scope}"
        return Check(agent.name, "warn", f"set up in part: {', '.join(missing)} lacks it; {again}")
    return Check(agent.name, "ok", f"{scope}: {', '.join(map(str, paths))}")
