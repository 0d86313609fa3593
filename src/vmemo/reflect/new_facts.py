"""Embedding of the facts that reflect writes: opinions and observations."""

from __future__ import annotations

from collections.abc import Sequence

from vmemo.models import Fact
from vmemo.models.changes import NewFact
from vmemo.ports import Embedder, encodings
from vmemo.text.fact_text import embedded_text


async def embed_facts(facts: Sequence[Fact], embedder: Embedder) -> list[NewFact]:
    """Return the facts with their vectors, ready to be written."""
    texts = [embedded_text(fact.text, fact.mentioned_at, fact.engine) for fact in facts]
    found = await encodings(embedder, texts, "document")
    return [NewFact(fact=f, embedding=e.vector, tokens=e.tokens) for f, e in zip(facts, found, strict=True)]
