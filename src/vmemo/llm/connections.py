"""Connections to model services: endpoints, API keys, certificates and streams."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import cache
from typing import TypedDict, TypeVar, Unpack
from urllib.parse import SplitResult, urlsplit

import httpx2

from vmemo.errors import InvalidInput
from vmemo.models.records import is_placeholder
from vmemo.ports import LLM, Completion, LLMRequest


@dataclass(frozen=True)
class ServiceEndpoint:
    """An OpenAI-compatible service; one without key variables runs locally and needs no key."""

    base_url: str
    key_variables: tuple[str, ...] = ()
    base_variable: str | None = None


SERVICES: Mapping[str, ServiceEndpoint] = {
    "openai": ServiceEndpoint("https://api.openai.com/v1", ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    "gemini": ServiceEndpoint(
        "https://generativelanguage.googleapis.com/v1beta/openai", ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    ),
    "groq": ServiceEndpoint("https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "mistral": ServiceEndpoint("https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    "deepseek": ServiceEndpoint("https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",)),
    "openrouter": ServiceEndpoint("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "together": ServiceEndpoint("https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    "xai": ServiceEndpoint("https://api.x.ai/v1", ("XAI_API_KEY",)),
    "ollama": ServiceEndpoint("http://localhost:11434/v1"),
    "vllm": ServiceEndpoint("http://localhost:8000/v1"),
    "llamacpp": ServiceEndpoint("http://localhost:8080/v1"),
    "lmstudio": ServiceEndpoint("http://localhost:1234/v1"),
}
"""OpenAI-compatible services by the prefix of a model name."""


class ClientOptions(TypedDict, total=False):
    """Options of the HTTP client: certificates, proxy, and use of the environment's proxy settings."""

    verify: ssl.SSLContext | bool
    proxy: str
    trust_env: bool


def parse_url(url: str, label: str) -> SplitResult:
    """Return the parts of an HTTP URL. Errors name `label`, never the URL, because it may contain a key."""
    # URL parsers drop or misread these characters in different ways.
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput(f"{label} contains characters that are not allowed in a URL; percent-encode them")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna"), parts.port
    except ValueError as error:
        raise InvalidInput(f"{label} has an invalid host or port") from error
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise InvalidInput(f"{label} must be an http:// or https:// URL with a host")
    if parts.username is not None:
        raise InvalidInput(f"{label} contains a user name or password. Remove it, and give the API key on its own")
    return parts


def check_api_key(api_key: str, label: str) -> str:
    """Return the key, or raise InvalidInput if it is a placeholder or cannot be sent in an HTTP header."""
    if is_placeholder(api_key):
        raise InvalidInput(f"{label} is a placeholder of the documentation. Put the key itself in its place")
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise InvalidInput(f"{label} contains a character that is not allowed in an HTTP header, such as a line break")
    return api_key


def find_access(
    service: ServiceEndpoint, what: str, keys: Mapping[str, str], *, url: str | None, key: str | None, setting: str
) -> tuple[str, str | None]:
    """Return the base URL and the API key of a service: those given, or else those of its environment variables.

    Raise InvalidInput, which names `what`, the variable and the `setting` that hold a key, if it needs one.
    """
    url = url or (keys.get(service.base_variable) if service.base_variable else None)
    key = key or next((keys[variable] for variable in service.key_variables if keys.get(variable)), None)
    # A self-hosted server behind a known prefix may need no key.
    if key is None and service.key_variables and not url:
        raise InvalidInput(
            f"{what} needs an API key: set {service.key_variables[0]} or VMEMO_{setting.upper()} in the environment, "
            f"or pass Memory(settings=Settings({setting}=...))."
        )
    return url or service.base_url, key


def split_model_url(text: str, label: str, example: str) -> tuple[str, str, str]:
    """Return the URL, the host and the model of a text such as http://host/v1#model."""
    url, _, model = text.partition("#")
    host = parse_url(url, label).netloc
    if not model:
        raise InvalidInput(f"The URL of {host} has no model; append it after a #, such as http://{host}/v1#{example}")
    return url, host, model


def unknown_name(text: str, what: str, forms: Iterable[str]) -> InvalidInput:
    # Only the prefix is shown: the text may be a key that was pasted into the wrong setting.
    shown = f"{text.partition(':')[0]}:…" if ":" in text else "This text"
    return InvalidInput(f"{shown} is not {what}. Use one of: {', '.join(forms)}")


@cache
def default_certificates(*, trust_env: bool) -> ssl.SSLContext:
    """Return the trusted certificates. The clients of a process share them, because loading them takes 20 ms."""
    return httpx2.create_ssl_context(trust_env=trust_env)


def http_client(**options: Unpack[ClientOptions]) -> httpx2.AsyncClient:
    """Return a client without time limits: callers limit the time of whole exchanges, and the concurrency."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
    certificates = default_certificates(trust_env=options.get("trust_env", True))
    chosen: ClientOptions = {"verify": certificates, **options}
    return httpx2.AsyncClient(timeout=None, limits=limits, **chosen)


T = TypeVar("T")

_LINE_END = re.compile(rb"\r\n|\n|\r")
_DRAIN_SECONDS = 0.2


async def sse_events(packets: AsyncIterable[bytes]) -> AsyncGenerator[str]:
    """Yield the data of each server-sent event. Packets may be split anywhere; an unterminated event is dropped."""
    carry, partial_line, data = b"", list[bytes](), list[bytes]()
    async for packet in packets:
        text = carry + packet
        # A trailing carriage return may be the first half of a line end; the next packet decides.
        carry = b"\r" if text.endswith(b"\r") else b""
        *line_ends, rest = _LINE_END.split(text.removesuffix(carry))
        for line_end in line_ends:
            line = b"".join([*partial_line, line_end])
            partial_line.clear()
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
            elif not line and data:
                yield b"\n".join(data).decode("utf-8", "replace")
                data.clear()
        partial_line.append(rest)


async def with_deadline(deltas: AsyncGenerator[T], seconds: float) -> AsyncGenerator[T]:
    """Yield the deltas; raise TimeoutError once waiting for them, the consumer's time aside, exceeds `seconds`."""
    loop = asyncio.get_running_loop()
    async with aclosing(deltas):
        while True:
            started = loop.time()
            async with asyncio.timeout(seconds):
                try:
                    delta = await anext(deltas)
                except StopAsyncIteration:
                    return
            seconds -= loop.time() - started
            yield delta


async def drain(packets: AsyncIterable[bytes]) -> None:
    """Read the rest of a response for a short time: a connection read to its end can be reused."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in packets:
                pass


async def stream_whole(llm: LLM, request: LLMRequest) -> AsyncGenerator[str | Completion]:
    """Stream the answer of a model that cannot stream, as one delta."""
    completion = await llm.complete(request)
    yield completion.text
    yield completion
