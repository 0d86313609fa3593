"""The rules of forgetting: what is deleted with a message, and what is processed again.

The episodes of forgotten messages dissolve, and their other messages are processed again, so that nothing which quotes
or summarises the forgotten text is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set as AbstractSet
from dataclasses import dataclass, field

from vmemo.lifecycle.reprocess_rules import is_formed
from vmemo.models import Entity, EntityId, Episode, EpisodeId, Fact, FactId, Message, MessageId
from vmemo.models.results import Job
from vmemo.models.search import RevisionEdge
from vmemo.retain.episodes import describe_episode
from vmemo.text.fact_text import EDITED_BY_HAND, OWN_WORDS_ENGINES


@dataclass
class Reach:
    """The records that forgetting some messages reaches: facts and episodes to delete, messages to process again."""

    gone: AbstractSet[MessageId]
    kept: set[MessageId] = field(default_factory=set[MessageId])
    """Messages that are not processed again, because the user edited, deleted or pinned one of their facts."""
    requeued: set[MessageId] = field(default_factory=set[MessageId])
    episodes: dict[EpisodeId, Episode] = field(default_factory=dict[EpisodeId, Episode])
    facts: dict[FactId, Fact] = field(default_factory=dict[FactId, Fact])

    def follow(self, episodes: Iterable[Episode], facts: Iterable[Fact]) -> set[MessageId]:
        """Add episodes and facts; return the messages that are reached through them for the first time."""
        found = {episode.id: episode for episode in episodes}, {fact.id: fact for fact in facts}
        self.episodes |= found[0]
        self.facts |= found[1]
        members = {message for episode in found[0].values() for message in episode.messages}
        reached = (members | sources_of(found[1].values())) - self.gone - self.kept - self.requeued
        self.requeued |= reached
        return reached


def may_quote(fact: Fact) -> bool:
    """Return True for a fact in which a model may have used other messages of the episode than those that state it."""
    return fact.engine not in (*OWN_WORDS_ENGINES, EDITED_BY_HAND) and not fact.pinned


def sole_sources(deleted: Iterable[Fact], stated: Iterable[Fact]) -> set[MessageId]:
    """Return the messages that state nothing but deleted facts; `stated` are all facts that they state."""
    lost = {fact.id: fact for fact in deleted}
    others = sources_of(fact for fact in stated if fact.id not in lost)
    return sources_of(lost.values()) - others


def sources_of(facts: Iterable[Fact]) -> set[MessageId]:
    """Return the messages that facts were extracted from; the evidence of a formed opinion does not state it."""
    return {message for fact in facts if not is_formed(fact) for message in fact.messages}


def reopen(
    lost: Mapping[FactId, Fact], successors: Iterable[Fact], revisions: Iterable[RevisionEdge] = ()
) -> tuple[list[FactId], dict[FactId, FactId | None]]:
    """Return the facts that are current again, and what remaining facts replace now in place of a lost one.

    `successors` are the remaining facts that replaced a lost fact, or a fact that a lost one replaced. `revisions` are
    all links to facts that a lost one replaced.
    """
    left = {fact.id: fact.supersedes for fact in successors if fact.id not in lost and fact.supersedes is not None}
    rewired = {id: _first_kept(old, lost) for id, old in left.items() if old in lost}
    replaced = {fact.supersedes for fact in lost.values() if fact.supersedes is not None}
    replaced_by = [(edge.older, edge.newer) for edge in revisions if edge.kind == "replaces"]
    replaced |= {older for older, newer in replaced_by if newer in lost}
    still_replaced = {*left.values(), *rewired.values(), *(older for older, newer in replaced_by if newer not in lost)}
    return sorted(replaced - lost.keys() - still_replaced), rewired


def _first_kept(id: FactId, lost: Mapping[FactId, Fact]) -> FactId | None:
    """Return the first fact on the way back through lost ones that is not lost."""
    passed: set[FactId] = set()
    step: FactId | None = id
    while step is not None and step in lost:
        if step in passed:
            return None
        passed.add(step)
        step = lost[step].supersedes
    return step


def orphans(entities: Iterable[Entity], lost: Iterable[Fact]) -> set[EntityId]:
    """Return the entities that only lost facts mention."""
    mentioned = Counter(mention.id for fact in lost for mention in fact.entities)
    return {entity.id for entity in entities if mentioned[entity.id] >= entity.mentions}


def describes(facts: Iterable[Fact], entities: AbstractSet[EntityId]) -> set[EntityId]:
    """Return those of some entities that an observation is about."""
    observations = [fact for fact in facts if fact.network == "observation"]
    return {mention.id for fact in observations for mention in fact.entities} & entities


def obsolete_jobs(jobs: Iterable[Job], episodes: AbstractSet[EpisodeId], entities: AbstractSet[EntityId]) -> list[int]:
    """Return the jobs about deleted episodes and entities."""
    return [
        job.id
        for job in jobs
        if (job.kind == "extract" and job.detail.get("episode") in episodes)
        or (job.kind == "observe" and job.key in entities)
    ]


def shrink(episode: Episode, remaining: Mapping[MessageId, Message]) -> Episode | None:
    """Return an episode with those of its messages that remain in it, or None if there are none."""
    left = [remaining[id] for id in episode.messages if id in remaining]
    if not left:
        return None
    times = [message.timestamp for message in left]
    ids = tuple(message.id for message in left)
    return episode.model_copy(update={"messages": ids, "started_at": min(times), "ended_at": max(times)})


def redescribe(episode: Episode, remaining: Mapping[MessageId, Message]) -> Episode | None:
    """Return a shrunk episode with a title and a narrative of its remaining messages alone."""
    shrunk = shrink(episode, remaining)
    return None if shrunk is None else describe_episode(shrunk, [remaining[id] for id in shrunk.messages])
