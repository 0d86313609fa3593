"""Redaction: secrets, or what a function of the caller removes, reach neither the database nor a model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from builders import WordEmbedder, exported
from pydantic import JsonValue

from vmemo import InvalidInput, Memory, RedactionFailed, Settings, redact_secrets
from vmemo.models.requests import RetainRequest
from vmemo_conformance.fake_llm import FakeLLM, ReceivedRequest

KEY = "sk-aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD"


def _memory(**options: Any) -> Memory:
    return Memory(":memory:", embedder=WordEmbedder(), **options)


def test_a_secret_is_replaced_before_anything_is_stored_or_embedded(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    with Memory(tmp_path / "memory.db", embedder=embedder) as memory:
        retained = memory.retain_sync(
            [f"My key is {KEY}.", "I live in Oslo."], metadata={"note": {"keys": [KEY, 7]}}, document="chat"
        )
        assert retained.redacted == 2
        assert memory.messages_sync()[0].content == "My key is [redacted: api key]."
        assert memory.messages_sync()[0].metadata == {"note": {"keys": ["[redacted: api key]", 7]}}
        assert "[redacted: api key]" in memory.recall_sync("my key").facts[0].text
    assert not any(KEY in text for text in embedder.documents)
    assert not any(KEY.encode() in file.read_bytes() for file in tmp_path.iterdir())


def test_a_line_with_a_secret_is_recognised_when_it_is_retained_again() -> None:
    with _memory() as memory:
        memory.retain_sync(f"My key is {KEY}.", document="chat")
        again = memory.retain_sync(f"My key is {KEY}.", document="chat")
        assert (len(again.stored), len(again.skipped)) == (0, 1)


def test_a_replaced_document_is_redacted_too() -> None:
    with _memory() as memory:
        request = RetainRequest.of({"messages": [{"content": f"My key is {KEY}.", "document": "chat"}]})
        assert memory.replace_messages_sync(request, []).redacted == 1
        assert memory.messages_sync()[0].content == "My key is [redacted: api key]."


def test_a_language_model_never_sees_a_secret() -> None:
    received: list[ReceivedRequest] = []

    def answer(request: ReceivedRequest) -> JsonValue:
        received.append(request)
        return {"facts": []} if request.step == "extract" else {"background": "I use [redacted: api key]."}

    with _memory(llm=FakeLLM(answer), settings=Settings(background=False)) as memory:
        memory.retain_sync(f"Please remember that my key is {KEY}.")
        memory.add_background_sync(f"I use {KEY}.")
    assert [request.step for request in received] == ["extract", "background"]
    assert not any(KEY in request.user for request in received)


@pytest.mark.parametrize("options", [{"redact": "none"}, {"settings": Settings(redact="none")}])
def test_redaction_can_be_switched_off(options: dict[str, object]) -> None:
    with _memory(**options) as memory:
        assert memory.retain_sync(f"My key is {KEY}.").redacted == 0
        assert KEY in memory.messages_sync()[0].content


def test_the_environment_switches_redaction_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VMEMO_REDACT", "none")
    with _memory() as memory:
        assert memory.retain_sync(f"My key is {KEY}.").redacted == 0
    monkeypatch.setenv("VMEMO_REDACT", "everything")
    with pytest.raises(InvalidInput, match="VMEMO_REDACT"):
        _memory()


def test_a_function_of_the_caller_redacts_in_place_of_the_built_in_one() -> None:
    def without_addresses(text: str) -> str:
        return re.sub(r"\S+@\S+", "[address]", redact_secrets(text))

    with _memory(redact=without_addresses) as memory:
        retained = memory.retain_sync(f"Write to ana@example.com with {KEY} now.")
        assert retained.redacted == 1
        assert memory.messages_sync()[0].content == "Write to [address] with [redacted: api key] now."


def _fails(text: str) -> str:
    raise LookupError(text)


def _erases(_: str) -> str:
    return " "


def _returns_nothing(_: str) -> None:
    return None


@pytest.mark.parametrize(
    ("redact", "reason"),
    [
        (_fails, "raised LookupError"),
        (_erases, "returned blank text"),
        (_returns_nothing, "returned NoneType"),
    ],
)
def test_nothing_is_stored_if_the_redaction_fails(redact: object, reason: str, tmp_path: Path) -> None:
    with _memory(redact=redact) as memory:
        before = exported(memory, tmp_path)
        with pytest.raises(RedactionFailed, match=reason) as caught:
            memory.retain_sync(["I live in Oslo.", f"My key is {KEY}."])
        assert "Nothing was stored" in str(caught.value)
        assert KEY not in str(caught.value)
        assert exported(memory, tmp_path) == before


def test_a_redaction_that_is_no_function_is_refused() -> None:
    with pytest.raises(InvalidInput, match='redact must be "secrets", "none" or a function'):
        _memory(redact=7)
