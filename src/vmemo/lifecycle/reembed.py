"""Re-embedding: the vectors of another embedder are computed first, and replace the old ones in one commit."""

from __future__ import annotations

from vmemo.errors import NotFound
from vmemo.models import BankId, FactId
from vmemo.models.changes import Changes, NewEmbeddings
from vmemo.models.search import Encoding
from vmemo.models.select import FactSelect
from vmemo.ports import Embedder, Store, dimension_of, encodings
from vmemo.text.fact_text import embedded_text

PAGE = 500


async def reembed(bank: BankId, store: Store, embedder: Embedder) -> int:
    """Replace a bank's vectors and return their number; facts that are written meanwhile are embedded as well."""
    if await store.bank(bank) is None:
        raise NotFound(f"There is no bank {bank!r} here.")
    vectors: dict[FactId, Encoding] = {}
    after: FactId | None = None
    while True:
        while facts := await store.facts(bank, FactSelect(after=after, limit=PAGE)):
            texts = [embedded_text(fact.text, fact.mentioned_at, fact.engine) for fact in facts]
            fresh = await encodings(embedder, texts, "document")
            vectors.update((fact.id, encoding) for fact, encoding in zip(facts, fresh, strict=True))
            after = facts[-1].id
        new = NewEmbeddings(embedder=embedder.name, dimension=await dimension_of(embedder), vectors=vectors)
        if await store.commit(Changes(bank=bank, embeddings=new)):
            return len(vectors)
