"""Language models behind OpenAI's chat protocol, which nearly every service and local server speaks."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal, TypedDict, Unpack

import httpx2
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from vmemo.errors import InvalidInput, LLMDenied, LLMFailed, LLMRefused, LLMUnusable
from vmemo.ports.providers import Ask, Completion
from vmemo.providers.addresses import address, sendable
from vmemo.providers.patient_llm import Busy, Garbled, PerLoop
from vmemo.reports import Usage

_MAX_BYTES = 8 * 1024 * 1024
_ROOM_TO_THINK = 8192
"""Tokens beside the answer's own, where a model's silent thoughts count as well."""
_UNWILLING = (400, 404, 415, 422)
_SHAPE_WORDS = re.compile(r"response_format|json_schema|json_object|schema|strict|grammar|structured")
_ODD = re.compile(r"[^A-Za-z0-9_-]+")

Prices = tuple[float, float]
"""Dollars for a million tokens of input and of output."""


class ClientOptions(TypedDict, total=False):
    """What else a connection may need: other certificates, a proxy of its own, none of the environment's."""

    verify: ssl.SSLContext | bool
    proxy: str
    trust_env: bool


@dataclass(frozen=True)
class _Manner:
    """How this server wants to be asked, as far as its refusals have taught us."""

    shape: Literal["json_schema", "json_object", "text"] = "json_schema"
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: float | None = 0.0

    def humbler(self, complaint: str) -> _Manner | None:
        """What to try after a complaint; None where it is about something else."""
        if self.temperature is not None and "temperature" in complaint:
            return replace(self, temperature=None)
        # Old servers ignore the newer name in silence, so the old one comes first.
        if self.limit == "max_tokens" and "max_completion_tokens" in complaint:
            return replace(self, limit="max_completion_tokens")
        if self.shape != "text" and _SHAPE_WORDS.search(complaint):
            return replace(self, shape="json_object" if self.shape == "json_schema" else "text")
        return None

    def tokens(self, ask: Ask) -> int:
        """The most tokens that may be used."""
        return ask.max_tokens + (_ROOM_TO_THINK if self.limit == "max_completion_tokens" else 0)


@dataclass(frozen=True)
class _Reply:
    status: int
    body: bytes
    headers: httpx2.Headers


class _Envelope(BaseModel):
    # A message that repeats the input would carry texts into logs.
    model_config = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)


class _Part(_Envelope):
    text: str = ""


class _Message(_Envelope):
    content: str | list[_Part] | None = None
    refusal: str | None = None

    @property
    def text(self) -> str:
        parts = self.content or ""
        return parts if isinstance(parts, str) else "".join(part.text for part in parts)


class _Choice(_Envelope):
    message: _Message
    finish_reason: str | None = None


class _Spent(_Envelope):
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    cost: float | None = Field(default=None, ge=0)


class _Body(_Envelope):
    choices: list[_Choice] = Field(min_length=1)
    usage: JsonValue = None


