"""The first hour of a new user: each obstacle that one met has a test, which is here or in the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vmemo import InvalidInput, Memory, Settings
from vmemo.cli.app import app
from vmemo_conformance.embedders import HashEmbedder

ROOT = Path(__file__).parents[1]
EXISTING_TESTS = {
    "the first snippet of the README": "tests/test_readme.py::test_the_first_snippet_prints_what_the_readme_shows",
    "the quickstart runs as pasted": "tests/test_docs.py::test_each_block_of_the_quickstart_runs_as_pasted",
    "paths, Path, sqlite:///~/x.db": "tests/memory/test_convenient_input.py::"
    "test_a_database_file_is_given_by_path_or_url",
    ":memory:": "tests/memory/test_convenient_input.py::test_a_database_in_memory_is_private_and_leaves_no_file",
    "VMEMO_URL": "tests/memory/test_convenient_input.py::"
    "test_the_database_is_the_argument_or_that_of_the_settings_or_of_the_environment",
    "messages of chat APIs in Python": "tests/memory/test_convenient_input.py::test_chat_messages_are_retained",
    "messages of chat APIs in REST": "server/tests/rest/test_rest_requests.py::"
    "test_messages_of_chat_apis_are_stored_and_those_without_text_are_skipped",
    "ISO times": "tests/memory/test_convenient_input.py::test_times_are_given_as_iso_text_or_aware_datetimes",
    "naive datetimes": "tests/memory/test_bad_input.py::test_an_invalid_message_option_is_refused",
    "--at-time 2024-01-01": "tests/cli/test_cli_recall.py::test_recall_takes_at_time_and_top_k",
    "one fact": "tests/memory/test_one_fact.py",
    "a failed retain": "tests/memory/test_failing_messages.py::"
    "test_the_error_is_on_the_message_and_later_messages_are_processed",
    "Windows": "tests/test_windows.py::test_every_module_imports_and_commands_run_without_unix_modules_and_fork",
    "docker run": "server/tests/rest/test_docker.py::"
    "test_image_starts_with_the_admin_key_of_the_environment_and_passes_its_health_check",
    "docker run without a key": "server/tests/rest/test_docker.py::test_image_without_a_key_names_the_variable_to_set",
    "/": "server/tests/rest/test_pages.py::test_home_page_needs_no_key_and_links_to_the_interfaces",
    "/docs": "server/tests/rest/test_openapi.py::test_docs_list_every_route_with_its_permission",
    "small JSON": "server/tests/rest/test_recall_formats.py::test_lean_facts_are_small_and_have_the_same_meaning",
    "prompts from REST": "server/tests/rest/test_recall_formats.py::test_a_prompt_is_plain_text",
    "tokens of MCP tools": "server/tests/mcp_server/test_mcp_tools.py::MAX_TOKENS",
    "retain --file chat.json": "tests/cli/test_cli_retain.py::test_a_json_file_is_read_as_chat_messages",
    "vmemo bank": "tests/cli/test_cli_bank.py::test_banks_are_listed_in_pages",
    "embedders by name": "tests/memory/test_named_embedders.py::test_a_named_embedder_retains_and_recalls",
    "embedders by name in commands": "tests/cli/test_cli_embedder.py::test_retain_and_recall_take_an_embedder",
    "TypeScript": "server/tests/rest/test_typescript_client.py::test_client_works_with_a_server",
    "framework integrations": "tests/test_integrations.py",
    "the settings reference": "tests/test_settings.py::test_the_settings_page_lists_every_setting_with_its_default",
}


@pytest.mark.parametrize("obstacle", EXISTING_TESTS)
def test_the_test_of_an_obstacle_exists(obstacle: str) -> None:
    file, _, name = EXISTING_TESTS[obstacle].partition("::")
    code = (ROOT / file).read_text(encoding="utf-8")
    assert name in code, f"{file} has no {name}"


@pytest.mark.parametrize("option", ["llm", "embedder"])
def test_the_hint_at_a_missing_key_names_settings_that_exist(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "VMEMO_LLM_KEY", "VMEMO_EMBEDDER_KEY"):
        monkeypatch.delenv(variable, raising=False)
    given = {"embedder": HashEmbedder(), option: "openai:any-model"}
    with pytest.raises(InvalidInput, match="needs an API key") as raised:
        Memory(":memory:", **given).retain_sync("I like tea.")  # pyright: ignore[reportArgumentType]
    [field] = re.findall(r"Settings\((\w+)=", str(raised.value))
    settings = Settings(**{field: "a-key"})  # pyright: ignore[reportArgumentType]
    # The service is not called before the first use.
    Memory(":memory:", settings=settings, **given)  # pyright: ignore[reportArgumentType]


def test_the_server_takes_an_embedder_by_name(tmp_path: Path) -> None:
    command = ["serve", "--port", "0", "--db", str(tmp_path / "x.db"), "--embedder", "openai:any-model"]
    result = CliRunner().invoke(app, command, env={"OPENAI_API_KEY": None, "VMEMO_EMBEDDER_KEY": None})
    assert result.exit_code != 0
    assert "set OPENAI_API_KEY or VMEMO_EMBEDDER_KEY" in result.output


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("README.md", r"^pip install vmemo$|^\$ pip install vmemo$|`pip install vmemo`"),
        ("README.md", "English"),
        ("docs/embeddings.md", "English"),
        ("docs/quickstart.md", r"pip install vmemo"),
        ("docs/python-api.md", r"Memory"),
        ("docs/rest.md", r"POST /v1/banks/"),
        ("docs/migration.md", r"Mem0"),
    ],
)
def test_the_documentation_has_what_was_missing(page: str, words: str) -> None:
    assert re.search(words, (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
