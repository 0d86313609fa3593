"""Language models behind OpenAI's chat protocol, which most services and local servers support."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal, TypeVar, Unpack

import httpx2
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from vmemo.errors import InvalidInput, LLMDenied, LLMFailed, LLMRefused, LLMUnavailable, LLMUnusable
from vmemo.llm.connections import ClientOptions, check_api_key, drain, http_client, parse_url, sse_events, with_deadline
from vmemo.models.results import Usage
from vmemo.ports import Completion, LLMRequest
from vmemo.sync import PerEventLoop

M = TypeVar("M", bound="_WireModel")
ResponseFormat = Literal["json_schema", "json_object", "text"]
Prices = tuple[float, float]
"""Dollars per million input tokens and per million output tokens."""
_DONE = "[DONE]"
_STATUS = re.compile(r"[45]\d\d")
_REFUSED = re.compile(r"content_?filter|content_policy|moderation|safety", re.IGNORECASE)
_DENIED = re.compile(
    r"invalid|unsupported|not_?found|context_length|quota|billing|authentication|permission", re.IGNORECASE
)
_DROPPED = frozenset(
    ("default", "discriminator", "title", "maxLength", "minLength", "maxItems", "minItems", "maximum", "minimum")
)
"""Keywords that not every server with strict output accepts; answers are validated here in any case."""
_MAX_BYTES = 8 * 1024 * 1024
_STREAM_OVERHEAD = 8
"""Factor by which a stream may exceed _MAX_BYTES, because every few characters have their own JSON envelope."""
_UNSUPPORTED_STATUSES = (400, 404, 415, 422)
"""Statuses with which servers reject a request feature."""
_REASONING_TOKENS = 8192
"""Added to the limit of models that count their reasoning tokens towards it."""
_SCHEMA_WORDS = re.compile(r"response_format|json_schema|json_object|schema|strict|grammar|structured")
_USAGE_WORDS = re.compile(r"stream_options|include_usage")
_STREAM_WORDS = re.compile(r"\b(stream|streaming|streamed)\b", re.IGNORECASE)
_INVALID_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class RequestFormat:
    """The request features that a server supports, as far as its error responses have shown."""

    response_format: ResponseFormat = "json_schema"
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: float | None = 0.0
    stream: Literal["with_usage", "without_usage", "unsupported"] = "with_usage"

    def downgrade(self, error: str, *, streaming: bool = False) -> RequestFormat | None:
        """Return the format to try after an error response, or None if the error has another cause."""
        if streaming and self.stream == "with_usage" and _USAGE_WORDS.search(error):
            return replace(self, stream="without_usage")
        if self.temperature is not None and "temperature" in error:
            return replace(self, temperature=None)
        # Old servers silently ignore the newer name, so the old one is tried first.
        if self.token_limit == "max_tokens" and "max_completion_tokens" in error:
            return replace(self, token_limit="max_completion_tokens")
        if self.response_format != "text" and _SCHEMA_WORDS.search(error):
            return replace(self, response_format="json_object" if self.response_format == "json_schema" else "text")
        if streaming and self.stream != "unsupported" and _STREAM_WORDS.search(error):
            return replace(self, stream="unsupported")
        return None

    def max_tokens(self, request: LLMRequest) -> int:
        return request.max_tokens + (_REASONING_TOKENS if self.token_limit == "max_completion_tokens" else 0)


def build_body(
    model: str, request: LLMRequest, format: RequestFormat, *, streaming: bool = False
) -> dict[str, JsonValue]:
    system = request.system if format.response_format == "json_schema" else system_with_schema(request)
    messages: list[JsonValue] = [{"role": "system", "content": system}, {"role": "user", "content": request.user}]
    body: dict[str, JsonValue] = {"model": model, "messages": messages, format.token_limit: format.max_tokens(request)}
    if format.temperature is not None:
        body["temperature"] = format.temperature
    if format.response_format == "json_schema":
        body["response_format"] = {"type": "json_schema", "json_schema": response_schema(request)}
    elif format.response_format == "json_object":
        body["response_format"] = {"type": "json_object"}
    if streaming and format.stream != "unsupported":
        body["stream"] = True
        if format.stream == "with_usage":
            body["stream_options"] = {"include_usage": True}
    return body


def schema_name(step: str) -> str:
    """Return a step's name reduced to the characters that headers, schemas and tools may be named with."""
    return _INVALID_NAME_CHARACTERS.sub("_", step)[:64] or "answer"


