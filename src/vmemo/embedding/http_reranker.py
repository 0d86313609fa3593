"""A reranking service over HTTP, in the shape that Cohere and Jina share and many servers copy."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import cast
from urllib.error import URLError
from urllib.request import HTTPErrorProcessor, OpenerDirector, Request, build_opener

from pydantic import BaseModel, ConfigDict, ValidationError

from vmemo.errors import InvalidInput, RerankFailed
from vmemo.llm.endpoints import check_api_key, parse_url

_BACKOFF = (0.2, 0.4)
"""Seconds to wait before the second and the third try."""
_TRIES = len(_BACKOFF) + 1
_MAX_WAIT = 5.0
"""Seconds that a service's wish to wait is followed; whoever recalls waits too."""
_MAX_BYTES = 32 * 1024 * 1024
"""An answer holds a few bytes for each text, and the texts themselves where a service repeats them."""
_CHUNK = 65_536


class _Result(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)
    index: int
    relevance_score: float


class _Answer(BaseModel):
    # A message that repeats the input would carry texts into logs.
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)
    results: list[_Result]


@dataclass(frozen=True)
class _Reply:
    status: int
    body: bytes
    retry_after: str

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.status == 429 or self.status >= 500


class _AsItCame(HTTPErrorProcessor):
    """Hands on every answer. So no redirect is followed, which could carry key and texts to another host."""

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:
        return response

    https_response = http_response


class HttpReranker:
    """Reranks with a service: `url` is the full address of its endpoint, `api_key` is sent as a bearer token.

    Each try may take `timeout` seconds. Answers of 429 and 5xx and lost connections are tried three times in
    all. Everything that goes wrong is a `RerankFailed` which names the host, and never the key or the texts.
    Proxies are those of the environment, as in all of Python.
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
            raise InvalidInput(f"timeout is {timeout}, but a service needs some seconds to answer")
        self._timeout = timeout
        self._sleep = sleep

    @property
    def name(self) -> str:
        """The model's name, or the host's where the service chooses the model."""
        return self._model or self._host

    def __repr__(self) -> str:
        return f"HttpReranker(host={self._host!r}, model={self._model!r})"

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """The service's relevance scores in the order of the texts."""
        if not texts:
            return []
        asked = {"query": query, "documents": list(texts), "top_n": len(texts)}
        if self._model is not None:
            asked["model"] = self._model
        # Half a surrogate pair can't be sent, and is worth no failure.
        body = await self._ask(json.dumps(asked, ensure_ascii=False).encode("utf-8", "replace"))
        return self._scores(body, len(texts))

    async def _ask(self, body: bytes) -> bytes:
        opener = build_opener(_AsItCame)
        for pause in (*_BACKOFF, None):
            try:
                async with asyncio.timeout(self._timeout):
                    reply = await asyncio.to_thread(self._post, opener, body)
            except TimeoutError as error:
                raise self._failed(f"did not answer within {self._timeout:g} seconds") from error
            except OSError as error:
                if pause is None:
                    raise self._failed(f"gave no whole answer in {_TRIES} tries: {error!r}") from error
                wait = pause
            else:
                if reply.good:
                    return reply.body
                if pause is None or not reply.passing:
                    raise self._failed(f"answered with status {reply.status}{_advice(reply.status)}")
                wait = max(pause, _seconds(reply.retry_after))
            await self._sleep(wait)
        raise AssertionError("unreachable")

    def _post(self, opener: OpenerDirector, body: bytes) -> _Reply:
        deadline = time.monotonic() + self._timeout
        request = Request(self._url, data=body, headers=self._headers, method="POST")
        try:
            with cast("HTTPResponse", opener.open(request, timeout=self._timeout)) as response:
                return _Reply(response.status, self._read(response, deadline), response.headers.get("Retry-After", ""))
        except URLError as error:
            raise error.reason if isinstance(error.reason, OSError) else error from None
        except HTTPException as error:
            # Its message may hold a line of the answer, and the answer may repeat the texts.
            raise ConnectionError(type(error).__name__) from None

    def _read(self, response: HTTPResponse, deadline: float) -> bytes:
        """The whole body. The socket's timeout starts anew with each byte, so a trickle is ended here."""
        body = bytearray()
        while part := response.read1(_CHUNK):
            body += part
            if len(body) > _MAX_BYTES:
                raise self._failed(f"gave an answer of more than {_MAX_BYTES} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError
        if response.length:
            raise IncompleteRead(b"", response.length)
        return bytes(body)

    def _scores(self, body: bytes, count: int) -> list[float]:
        try:
            results = _Answer.model_validate_json(body).results
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, problem["loc"])) or "the body"
            raise self._failed(
                'gave something else than {"results": [{"index": …, "relevance_score": …}]}: '
                f"{place}: {problem['msg']}"
            ) from error
        if sorted(result.index for result in results) != list(range(count)):
            raise self._failed(f"gave {len(results)} results that do not name each of {count} texts exactly once")
        scores = {result.index: result.relevance_score for result in results}
        return [scores[index] for index in range(count)]

    def _failed(self, problem: str) -> RerankFailed:
        return RerankFailed(
            f"The reranker at {self._host} {problem}. Nothing was changed; repeat it, or recall without a reranker"
        )


def _advice(status: int) -> str:
    if 300 <= status < 400:
        return ", a redirect, which is not followed: give the final URL"
    if status in (401, 403):
        return ": check the API key"
    return ""


def _seconds(retry_after: str) -> float:
    """A wish in seconds, within limits; one for a date counts as none."""
    return min(float(retry_after), _MAX_WAIT) if retry_after.isascii() and retry_after.isdigit() else 0.0
