"""Requests to embedding and reranking services: JSON in both directions, with a deadline and retries.

The reranker has the request format of Cohere and Jina, which many servers support.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import httpx2
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from vmemo.errors import InvalidInput, LLMFailed, LLMUnavailable, RerankFailed, VmemoError
from vmemo.llm.connections import check_api_key, http_client, parse_url
from vmemo.llm.openai import error_for_status, retry_after_seconds

T = TypeVar("T")
_MAX_BYTES = 32 * 1024 * 1024
"""Size of a response; a hundred vectors of 4,096 numbers as text take about 10 MB."""
_INITIAL_DELAY, _MAX_DELAY = 0.5, 20.0
_REJECTED = (400, 413, 422)
"""Statuses of requests that a service can't process, often because a text is longer than its model's context."""


class JsonService:
    """Posts to one URL of a service, which errors name as `label`, such as "The reranker".

    Status 408, 429 and 5xx, lost connections, timeouts and answers that `parse` refuses are tried again with backoff;
    a rejected request is not. Errors are of the class `error`. They name the URL and what to do, and contain neither
    the key nor texts. Redirects are not followed: they could lead the key elsewhere.
    """

    def __init__(
        self,
        url: str,
        *,
        label: str,
        error: type[VmemoError],
        api_key: str | None,
        timeout: float,
        tries: int,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        if not 0 < timeout < float("inf") or tries < 1:
            raise InvalidInput(f"{label}: timeout must be positive and finite, not {timeout}, and attempts at least 1")
        parts = parse_url(url, f"{label}'s URL")
        self.host = parts.netloc
        # The query of a URL may hold a key.
        self.shown_url = parts._replace(query="", fragment="").geturl()
        self.headers = {"User-Agent": "vmemo", "Content-Type": "application/json", "Accept": "application/json"}
        if api_key:
            key = check_api_key(api_key, f"{label}'s API key")
            self.headers["Authorization"] = f"Bearer {key}"
        self._url, self._label, self._error = url, label, error
        self._timeout, self._tries, self._sleep = timeout, tries, sleep

    async def post(
        self,
        client: httpx2.AsyncClient,
        body: Mapping[str, JsonValue],
        parse: Callable[[bytes], T],
        *,
        max_pause: float,
    ) -> T:
        """Return the parsed answer; `parse` raises ValueError with what it should have been, without quoting it."""
        # Lone surrogates cannot be encoded; replacing them is better than failing.
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        for attempt in range(1, self._tries + 1):
            try:
                return await self._attempt(client, content, parse)
            except LLMUnavailable as failure:
                pause = failure.retry_after
                if pause is None:
                    pause = random.random() * min(_INITIAL_DELAY * 2.0**attempt, _MAX_DELAY)
                elif pause > max_pause:
                    problem = f"{failure} and asks not to be called for {pause:.0f} seconds"
                    raise self._error(f"{problem}. Try again then") from failure
                if attempt == self._tries:
                    tried = f", in {attempt} attempts" if attempt > 1 else ""
                    raise self._error(f"{failure}{tried}. Try again later") from failure
            except LLMFailed as failure:
                raise self._error(f"{failure}. The request is not repeated") from failure
            await self._sleep(pause)
        raise AssertionError("unreachable")

    async def _attempt(self, client: httpx2.AsyncClient, content: bytes, parse: Callable[[bytes], T]) -> T:
        answer = bytearray()
        try:
            async with (
                asyncio.timeout(self._timeout),
                client.stream("POST", self._url, content=content, headers=self.headers) as response,
            ):
                async for packet in response.aiter_bytes():
                    answer += packet
                    if len(answer) > _MAX_BYTES:
                        raise self._error(self.describe(f"returned an answer of more than {_MAX_BYTES} bytes"))
        except TimeoutError:
            raise LLMUnavailable(self.describe(f"did not answer within {self._timeout:g} seconds")) from None
        except httpx2.ConnectError as error:
            raise LLMUnavailable(self.describe(f"can't be reached: {error}")) from error
        except httpx2.HTTPError as error:
            # The message may quote the answer, and the answer may quote the request.
            raise LLMUnavailable(self.describe(f"broke the connection ({type(error).__name__})")) from None
        if response.status_code != 200:
            raise self._refusal(response)
        try:
            return parse(bytes(answer))
        except ValueError as error:
            raise LLMUnavailable(self.describe(f"returned something other than {error}")) from None

    def _refusal(self, response: httpx2.Response) -> LLMFailed:
        start, after = self.describe("answered with status"), retry_after_seconds(response.headers)
        error = error_for_status(response.status_code, start, retry_after=after)
        if response.status_code in _REJECTED:
            return type(error)(f"{error} (is a text longer than the model's context?)")
        return error

    def describe(self, event: str) -> str:
        """Return a sentence about the service for an error message."""
        return f"{self._label} at {self.shown_url} {event}"


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
    """Reranks with the service at a full URL, in at most `timeout` seconds; every failure raises `RerankFailed`."""

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
