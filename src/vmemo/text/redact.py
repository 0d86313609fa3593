"""Redaction of secrets: API keys, tokens, passwords and card numbers are replaced by a marker that names their type.

Only what can't be mistaken is replaced: values with the prefix of a provider, and values that the words around them
call a password or a key and that look like one. Hashes, UUIDs and ordinary words stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from vmemo.text.lazy_regex import LazyPattern

_PREFIXED = r"""(?<![A-Za-z0-9_-])(?:
    sk-[A-Za-z0-9_-]{16,}
  | (?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}
  | gh[pousr]_[A-Za-z0-9]{36,}
  | github_pat_[A-Za-z0-9_]{22,}
  | glpat-[A-Za-z0-9_-]{20,}
  | (?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])
  | AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])
  | ya29\.[A-Za-z0-9_-]{20,}
  | xox[abeoprs]-[A-Za-z0-9-]{10,}
  | xapp-[A-Za-z0-9-]{20,}
  | hf_[A-Za-z0-9]{30,}
  | npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])
  | pypi-[A-Za-z0-9_-]{50,}
  | SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}
  | dop_v1_[a-f0-9]{64}(?![A-Za-z0-9])
  | whsec_[A-Za-z0-9+/=]{20,}
  | (?:gsk_|xai-|pplx-|nvapi-)[A-Za-z0-9_-]{32,}
  | vmemo_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])
)"""
_PREFIXES = (
    *("sk-", "sk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "akia", "asia", "aiza"),
    *("ya29.", "xox", "xapp-", "hf_", "npm_", "pypi-", "sg.", "dop_v1_", "whsec_", "gsk_", "xai-", "pplx-", "nvapi-"),
    "vmemo_",
)
_KEY_NAMES = (
    r"(?:api|secret|private|access|account|encryption|signing)[ _-]?key(?:[ _-]?id)?|secret[ _-]?access[ _-]?key|"
    r"(?:client|app|webhook|shared|api)[ _-]?secret|(?:api|access|auth|refresh|session|personal[ _-]access)[ _-]?token"
)
_SAID_TO_BE = r"[\"'`]?\s{0,3}(?:[:=]|\bis\b)\s{0,3}"
_PASSWORD_NAMES = r"(?<![A-Za-z])(?:password|passwd|passphrase|passcode|pwd)"
_OF_SOMETHING = r"(?:\s(?:for|to|of|on|at)\s[\w .'’-]{1,40}?)?"
_VALUE = r"[\"'`]?(?P<secret>[^\s\"'`,;<>\[\](){}]{3,127}[^\s\"'`,;<>\[\](){}.:?])(?P<not_a_value>\(|['’]s)?"
"""A word; what follows shows that it is a call or a possessive."""
_BASE64_LINES = r"(?:[\s\\nr]{0,4}[A-Za-z0-9+/=]{16,128}){1,256}"
_KEY_BLOCK = r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"


@dataclass(frozen=True)
class _Secret:
    """A type of secret: the pattern that finds candidates, and the check of the value.

    The value is the group `secret`, or the whole match. A text without any of the `hints`, in lower case, is not
    searched: looking for them takes a hundredth of the time.
    """

    type: str
    hints: tuple[str, ...]
    pattern: LazyPattern
    check: Callable[[str], bool] = bool


def _looks_random(value: str) -> bool:
    """Return True for letters and digits in a run that no word has."""
    runs = re.findall(r"[A-Za-z0-9]+", value)
    return any(len(run) >= 10 for run in runs) and _has_letter(value) and any(map(str.isdigit, value))


def _has_letter(value: str) -> bool:
    return any(map(str.isalpha, value))


def _looks_like_password(value: str) -> bool:
    """Return True for a number of six digits or more, and for letters mixed with digits or special characters."""
    if value.isdigit():
        return len(value) >= 6
    if len(value) < 6 or not _has_letter(value) or _PLACEHOLDER.fullmatch(value):
        return False
    return any(character.isdigit() or character in "!@#$%^&*+=?~" for character in value)


def _looks_chosen(value: str) -> bool:
    """Return True for a password with a digit or special character between its letters: no name of a version."""
    return _looks_like_password(value) and _INTERLEAVED.search(value) is not None


def _is_literal(value: str) -> bool:
    """Return True unless the value is the word password, or is filled in later."""
    return not _PLACEHOLDER.fullmatch(value)


def _is_card_number(value: str) -> bool:
    """Return True if an issuer's prefix and length and the check digit (Luhn) fit."""
    number = value.replace(" ", "").replace("-", "")
    digits = [int(digit) for digit in number]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[-2::-2]]
    return _ISSUED.fullmatch(number) is not None and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_ISSUED = LazyPattern(r"(?:4\d|5[1-5]|2[2-7]|35|65|60(?=11))\d{14}|3[47]\d{13}")
