"""The verbs that write, and the bank that faults are tried on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from vmemo import Memory, Profile, migrate
from vmemo.models.requests import CreateBankRequest, RetainRequest
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM

BANK = "main"
NOTES = (
    "Anna Kowalski met Robert Hale at the Harbour Cafe.",
    "Robert Hale lives in Oslo.",
    "Mei Tanaka plays the cello in Kyoto.",
)
SECRET = "The safe of Zephyrine Quill holds opals."
REPLACEMENT = "The safe in the hall is empty."
NEW = ("Ingrid Solberg sails to Bergen.", "Omar Haddad bakes bread in Tunis.")
OPINION = "Anna Kowalski enjoys the Harbour Cafe."
ANSWER: dict[str, JsonValue] = {
    "calls": [],
    "steps": [],
    "found": True,
    "text": "At the Harbour Cafe [F1].",
    "opinions": [{"text": OPINION, "confidence": 0.8, "facts": ["F1"], "instead_of": ""}],
    "revised": [],
}
MERGED: dict[str, JsonValue] = {"background": "I like order. I like tea.", "replaced": []}


def memory_at(path: Path, *, llm: bool = False) -> Memory:
    """Return the memory of a file, with a scripted model if one is wanted."""
    model = FakeLLM({"reflect": lambda _: ANSWER, "background": lambda _: MERGED}) if llm else None
    return Memory(f"sqlite:///{path}", BANK, llm=model, embedder=HashEmbedder())


async def fill(path: Path) -> None:
    """Create the bank, with merged entities and a message that is still pending."""
    async with memory_at(path) as memory:
        await memory.profile(Profile(name="Ada", background="I like order."))
        await memory.retain(NOTES, document="notes")
        await memory.retain(SECRET, document="secret")
        await memory.merge_entities("Robert Hale", "Mei Tanaka", "for a test")
        await memory.add_message("The kettle is red.", document="kitchen")
        await memory.export(path.with_name("bank.jsonl"))


@dataclass(frozen=True)
class Verb:
    """A verb that writes. `adds` and `removes` are texts of messages."""

    run: Callable[[Memory, Path], Awaitable[object]]
    adds: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    llm: bool = False


async def _undo(memory: Memory) -> object:
    merges = [merge.id for merge in await memory.merges()]
    return await memory.undo_merge(merges[0] if merges else "missing")


async def _replace(memory: Memory) -> object:
    replaced = [message.id for message in await memory.messages(document="secret")]
    request = RetainRequest.of({"messages": [{"content": REPLACEMENT, "document": "secret"}]})
    return await memory.replace_messages(request, replaced)


async def _fact(memory: Memory, text: str) -> str:
    found = [fact.id for fact in await memory.facts(limit=1000) if text in fact.text and fact.expired_at is None]
    return found[0] if found else "missing"


async def _update(memory: Memory) -> object:
    return await memory.update(await _fact(memory, NOTES[1]), "Robert Hale lives in Bergen.", "for a test")


async def _delete(memory: Memory) -> object:
    return await memory.delete(await _fact(memory, SECRET))


async def _pin(memory: Memory) -> object:
    return await memory.pin(await _fact(memory, NOTES[2]))


VERBS = {
    "retain": Verb(lambda m, _: m.retain(NEW, document="new"), adds=NEW),
    "retain later": Verb(lambda m, _: m.add_messages(NEW, document="new"), adds=NEW),
    "replace": Verb(lambda m, _: _replace(m), adds=(REPLACEMENT,), removes=(SECRET,)),
    "process": Verb(lambda m, _: m.process()),
    "reflect": Verb(lambda m, _: m.reflect("Where did Anna Kowalski meet Robert Hale?"), llm=True),
    "forget document": Verb(lambda m, _: m.forget(document="secret"), removes=(SECRET,)),
    "forget entity": Verb(lambda m, _: m.forget(entity="Zephyrine Quill"), removes=(SECRET,)),
    "update fact": Verb(lambda m, _: _update(m)),
    "delete fact": Verb(lambda m, _: _delete(m), removes=(SECRET,)),
    "pin fact": Verb(lambda m, _: _pin(m)),
    "reprocess": Verb(lambda m, _: m.reprocess()),
    "maintain": Verb(lambda m, _: m.maintain()),
    "merge": Verb(lambda m, _: m.merge_entities("Anna Kowalski", "Robert Hale", "for a test")),
    "undo merge": Verb(lambda m, _: _undo(m)),
    "profile": Verb(lambda m, _: m.profile(Profile(name="Eve"))),
    "background": Verb(lambda m, _: m.add_background("I like tea."), llm=True),
    "create bank": Verb(lambda m, _: m.bank("other").run(CreateBankRequest(profile=Profile(name="Eve")))),
    "import": Verb(lambda m, folder: m.bank("other").import_bank(folder / "bank.jsonl")),
    "migrate": Verb(
        lambda _, folder: migrate(f"sqlite:///{folder / 'memory.db'}", f"sqlite:///{folder / 'other.db'}"),
    ),
    "delete bank": Verb(lambda m, _: m.forget(bank=True), removes=(*NOTES, SECRET, "The kettle is red.")),
}
