"""`vmemo install` merges hooks and an MCP server into an agent's configuration, and `vmemo uninstall` removes them."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from vmemo.cli.app import app
from vmemo_agents.agents import AGENTS
from vmemo_agents.transcripts import AgentName

OWN_HOOK: dict[str, Any] = {"hooks": [{"type": "command", "command": "./notify.sh"}]}
FILES: dict[AgentName, tuple[str, ...]] = {
    "claude-code": (".claude/settings.json", ".claude.json"),
    "codex": (".codex/hooks.json", ".codex/config.toml"),
    "cursor": (".cursor/hooks.json",),
    "gemini-cli": (".gemini/settings.json",),
    "opencode": (".config/opencode/plugins/vmemo.js", ".config/opencode/opencode.json"),
}
PRESENT: dict[str, str] = {
    ".claude/settings.json": json.dumps({"model": "opus", "hooks": {"Stop": [OWN_HOOK]}}, indent=4) + "\n",
    ".claude.json": json.dumps({"numStartups": 3, "mcpServers": {"other": {"command": "x"}}}, indent=2) + "\n",
    ".codex/hooks.json": json.dumps({"hooks": {"Stop": [OWN_HOOK]}}, indent=2) + "\n",
    ".codex/config.toml": '# mine\nmodel = "gpt-5"\n\n[mcp_servers.other]\ncommand = "x"\n',
    ".cursor/hooks.json": json.dumps({"version": 1, "hooks": {"stop": [{"command": "./a.sh"}]}}, indent=2) + "\n",
    ".gemini/settings.json": json.dumps(
        {"theme": "Ö", "hooks": {"disabled": [], "AfterAgent": [OWN_HOOK]}}, indent=2, ensure_ascii=False
    )
    + "\n",
    ".config/opencode/opencode.json": json.dumps({"theme": "dark"}, indent=2) + "\n",
}
"""Configurations that people have already, by file."""


def run(*arguments: str, input: str | None = None) -> Result:
    return CliRunner().invoke(app, [*arguments], input=input, env={"COLUMNS": "200", "NO_COLOR": "1"})


def tree(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*") if path.is_file() and "backup" not in path.name)
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in found}


@pytest.mark.parametrize("agent", FILES)
@pytest.mark.parametrize("configured", [False, True], ids=["new", "configured"])
def test_install_merges_once_and_uninstall_restores_what_was_there(
    agent: AgentName, configured: bool, home: Path
) -> None:
    before = {name: PRESENT[name] for name in FILES[agent] if configured and name in PRESENT}
    for name, text in before.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, "utf-8")
    shown = run("install", agent, "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert tree(home) == before
    assert run("install", agent, input="n\n").exit_code == 1
    assert tree(home) == before
    result = run("install", agent, "--yes", "--json")
    assert result.exit_code == 0, result.output
    assert [change["file"] for change in json.loads(result.stdout)["changes"]] == [
        str(home / name) for name in FILES[agent]
    ]
    written = tree(home)
    assert set(written) == set(FILES[agent])
    assert f"vmemo-hook {agent}" in written[FILES[agent][0]] or agent == "opencode"
    assert len(list(home.rglob("*.vmemo-backup"))) == len(before)
    assert json.loads(run("install", agent, "--yes", "--json").stdout)["changes"] == []
    assert run("uninstall", agent, "--yes").exit_code == 0
    left = tree(home)
    assert set(left) == set(before)
    for name, text in before.items():
        parse = tomllib.loads if name.endswith(".toml") else json.loads
        assert parse(left[name]) == parse(text)


def test_hooks_and_servers_of_the_user_stay_as_they_are(home: Path) -> None:
    for name, text in PRESENT.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, "utf-8")
    for agent in FILES:
        assert run("install", agent, "--yes").exit_code == 0
    settings = json.loads((home / ".claude/settings.json").read_text("utf-8"))
    assert settings["hooks"]["Stop"][0] == OWN_HOOK
    assert list(settings["hooks"]) == ["Stop", "SessionStart", "UserPromptSubmit", "PreCompact", "SessionEnd"]
    config = tomllib.loads((home / ".codex/config.toml").read_text("utf-8"))
    assert set(config["mcp_servers"]) == {"other", "vmemo"}
    assert (home / ".codex/config.toml").read_text("utf-8").startswith(PRESENT[".codex/config.toml"])
    gemini = json.loads((home / ".gemini/settings.json").read_text("utf-8"))
    assert gemini["hooks"]["disabled"] == []
    assert gemini["hooks"]["BeforeAgent"][0]["hooks"][0]["timeout"] == 5000
    cursor = json.loads((home / ".cursor/hooks.json").read_text("utf-8"))
    assert [len(cursor["hooks"][name]) for name in ("stop", "sessionStart")] == [2, 1]


def test_a_project_has_files_of_its_own_and_names_its_bank(home: Path, project: Path) -> None:
    before = tree(home)
    for agent in AGENTS:
        result = run("install", agent, "--scope", "project", "--project", str(project), "--yes")
        assert result.exit_code == 0, result.output
    assert tree(home) == before
    assert (project / ".cursor/rules/vmemo.mdc").exists()
    server = json.loads((project / ".mcp.json").read_text("utf-8"))["mcpServers"]["vmemo"]
    assert server["args"] == ["code", "mcp", "--bank", "github.com/ana/shop"]
    assert Path(server["command"]).exists()


@pytest.mark.parametrize(
    ("agent", "name", "text"),
    [
        ("claude-code", ".claude/settings.json", "{ // comment\n}"),
        ("gemini-cli", ".gemini/settings.json", "[]"),
        ("codex", ".codex/config.toml", "model = "),
        ("codex", ".codex/config.toml", '[mcp_servers.vmemo]\ncommand = "mine"\n'),
        ("opencode", ".config/opencode/plugins/vmemo.js", "export const Mine = 1\n"),
    ],
)
def test_a_file_that_cannot_be_merged_is_named_and_nothing_is_changed(
    agent: AgentName, name: str, text: str, home: Path
) -> None:
    (home / name).parent.mkdir(parents=True)
    (home / name).write_text(text, "utf-8")
    result = run("install", agent, "--yes")
    assert result.exit_code == 1
    assert name in result.stderr
    assert "Nothing was changed" in result.stderr
    assert tree(home) == {name: text}


def test_agents_are_found_where_their_own_variables_point(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"CLAUDE_CONFIG_DIR": "c", "CODEX_HOME": "x", "GEMINI_CLI_HOME": "g", "OPENCODE_CONFIG_DIR": "o"}
    for variable, name in places.items():
        monkeypatch.setenv(variable, str(home / name))
    for agent in ("claude-code", "codex", "gemini-cli", "opencode"):
        assert run("install", agent, "--yes").exit_code == 0
    assert {name.partition("/")[0] for name in tree(home)} == set(places.values())


def test_doctor_lists_what_is_set_up_and_what_is_missing(home: Path, tmp_path: Path) -> None:
    def checks() -> dict[str, str]:
        listed = json.loads(run("doctor", "--db", str(tmp_path / "none.db"), "--json").stdout)["checks"]
        return {check["check"]: check["state"] for check in listed}

    assert not {*FILES, "transcripts"} & set(checks())
    run("install", "codex", "--yes")
    assert checks()["codex"] == "ok"
    (home / ".codex/hooks.json").unlink()
    assert checks()["codex"] == "warn"


def test_the_plugin_runs_its_hook_in_both_versions_of_opencode(home: Path, tmp_path: Path) -> None:
    """The plugin is loaded as OpenCode does it, with a hook that writes down what it was given."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    run("install", "opencode", "--yes")
    hook = tmp_path / "hook.py"
    hook.write_text(
        "import json, sys\nevent = json.load(sys.stdin)\nname = event['hook_event_name']\n"
        "open(sys.argv[1], 'a').write(json.dumps(event) + '\\n')\n"
        "print(json.dumps({'hookSpecificOutput': {'hookEventName': name, 'additionalContext': 'text of ' + name}}))\n"
    )
    plugin = (home / ".config/opencode/plugins/vmemo.js").read_text("utf-8")
    start, _, rest = plugin.partition("const HOOK = ")
    words = json.dumps(["python3", str(hook), str(tmp_path / "events")])
    (tmp_path / "plugin.mjs").write_text(f"{start}const HOOK = {words}\n{rest.partition(chr(10))[2]}")
    (tmp_path / "main.mjs").write_text(
        """
import plugin from "./plugin.mjs"
const listed = async () => ({ data: [{ info: { id: "m" }, parts: [] }] })
const hooks = await plugin.server({ client: { session: { messages: listed } }, directory: "/shop" })
const output = { parts: [{ type: "text", text: "Hello" }] }
await hooks["chat.message"]({ sessionID: "s" }, output)
const system = { system: ["first"] }
await hooks["experimental.chat.system.transform"]({ sessionID: "s" }, system)
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "s" } } })
const registered = {}
async function* settled() {
  yield { type: "session.execution.settled", data: { sessionID: "s" } }
}
const close = await plugin.setup({
  location: { directory: "/shop" },
  session: { hook: async (name, run) => (registered[name] = run), messages: listed },
  event: { subscribe: settled },
})
const call = { sessionID: "s", system: [], messages: [{ role: "user", content: [{ type: "text", text: "Hello" }] }] }
await registered.context(call)
await registered.context(call)
await close()
console.log(JSON.stringify([...system.system, ...call.system.map((part) => part.text)]))
"""
    )
    done = subprocess.run([node, str(tmp_path / "main.mjs")], capture_output=True, text=True, check=True)
    given = ["text of SessionStart", "text of UserPromptSubmit"]
    assert json.loads(done.stdout) == ["first", *given, *given, *given]
    events = [json.loads(line) for line in (tmp_path / "events").read_text("utf-8").splitlines()]
    named = [(each["hook_event_name"], each["session_id"], each["cwd"]) for each in events]
    assert named[:3] == [(name, "s", "/shop") for name in ("SessionStart", "UserPromptSubmit", "Stop")]
    assert sorted(named[3:]) == sorted(named[:3]), "OpenCode 2 has the same events, and each once for two calls"
    assert events[1]["prompt"] == "Hello"
    assert events[2]["messages"] == [{"info": {"id": "m"}, "parts": []}]
