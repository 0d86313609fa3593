"""The coding agents: the files in which each is configured, and the hooks and MCP server that we add to them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, cast

from vmemo import MissingExtra
from vmemo_agents.config_files import OWN, SERVER, FileChange, Json, json_change, text_change, toml_change
from vmemo_agents.transcripts import AgentName

Scope = Literal["user", "project"]
_SECONDS = {"SessionStart": 10, "UserPromptSubmit": 5}
_RETAIN_SECONDS = 5


@dataclass(frozen=True)
class Commands:
    """The command lines that a configuration has: of the hook, and of the MCP server."""

    hook: tuple[str, ...]
    mcp: tuple[str, ...]

    @staticmethod
    def of(*, db: str | None = None, bank: str | None = None, mcp_bank: str | None = None) -> Commands:
        """Return the commands of this installation, by absolute paths: agents do not search our environment.

        Without a bank, that of the repository is used in which the agent works; `mcp_bank` is that of the MCP server.
        """
        named = ["--db", db] if db else []
        hook, mcp = ([*named, "--bank", each] if each else named for each in (bank, bank or mcp_bank))
        return Commands(hook=(_program(OWN), *hook), mcp=(_program("vmemo"), "code", "mcp", *mcp))

    def hook_of(self, agent: AgentName) -> str:
        """Return the command line of an agent's hook, for a shell."""
        program, *options = self.hook
        words = [program, agent, *options]
        return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def _program(name: str) -> str:
    """Return the path of a program of this installation: beside Python, or where pip puts the scripts of a user."""
    folders = [str(Path(sys.executable).parent), sysconfig.get_path("scripts"), str(Path(sys.argv[0]).parent)]
    found = shutil.which(name, path=os.pathsep.join(folders)) or shutil.which(name)
    if found is None:
        raise MissingExtra(f"The program {name} is not installed. Install it with: pip install 'vmemo[agents]'")
    return os.path.abspath(found)


@dataclass(frozen=True)
class Agent:
    """A coding agent that hooks can be installed in."""

    name: AgentName
    title: str
    pages: tuple[str, ...]
    """The pages of its documentation that describe the formats."""
    plan: Callable[[Scope, Path, Commands | None], list[FileChange]]
    """Returns the changes for a scope and a project; without commands, those that remove ours."""
    transcripts: Callable[[], str]
    """Returns the place of transcripts of earlier sessions, as an argument of `vmemo import`."""
    note: str = ""


def _home(variable: str, default: str) -> Path:
    given = os.environ.get(variable)
    return Path(given).expanduser() if given else Path.home() / default


def _own(entry: object) -> bool:
    return isinstance(entry, dict) and OWN in str(cast("Json", entry).get("command", ""))


def _set_hooks(config: Json, groups: Mapping[str, Json]) -> None:
    """Replace our groups of hooks, in the form that Claude Code introduced: event, group, hooks."""
    hooks: Json = config.setdefault("hooks", {})
    for event in dict.fromkeys([*hooks, *groups]):
        entries = hooks.get(event, [])
        if isinstance(entries, list):
            kept = [group for each in cast("list[Any]", entries) if (group := _without_own(each)) is not None]
            _set_or_drop(hooks, event, [*kept, *([groups[event]] if event in groups else [])])
    if not hooks:
        del config["hooks"]


def _without_own(group: Any) -> Json | None:
    """Return a group of hooks without ours; None if no other is in it."""
    values = cast("Json", group)
    if not isinstance(group, dict) or not isinstance(values.get("hooks"), list):
        return values
    others = [hook for hook in values["hooks"] if not _own(hook)]
    if len(others) == len(values["hooks"]):
        return values
    return {**values, "hooks": others} if others else None


def _set_or_drop(hooks: Json, event: str, entries: list[Any]) -> None:
    """Set the hooks of an event; one that has no more of them is removed."""
    if entries:
        hooks[event] = entries
    elif hooks.get(event):
        del hooks[event]


def _set_server(config: Json, key: str, server: Json | None) -> None:
    """Add our MCP server to a configuration, or remove it."""
    servers: Json = config.setdefault(key, {})
    if server is None:
        servers.pop(SERVER, None)
    else:
        servers[SERVER] = server
    if not servers:
        del config[key]


def _command_server(commands: Commands | None) -> Json | None:
    return None if commands is None else {"command": commands.mcp[0], "args": list(commands.mcp[1:])}


def _groups(agent: AgentName, events: Iterable[str], commands: Commands | None, *, unit: int = 1) -> dict[str, Json]:
    """Return a group with our hook for each event; timeouts are in seconds, or milliseconds by `unit`."""
    if commands is None:
        return {}
    command = commands.hook_of(agent)
    named = {"name": "vmemo"} if agent == "gemini-cli" else {}
    return {
        event: {"hooks": [{**named, "type": "command", "command": command, "timeout": _timeout(event) * unit}]}
        for event in events
    }


def _timeout(event: str) -> int:
    return _SECONDS.get({"BeforeAgent": "UserPromptSubmit"}.get(event, event), _RETAIN_SECONDS)