def response_schema(request: LLMRequest) -> dict[str, JsonValue]:
    """Return the named schema of the answer, strict unless the answer may leave out optional fields."""
    strict, name = not request.omit_empty, schema_name(request.step)
    return {"name": name, "schema": strict_schema(request.schema, strict=strict), "strict": strict}


def strict_schema(schema: Mapping[str, JsonValue], *, strict: bool = True) -> dict[str, JsonValue]:
    """Return the schema without the keywords that not every server accepts.

    In the strict form every property is required, an optional one becomes nullable, and additional properties are
    forbidden. Objects with free keys are kept as they are.
    """
    if strict and "$ref" in schema:
        return {"$ref": schema["$ref"]}
    kept = {"anyOf" if strict and key == "oneOf" else key: key for key in schema if key not in _DROPPED}
    node = {name: _part(key, schema[key], strict=strict) for name, key in kept.items()}
    properties = node.get("properties")
    if strict and isinstance(properties, dict):
        listed = schema.get("required")
        required = listed if isinstance(listed, list) else []
        node["properties"] = {
            name: value if name in required or not isinstance(value, dict) else _nullable(value)
            for name, value in properties.items()
        }
        node |= {"required": list[JsonValue](properties), "additionalProperties": False}
    return node


def _part(key: str, value: JsonValue, *, strict: bool) -> JsonValue:
    if isinstance(value, dict) and key in ("properties", "$defs", "definitions"):
        # The keys are names; "items" stands for any place of a schema.
        return {name: _part("items", part, strict=strict) for name, part in value.items()}
    if isinstance(value, dict) and key in ("items", "additionalProperties"):
        return strict_schema(value, strict=strict)
    if isinstance(value, list) and key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        return [_part("items", part, strict=strict) for part in value]
    return value


def _nullable(schema: dict[str, JsonValue]) -> JsonValue:
    null: dict[str, JsonValue] = {"type": "null"}
    kind, choices = schema.get("type"), schema.get("anyOf")
    if kind == "null" or (isinstance(kind, list) and "null" in kind) or (isinstance(choices, list) and null in choices):
        return schema
    if isinstance(choices, list):
        return {**schema, "anyOf": [*choices, null]}
    return {"anyOf": [schema, null]}


def system_with_schema(request: LLMRequest) -> str:
    """Return the system message with the schema appended, for servers without structured output."""
    schema = json.dumps(request.schema, ensure_ascii=False)
    instruction = "Answer with one JSON object that matches this JSON schema, without other text or a code fence:"
    return f"{request.system}\n\n{instruction}\n{schema}"


class _WireModel(BaseModel):
    # Validation messages that quote the input would leak texts into logs.
    model_config = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)


class _ContentPart(_WireModel):
    text: str = ""


class _ChatMessage(_WireModel):
    content: str | list[_ContentPart] | None = None
    refusal: str | None = None

    @property
    def text(self) -> str:
        content = self.content or ""
        return content if isinstance(content, str) else "".join(part.text for part in content)


class _ChatChoice(_WireModel):
    message: _ChatMessage
    finish_reason: str | None = None


class _TokenUsage(_WireModel):
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    cost: float | None = Field(default=None, ge=0)


class _ChatCompletion(_WireModel):
    choices: list[_ChatChoice] = Field(min_length=1)
    usage: JsonValue = None


class _ChunkChoice(_WireModel):
    delta: _ChatMessage | None = None
    finish_reason: str | None = None


