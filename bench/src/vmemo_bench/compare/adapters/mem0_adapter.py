"""Mem0: turns are stored with `infer=False` and searched with its defaults."""

from __future__ import annotations

import sys

from line_server import serve
from mem0 import Memory

folder, endpoint = sys.argv[1:]
USER = "benchmark"
memory = Memory.from_config(
    {
        "embedder": {"provider": "openai", "config": {"model": "document", "openai_base_url": endpoint}},
        "vector_store": {
            "provider": "qdrant",
            "config": {"path": f"{folder}/qdrant", "on_disk": True, "embedding_model_dims": 384},
        },
        "history_db_path": f"{folder}/history.db",
    }
)
model = memory.embedding_model
embed = model.embed


def embed_by_action(text: str, memory_action: str | None = None) -> list[float]:
    """Name the kind of text to the endpoint, so that questions are embedded as queries, as they are in vmemo."""
    model.config.model = "query" if memory_action == "search" else "document"
    return embed(text, memory_action)


model.embed = embed_by_action


def add(turns: dict[str, str]) -> None:
    """Store each turn as one memory."""
    for id, text in turns.items():
        memory.add([{"role": "user", "content": text}], user_id=USER, metadata={"turn": id}, infer=False)


def search(question: str, limit: int) -> list[str]:
    """Search without a lower bound of the score."""
    found = memory.search(question, filters={"user_id": USER}, top_k=limit, threshold=0.0)
    return [each["metadata"]["turn"] for each in found["results"]]


serve(add, search)
