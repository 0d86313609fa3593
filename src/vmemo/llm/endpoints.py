"""Service URLs, API keys and certificates."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from urllib.parse import SplitResult, urlsplit

import httpx2

from vmemo.errors import InvalidInput
from vmemo.models.base import is_placeholder


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


def find_api_key(variables: tuple[str, ...], keys: Mapping[str, str], given: str | None) -> str | None:
    """Return the given key, or that of the first variable that holds one."""
    return given or next((keys[variable] for variable in variables if keys.get(variable)), None)


def missing_key(what: str, variable: str, *, setting: str) -> InvalidInput:
    """Return the error for a service without a key; it names the variables and the setting that hold one."""
    return InvalidInput(
        f"{what} needs an API key: set {variable} or VMEMO_{setting.upper()} in the environment, or pass "
        f"Memory(settings=Settings({setting}=...))."
    )


@cache
def default_certificates(*, trust_env: bool) -> ssl.SSLContext:
    """Return the trusted certificates. The clients of a process share them, because loading them takes 20 ms."""
    return httpx2.create_ssl_context(trust_env=trust_env)