class OpenAICompatible:
    """A model at a server: `base_url` is what stands before /chat/completions, `api_key` is sent as a bearer token.

    One `complete` is one answer without retries, whole within `timeout` seconds. A server that refuses schemas, the
    temperature or a parameter's name is asked more plainly, and its ways are remembered. Messages of errors name the
    host and the status, and never the key or the texts. `prices` are dollars for a million tokens.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None = None,
        name: str | None = None,
        timeout: float = 60.0,
        prices: Prices | None = None,
        temperature: float | None = 0.0,
        **options: Unpack[ClientOptions],
    ) -> None:
        parts = address(base_url, "The model's base URL")
        self._host = parts.netloc
        self._url = parts._replace(path=parts.path.rstrip("/") + "/chat/completions").geturl()
        self._model = model
        self._name = name or model
        self._headers = {"User-Agent": "vmemo", "Accept": "application/json"}
        if api_key:
            key = sendable(api_key, "The model's API key")
            self._headers["Authorization"] = f"Bearer {key}"
        if not 0 < timeout < float("inf"):
            raise InvalidInput(f"timeout is {timeout}, but a model needs some seconds to answer")
        self._timeout = timeout
        self._prices = prices
        self._options = options
        self._manner = _Manner(temperature=temperature)
        self._clients = PerLoop(self._connect)

    @property
    def name(self) -> str:
        """The model's name, or the one it was given."""
        return self._name

    def __repr__(self) -> str:
        return f"OpenAICompatible(model={self._model!r}, host={self._host!r})"

    async def complete(self, ask: Ask) -> Completion:
        """The model's answer, asked for in the way that this server understands."""
        manner, humbler = self._manner, self._manner
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    manner = humbler
                    reply = await self._post(ask, manner)
                    complaint = reply.body.decode("utf-8", "replace") if reply.status in _UNWILLING else ""
                    if (humbler := manner.humbler(complaint)) is None:
                        break
        except TimeoutError as error:
            raise Busy(self._says(f"gave no whole answer within {self._timeout:g} seconds")) from error
        if reply.status != 200:
            raise failure(reply.status, self._says("answered with status"), retry_after=wish(reply.headers))
        self._manner = manner
        return self._completion(reply.body, manner.tokens(ask))

    async def close(self) -> None:
        """Close the connections of every event loop; a later call opens new ones."""
        await self._clients.close(httpx2.AsyncClient.aclose)

    async def _post(self, ask: Ask, manner: _Manner) -> _Reply:
        step = label(ask.step)
        # Half a surrogate pair can't be sent, and is worth no failure.
        content = json.dumps(_request(self._model, step, ask, manner), ensure_ascii=False).encode("utf-8", "replace")
        headers = {**self._headers, "Content-Type": "application/json", "X-Vmemo-Step": step}
        try:
            async with self._clients.here().stream("POST", self._url, content=content, headers=headers) as response:
                body = bytearray()
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > _MAX_BYTES:
                        raise LLMUnusable(self._says(f"gave an answer of more than {_MAX_BYTES} bytes"))
                return _Reply(response.status_code, bytes(body), response.headers)
        except httpx2.DecodingError:
            raise Garbled(self._says("gave an answer whose compression is broken")) from None
        except httpx2.ConnectError as error:
            raise Busy(self._says(f"can't be reached: {error}")) from error
        except httpx2.HTTPError as error:
            # Its message may hold a line of the answer, and the answer may repeat the texts.
            raise Busy(self._says(f"broke the connection ({type(error).__name__})")) from None

    def _connect(self) -> httpx2.AsyncClient:
        # The whole exchange has one deadline, and whoever calls limits how many run at once.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
        return httpx2.AsyncClient(timeout=None, limits=limits, **self._options)

    def _completion(self, body: bytes, tokens: int) -> Completion:
        try:
            answer = _Body.model_validate_json(body)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
            place = ".".join(map(str, problem["loc"])) or "the body"
            raise Garbled(self._says(f"gave something else than a chat completion: {place} is wrong")) from None
        choice = answer.choices[0]
        if choice.message.refusal or choice.finish_reason == "content_filter":
            raise LLMRefused(self._says("declined to answer"))
        if choice.finish_reason == "length":
            raise LLMUnusable(self._says(f"gave an answer that was cut off at {tokens} tokens"))
        if not choice.message.text.strip():
            raise Garbled(self._says("gave an empty answer"))
        return Completion(text=choice.message.text, usage=self._usage(answer.usage))

    def _usage(self, usage: JsonValue) -> Usage:
        try:
            spent = _Spent.model_validate(usage)
        except ValidationError:
            spent = _Spent()
        cost = (
            spent.cost if spent.cost is not None else price(spent.prompt_tokens, spent.completion_tokens, self._prices)
        )
        return Usage(calls=1, input_tokens=spent.prompt_tokens, output_tokens=spent.completion_tokens, cost=cost)

    def _says(self, what: str) -> str:
        return f"The model {self._name} at {self._host} {what}"


def label(step: str) -> str:
    """A step's name in the letters that headers, schemas and tools may be called by."""
    return _ODD.sub("_", step)[:64] or "answer"


