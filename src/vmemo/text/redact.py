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

_PREFIXED = rf"(?<![A-Za-z0-9_-])(?:{'|'.join(read_patterns('redact.txt')['prefixed'])})"
_PREFIXES = tuple(
    "sk- sk_ rk_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- akia asia aiza ya29. xox xapp- hf_ npm_ pypi- sg. dop_v1_ "
    "whsec_ gsk_ xai- pplx- nvapi- vmemo_".split()
)
_KEY_NAMES = (
    r"(?:api|secret|private|access|account|encryption|signing)[ _-]?key(?:[ _-]?id)?|secret[ _-]?access[ _-]?key|"
    r"(?:client|app|webhook|shared|api)[ _-]?secret|(?:api|access|auth|refresh|session|personal[ _-]access)[ _-]?token"
)
_SAID_TO_BE = r"[\"'`*]{0,2}\s{0,3}(?::=|=>|->|[:=]|\b(?:is|was|will be)\b|(?<=[a-z])['’]s\b)\*{0,2}\s{0,3}[\"'`]?"
_PASSWORD_NAMES = r"(?<![A-Za-z0-9])(?:password|passwd|passphrase|passcode|pwd)"
_OF_SOMETHING = r"(?:\s(?:for|to|of|on|at)\s[\w .'’-]{1,40}?)?"
_RUN = r"(?P<secret>[^\s\"'`,;<>\[\](){}][^\s\"'`<>]{3,}+)(?P<possessive>'s)?"
"""All characters up to a blank or a quotation mark; a possessive is no value."""
_BASE64_LINES = r"(?:[\s\\nr]{0,4}[A-Za-z0-9+/=]{16,128}){1,256}(?:[\s\\nr]{1,4}[A-Za-z0-9+/]{1,15}={1,2})?"
_KEY_HEADERS = r"(?:[\s\\nr]{1,4}[A-Z][A-Za-z-]{2,30}: [^\n\\]{0,200}){0,9}"
_KEY_BLOCK = r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"


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


def _card_number(value: str) -> str:
    """Return the value if an issuer's prefix and length and the check digit (Luhn) fit."""
    digits = [int(digit) for digit in value if digit.isdigit()]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[-2::-2]]
    issued = _ISSUED.fullmatch("".join(map(str, digits))) is not None
    return value if issued and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0 else ""


_GAP = r"[ \u00a0\u2000-\u200a\u202f\u2010-\u2015.-]"
"""A blank, hyphen or dot between the digits of a card number."""
_ISSUED = LazyPattern(r"(?:4\d|5[1-5]|2[2-7]|35|65|60(?=11))\d{14}|3[47]\d{13}")
_PLACEHOLDER = LazyPattern(
    r"[<{%\[].*|\$[{(].*|\$[A-Z_0-9]+|\*+|[xX]+|[A-Z_]+|[A-Za-z_]+(?:\.[A-Za-z_]\w*)+|"
    r"(?i:(?:your|my|the|some|db)?[_-]?(?:pass|pwd|passwd|password|secret|passphrase))",
    re.DOTALL,
)
"""Templates, names of variables and attributes, and words that stand for a password."""
_CALL = LazyPattern(r"[A-Za-z_][\w.]*+[(\[]")
_NEXT_FIELD = LazyPattern(r"[,;](?=[\w-]{1,40} ?[=:])")
_PATH = LazyPattern(r"(?:[~.]{0,2}|[A-Za-z]:)[/\\][\w.~/\\-]*+|[a-z][a-z0-9+.-]{1,20}://.*")
_INTERLEAVED = LazyPattern(r"[A-Za-z][0-9!@#$%^&*+=?~]{1,8}[A-Za-z]|[A-Za-z0-9][!@#$%^&*+=?~]")
_PASSWORD_HINTS = ("passw", "passph", "passc", "pwd")
_PRIVATE_KEY = LazyPattern(
    rf"{_KEY_BLOCK}(?:(?:[^-]|-(?!----)){{40,}}-----END [A-Z ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----"
    rf"|{_KEY_HEADERS}{_BASE64_LINES})"
)
_NAMED_KEY = LazyPattern(rf"(?i)(?<![a-z])(?:{_KEY_NAMES}){_SAID_TO_BE}(?P<secret>[\w+/=.~-]{{16,}}+)")
_NAMED_PASSWORD = LazyPattern(rf"(?i){_PASSWORD_NAMES}{_OF_SOMETHING}{_SAID_TO_BE}{_RUN}")
_NEW_PASSWORD = LazyPattern(rf"(?i){_PASSWORD_NAMES}\s{{1,3}}to\s{{1,3}}[\"'`]?{_RUN}")
_SECRETS = (
    _Secret("private key", ("private key",), _PRIVATE_KEY),
    _Secret("api key", _PREFIXES, LazyPattern(_PREFIXED), _random),
    _Secret(
        "token", ("eyj",), LazyPattern(r"(?<![\w.-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]{10,}){0,2}")
    ),
    _Secret("token", ("bearer",), LazyPattern(r"(?i)\bbearer\s{1,3}(?P<secret>[\w.~+/=-]{16,})"), _random),
    _Secret(
        "token",
        ("authorization",),
        LazyPattern(r"(?i)\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?basic\s{1,3}(?P<secret>[\w+/=-]{8,})"),
    ),
    _Secret(
        "password",
        ("://",),
        # A number after the name of a web server is a port.
        LazyPattern(
            r"\b(?!(?:http|ws)s?://[^\s/:@]{1,100}:\d{1,5}@)[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]{0,100}:"
            r"(?P<secret>[^\s/@]{1,2000})@"
        ),
        lambda value: "" if _PLACEHOLDER.fullmatch(value) else value,
    ),
    _Secret("api key", ("key", "secret", "token"), _NAMED_KEY, _random),
    _Secret("password", _PASSWORD_HINTS, _NAMED_PASSWORD, _password),
    _Secret("password", _PASSWORD_HINTS, _NEW_PASSWORD, _chosen_password),
    _Secret(
        "password",
        ("passcode",),
        LazyPattern(r"(?i)(?<![a-z])passcode\s{0,3}(?:[:=]|\bis\b)\s{0,3}(?P<secret>\d{4,12})\b(?!['’]s)"),
    ),
    _Secret(
        "card number",
        tuple("0123456789"),
        LazyPattern(
            rf"[2-6](?<![\w.,/+-].)\d{{3}}(?:(?P<gap>{_GAP}?)\d{{4}}(?P=gap)\d{{4}}(?P=gap)\d{{4}}"
            rf"|(?P<space>{_GAP}?)\d{{6}}(?P=space)\d{{5}})(?![\w/]|[.,-]\d)"
        ),
        _card_number,
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
    """Return the match with the secret part of its value replaced."""
    start, end = match.span("secret" if "secret" in match.re.groupindex else 0)
    part = secret.part(match.string[start:end])
    if not part or match.groupdict().get("possessive"):
        return match[0]
    text = match.string
    return f"{text[match.start() : start]}[redacted: {secret.type}]{text[start + len(part) : match.end()]}"
