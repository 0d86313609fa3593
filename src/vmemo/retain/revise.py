"""Revision of known facts by new ones: repeats, standing instructions and the verdicts of a language model."""

from __future__ import annotations

import asyncio
import json
import math
import re
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, cached_property
from importlib.resources import files
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Claim, Fact, FactId, Link, MessageId, utc_now
from vmemo.models.changes import AddedSource, ExtractionResult, FactClosure, FactDraft, Judgement, NewFact
from vmemo.models.records import with_feedback
from vmemo.models.search import Scope, Scored, Vector
from vmemo.models.select import FactSelect
from vmemo.ports import Context, Store, fact_revisions
from vmemo.retain.llm_answers import PairVerdicts, describe_fact
from vmemo.text.instructions import answer_aspects, cues_end, occasion_terms
from vmemo.text.own_words import own_parts, own_words
from vmemo.text.split import claim_spans
from vmemo.text.temporal.annotation import EDITED_BY_HAND, speaker_in
from vmemo.text.tokens import terms
from vmemo.text.wording import needs_context, wording

# Stored facts near new ones, searched and loaded once per batch.
NEAREST = 10
"""Known facts that are compared with a new one at least."""
LINK_COSINE = 0.7
REPEAT_COSINE = 0.7
"""Cosine of repeats, at least: the date is embedded with the words."""
LEAST_COSINE = 0.3
"""Least cosine of a known fact that the revision model compares."""
MAX_SIMILAR = 64
"""Nearest facts among which the revision model finds those that it compares."""


class Neighbours:
    """The stored facts near those of one batch. It lives no longer than the plan of one commit."""

    def __init__(self, bank: BankId, store: Store, *, limit: int, floor: float) -> None:
        """Search up to `limit` facts of a cosine of at least `floor`, the widest that `near` is asked for."""
        self._bank, self._store = bank, store
        self._limit, self._floor = limit, floor
        self._found: dict[FactId, tuple[Vector, Sequence[Scored]]] = {}
        self._facts: dict[FactId, Fact | None] = {}

    @staticmethod
    def of(bank: BankId, context: Context) -> Neighbours:
        compared = NEAREST if context.revision_model is None else MAX_SIMILAR
        limit = max(compared, context.settings.links_per_fact)
        return Neighbours(bank, context.store, limit=limit, floor=LEAST_COSINE)

    @staticmethod
    def for_links(bank: BankId, context: Context) -> Neighbours:
        return Neighbours(bank, context.store, limit=context.settings.links_per_fact + 1, floor=LINK_COSINE)

    async def near(
        self, new: Sequence[NewFact], *, limit: int, floor: float, one_speaker: bool = False
    ) -> list[list[Scored]]:
        """Return for each new fact the nearest current ones, best first; with `one_speaker`, no other speaker's."""
        # A fact that was embedded again, with another text, is searched again.
        unknown = [item for item in new if self._found.get(item.fact.id, (None,))[0] is not item.embedding]
        if unknown:
            vectors = np.stack([item.embedding for item in unknown])
            nearest = await self._store.nearest(self._bank, vectors, limit=self._limit, floor=self._floor)
            for item, hits in zip(unknown, nearest, strict=True):
                self._found[item.fact.id] = item.embedding, hits
        # The store has applied the floor of the search, in the precision of its vectors.
        least = floor if floor > self._floor else -math.inf
        found = [(self._found[item.fact.id][1][:limit], one_speaker and speaker_of(item.fact)) for item in new]
        return [
            [hit for hit in hits if hit.score >= least and not (speaker and hit.speaker and speaker != hit.speaker)]
            for hits, speaker in found
        ]

    async def load(self, ids: Iterable[FactId]) -> Mapping[FactId, Fact]:
        """Return facts by id; a fact that does not exist is left out."""
        wanted = list(dict.fromkeys(ids))
        missing = [id for id in wanted if id not in self._facts]
        if missing:
            # The reader of a recall keeps what it has loaded, unlike a listing.
            loaded = await self._store.read(self._bank, lambda r: r.load(list(r.numbers(missing).values())))
            self._facts |= dict.fromkeys(missing)
            self._facts |= {fact.id: fact for fact in loaded.facts.values()}
        return {id: fact for id in wanted if (fact := self._facts[id]) is not None}


