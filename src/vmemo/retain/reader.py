"""Reads the drafts of the local engine: what holds nothing to remember, standing instructions and their ends, names.

The packaged encoder reads a text in the pass that embeds it (`Encoding.reading`). With another embedder a few rules
take its place.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from vmemo.models import Message, MessageId
from vmemo.models.changes import DraftSource, FactDraft, FoundName
from vmemo.models.search import READING_TAGS, Encoding, Reading, Vector
from vmemo.retain.noise import is_noise
from vmemo.retain.procedures import is_procedure
from vmemo.text.injection import overrides_rules
from vmemo.text.instructions import cues_end, ends_standing, is_for_once, is_standing
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.names import MAX_NAMES, name_spans
from vmemo.text.names.compare import is_title
from vmemo.text.names.lexicon import all_names, is_common_word, normalize_word
from vmemo.text.own_words import MAX_OWN_WORDS, foreign_spans
from vmemo.text.small_talk import is_small_talk
from vmemo.text.split import sentence_spans
from vmemo.text.temporal.annotation import with_date

MAX_NOISE = 200
"""Characters of a message that may be noise."""
# These thresholds were chosen on conversations of authors whose texts the encoder was not trained on.
INSTRUCTION, END = 0.4, 0.4
"""Score from which a sentence is a standing instruction (found .80, taken for one .05) or ends one."""
LEAST_WORDS = 4
"""Words of a sentence that says something without the instruction before it."""
CUED_END = 0.1
"""Score from which a sentence with a word such as "again" ends an instruction."""
PERSON = 0.5
"""Probability from which a token belongs to the name of a person."""
_TOP = 3
"""Tokens of the highest probability, whose mean is the score of a sentence."""
_INSTRUCTION, _END, _PERSON, _DATE = (READING_TAGS.index(tag) for tag in ("wish", "end", "person", "date"))
_QUESTION = LazyPattern(
    r"(?:where|when|who|which|what|how (?:old|many|much|often|long))\b(?:(?!\bif\b|\bbecause\b)[^.?!,]){1,80}\?"
    r"|(?:can|could|would|will|do|did) you (?:(?!\bmy\b|\bour\b|\bfor me\b)[^.?!,]){1,80}\?",
    re.IGNORECASE,
)
"""A question that states nothing, for an embedder that does not read."""
_INSERTED = LazyPattern(r" \([^()]*\)")
"""A date that was inserted after a time."""
_REST_OF_WORD = LazyPattern(r"[-'’](?!s\b)[^\W\d_]|[^\W_]+")
_CUT = LazyPattern(r"[()\[\]:;,\n]| (?:of|at|from|in|the|my|our|his|her|with|and|or|not) ")
"""The end of a name inside a run of words."""
_TITLE_BEFORE = LazyPattern(r"(?<!\w)([^\W\d_]{2,15}\.?) $")
_SENTENCE_START = LazyPattern(r"(?:\A|[.!?:\n])[\s*•\"'“(-]{0,5}$")
_EDGES = " \t\n.,;:!?\"'()[]{}“”„‘’«»…*_/|-–—"
_ENDING = LazyPattern(r"(?<=\w)['’](?:s|S)$|(?<=\w{3})['’][^\W\d_]{1,4}$")
"""A possessive or a case ending: Anna's, Elif'e."""


@dataclass(frozen=True)
class ReadDrafts:
    """The drafts that are kept, with their embeddings."""

    drafts: tuple[FactDraft, ...]
    encodings: Sequence[Encoding]
    left_out: dict[MessageId, list[Vector]]
    """The embeddings of what was left out."""
    embedded: int
    """The number of texts that were embedded in addition."""


class _Part(NamedTuple):
    """A part of a draft's words."""

    start: int
    end: int
    instructs: bool = False
    ends_instruction: bool = False


_Named: TypeAlias = tuple[int, int, FoundName]
"""A name and its place in a draft's words."""


