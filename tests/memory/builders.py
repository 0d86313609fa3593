"""Fixtures of the library tests: embedders without a model, messages, and direct queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from databases import store_at
from vmemo import Memory, Message
from vmemo.embedding.token_counter import count_tokens
from vmemo.models import Bank, BankId, Fact, Role
from vmemo.models.changes import Changes, NewFact
from vmemo.models.search import Vectors
from vmemo.ports import Embedder, TextKind
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.samples import a_fact

NOON = datetime(2023, 5, 8, 12, 0, tzinfo=UTC)
"""A Monday at noon, when these conversations take place."""


class WordEmbedder(HashEmbedder):
    """The hash embedder, which here notes the documents it is given and can be broken."""

    def __init__(self, name: str = "hash", dimension: int = 64) -> None:
        super().__init__(name, dimension)
        self.documents: list[str] = []
        self.broken = False

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Unit vectors, or the error of a service that is down."""
        if self.broken:
            raise ConnectionError("the model's server is gone")
        if kind == "document":
            self.documents.extend(texts)
        return await super().embed(texts, kind)


class TopicEmbedder:
    """Each text gets the vector of the first topic word it holds, so every cosine is known in advance."""

    name = "topics"

    def __init__(self, topics: Mapping[str, Sequence[float]]) -> None:
        self._topics = topics
        self.dimension = len(next(iter(topics.values())))

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """The unit vector of each text's topic."""
        rows = [next(vector for topic, vector in self._topics.items() if topic in text.lower()) for text in texts]
        vectors = np.array(rows, np.float32).reshape(len(texts), self.dimension)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def open_memory(url: str, bank: str = "default", embedder: Embedder | None = None) -> Memory:
    """A memory with the word embedder unless another is given."""
    return Memory(url, bank, embedder=embedder or WordEmbedder())


def said(content: str, minutes: float = 0, *, speaker: str | None = None, role: Role = "user") -> Message:
    """A message some minutes after noon."""
    return Message(content=content, timestamp=NOON + timedelta(minutes=minutes), speaker=speaker, role=role)


def exported(memory: Memory, folder: Path) -> list[str]:
    """The bank's export: equal before and after means that nothing changed."""
    file = folder / "look.jsonl"
    memory.export_sync(file)
    return file.read_text(encoding="utf-8").splitlines()


async def write_facts(url: str, facts: Sequence[Fact], embedder: HashEmbedder, bank: str = "default") -> None:
    """Land facts as an engine would, with any dates, network and importance; each rests on a message of its own."""
    name = BankId(bank)
    store = store_at(url)
    await store.open()
    await store.create_bank(Bank(id=bank, embedder=embedder.name, dimension=embedder.dimension))
    messages = [Message(content=fact.text, timestamp=fact.mentioned_at) for fact in facts]
    await store.append(name, messages)
    batch = Changes(
        bank=name,
        pending=[message.id for message in messages],
        facts=[
            NewFact(fact=fact.model_copy(update={"messages": (message.id,)}), embedding=embedder.vector(fact.text))
            for fact, message in zip(facts, messages, strict=True)
        ],
        revision=await store.revision(name),
        embedder=embedder.name,
    )
    assert await store.commit(batch)
    await store.close()


def counted_fact(text: str, **fields: object) -> Fact:
    """Return a fact with the number of tokens that an import computes."""
    return a_fact(text, **{"tokens": count_tokens(text), **fields})