class Similar(NamedTuple):
    """Facts similar to a new one and their cosines, best first."""

    ids: Sequence[FactId]
    scores: Sequence[float]


def similar_in_batch(new: Sequence[NewFact], floor: float, limit: int) -> Iterator[Similar]:
    """Yield for each fact up to `limit` similar ones that come before it in the batch; of equal ones the earlier."""
    if not new:
        return
    ids = [item.fact.id for item in new]
    vectors = np.stack([item.embedding for item in new])
    for at, row in enumerate(vectors @ vectors.T):
        nearest = np.argsort(-row[:at], kind="stable")[: min(limit, np.count_nonzero(row[:at] >= floor))]
        yield Similar([ids[n] for n in nearest.tolist()], row[nearest].tolist())


def merge_similar(stored: Sequence[Scored], in_batch: Similar) -> Similar:
    """Return the stored facts and those of the batch, best first; of equal ones the stored fact first."""
    ids = [*(hit.id for hit in stored), *in_batch.ids]
    scores = [*(hit.score for hit in stored), *in_batch.scores]
    order = sorted(range(len(ids)), key=scores.__getitem__, reverse=True)
    return Similar([ids[n] for n in order], [scores[n] for n in order])


_FACTS = uuid.UUID("6f6d656d-7600-5000-8000-666163747300")
"""Namespace of fact ids; it must never change."""
MAX_COMPARED_FACTS = 8
"""Known facts that a new one of a language model is compared with."""
COMPARED_COSINE = 0.85
"""Least cosine of one that shares no entity with the new fact."""
SHARED_ENTITY_COSINE, DEED_COSINE = 0.8, 0.9
"""Least cosine of one that shares an entity, and of two deeds of the agent, which all name its user."""
MIN_SHARED_TERMS = 2
"""Terms that a new fact shares with a known one that it names, if they have no entity in common."""
MAX_MERGED_CHARACTERS = 240
"""Characters of a merged text; longer facts stay apart."""


@dataclass(frozen=True)
class FactPair:
    """The index of a new fact and a similar known fact."""

    new: int
    known: Fact


@dataclass
class Revision:
    """New facts, and changes of known ones.

    `duplicate_of` maps a dropped new fact to the known fact it repeats. The facts in `reworded` have a new text and are
    not embedded yet.
    """

    facts: list[NewFact] = field(default_factory=list[NewFact])
    closings: list[FactClosure] = field(default_factory=list[FactClosure])
    sourced: list[AddedSource] = field(default_factory=list[AddedSource])
    successors: dict[FactId, FactId] = field(default_factory=dict[FactId, FactId])
    changed: dict[FactId, Fact] = field(default_factory=dict[FactId, Fact])
    duplicate_of: dict[FactId, FactId] = field(default_factory=dict[FactId, FactId])
    reworded: set[FactId] = field(default_factory=set[FactId])
    links: list[Link] = field(default_factory=list[Link])
    claims: dict[FactId, tuple[Claim, ...]] = field(default_factory=dict[FactId, tuple[Claim, ...]])


def fact_id(bank: BankId, engine: str, key: str) -> FactId:
    """Return the id of a derived fact. Equal input gives equal ids, so that repeated derivation adds no duplicates."""
    return FactId(str(uuid.uuid5(_FACTS, "\x00".join((bank, engine, key)))))


async def similar_pairs(new: Sequence[NewFact], drafts: Sequence[FactDraft], near: Neighbours) -> list[FactPair]:
    """Pair each new fact with known ones that are similar, or that its draft names and that may be about the same."""
    hits = await near.near(new, limit=MAX_COMPARED_FACTS, floor=SHARED_ENTITY_COSINE)
    scores = [{hit.id: hit.score for hit in found} for found in hits]
    named = [{judged.fact: None for judged in draft.judgements} for draft in drafts]
    begun = min((item.fact.mentioned_at for item in new), default=None)
    loaded = await near.load(id for ids in (*scores, *named) for id in ids)
    known = {id: fact for id, fact in loaded.items() if is_current(fact, begun)}
    return [
        FactPair(at, known[id])
        for at, item in enumerate(new)
        for id in dict.fromkeys((*scores[at], *named[at]))
        if id in known and id != item.fact.id
        if scores[at].get(id, 0.0) >= _least_cosine(item.fact, known[id])
        or (id in named[at] and _may_revise(item.fact, known[id]))
    ]