async def read_drafts(
    drafts: Sequence[FactDraft],
    encodings: Sequence[Encoding],
    embed: Callable[[Sequence[FactDraft]], Awaitable[Sequence[Encoding]]],
    embedder: str,
) -> ReadDrafts:
    """Return the drafts that hold something to remember, with names; an instruction is a draft of its own.

    `embedder` is the name of the embedder. What is left beside an instruction is embedded again. Drafts without a
    source are returned as they are.
    """
    divided = await asyncio.to_thread(_divide, drafts, encodings)
    missing = [draft for draft, encoding in divided if encoding is None]
    added = iter(await embed(missing) if missing else ())
    left_out: dict[MessageId, list[Vector]] = {}
    kept: list[tuple[FactDraft, Encoding]] = []
    for draft, known in divided:
        encoding = known
        if encoding is None:
            encoding = next(added)
            draft = _dated(draft, encoding.reading)
        if draft.source is not None and _is_noise_draft(draft, draft.source, encoding, embedder):
            left_out.setdefault(draft.source.message.id, []).append(encoding.vector)
        else:
            kept.append((draft, encoding))
    numbered = _numbered([draft for draft, _ in kept])
    return ReadDrafts(numbered, [encoding for _, encoding in kept], left_out, len(missing))


def _is_noise_draft(draft: FactDraft, source: DraftSource, encoding: Encoding, embedder: str) -> bool:
    if draft.instruction or draft.ends_instruction or is_procedure(draft):
        return False
    words = draft.text.partition(": ")[2]
    return is_noise_line(source.message, words, encoding, embedder, to_agent=source.to_agent)


def is_noise_line(message: Message, words: str, encoding: Encoding | None, embedder: str, *, to_agent: bool) -> bool:
    """Return True if words of a message hold probably nothing to remember; without an encoding, by rules."""
    if is_small_talk(words):
        return True
    if len(message.content) > MAX_NOISE:
        return False
    if encoding is None or encoding.reading is None:
        return to_agent and _QUESTION.fullmatch(words) is not None
    by_agent = message.role == "assistant"
    asked = by_agent or message.role == "user"
    return asked and is_noise(words, encoding, embedder, by_agent=by_agent, to_agent=to_agent)


def _numbered(drafts: Sequence[FactDraft]) -> tuple[FactDraft, ...]:
    """Return read drafts with keys that number them by message: first the words themselves, then the instructions."""
    counts: dict[str, int] = {}
    keys: dict[int, str] = {}
    read = [at for at, draft in enumerate(drafts) if draft.source is not None]
    for at in sorted(read, key=lambda at: drafts[at].instruction or drafts[at].ends_instruction):
        message = drafts[at].key.rpartition("/")[0]
        keys[at] = f"{message}/{counts.get(message, 0)}"
        counts[message] = counts.get(message, 0) + 1
    return tuple(replace(draft, key=keys.get(at, draft.key), source=None) for at, draft in enumerate(drafts))


def _divide(drafts: Sequence[FactDraft], encodings: Sequence[Encoding]) -> list[tuple[FactDraft, Encoding | None]]:
    """Return the drafts and the parts that they are divided into; a part has no embedding yet."""
    divided: list[tuple[FactDraft, Encoding | None]] = []
    for draft, encoding in zip(drafts, encodings, strict=True):
        if draft.source is None:
            divided.append((draft, encoding))
            continue
        parts, names = _read(draft, draft.source, encoding.reading)
        if parts and not is_procedure(draft):
            divided += [(part, None) for part in _split(draft, draft.source, parts, names)]
        else:
            dated = _dated(draft, encoding.reading)
            # Steps for an occasion are one instruction as a whole; a list of them is looked up when it is needed.
            if len(parts) == 1 and parts[0].instructs and "\n" not in draft.text:
                dated = replace(dated, instruction=True)
            divided.append((_named(dated, draft.source, [name for _, _, name in names]), encoding))
    return divided


def _dated(draft: FactDraft, reading: Reading | None) -> FactDraft:
    """Return a draft with the dates of times that are meant as dates."""
    source = draft.source
    if source is None or reading is None:
        return draft
    return source.date(draft, partial(meant_as_date, draft, source, reading))


