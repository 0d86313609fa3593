"""MemPalace: each turn is a drawer; candidates come from vectors and words (`candidate_strategy="union"`)."""

from __future__ import annotations

import sys

from line_server import serve
from mempalace.embedding import OpenAICompatEmbeddingFunction
from mempalace.miner import add_drawer
from mempalace.palace import get_collection
from mempalace.searcher import search_memories

folder, endpoint = sys.argv[1:]
PALACE = f"{folder}/palace"
questions = OpenAICompatEmbeddingFunction(endpoint, "query")
# Questions are embedded as queries, as they are in vmemo.
OpenAICompatEmbeddingFunction.embed_query = lambda self, input: questions(input)
drawers = get_collection(PALACE, create=True)


def add(turns: dict[str, str]) -> None:
    """Store each turn as one drawer."""
    for id, text in turns.items():
        add_drawer(drawers, "benchmark", "conversation", text, f"{folder}/{id}", 0, "benchmark")


def search(question: str, limit: int) -> list[str]:
    """Search vectors and words."""
    found = search_memories(question, PALACE, n_results=limit, candidate_strategy="union")
    if "error" in found:
        raise RuntimeError(found["error"])
    return [str(each["source_file"]).rpartition("/")[2] for each in found["results"]]


serve(add, search)