class _ChatChunk(_WireModel):
    choices: list[_ChunkChoice] | None = None
    usage: JsonValue = None
    error: JsonValue = None
    object: JsonValue = None
    code: JsonValue = None
    type: JsonValue = None

    @property
    def error_details(self) -> JsonValue:
        """The error that replaces the next delta; some servers put it at the top level of the chunk."""
        return {"code": self.code, "type": self.type} if self.object == "error" else self.error


@dataclass(frozen=True, kw_only=True)
class ResponseParser:
    """Turns response bodies into completions; `describe` prefixes an error message with the model and host."""

    describe: Callable[[str], str]
    max_tokens: int
    prices: Prices | None = None

    def parse_body(self, body: bytes) -> Completion:
        answer = self.validate(_ChatCompletion, body)
        choice = answer.choices[0]
        self.check_finish(choice.message.refusal, choice.finish_reason)
        return self.completion(choice.message.text, answer.usage)

    def validate(self, model: type[M], data: bytes | str) -> M:
        """Return the parsed data, or raise an error that names the invalid field without quoting the response."""
        try:
            return model.model_validate_json(data)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
            field = ".".join(map(str, problem["loc"])) or "the body"
            message = f"returned something other than a chat completion: {field} is invalid"
            raise LLMUnavailable(self.describe(message)) from None

    def check_finish(self, refusal: str | None, finish_reason: str | None) -> None:
        """Raise if the model refused to answer or was cut off."""
        if refusal or finish_reason == "content_filter":
            raise LLMRefused(self.describe("declined to answer"))
        if finish_reason == "length":
            raise LLMUnusable(self.describe(f"returned an answer that was cut off at {self.max_tokens} tokens"))

    def completion(self, text: str, usage: JsonValue) -> Completion:
        """Return the completion with its cost; raise if the text is blank."""
        if not text.strip():
            raise LLMUnavailable(self.describe("returned an empty answer"))
        try:
            reported = _TokenUsage.model_validate(usage)
        except ValidationError:
            reported = _TokenUsage()
        input_tokens, output_tokens = reported.prompt_tokens, reported.completion_tokens
        cost = reported.cost
        if cost is None:
            per_input, per_output = self.prices or (0.0, 0.0)
            cost = (input_tokens * per_input + output_tokens * per_output) / 1_000_000
        used = Usage(calls=1, input_tokens=input_tokens, output_tokens=output_tokens, cost=cost)
        return Completion(text=text, usage=used)

    def stream_error(self, error: JsonValue) -> LLMFailed:
        """Return the exception for an error that arrives inside a stream."""
        code, kind = (str(error.get("code")), str(error.get("type"))) if isinstance(error, dict) else ("", "")
        if _STATUS.fullmatch(code):
            return error_for_status(int(code), self.describe("aborted its answer with status"))
        if _REFUSED.search(f"{code} {kind}"):
            return LLMRefused(self.describe("declined to answer"))
        if _DENIED.search(f"{code} {kind}"):
            return LLMDenied(self.describe("aborted its answer: it does not accept the request"))
        return LLMUnavailable(self.describe("aborted its answer with an error"))