def meant_as_date(draft: FactDraft, source: DraftSource, reading: Reading, start: int, end: int) -> float:
    """Return the reader's probability that a part of a draft's words is meant as a date."""
    places = _places(source, with_date(draft.likely_dates or draft.text, draft.mentioned_at))
    if places is None:
        return 0.0
    inside = (reading.spans[:, 0] >= places[start]) & (reading.spans[:, 0] <= places[end - 1])
    tags = reading.tags[inside & (reading.spans[:, 1] > reading.spans[:, 0]), _DATE]
    return float(tags.mean()) if len(tags) else 0.0


def _split(
    draft: FactDraft, source: DraftSource, parts: Sequence[_Part], names: Sequence[_Named]
) -> Iterator[FactDraft]:
    """Yield what is left of a draft, and each of the parts by itself."""
    ends = [0, *(part.end for part in parts)]
    starts = [*(part.start for part in parts), len(source.words)]
    rest = [(end, start) for end, start in zip(ends, starts, strict=True) if source.words[end:start].strip()]
    if rest:
        words = " ".join(source.words[start:end].strip() for start, end in rest)
        yield _part(draft, source, words, _inside(names, rest))
    for part in parts:
        words = source.words[part.start : part.end].strip()
        made = _part(draft, source, words, _inside(names, [(part.start, part.end)]))
        yield replace(made, instruction=part.instructs, ends_instruction=part.ends_instruction)


def _part(draft: FactDraft, source: DraftSource, words: str, names: Sequence[FoundName]) -> FactDraft:
    return _named(replace(source.draft(words), key=draft.key), source, names)


def _inside(names: Sequence[_Named], spans: Sequence[tuple[int, int]]) -> list[FoundName]:
    return [name for start, end, name in names if any(first <= start and end <= last for first, last in spans)]


def _named(draft: FactDraft, source: DraftSource, names: Sequence[FoundName]) -> FactDraft:
    speaker = source.message.speaker
    own = [] if speaker is None else [FoundName(name=speaker, type="PERSON")]
    found = {name.name.casefold(): name for name in reversed((*own, *names))}
    return replace(draft, entities=tuple(reversed(found.values()))[:MAX_NAMES])


# The reading of one draft.


def _read(draft: FactDraft, source: DraftSource, reading: Reading | None) -> tuple[Sequence[_Part], Sequence[_Named]]:
    """Return the sentences that are standing instructions or end one, and the names."""
    text = with_date(draft.likely_dates or draft.text, draft.mentioned_at)
    places = None if reading is None else _places(source, text)

    def by_rule(start: int, end: int) -> tuple[float, float]:
        sentence = source.words[start:end].strip()
        return float(is_standing(sentence)), float(ends_standing(sentence))

    if reading is None or places is None:
        return list(_instructions(source, by_rule)), list(name_spans(source.words, speakers=source.speakers))
    persons = list(_persons(source.words, places, reading))
    others = (
        each
        for each in name_spans(source.words, speakers=source.speakers)
        if not any(start < each[1] and each[0] < end for start, end, _ in persons)
    )
    # The reader knows persons; a name that it takes for none is of no known type.
    typed = [
        (start, end, replace(name, type="OTHER") if name.type == "PERSON" and not _is_speaker(name, source) else name)
        for start, end, name in others
    ]
    names = sorted((*persons, *typed), key=lambda each: each[0])

    def score(start: int, end: int) -> tuple[float, float]:
        inside = (reading.spans[:, 1] > places[start]) & (reading.spans[:, 0] <= places[end - 1])
        best = np.sort(reading.tags[inside & (reading.spans[:, 1] > reading.spans[:, 0])], axis=0)[-_TOP:]
        read = best[:, [_INSTRUCTION, _END]].mean(axis=0).tolist() if len(best) else (0.0, 0.0)
        return max(by_rule(start, end)[0], read[0]), read[1]

    return list(_instructions(source, score)), names


def _is_speaker(name: FoundName, source: DraftSource) -> bool:
    folded = name.name.casefold()
    return any(folded in (speaker.casefold(), speaker.casefold().partition(" ")[0]) for speaker in source.speakers)


def _places(source: DraftSource, text: str) -> list[int] | None:
    """Return the place of each character of the words in the embedded text, which ends with the annotated words."""
    offset, at = len(text) - len(source.annotated), 0
    places: list[int] = []
    for number, character in enumerate(source.words):
        inserted = _INSERTED.match(source.annotated, at)
        if inserted is not None and not source.words.startswith(inserted[0], number):
            at = inserted.end()
        if source.annotated[at : at + 1] != character:
            return None
        places.append(offset + at)
        at += 1
    return places