def _least_cosine(one: Fact, other: Fact) -> float:
    if one.network == other.network == "experience":
        return DEED_COSINE
    return SHARED_ENTITY_COSINE if _share_entity(one, other) else COMPARED_COSINE


def _share_entity(one: Fact, other: Fact) -> bool:
    return not {each.id for each in one.entities}.isdisjoint(each.id for each in other.entities)


def speaker_of(fact: Fact) -> str:
    """Return the speaker of a fact in the words of a message, folded; empty for other facts.

    Only a speaker's own words close or mark what that speaker said. A user without a name is another speaker than one
    with a name, because nothing shows that they are the same person.
    """
    return speaker_in(fact.text, fact.engine)


def own_statement(fact: Fact) -> str:
    """Return the text of a fact without what its speaker quotes, pastes or jokes about; empty if nothing is left."""
    speaker, colon, said = fact.text.partition(": ")
    return f"{speaker}{colon}{own}" if (own := own_words(said if colon else speaker)) else ""


def with_own_words(facts: Sequence[Fact]) -> set[FactId]:
    """Return the facts whose speakers say something themselves; the parts of a long message are read together."""
    parts: defaultdict[tuple[MessageId, ...], list[Fact]] = defaultdict(list)
    for fact in facts:
        parts[fact.messages].append(fact)
    return {
        fact.id
        for part in parts.values()
        for fact, own in zip(part, own_parts([said_in(fact) for fact in part]), strict=True)
        if own
    }


def said_in(fact: Fact) -> str:
    """Return what was said, without the speaker in front of it."""
    return fact.text.partition(": ")[2] or fact.text


def is_current(fact: Fact, at: datetime | None = None) -> bool:
    """Return True for a statement, not a belief, that does not end before a time, which is now by default."""
    if fact.network not in ("world", "experience") or fact.expired_at is not None:
        return False
    return fact.invalid_at is None or fact.invalid_at > (at or utc_now())


def _may_revise(one: Fact, other: Fact) -> bool:
    """Return True if facts may be about the same; an instruction is ended in other words."""
    if other.instruction or _share_entity(one, other):
        return True
    shared = len(set(terms(one.text)) & set(terms(other.text)))
    return shared >= MIN_SHARED_TERMS or (shared > 0 and one.network == other.network == "experience")


def unjudged_pairs(
    pairs: Sequence[FactPair], drafts: Sequence[FactDraft], result: ExtractionResult, settled: Mapping[int, object]
) -> list[FactPair]:
    """Return pairs without a verdict whose known fact the engine was not shown."""
    judged = {(at, each.fact) for at, draft in enumerate(drafts) for each in draft.judgements}
    open_ = (pair for pair in pairs if pair.new not in settled and pair.known.id not in result.known)
    return [pair for pair in open_ if (pair.new, pair.known.id) not in judged]


def verdicts_from_engine(drafts: Sequence[FactDraft], pairs: Sequence[FactPair]) -> dict[int, list[Judgement]]:
    """Return the engine's own verdicts on pairs of similar facts; others are ignored as implausible."""
    reach = {(pair.new, pair.known.id) for pair in pairs}
    found = {at: [each for each in d.judgements if (at, each.fact) in reach] for at, d in enumerate(drafts)}
    return {at: judged for at, judged in found.items() if judged}


def apply_verdicts(
    new: Sequence[NewFact], judged: Mapping[int, Sequence[Judgement]], pairs: Sequence[FactPair]
) -> Revision:
    known = {pair.known.id: pair.known for pair in pairs}
    done = Revision()
    for at, item in enumerate(new):
        verdicts = [each for each in judged.get(at, ()) if each.fact in known and each.fact not in done.changed]
        # A model may state several verdicts on a known fact: the first one counts, or all that end words of it.
        first = {each.fact: each for each in reversed(verdicts)}
        counted = [each for each in verdicts if first[each.fact] is each or (each.words and first[each.fact].words)]
        _apply_to_fact(item, counted, known, done)
    return done