_PLACEHOLDER = LazyPattern(
    r"[<{%\[].*|\$[{(].*|\$[A-Z_]+|\*+|[xX]+|[A-Z_]+|[A-Za-z_]+(?:\.[A-Za-z_]\w*)+|"
    r"(?i:(?:your|my|the|some|db)?[_-]?(?:pass|pwd|passwd|password|secret|passphrase))",
    re.DOTALL,
)
"""Templates, names of variables and attributes, and words that stand for a password."""
_INTERLEAVED = LazyPattern(r"[A-Za-z][0-9!@#$%^&*+=?~]{1,8}[A-Za-z]|[A-Za-z0-9][!@#$%^&*+=?~]")
_PASSWORD_HINTS = ("passw", "passph", "passc", "pwd")
_PRIVATE_KEY = LazyPattern(
    rf"{_KEY_BLOCK}(?:(?:[^-]|-(?!----)){{40,}}-----END [A-Z ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----|{_BASE64_LINES})"
)
_SECRETS = (
    _Secret(
        "private key",
        ("private key",),
        _PRIVATE_KEY,
    ),
    _Secret("api key", _PREFIXES, LazyPattern(_PREFIXED, re.VERBOSE), _looks_random),
    _Secret("token", ("eyj",), LazyPattern(r"(?<![\w.-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}")),
    _Secret("token", ("bearer",), LazyPattern(r"(?i)\bbearer\s{1,3}(?P<secret>[\w.~+/=-]{16,})"), _looks_random),
    _Secret(
        "token",
        ("authorization",),
        LazyPattern(r"(?i)\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?basic\s{1,3}(?P<secret>[\w+/=-]{8,})"),
    ),
    _Secret(
        "password",
        ("://",),
        LazyPattern(r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]{0,100}:(?P<secret>[^\s/@]{1,200})@"),
        _is_literal,
    ),
    _Secret(
        "api key",
        ("key", "secret", "token"),
        LazyPattern(rf"(?i)(?<![a-z])(?:{_KEY_NAMES}){_SAID_TO_BE}[\"'`]?(?P<secret>[\w+/=.~-]{{15,500}}[\w+/=~-])"),
        _looks_random,
    ),
    _Secret(
        "password",
        _PASSWORD_HINTS,
        LazyPattern(rf"(?i){_PASSWORD_NAMES}{_OF_SOMETHING}{_SAID_TO_BE}{_VALUE}"),
        _looks_like_password,
    ),
    _Secret(
        "password",
        _PASSWORD_HINTS,
        LazyPattern(rf"(?i){_PASSWORD_NAMES}\s{{1,3}}to\s{{1,3}}{_VALUE}"),
        _looks_chosen,
    ),
    _Secret(
        "password",
        ("passcode",),
        LazyPattern(r"(?i)(?<![a-z])passcode\s{0,3}(?:[:=]|\bis\b)\s{0,3}(?P<secret>\d{4,12})\b(?!['’]s)"),
    ),
    _Secret(
        "card number",
        tuple("0123456789"),
        LazyPattern(
            r"[2-6](?<![\w.,/+-].)\d{3}(?:(?P<gap>[ -]?)\d{4}(?P=gap)\d{4}(?P=gap)\d{4}"
            r"|(?P<space>[ -]?)\d{6}(?P=space)\d{5})(?![\w/]|[.,-]\d)"
        ),
        _is_card_number,
    ),
)


def redact_secrets(text: str) -> str:
    """Return the text with every secret replaced by a marker such as [redacted: api key]."""
    lowered = text.lower()
    for secret in _SECRETS:
        if any(map(lowered.__contains__, secret.hints)):
            text = secret.pattern.compiled.sub(lambda match, secret=secret: _marked(match, secret), text)
    return text


def _marked(match: re.Match[str], secret: _Secret) -> str:
    """Return the match with its value replaced, or as it is if the value is no secret."""
    groups = match.groupdict()
    value = groups.get("secret", match[0])
    if groups.get("not_a_value") or not secret.check(value):
        return match[0]
    start, end = match.span("secret" if "secret" in groups else 0)
    return match.string[match.start() : start] + f"[redacted: {secret.type}]" + match.string[end : match.end()]
