"""A reranker that calls an HTTP service with the request format of Cohere and Jina, which many servers support."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from vmemo.embedding.service import JsonService
from vmemo.errors import RerankFailed
from vmemo.llm.connections import http_client

TRIES = 3
MAX_PAUSE = 5.0
"""Seconds that a request waits if the service asks it to, because the recall waits too."""


class _Result(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)
    index: int
    relevance_score: float


class _RerankResponse(BaseModel):
    results: list[_Result]


class HttpReranker:
    """Reranks with a service: `url` is the full URL of its endpoint, `api_key` is sent as a bearer token.

    All attempts together may take `timeout` seconds. Every failure raises `RerankFailed`. Proxies are taken from the
    environment.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        timeout: float = 10.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._service = JsonService(
            url, label="The reranker", error=RerankFailed, api_key=api_key, timeout=timeout, tries=TRIES, sleep=sleep
        )
        self._model = model
        self._timeout = timeout

    @property
    def name(self) -> str:
        """The model's name, or the host if the service chooses the model."""
        return self._model or self._service.host

    def __repr__(self) -> str:
        return f"HttpReranker(host={self._service.host!r}, model={self._model!r})"

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the service's relevance scores in the order of the texts."""
        if not texts:
            return []
        body: dict[str, JsonValue] = {"query": query, "documents": list[JsonValue](texts), "top_n": len(texts)}
        if self._model is not None:
            body["model"] = self._model
        try:
            async with asyncio.timeout(self._timeout), http_client() as client:
                return await self._service.post(
                    client, body, lambda answer: _scores(answer, len(texts)), max_pause=MAX_PAUSE
                )
        except TimeoutError as error:
            raise RerankFailed(self._service.describe(f"did not answer within {self._timeout:g} seconds")) from error


def _scores(answer: bytes, count: int) -> list[float]:
    try:
        results = _RerankResponse.model_validate_json(answer).results
    except ValidationError:
        raise ValueError('{"results": [{"index": …, "relevance_score": …}]}') from None
    if sorted(result.index for result in results) != list(range(count)):
        raise ValueError(f"one score for each of {count} texts")
    scores = {result.index: result.relevance_score for result in results}
    return [scores[index] for index in range(count)]