def _apply_to_fact(item: NewFact, verdicts: Sequence[Judgement], known: Mapping[FactId, Fact], done: Revision) -> None:
    same = next((each for each in verdicts if each.verdict == "duplicate"), None)
    if same is not None:
        old = known[same.fact]
        done.sourced.append(AddedSource(fact=old.id, messages=item.fact.messages, episodes=item.fact.episodes))
        done.duplicate_of[item.fact.id] = old.id
        return
    joined = next((each for each in verdicts if _merges(each, item.fact, known)), None)
    fact = item.fact if joined is None else _merge(item.fact, known[joined.fact], joined.text.strip(), done)
    ended = [(known[each.fact], each) for each in verdicts if each.verdict == "supersede"]
    spans = {(old.id, verdict.words): ended_span(verdict.words, old.text) for old, verdict in ended}
    whole = {old.id: (old, each) for old, each in ended if spans[old.id, each.words] == (0, len(old.text))}
    fact = _supersede(fact, list(whole.values()), done)
    done.facts.append(item if fact is item.fact else replace(item, fact=fact))
    for old, verdict in ended:
        if (span := spans.pop((old.id, verdict.words), None)) and old.id not in whole and not _is_late(fact, old):
            _end_claim(old, span, verdict, fact, done)


def _merges(verdict: Judgement, new: Fact, known: Mapping[FactId, Fact]) -> bool:
    """Return True for a merge into the text of one of the facts, or into one that is short."""
    text, old = verdict.text.strip(), known[verdict.fact].text
    short = 0 < len(text) <= min(MAX_MERGED_CHARACTERS, len(old) + len(new.text))
    return verdict.verdict == "merge" and (short or text in (old, new.text))


LEAST_REST, LEAST_SUBJECT = 3, 4
"""Terms beside the words that end which are a claim of their own, at least; in front of them may stand a subject."""


def ended_span(words: str, text: str) -> tuple[int, int] | None:
    """Return the place in a text of its words that end: all of it if little else is said, None if it lacks them."""
    parts = re.findall(r"\w+", words)
    pattern = r"[$€£¥]?\b" + r"\W+".join(map(re.escape, parts)) + r"\b[%°€]?"
    found = re.search(pattern, text, re.IGNORECASE) if parts else None
    if parts and found is None:
        return None
    start, end = found.span() if found else (0, len(text))
    subject = not terms(text[end:]) and len(claim_spans(text[:start])) == 1
    rest = {*terms(text[:start]), *terms(text[end:])}
    return (start, end) if len(rest) >= (LEAST_SUBJECT if subject else LEAST_REST) else (0, len(text))


def _end_claim(old: Fact, span: tuple[int, int], verdict: Judgement, new: Fact, done: Revision) -> None:
    """End a claim of a fact; what stands beside it still holds."""
    start, end = span
    at = start_of(old) if verdict.mistaken else max(verdict.end or start_of(new), start_of(old))
    claim = Claim(
        text=old.text[start:end],
        start=start,
        end=end,
        valid_at=old.valid_at,
        invalid_at=at,
        outdated=1.0,
        replaced_by=new.id,
    )
    known = done.claims.get(old.id, old.claims)
    done.claims[old.id] = tuple(sorted((*known, claim), key=lambda each: (each.start, each.end)))
    done.links.append(Link(source=new.id, target=old.id, kind="outdates", weight=1.0))


def _merge(new: Fact, old: Fact, text: str, done: Revision) -> Fact:
    """Return one fact in place of two, valid from the earlier start and with the sources of both."""
    _close(old, done, FactClosure(fact=old.id, expired_at=recorded_end(new, old)))
    done.reworded.add(new.id)
    starts = [start for start in (new.valid_at, old.valid_at) if start is not None]
    return new.model_copy(
        update={
            "text": text,
            "supersedes": old.id,
            "valid_at": min(starts, default=None),
            "messages": tuple(dict.fromkeys((*old.messages, *new.messages))),
            "episodes": tuple(dict.fromkeys((*old.episodes, *new.episodes))),
            "entities": tuple({mention.id: mention for mention in (*old.entities, *new.entities)}.values()),
            "occurred_start": new.occurred_start or old.occurred_start,
            "occurred_end": new.occurred_end or old.occurred_end,
            "importance": max(new.importance, old.importance),
            "instruction": new.instruction or old.instruction,
        }
    )