def _claude_code(scope: Scope, project: Path, commands: Commands | None) -> list[FileChange]:
    home = _home("CLAUDE_CONFIG_DIR", ".claude")
    is_project = scope == "project"
    settings = project / ".claude" / "settings.local.json" if is_project else home / "settings.json"
    state = home / ".claude.json" if os.environ.get("CLAUDE_CONFIG_DIR") else Path.home() / ".claude.json"
    groups = _groups("claude-code", ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"), commands)
    server = _command_server(commands)
    typed = None if server is None else {"type": "stdio", **server}
    return [
        json_change(settings, lambda config: _set_hooks(config, groups)),
        json_change(project / ".mcp.json" if is_project else state, lambda c: _set_server(c, "mcpServers", typed)),
    ]


def _codex(scope: Scope, project: Path, commands: Commands | None) -> list[FileChange]:
    folder = project / ".codex" if scope == "project" else _home("CODEX_HOME", ".codex")
    groups = _groups("codex", ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact"), commands)
    return [
        json_change(folder / "hooks.json", lambda config: _set_hooks(config, groups)),
        toml_change(folder / "config.toml", _command_server(commands), f"mcp_servers.{SERVER}"),
    ]


def _cursor(scope: Scope, project: Path, commands: Commands | None) -> list[FileChange]:
    folder = project / ".cursor" if scope == "project" else Path.home() / ".cursor"
    events = ("sessionStart", "stop", "preCompact", "sessionEnd") if commands else ()

    def set_hooks(config: Json) -> None:
        if commands is not None:
            config.setdefault("version", 1)
        hooks: Json = config.setdefault("hooks", {})
        for event in dict.fromkeys([*hooks, *events]):
            entries = cast("list[Any]", hooks.get(event) or [])
            ours = [{"command": commands.hook_of("cursor")}] if commands and event in events else []
            _set_or_drop(hooks, event, [*(entry for entry in entries if not _own(entry)), *ours])
        if not hooks:
            del config["hooks"]

    # In the user's configuration the MCP server would not know which project it is for.
    server = _command_server(commands if scope == "project" else None)
    changes = [
        json_change(folder / "hooks.json", set_hooks),
        json_change(folder / "mcp.json", lambda config: _set_server(config, "mcpServers", server)),
    ]
    if scope == "project":
        rule = _packaged("cursor_rule.mdc") if commands else None
        changes.append(text_change(folder / "rules" / "vmemo.mdc", rule, mark="written by `vmemo install`"))
    return changes


def _gemini_cli(scope: Scope, project: Path, commands: Commands | None) -> list[FileChange]:
    folder = project / ".gemini" if scope == "project" else _home("GEMINI_CLI_HOME", "") / ".gemini"
    events = ("SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd")
    groups = _groups("gemini-cli", events, commands, unit=1000)

    def edit(config: Json) -> None:
        _set_hooks(config, groups)
        _set_server(config, "mcpServers", _command_server(commands))

    return [json_change(folder / "settings.json", edit)]


def _opencode(scope: Scope, project: Path, commands: Commands | None) -> list[FileChange]:
    default = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "opencode"
    folder = Path(os.environ.get("OPENCODE_CONFIG_DIR") or default)
    plugins, config = folder / "plugins", folder / "opencode.json"
    if scope == "project":
        plugins, config = project / ".opencode" / "plugins", project / "opencode.json"
    server = None if commands is None else {"type": "local", "command": list(commands.mcp), "enabled": True}
    plugin = None
    if commands is not None:
        program, *options = commands.hook
        plugin = _packaged("opencode_plugin.js").replace('["vmemo-hook"]', _javascript([program, "opencode", *options]))
    return [
        text_change(plugins / "vmemo.js", plugin, mark="written by `vmemo install`"),
        json_change(config, lambda values: _set_server(values, "mcp", server)),
    ]


def _javascript(words: list[str]) -> str:
    return "[" + ", ".join('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in words) + "]"


def _packaged(name: str) -> str:
    return (files("vmemo_agents") / name).read_text("utf-8")


AGENTS: Mapping[AgentName, Agent] = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code",
            "Claude Code",
            ("https://code.claude.com/docs/en/hooks", "https://code.claude.com/docs/en/mcp"),
            _claude_code,
            lambda: str(_home("CLAUDE_CONFIG_DIR", ".claude") / "projects" / "PROJECT"),
        ),
        Agent(
            "codex",
            "Codex",
            ("https://developers.openai.com/codex/hooks", "https://developers.openai.com/codex/mcp"),
            _codex,
            lambda: str(_home("CODEX_HOME", ".codex") / "sessions"),
            note="Codex runs new hooks after you have reviewed them: enter /hooks in its next session.",
        ),
        Agent(
            "cursor",
            "Cursor",
            ("https://cursor.com/docs/hooks", "https://cursor.com/docs/context/mcp"),
            _cursor,
            lambda: str(Path.home() / ".cursor" / "projects" / "PROJECT" / "agent-transcripts"),
            note="Cursor lets no hook add to a prompt: memory comes at the start of a session, and with "
            "--scope project through MCP and a rule.",
        ),
        Agent(
            "gemini-cli",
            "Gemini CLI",
            ("https://geminicli.com/docs/hooks/reference", "https://geminicli.com/docs/tools/mcp-server"),
            _gemini_cli,
            lambda: str(_home("GEMINI_CLI_HOME", "") / ".gemini" / "tmp" / "PROJECT" / "chats"),
        ),
        Agent(
            "opencode",
            "OpenCode",
            ("https://opencode.ai/docs/plugins", "https://opencode.ai/docs/mcp-servers"),
            _opencode,
            lambda: "EXPORT.json",
            note="OpenCode writes a session to import with: opencode export SESSION > EXPORT.json",
        ),
    )
}


def installed(agent: Agent, scope: Scope, project: Path) -> list[Path]:
    """Return the files in which an agent has something of ours: those that an uninstall would change."""
    return [change.path for change in agent.plan(scope, project, None) if change.is_needed]
