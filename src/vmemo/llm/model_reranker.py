"""A reranker that lets the language model of a memory order the candidates of a recall."""

from __future__ import annotations

from collections.abc import Sequence

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import AnswerSchema, StructuredLLM
from vmemo.ports import LLM


class RankedTexts(AnswerSchema):
    """The M numbers of the texts that help, best first."""

    best: list[str]


class ModelReranker:
    """Ranks with one call of a language model per recall. Texts that the model leaves out keep their order."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    @property
    def name(self) -> str:
        return self._llm.name

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score above 1 for each text that the model lists, and one below 1 for the others."""
        lines = [f"M{n} | {text}" for n, text in enumerate(texts, start=1)]
        prompt = load_prompt("llm", "rerank")
        request = prompt.request(RankedTexts, max_tokens=1024, question=quote([query]), texts=quote(lines))
        known = {f"M{n}": n - 1 for n in range(1, len(texts) + 1)}
        answer = await StructuredLLM(self._llm).ask(request, RankedTexts, lambda found: _unknown(found, known))
        scores = [1 - at / len(texts) for at in range(len(texts))]
        for place, number in enumerate(reversed(answer.best), start=2):
            scores[known[number]] = float(place)
        return scores


def _unknown(answer: RankedTexts, known: dict[str, int]) -> str | None:
    strange = [number[:8] for number in answer.best if number not in known]
    return f"these are no memories: {', '.join(strange[:5])}" if strange else None