class StreamParser:
    """Assembles a completion from the chunks of a stream."""

    def __init__(self, parser: ResponseParser) -> None:
        self._parser = parser
        self._texts: list[str] = []
        self._has_text = False
        self._finish_reason: str | None = None
        self._usage: JsonValue = None
        self.done = False
        """True once the server has sent the end marker."""

    def add(self, data: str) -> str:
        """Return the text delta of an event. Leading whitespace is held back, because it may be all that follows."""
        if data.strip() == _DONE:
            self.done = True
            return ""
        chunk = self._parser.validate(_ChatChunk, data)
        if chunk.error_details is not None:
            raise self._parser.stream_error(chunk.error_details)
        if chunk.usage is not None:
            self._usage = chunk.usage
        return self._add_choice(chunk.choices[0]) if chunk.choices else ""

    def completion(self) -> Completion:
        """Return the whole answer; raise if the stream ended early."""
        if self._finish_reason == "error" or not (self._finish_reason or self.done):
            raise LLMUnavailable(self._parser.describe("broke off in the middle of its answer"))
        return self._parser.completion("".join(self._texts), self._usage)

    def _add_choice(self, choice: _ChunkChoice) -> str:
        delta = choice.delta or _ChatMessage()
        self._finish_reason = choice.finish_reason or self._finish_reason
        self._parser.check_finish(delta.refusal, self._finish_reason)
        self._texts.append(delta.text)
        if self._has_text:
            return delta.text
        text = "".join(self._texts)
        self._has_text = bool(text.strip())
        return text if self._has_text else ""