def _supersede(new: Fact, replaced: Sequence[tuple[Fact, Judgement]], done: Revision) -> Fact:
    """Close the replaced facts, or close the new fact if it became valid before them."""
    for old, verdict in sorted(replaced, key=lambda pair: start_of(pair[0]), reverse=True):
        if verdict.mistaken:
            # A mistaken fact is closed at its own start, and the new one is valid from there.
            new = new.model_copy(update={"valid_at": old.valid_at})
            _close(old, done, FactClosure(fact=old.id, invalid_at=start_of(old), expired_at=recorded_end(new, old)))
        elif _is_late(new, old):
            end = max(start_of(new), start_of(old))
            new = new.model_copy(update={"invalid_at": min(end, new.invalid_at or end)})
            if old.supersedes is None:
                done.successors.setdefault(old.id, new.id)
            done.changed[old.id] = old
            continue
        else:
            # A fact whose end lies ahead when it is stated stays current until then.
            end = max(verdict.end or start_of(new), start_of(old))
            expired_at = None if end > max(new.mentioned_at, old.mentioned_at) else recorded_end(new, old)
            _close(old, done, FactClosure(fact=old.id, invalid_at=end, expired_at=expired_at))
        done.links.append(Link(source=new.id, target=old.id, kind="replaces", weight=1.0))
        if new.supersedes is None:
            new = new.model_copy(update={"supersedes": old.id})
        else:
            done.successors.setdefault(new.supersedes, old.id)
    return new


def replace_by_hand(new: Fact, old: Fact, done: Revision) -> None:
    """Close a fact that the user replaced: it held until the new one did, and never if that did from its start on."""
    end = max(start_of(old), start_of(new))
    _close(old, done, FactClosure(fact=old.id, invalid_at=end, expired_at=recorded_end(new, old)))
    done.links.append(Link(source=new.id, target=old.id, kind="replaces", weight=1.0))


def _is_late(new: Fact, old: Fact) -> bool:
    """Return True if a new fact is of an earlier time than an old one. An edit counts from when it was written.

    Of an old fact without a stated start it is not known that it became true later.
    """
    if new.engine == EDITED_BY_HAND or (start_of(old) == old.mentioned_at <= new.mentioned_at):
        return False
    return start_of(new) < start_of(old) or (old.engine == EDITED_BY_HAND and new.mentioned_at < old.mentioned_at)


def start_of(fact: Fact) -> datetime:
    """Return the time since which a fact is true."""
    return fact.valid_at or fact.mentioned_at


def recorded_end(new: Fact, old: Fact) -> datetime:
    return max(new.recorded_at, old.recorded_at)


def _close(old: Fact, done: Revision, closing: FactClosure) -> None:
    done.changed[old.id] = old
    done.closings.append(closing)


# Repeats: new facts in the words of known ones, which become further sources of the known fact.
_METADATA = json.JSONEncoder(sort_keys=True)


async def find_repeats(
    bank: BankId, new: Sequence[NewFact], near: Neighbours, store: Store
) -> tuple[list[FactPair], dict[int, list[Judgement]]]:
    """Return the new facts in the words of a current fact near to them, or of an earlier new one, with the verdicts.

    A repeat confirms the fact, which stays valid since it was first stated. One that is older than the fact, such as a
    message retained late, is merged with it, so that the fact is valid since the older one. A fact that a
    later one may have outdated is left out: who states it again says that it is true again.
    """
    statements = await asyncio.to_thread(lambda: [statement_of(item.fact) for item in new])
    hits = await near.near(new, limit=NEAREST, floor=REPEAT_COSINE, one_speaker=True)
    facts = list((await near.load(hit.id for found in hits for hit in found)).values())
    frames = {_frame(item.fact) for item in new}
    same_frame = [fact for fact in facts if is_current(fact) and _frame(fact) in frames]
    known = await _known(bank, set(statements), same_frame, store)
    verdicts: dict[int, list[Judgement]] = {}
    pairs: list[FactPair] = []
    # Messages are not always processed in the order of their times.
    for at in sorted(range(len(new)), key=lambda at: new[at].fact.mentioned_at):
        fact, statement = new[at].fact, statements[at]
        same = known.setdefault(statement, fact)
        if not set(same.messages).isdisjoint(fact.messages):
            # The fact itself, or another part of a long message.
            continue
        pairs.append(FactPair(at, same))
        if same.mentioned_at <= fact.mentioned_at:
            verdicts[at] = [Judgement(verdict="duplicate", fact=same.id)]
        else:
            verdicts[at] = [Judgement(verdict="merge", fact=same.id, text=fact.text)]
            known[statement] = fact
    return pairs, verdicts


