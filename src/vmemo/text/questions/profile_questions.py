"""Questions that ask for a profile or a summary of someone or something. Rules only, English."""

from __future__ import annotations

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.questions.analyse import MAX_QUERY_CHARS

_NAME = r"(?!(?:your?|it|this|that|when|how|the|an?|my|our|his|her|their)\b)[\w.-]+(?: [\w.-]+)?"
_SUBJECT = r"(?!(?:your?|it|this|that|when|how|the time)\b)[\w.-]+(?: [\w.-]+){0,3}"
"""A name or a short description; a longer text or a possessive asks for something in particular."""
_END = r"\s*(?:[?.!]|$)"
_PROFILE = LazyPattern(
    rf"\b(?:tell me(?: more| something| everything| all)?|everything|all you know) about {_SUBJECT}{_END}|"
    rf"\bwhat do (?:you|we) know about {_SUBJECT}{_END}|\bwho(?:'s| is| are| was) {_NAME}{_END}|"
    rf"\bwhat(?:'s| is| are| was| were) {_SUBJECT} like{_END}|\bwhat (?:kind|sort|type) of (?:a )?person\b|"
    rf"\bdescribe {_SUBJECT}{_END}|\bintroduce (?:me to )?{_SUBJECT}{_END}|"
    r"\bsummari[sz]e\b|\bsum up\b|\bin summary\b|"
    r"\b(?:summary|overview|profile|portrait|recap|rundown) (?:of|on|about)\b"
)


def asks_for_profile(text: str) -> bool:
    """Return True if a question asks what someone or something is like, or for a summary."""
    return _PROFILE.search(" ".join(text[:MAX_QUERY_CHARS].lower().replace("’", "'").split())) is not None