def error_for_status(status: int, start: str, *, retry_after: float | None = None) -> LLMFailed:
    """Return the exception for an HTTP status; its message begins with `start`."""
    if status < 300 or status in (408, 429) or status >= 500:
        return LLMUnavailable(f"{start} {status}", retry_after=retry_after)
    if status < 400:
        return LLMDenied(f"{start} {status}, a redirect, which is not followed: configure the final URL")
    advice = {401: "check the API key", 402: "check the account", 403: "check the API key and its permissions"}
    advice |= {404: "check the base URL and the model's name", 413: "the request is too long for it"}
    return LLMDenied(f"{start} {status}: {advice.get(status, 'it does not accept the request')}")


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the delay of a Retry-After header, which is a number of seconds or a date; None if it has no delay."""
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII):
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


class ModelAdapter:
    """The name, the deadline and the prices of a model, for all adapters.

    One `complete` or `stream` is one answer without retries, within `timeout` seconds. `prices` are dollars per million
    tokens. Error messages never contain the key or the texts.
    """

    def __init__(self, name: str, timeout: float, prices: Prices | None, host: str = "") -> None:
        if not 0 < timeout < float("inf"):
            raise InvalidInput(f"timeout must be a positive, finite number of seconds, not {timeout}")
        self.name = name
        self._timeout = timeout
        self._prices = prices
        self._place = f"{name} at {host}" if host else name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._place!r})"

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        """Stream the model's answer; as one delta if the service does not stream."""
        async with aclosing(with_deadline(self._deltas(request), self._timeout)) as deltas:
            with self._errors(request):
                async for delta in deltas:
                    yield delta

    def _deltas(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        raise NotImplementedError

    @contextmanager
    def _errors(self, request: LLMRequest) -> Generator[None]:
        try:
            yield
        except TimeoutError as error:
            late = self._describe(f"did not finish its answer within {self._timeout:g} seconds")
            raise LLMUnavailable(late) from error

    def _parser(self, request: LLMRequest) -> ResponseParser:
        return ResponseParser(describe=self._describe, max_tokens=request.max_tokens, prices=self._prices)

    def _describe(self, event: str) -> str:
        return f"The model {self._place} {event}"


@dataclass(frozen=True)
class _HTTPResponse:
    status: int
    headers: httpx2.Headers
    packets: AsyncGenerator[bytes]

    @property
    def is_event_stream(self) -> bool:
        """False if the server ignored `stream` and sent a whole answer."""
        return self.headers.get("content-type", "").strip().lower().startswith("text/event-stream")

    async def body(self) -> bytes:
        return b"".join([packet async for packet in self.packets])


class OpenAICompatible(ModelAdapter):
    """A model on an OpenAI-compatible server; requests go to `base_url` + "/chat/completions".

    If the server rejects schemas, streaming, the temperature or a parameter name, the request is sent again without it,
    and later requests leave it out from the start.
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
        parts = parse_url(base_url, "The model's base URL")
        super().__init__(name or model, timeout, prices, parts.netloc)
        self._url = parts._replace(path=parts.path.rstrip("/") + "/chat/completions").geturl()
        self._model = model
        self._headers = {"User-Agent": "vmemo", "Content-Type": "application/json"}
        if api_key:
            key = check_api_key(api_key, "The model's API key")
            self._headers["Authorization"] = f"Bearer {key}"
        self._format = RequestFormat(temperature=temperature)
        self._format_by_step: dict[str, ResponseFormat] = {}
        self._clients = PerEventLoop(lambda: http_client(**options))

    async def complete(self, request: LLMRequest) -> Completion:
        with self._errors(request):
            async with asyncio.timeout(self._timeout), self._response(request) as response:
                body = await response.body()
        return self._parser(request).parse_body(body)

    async def close(self) -> None:
        """Close the connections of every event loop; a later call opens new ones."""
        await self._clients.close(httpx2.AsyncClient.aclose)

    async def _deltas(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        async with self._response(request, streaming=True) as response:
            parser = self._parser(request)
            if not response.is_event_stream:
                completion = parser.parse_body(await response.body())
                yield completion.text
            else:
                stream = StreamParser(parser)
                async with aclosing(sse_events(response.packets)) as events:
                    async for data in events:
                        if delta := stream.add(data):
                            yield delta
                        if stream.done:
                            break
                completion = stream.completion()
                with suppress(httpx2.HTTPError):
                    await drain(response.packets)
        yield completion

    @asynccontextmanager
    async def _response(self, request: LLMRequest, *, streaming: bool = False) -> AsyncGenerator[_HTTPResponse]:
        """Send the request, downgrading its format until the server accepts it, and remember the format of the step."""
        format = replace(self._format, response_format=self._format_by_step.get(request.step, "json_schema"))
        while True:
            async with self._send(request, format, streaming=streaming) as response:
                if response.status == 200:
                    self._format, self._format_by_step[request.step] = format, format.response_format
                    yield response
                    return
                body = await response.body()
            error = body.decode("utf-8", "replace") if response.status in _UNSUPPORTED_STATUSES else ""
            if (downgraded := format.downgrade(error, streaming=streaming)) is None:
                retry_after = retry_after_seconds(response.headers)
                raise error_for_status(response.status, self._describe("answered with status"), retry_after=retry_after)
            format = downgraded

    @asynccontextmanager
    async def _send(
        self, request: LLMRequest, format: RequestFormat, *, streaming: bool
    ) -> AsyncGenerator[_HTTPResponse]:
        body = build_body(self._model, request, format, streaming=streaming)
        # Lone surrogates cannot be encoded; replacing them is better than failing.
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        accept = "text/event-stream, application/json" if "stream" in body else "application/json"
        headers = {**self._headers, "Accept": accept, "X-Vmemo-Step": schema_name(request.step)}
        try:
            most = _MAX_BYTES * (_STREAM_OVERHEAD if "stream" in body else 1)
            async with (
                self._clients.get().stream("POST", self._url, content=content, headers=headers) as response,
                aclosing(self._limited(response, most)) as packets,
            ):
                yield _HTTPResponse(response.status_code, response.headers, packets)
        except httpx2.DecodingError:
            raise LLMUnavailable(self._describe("returned an answer whose compression is broken")) from None
        except httpx2.ConnectError as error:
            raise LLMUnavailable(self._describe(f"can't be reached: {error}")) from error
        except httpx2.HTTPError as error:
            # The message may quote the answer, and the answer may quote the request.
            raise LLMUnavailable(self._describe(f"broke the connection ({type(error).__name__})")) from None

    async def _limited(self, response: httpx2.Response, max_bytes: int) -> AsyncGenerator[bytes]:
        size = 0
        async for packet in response.aiter_bytes():
            size += len(packet)
            if size > max_bytes:
                raise LLMUnusable(self._describe(f"returned an answer of more than {max_bytes} bytes"))
            yield packet

    def _parser(self, request: LLMRequest) -> ResponseParser:
        return replace(super()._parser(request), max_tokens=self._format.max_tokens(request))