async def _known(
    bank: BankId, statements: AbstractSet[Hashable], facts: Sequence[Fact], store: Store
) -> dict[Hashable, Fact]:
    """Return the facts that make one of the statements and that no later one may have outdated."""
    stated = await asyncio.to_thread(lambda: [(fact.id, statement_of(fact)) for fact in facts])
    found = {id: statement for id, statement in stated if statement in statements}
    if not found:
        return {}
    edges = await store.read(bank, lambda reader: fact_revisions(reader, Scope(bank=bank), list(found)))
    outdated = {edge.older for edge in edges}
    kept = [fact for fact in facts if fact.id in found and fact.id not in outdated]
    # Of several facts the oldest one counts, which is the last one here.
    return {found[fact.id]: fact for fact in sorted(kept, key=lambda fact: fact.mentioned_at, reverse=True)}


def statement_of(fact: Fact) -> Hashable:
    """Return what two facts have in common if one repeats the other: speaker, words, time, labels."""
    words = wording(fact.text.partition(": ")[2])
    # The context counts if the words alone may mean something else.
    context = wording(fact.context) if needs_context(words) else ()
    return _frame(fact), words, context, _METADATA.encode(with_feedback(fact.metadata, ()))


def _frame(fact: Fact) -> Hashable:
    """Return the part of a statement that is known without its words, which most facts near it do not share."""
    times = fact.occurred_start, fact.occurred_end
    return fact.text.partition(": ")[0].casefold(), fact.network, times, frozenset(fact.tags)


# Standing instructions: a later one that replaces an earlier one, and words that end one ("Forget the three sentence
# rule"). A logistic regression (`training/instructions.py`) estimates for each earlier instruction if it is that one.
MAX_COMPARED = 100
"""Newest instructions of the bank, and last ones of the batch, that a new one is compared with."""
ENDED = 0.65
"""Probability from which an earlier instruction ends: .9 are right, of authors that nothing was trained on."""
ALONE = 0.1
"""Lead of the only instruction over others."""
_Numbers: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StandingInstruction:
    """A standing instruction, or words that end one."""

    fact: Fact
    vector: Vector

    @cached_property
    def terms(self) -> frozenset[str]:
        return frozenset(terms(said_in(self.fact)))

    @cached_property
    def occasion(self) -> frozenset[str]:
        return occasion_terms(said_in(self.fact))

    @cached_property
    def aspects(self) -> frozenset[int]:
        return answer_aspects(said_in(self.fact))


def end_inputs(new: StandingInstruction, earlier: Sequence[StandingInstruction]) -> _Numbers:
    """Return a row of inputs for each earlier instruction that a new one, or words that end one, may be about."""
    cosines = np.array([float(new.vector @ each.vector) for each in earlier])
    shared = [new.terms & each.terms for each in earlier]
    number = Counter(term for each in earlier for term in each.terms)
    rarity = np.array([sum(0.3 + math.log((1 + len(earlier)) / number[term]) for term in both) for both in shared])
    least = [max(1, min(len(new.terms), len(each.terms))) for each in earlier]
    rows = [
        cosines,
        _lead(cosines),
        cosines == cosines.max(),
        [len(both) / few for both, few in zip(shared, least, strict=True)],
        rarity,
        _lead(rarity),
        [cues_end(said_in(new.fact))] * len(earlier),
        [math.log(len(earlier))] * len(earlier),
        [bool(new.aspects & each.aspects) for each in earlier],
    ]
    return np.column_stack(rows).astype(np.float64)


def _lead(values: _Numbers) -> _Numbers:
    """Return how far each value is over the greatest of the others."""
    if len(values) == 1:
        return np.full(1, ALONE)
    second, first = np.partition(values, -2)[-2:].tolist()
    return np.array([value - (second if value == first else first) for value in values.tolist()])


