"""Redaction of secrets: API keys, tokens, passwords and card numbers are replaced by a marker that names their type.

Only what can't be mistaken is replaced: values with the prefix of a provider, and values that the words around them
call a password or a key and that look like one. Hashes, UUIDs and ordinary words stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.pattern_files import read_patterns

_TEXTS = {name: "|".join(lines) for name, lines in read_patterns("redact.txt").items()}
_PRIVATE_KEY = LazyPattern(_TEXTS["private key"])
_NAMED_KEY = LazyPattern(_TEXTS["named key"])
_NAMED_PASSWORD = LazyPattern(_TEXTS["named password"])
_ISSUED = LazyPattern(_TEXTS["issued"])
_PLACEHOLDER = LazyPattern(_TEXTS["placeholder"])
_CALL = LazyPattern(_TEXTS["call"])
_NEXT_FIELD = LazyPattern(_TEXTS["next field"])
_PATH = LazyPattern(_TEXTS["path"])
_INTERLEAVED = LazyPattern(_TEXTS["interleaved"])
_PREFIXES = tuple(
    "sk- sk_ rk_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- akia asia aiza ya29. xox xapp- hf_ npm_ pypi- sg. dop_v1_ "
    "whsec_ gsk_ xai- pplx- nvapi- vmemo_".split()
)


@dataclass(frozen=True)
class _Secret:
    """A type of secret: the pattern that finds candidates, and the function that returns the secret part of the value.

    The value is the group `secret`, or the whole match. It begins with its secret part, which is empty if the value is
    no secret. A text without any of the `hints`, in lower case, is not searched: looking for them takes a hundredth of
    the time.
    """

    type: str
    hints: tuple[str, ...]
    pattern: LazyPattern
    part: Callable[[str], str] = str


def _random(value: str) -> str:
    """Return a value with letters and digits in a run that no word has, without the end of its sentence."""
    value = value.rstrip(".")
    runs = re.findall(r"[A-Za-z0-9]{10,}", value)
    mixed = any(not run.isalpha() or not run[1:].islower() for run in runs)
    return value if mixed and any(map(str.isalpha, value)) and any(map(str.isdigit, value)) else ""


def _password(run: str) -> str:
    """Return the password that a run of characters begins with: six digits or more, or letters mixed with others.

    Words, also with punctuation around them, paths, addresses and templates are none.
    """
    if _CALL.match(run) or run.endswith("’s"):
        return ""
    value = _NEXT_FIELD.split(run)[0].rstrip(".,;:?)]}")
    if value.isdigit():
        return value if len(value) >= 6 else ""
    if len(value) < 6 or not any(map(str.isalpha, value)) or _PLACEHOLDER.fullmatch(value) or _is_words(value):
        return ""
    return value if any(character.isdigit() or character in "!@#$%^&*+=?~" for character in value) else ""


def _is_words(value: str) -> bool:
    """Return True for words with hyphens and punctuation ("case-sensitive!", "12-digit"), a path or an address."""
    if _PATH.fullmatch(value):
        return True
    first, *others = re.split(r"[-_'’/.…]", value.strip("!?*_~#…"))
    return all(map(str.isalpha, others)) and (first.isalpha() or (first.isdigit() and bool(others)))


def _chosen_password(run: str) -> str:
    """Return a password with a digit or special character between its letters: no name of a version."""
    value = _password(run)
    return value if _INTERLEAVED.search(value) else ""


def _unless_placeholder(value: str) -> str:
    return "" if _PLACEHOLDER.fullmatch(value) else value


def _card_number(value: str) -> str:
    """Return the value if an issuer's prefix and length and the check digit (Luhn) fit."""
    digits = [int(digit) for digit in value if digit.isdigit()]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[-2::-2]]
    issued = _ISSUED.fullmatch("".join(map(str, digits))) is not None
    return value if issued and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0 else ""


_PASSWORD_HINTS = ("passw", "passph", "passc", "pwd")
_SECRETS = (
    _Secret("private key", ("private key",), _PRIVATE_KEY),
    _Secret("api key", _PREFIXES, LazyPattern(_TEXTS["prefixed"]), _random),
    _Secret("token", ("eyj",), LazyPattern(_TEXTS["json web token"])),
    _Secret("token", ("bearer",), LazyPattern(_TEXTS["bearer"]), _random),
    _Secret("token", ("authorization",), LazyPattern(_TEXTS["basic"])),
    _Secret("password", ("://",), LazyPattern(_TEXTS["in url"]), _unless_placeholder),
    _Secret("api key", ("key", "secret", "token"), _NAMED_KEY, _random),
    _Secret("password", _PASSWORD_HINTS, _NAMED_PASSWORD, _password),
    _Secret("password", _PASSWORD_HINTS, LazyPattern(_TEXTS["new password"]), _chosen_password),
    _Secret("password", ("passcode",), LazyPattern(_TEXTS["passcode"])),
    _Secret("card number", tuple("0123456789"), LazyPattern(_TEXTS["card number"]), _card_number),
)


def redact_secrets(text: str) -> str:
    """Return the text with every secret replaced by a marker such as [redacted: api key]."""
    lowered = text.lower()
    for secret in _SECRETS:
        if any(map(lowered.__contains__, secret.hints)):
            text = secret.pattern.compiled.sub(lambda match, secret=secret: _marked(match, secret), text)
    return text


def _marked(match: re.Match[str], secret: _Secret) -> str:
    """Return the match with the secret part of its value replaced."""
    start, end = match.span("secret" if "secret" in match.re.groupindex else 0)
    part = secret.part(match.string[start:end])
    if not part or match.groupdict().get("possessive"):
        return match[0]
    text = match.string
    return f"{text[match.start() : start]}[redacted: {secret.type}]{text[start + len(part) : match.end()]}"
