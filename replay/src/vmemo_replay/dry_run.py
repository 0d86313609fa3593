"""What would be derived from a transcript: facts, entities, standing instructions, and messages without facts."""

from __future__ import annotations

from vmemo.models.records import Record
from vmemo_replay.configuration import Configuration
from vmemo_replay.player import Player, all_entities, all_facts
from vmemo_replay.replay import known_facts, said
from vmemo_replay.report import KnownFact, Said
from vmemo_replay.transcripts import Transcript


class DerivedEntity(Record):
    """An entity with its other names and the number of facts that mention it."""

    name: str
    type: str
    aliases: tuple[str, ...] = ()
    mentions: int = 0


class Derived(Record):
    """The result of a dry run. Instructions are among the facts too."""

    engine: str
    facts: tuple[KnownFact, ...]
    entities: tuple[DerivedEntity, ...]
    instructions: tuple[KnownFact, ...]
    noise: tuple[Said, ...]
    """Messages from which no fact is derived, such as greetings and bare questions."""

    def sections(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return the names of the parts, each with its texts and their dates."""
        entities = [(f"{each.name} ({each.type.lower()}, {each.mentions:,} facts)", "") for each in self.entities]
        return [
            ("facts", [(fact.text, f"{fact.said_at:%Y-%m-%d}") for fact in self.facts]),
            ("entities", entities),
            ("standing instructions", [(fact.text, f"{fact.said_at:%Y-%m-%d}") for fact in self.instructions]),
            ("messages without facts", [(message.text, f"{message.time:%Y-%m-%d}") for message in self.noise]),
        ]


async def derive(transcript: Transcript, configuration: Configuration) -> Derived:
    """Derive everything in a private database, which is gone afterwards."""
    async with configuration.memory("sqlite:///:memory:") as memory:
        await Player(memory, transcript.lines).finish()
        facts = await known_facts(memory)
        named = sorted(await all_entities(memory), key=lambda entity: -entity.mentions)
        sources = {id for fact in await all_facts(memory) for id in fact.messages}
    return Derived(
        engine=configuration.engine,
        facts=tuple(facts),
        entities=tuple(
            DerivedEntity(name=each.name, type=each.type, aliases=each.aliases, mentions=each.mentions)
            for each in named
        ),
        instructions=tuple(fact for fact in facts if fact.instruction),
        noise=tuple(said(line) for line in transcript.lines if line.id not in sources),
    )