@cache
def _end_weights() -> tuple[_Numbers, float]:
    read = json.loads(files("vmemo.retain").joinpath("instruction_ends.json").read_text(encoding="utf-8"))
    return np.array(read["weights"], np.float64), float(read["bias"])


def _ended(new: StandingInstruction, earlier: Sequence[StandingInstruction]) -> list[StandingInstruction]:
    """Return the earlier instructions that a new one replaces, or that its words end: none for another occasion."""
    if not earlier:
        return []
    weights, bias = _end_weights()
    least = math.log(ENDED / (1 - ENDED)) - bias
    found: list[float] = (end_inputs(new, earlier) @ weights).tolist()
    return [
        each
        for each, value in zip(earlier, found, strict=True)
        if value >= least and not (new.occasion and each.occasion and new.occasion.isdisjoint(each.occasion))
    ]


async def replaced_instructions(
    bank: BankId, new: Sequence[NewFact], ending: AbstractSet[int], store: Store
) -> tuple[list[FactPair], dict[int, list[Judgement]]]:
    """Return the instructions that new facts replace, or those at `ending` end, and the verdicts on them."""
    given = [at for at, item in enumerate(new) if item.fact.instruction or at in ending]
    if not given:
        return [], {}
    newest = FactSelect(instructions=True, current=True, newest_first=True, with_embeddings=True, limit=MAX_COMPARED)
    facts = await store.facts(bank, newest)
    known = [StandingInstruction(fact, np.array(fact.embedding, np.float32)) for fact in facts]
    standing = deque(reversed(known), maxlen=2 * MAX_COMPARED)
    pairs: list[FactPair] = []
    for at in given:
        made = StandingInstruction(new[at].fact, new[at].embedding)
        closed = _ended(made, [each for each in standing if _are_of_one_user(made.fact, each.fact)])
        pairs += [FactPair(at, each.fact) for each in closed]
        standing = deque((each for each in standing if each not in closed), maxlen=2 * MAX_COMPARED)
        if made.fact.instruction:
            standing.append(made)
    verdicts: dict[int, list[Judgement]] = {}
    for pair in pairs:
        verdicts.setdefault(pair.new, []).append(Judgement(verdict="supersede", fact=pair.known.id))
    return pairs, verdicts


def _are_of_one_user(new: Fact, earlier: Fact) -> bool:
    """Return True for instructions of different messages of one user; tags may separate users too."""
    if new.id == earlier.id or set(new.tags) != set(earlier.tags) or speaker_of(new) != speaker_of(earlier):
        return False
    return set(new.messages).isdisjoint(earlier.messages)


async def judge_pairs(
    pairs: Sequence[FactPair], new: Sequence[NewFact], llm: StructuredLLM
) -> dict[int, list[Judgement]]:
    """Return the verdicts on pairs of new and known facts, by the index of the new fact."""
    numbers = {at: f"N{n}" for n, at in enumerate(dict.fromkeys(pair.new for pair in pairs), start=1)}
    known = {f"K{n}": pair for n, pair in enumerate(pairs, start=1)}
    lines: list[str] = []
    for at, number in numbers.items():
        beside = [f"    beside {id} (known) | {describe_fact(p.known)}" for id, p in known.items() if p.new == at]
        lines += [f"{number} (new) | {describe_fact(new[at].fact)}", *beside]

    def problems(answer: PairVerdicts) -> str | None:
        asked = {(numbers[pair.new], id) for id, pair in known.items()}
        wrong = [f"{each.new}/{each.known}" for each in answer.verdicts if (each.new, each.known) not in asked]
        return f"these pairs were not asked about: {', '.join(wrong[:5])}" if wrong else None

    request = load_prompt("retain", "judge").request(PairVerdicts, pairs=quote(lines))
    answer = await llm.ask(request, PairVerdicts, problems)
    found: dict[int, list[Judgement]] = {}
    for each in answer.verdicts:
        pair = known[each.known]
        verdict = Judgement(
            verdict=each.verdict, fact=pair.known.id, text=each.text, words=each.words, mistaken=each.mistaken
        )
        found.setdefault(pair.new, []).append(verdict)
    return found