def _instructions(source: DraftSource, score: Callable[[int, int], tuple[float, float]]) -> Iterator[_Part]:
    """Yield the sentences of a user to the agent that are standing instructions or end one.

    Quotations, code and pasted text are left out, and so is a long message, which is mostly a document.
    """
    words = source.words
    if not source.to_agent or len(source.message.content) > MAX_OWN_WORDS:
        return
    quoted = foreign_spans(words)
    for start, end in _joined(words, score):
        sentence = words[start:end].strip()
        inside = sum(max(0, min(end, last) - max(start, first)) for first, last in quoted)
        if 2 * inside >= end - start or overrides_rules(sentence):
            continue
        instructs, finish = score(start, end)
        only_ends = ends_standing(sentence)
        is_instruction = instructs >= INSTRUCTION and not only_ends and not is_for_once(sentence)
        cued = max(instructs, finish) >= CUED_END and cues_end(sentence)
        if is_instruction or only_ends or finish >= END or cued:
            yield _Part(start, end, is_instruction, only_ends or finish >= END or cued)


def _joined(words: str, score: Callable[[int, int], tuple[float, float]]) -> Iterator[tuple[int, int]]:
    """Yield the sentences; of two instructions, the parts of one sentence and a few words after it ("From now on.") are
    joined."""
    before: tuple[int, int] | None = None
    for start, end in sentence_spans(words):
        if not (sentence := words[start:end].strip()):
            continue
        if before is None:
            before = start, end
        elif (words[before[1] - 1] == ";" or len(sentence.split()) < LEAST_WORDS) and min(
            score(*before)[0], score(start, end)[0]
        ) >= INSTRUCTION:
            before = before[0], end
        else:
            yield before
            before = start, end
    if before is not None:
        yield before


def _persons(words: str, places: Sequence[int], reading: Reading) -> Iterator[_Named]:
    """Yield the names of persons: runs of tokens of a high probability, as whole words."""
    inside = {place: at for at, place in enumerate(places)}
    runs: list[tuple[int, int]] = []
    tokens = zip(reading.spans.tolist(), reading.tags[:, _PERSON].tolist(), strict=True)
    for (first, last), probability in tokens:
        start, end = inside.get(first), inside.get(last - 1)
        if probability < PERSON or first >= last or start is None or end is None:
            continue
        if runs and start - runs[-1][1] <= 1 and "\n" not in words[runs[-1][1] : start]:
            runs[-1] = runs[-1][0], end + 1
        else:
            runs.append((start, end + 1))
    reached = 0
    for start, end in runs:
        while start > 0 and words[start - 1].isalnum() and words[start].isalnum():
            start -= 1
        while (match := _REST_OF_WORD.match(words, end)) is not None and words[end - 1].isalnum():
            end = match.end()
        if (title := _TITLE_BEFORE.search(words, max(0, start - 20), start)) and is_title(title[1]):
            start = title.start(1)
        opens = _SENTENCE_START.search(words, max(0, start - 20), start) is not None
        if start >= reached and (name := _trimmed(words[start:end], opens=opens)):
            reached = end
            yield start, end, FoundName(name=name, type="PERSON")


def _trimmed(text: str, *, opens: bool = False) -> str:
    """Return the name in a text that may have other words around it; one in lower case gets capitals."""
    words = _CUT.split(text.strip(_EDGES))[0].split()
    words = [_ENDING.sub("", word) for word in words]
    if any(word[0].isupper() for word in words):
        inner = [at for at, word in enumerate(words) if word[0].isupper()]
        words = words[inner[0] : inner[-1] + 1]
        plain = normalize_word(words[0])
        if opens and len(words) > 1 and is_common_word(plain) and plain not in all_names() and not is_title(words[0]):
            # "Same Nesta": the first capital is that of the sentence.
            del words[0]
    else:
        words = [word.capitalize() for word in words]
    name = " ".join(words).strip(_EDGES)
    return name if any(map(str.isalpha, name)) and not all(map(is_title, words)) else ""
