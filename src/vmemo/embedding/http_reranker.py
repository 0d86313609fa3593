"""A reranker that calls an HTTP service with the request format of Cohere and Jina, which many servers support."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence

import httpx2
from pydantic import BaseModel, ConfigDict, ValidationError

from vmemo.errors import InvalidInput, RerankFailed
from vmemo.llm.connections import check_api_key, default_certificates, parse_url
from vmemo.llm.openai import retry_after_seconds

_RETRY_SECONDS = (0.2, 0.4)
"""Seconds before the second and the third attempt."""
_ATTEMPTS = len(_RETRY_SECONDS) + 1
_MAX_RETRY_AFTER = 5.0
"""Seconds of a Retry-After header that are waited at most, because the recall waits too."""
_MAX_BYTES = 32 * 1024 * 1024
"""Size of a response: a few bytes per text, and the texts themselves if the service repeats them."""


class _Result(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)
    index: int
    relevance_score: float


class _RerankResponse(BaseModel):
    # An error message with the input would write texts to logs.
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)
    results: list[_Result]


class HttpReranker:
    """Reranks with a service: `url` is the full URL of its endpoint, `api_key` is sent as a bearer token.

    Each attempt may take `timeout` seconds. Status 429 and 5xx and lost connections are retried twice. Every failure
    raises `RerankFailed` with the host, and never with the key or the texts. Proxies are taken from the environment.
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
        self._host = parse_url(url, "The reranker's URL").netloc
        self._url = url
        self._model = model
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "vmemo"}
        if api_key:
            key = check_api_key(api_key, "The reranker's API key")
            self._headers["Authorization"] = f"Bearer {key}"
        if not 0 < timeout < float("inf"):
            raise InvalidInput(f"timeout is {timeout}, but must be a positive, finite number of seconds")
        self._timeout = timeout
        self._sleep = sleep

    @property
    def name(self) -> str:
        """The model's name, or the host if the service chooses the model."""
        return self._model or self._host

    def __repr__(self) -> str:
        return f"HttpReranker(host={self._host!r}, model={self._model!r})"

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the service's relevance scores in the order of the texts."""
        if not texts:
            return []
        request = {"query": query, "documents": list(texts), "top_n": len(texts)}
        if self._model is not None:
            request["model"] = self._model
        # A lone surrogate cannot be encoded, and should not fail the request.
        body = await self._send(json.dumps(request, ensure_ascii=False).encode("utf-8", "replace"))
        return self._scores(body, len(texts))

    async def _send(self, body: bytes) -> bytes:
        async with httpx2.AsyncClient(timeout=None, verify=default_certificates(trust_env=True)) as client:
            for pause in (*_RETRY_SECONDS, None):
                wait = pause or 0.0
                try:
                    async with asyncio.timeout(self._timeout):
                        response, answer = await self._post(client, body)
                except TimeoutError as error:
                    raise self._failed(f"did not answer within {self._timeout:g} seconds") from error
                except httpx2.HTTPError as error:
                    if pause is None:
                        # Other messages may contain a line of the response, which may repeat the texts.
                        shown = error if isinstance(error, httpx2.ConnectError) else type(error).__name__
                        raise self._failed(f"gave no complete answer in {_ATTEMPTS} attempts: {shown}") from None
                else:
                    status = response.status_code
                    if response.is_success:
                        return answer
                    if pause is None or not (status == 429 or status >= 500):
                        raise self._failed(f"answered with status {status}{_advice(status)}")
                    wait = max(wait, min(retry_after_seconds(response.headers) or 0.0, _MAX_RETRY_AFTER))
                await self._sleep(wait)
        raise AssertionError("unreachable")

    async def _post(self, client: httpx2.AsyncClient, body: bytes) -> tuple[httpx2.Response, bytes]:
        """Return the response and its whole body. Redirects are not followed: they could lead the key elsewhere."""
        answer = bytearray()
        async with client.stream("POST", self._url, content=body, headers=self._headers) as response:
            async for packet in response.aiter_bytes():
                answer += packet
                if len(answer) > _MAX_BYTES:
                    raise self._failed(f"returned more than {_MAX_BYTES} bytes")
        return response, bytes(answer)

    def _scores(self, body: bytes, count: int) -> list[float]:
        try:
            results = _RerankResponse.model_validate_json(body).results
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, problem["loc"])) or "the body"
            raise self._failed(
                'returned something other than {"results": [{"index": …, "relevance_score": …}]}: '
                f"{place}: {problem['msg']}"
            ) from error
        if sorted(result.index for result in results) != list(range(count)):
            raise self._failed(f"returned {len(results)} results that do not name each of {count} texts exactly once")
        scores = {result.index: result.relevance_score for result in results}
        return [scores[index] for index in range(count)]

    def _failed(self, problem: str) -> RerankFailed:
        return RerankFailed(
            f"The reranker at {self._host} {problem}. Nothing was changed; try again, or recall without a reranker"
        )


def _advice(status: int) -> str:
    if 300 <= status < 400:
        return ", a redirect, which is not followed: give the final URL"
    if status in (401, 403):
        return ": check the API key"
    return ""
