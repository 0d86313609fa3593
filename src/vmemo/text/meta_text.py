"""Text that is no memory: lines that were recalled from memory, and extracted facts about the conversation itself."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from vmemo.models.recalled import INSTRUCTIONS, LEGEND, NOTHING
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.tokens import terms

_MAX_CHARACTERS = 200
"""Longer facts are not about the conversation."""
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_RECALL_HEADING = re.compile(rf"## \d{{1,2}} (?:{_MONTHS}) \d{{4}}(?:: .*)?")
_ID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_RECALLED_LINE = re.compile(rf"- \[{_ID}\] \S")
_SHORTLY_RECALLED_LINE = re.compile(r"- \[[0-9a-f]{8}(?:-[0-9a-f]{6})?\] \S")
"""A recalled line below a heading; elsewhere, eight digits in brackets may be anything."""

_PARTICIPANT = r"(?:the |an |a |this )?(?:user|(?:ai )?assistant|ai|(?:ai |language )?model|agent|chatbot|bot|speaker)"
_SUBJECT = rf"(?:i|{_PARTICIPANT})"
_OTHER = r"(?: (?:to |with )?(?:the |each )?(?:user|assistant|ai|agent|chatbot|bot|speakers?|other|one another))?"
_AM = r"(?:i am|i'm|as|(?:the|this) (?:assistant|agent|chatbot|bot|model|ai) is)"
_POLITENESS = "|".join(
    (
        r"(?:has |have |had )?(?:greeted|thanked|welcomed|acknowledged|answered|responded|replied|apologi[sz]ed)",
        r"(?:said|says) (?:hi|hello|hey|goodbye|bye|thanks|thank you)",
        r"(?:asked|asks|answered) (?:a|some|the|another) questions?",
        r"asked how (?:the user|the assistant|they) (?:was|were|is|are)(?: doing)?",
        r"asked how (?:it|they|i) (?:can|could|may) help",
        r"(?:asked for|offered|offers|provided|gave|requested) (?:(?:some|more|its) )?(?:help|assistance|support)",
        r"offered to (?:help|assist)",
        r"(?:is|am|was|were) (?:ready|happy|glad|here|available) to (?:help|assist)",
        r"expressed (?:gratitude|thanks|appreciation)",
        r"(?:started|began|ended|initiated|continued) (?:the|a) conversation",
        r"made (?:a )?small talk|exchanged (?:greetings|pleasantries)|(?:sent|wrote) (?:a|the) message",
        rf"wished{_OTHER} a (?:good|nice|great) (?:day|night|weekend)",
    )
)
_CONVERSATION = r"(?:the|this) (?:conversation|dialogue|dialog|chat|exchange|transcript|episode)"
_FACTS = r"(?: (?:new|relevant|memorable|notable|further|other))?(?: (?:facts?|information|memories|details|content))"
_WERE = r"(?: (?:was|were|is|are|has been|have been|could be))?"
_FOUND = (
    r"(?: (?:found|extracted|provided|present|available|given|stated|worth remembering|to (?:extract|remember|add)))?"
)
_IN_CONVERSATION = r"(?: (?:in|from) (?:the|this) (?:conversation|lines|text|episode|message))?"
_META_TEXT = tuple(
    LazyPattern(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_SUBJECT}(?: and {_PARTICIPANT})? (?:politely |briefly |then |also )?(?:{_POLITENESS}){_OTHER}",
        rf"{_SUBJECT} (?:greeted|thanked){_OTHER} and (?:{_POLITENESS}){_OTHER}",
        rf"(?:{_AM} an (?:ai|artificial intelligence)(?: assistant| (?:language )?model)?"
        rf"|{_AM} a (?:large )?language model)(?:(?:,| and| that| without).*)?",
        r"(?:i am|i'm) (?:here|happy|ready|glad) to (?:help|assist)|i'm sorry,? but i can(?:'|no)t (?:help|assist).*",
        rf"{_CONVERSATION} (?:was|is) (?:about|between|short|brief|over|empty|casual|friendly)\b.*",
        rf"{_CONVERSATION} (?:(?:began|begins|started|starts|ended|ends|opened|opens|closed|closes) with"
        r"|(?:contains?|contained|has|had|includes?) no|(?:does|did)(?: not|n't)|consist(?:s|ed) of)\b.*",
        rf"(?:there (?:are|were|is|was) )?no{_FACTS}{_WERE}{_FOUND}{_IN_CONVERSATION}",
        rf"none|nothing{_WERE}{_FOUND}{_IN_CONVERSATION}",
        r"n/?a|null|nil|undefined|unknown|empty|todo|tbd|string|not (?:applicable|specified|available)",
        r"(?:here|below) (?:are|is) (?:the|a list of|some) (?:\w+ )?(?:facts?|json)\b.*",
    )
)
_ROLE_TERMS = frozenset(("user", "assist", "agent", "tool", "system", "ai"))
_ENGLISH_WORDS = frozenset("the and is are of to my with have has it you for that this he she they we i".split())
_SPEAKER_PREFIX = re.compile(r"[^:\n]{1,60}: ")


def strip_recalled(text: str) -> str:
    """Return the message without lines that were recalled from memory, and without their headings."""
    lines = text.split("\n")
    removed = set(_recalled_lines(lines))
    if not removed:
        return text
    above_removed = False
    for at in range(len(lines) - 1, -1, -1):
        if at in removed:
            above_removed = True
        elif above_removed and _is_recall_heading(lines[at]):
            removed.add(at)
        elif lines[at].strip():
            above_removed = False
    kept = "\n".join(line for at, line in enumerate(lines) if at not in removed)
    return re.sub(r"\n{3,}", "\n\n", kept).strip()


def _recalled_lines(lines: Sequence[str]) -> Iterator[int]:
    """Yield the places of recalled lines and of the indented lines that continue them."""
    pattern, inside = _RECALLED_LINE, False
    for at, line in enumerate(lines):
        if _is_recall_heading(line):
            pattern, inside = _SHORTLY_RECALLED_LINE, False
        elif pattern.match(line.strip()) or _RECALLED_LINE.match(line.strip()) or line.strip() == NOTHING:
            inside = True
            yield at
        elif inside and line.startswith("  "):
            yield at
        elif line.strip():
            pattern, inside = _RECALLED_LINE, False


def _is_recall_heading(line: str) -> bool:
    return _RECALL_HEADING.fullmatch(line.strip()) is not None or line.startswith((LEGEND, INSTRUCTIONS))


def is_meta_text(text: str) -> bool:
    """Return True if a fact is about the conversation, the assistant's politeness or its instructions."""
    plain = " ".join(text.replace("’", "'").split()).strip(" .!\"'`*-")
    if len(plain) > _MAX_CHARACTERS:
        return False
    return not any(map(str.isalnum, plain)) or any(pattern.fullmatch(plain) for pattern in _META_TEXT)


def is_grounded(text: str, sources: Sequence[str], known: Sequence[str] = ()) -> bool:
    """Return True if a fact shares a term with its sources, or if they are in another language."""
    wanted = set(terms(text))
    stated = {term for source in (*sources, *known) for term in terms(source)}
    if (wanted - _ROLE_TERMS) & stated:
        return True
    messages = [_SPEAKER_PREFIX.sub("", source, count=1) for source in sources]
    has_letters = any(c.isalpha() for source in messages for c in source)
    if has_letters and _has_latin(text) and not any(map(_has_latin, messages)):
        return True
    return bool(wanted & stated) and _is_english(text) and not any(map(_is_english, messages))


def _has_latin(text: str) -> bool:
    return any(unicodedata.name(c, "").startswith("LATIN") for c in text if c.isalpha())


def _is_english(text: str) -> bool:
    return not _ENGLISH_WORDS.isdisjoint(re.findall(r"\w+", text.casefold()))