def price(asked: int, said: int, prices: Prices | None) -> float:
    """Dollars for so many tokens of input and output; nothing where prices are unknown."""
    return (asked * prices[0] + said * prices[1]) / 1_000_000 if prices else 0.0


def failure(status: int, start: str, *, retry_after: float | None = None) -> LLMFailed:
    """The error for an HTTP status, whose message begins with `start`."""
    if status in (408, 429) or status >= 500:
        return Busy(f"{start} {status}", retry_after=retry_after)
    if 200 <= status < 300:
        return Garbled(f"{start} {status}")
    if status < 400:
        return LLMDenied(f"{start} {status}, a redirect, which is not followed: give the final URL")
    advice = {401: "check the API key", 402: "check the account", 403: "check the API key and its rights"}
    advice |= {404: "check the base URL and the model's name", 413: "the request is too long for it"}
    return LLMDenied(f"{start} {status}: {advice.get(status, 'it does not accept the request')}")


def wish(headers: Mapping[str, str]) -> float | None:
    """The seconds that a Retry-After header asks to wait, given as a number or as a date."""
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII):
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def strict(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A schema as servers with strict output want it: nothing beside the named properties, and all of them required.

    A property that could be left out may be null instead. Objects with free keys stay as they are.
    """
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    node = {_RENAMED.get(key, key): _inside(key, value) for key, value in schema.items() if key not in _DROPPED}
    properties = node.get("properties")
    if isinstance(properties, dict):
        listed = schema.get("required")
        required = listed if isinstance(listed, list) else []
        node["properties"] = {
            name: value if name in required or not isinstance(value, dict) else _nullable(value)
            for name, value in properties.items()
        }
        node |= {"required": list[JsonValue](properties), "additionalProperties": False}
    return node


_RENAMED = {"oneOf": "anyOf"}
_DROPPED = frozenset(
    ("default", "discriminator", "title", "maxLength", "minLength", "maxItems", "minItems", "maximum", "minimum")
)
"""What not every server with strict output takes; answers are checked all the same."""


def _inside(key: str, value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        if key in ("properties", "$defs", "definitions"):
            return {name: strict(part) if isinstance(part, dict) else part for name, part in value.items()}
        return strict(value) if key in ("items", "additionalProperties") else value
    if isinstance(value, list) and key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        return [strict(part) if isinstance(part, dict) else part for part in value]
    return value


def _nullable(schema: dict[str, JsonValue]) -> JsonValue:
    null: dict[str, JsonValue] = {"type": "null"}
    kind, choices = schema.get("type"), schema.get("anyOf")
    if kind == "null" or (isinstance(kind, list) and "null" in kind) or (isinstance(choices, list) and null in choices):
        return schema
    if isinstance(choices, list):
        return {**schema, "anyOf": [*choices, null]}
    return {"anyOf": [schema, null]}


def in_words(ask: Ask) -> str:
    """The system message with the schema written into it, for models that take it in no other way."""
    schema = json.dumps(ask.schema, ensure_ascii=False)
    wanted = "Answer with one JSON object that fits this JSON schema, without any other words and without a code fence:"
    return f"{ask.system}\n\n{wanted}\n{schema}"


def _request(model: str, step: str, ask: Ask, manner: _Manner) -> dict[str, JsonValue]:
    system = ask.system if manner.shape == "json_schema" else in_words(ask)
    messages: list[JsonValue] = [{"role": "system", "content": system}, {"role": "user", "content": ask.user}]
    request: dict[str, JsonValue] = {"model": model, "messages": messages, manner.limit: manner.tokens(ask)}
    if manner.temperature is not None:
        request["temperature"] = manner.temperature
    if manner.shape == "json_schema":
        named: dict[str, JsonValue] = {"name": step, "schema": strict(ask.schema), "strict": True}
        request["response_format"] = {"type": "json_schema", "json_schema": named}
    elif manner.shape == "json_object":
        request["response_format"] = {"type": "json_object"}
    return request
