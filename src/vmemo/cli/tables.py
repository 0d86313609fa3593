"""Tables of records."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vmemo.cli.output import counted, day, occurred, one_line, table, timestamp, with_id
from vmemo.models import Entity, Episode, Fact, Hit, Message
from vmemo.models.results import Backlog, Spending, Status


def status_table(status: Status) -> RenderableType:
    """Return a bank's status as a table."""
    grid = Table.grid(padding=(0, 2))
    for name, value in _counts(status):
        grid.add_row(Text(name, style="bold"), Text(one_line(value)))
    problems = [
        Text(f"{counted(t.messages, 'message')} pending: {one_line(t.error)}", style="red") for t in status.problems
    ]
    queued = [_backlog_table(status.backlog)] if status.backlog else []
    spent = [_spending_table(status.spending)] if status.spending else []
    return Group(grid, *problems, *queued, *spent)


def _backlog_table(backlog: Sequence[Backlog]) -> Table:
    rows = table("queued jobs", "waiting>", "running>", "failed>", "next due", "last error")
    for each in backlog:
        due = "" if each.next_at is None else timestamp(each.next_at)
        error = Text(one_line(each.error or ""), style="red")
        rows.add_row(each.kind, str(each.waiting), str(each.running), str(each.failed), due, error)
    return rows


def _spending_table(spending: Sequence[Spending]) -> Table:
    rows = table("step", "model", "calls>", "failures>", "tokens in>", "tokens out>", "cost>")
    for each in (*spending, *([_total(spending)] if len(spending) > 1 else [])):
        counts = (each.calls, each.failures, each.input_tokens, each.output_tokens)
        rows.add_row(each.step, Text(one_line(each.model)), *(f"{count:,}" for count in counts), f"${each.cost:.4f}")
    return rows


def _total(spending: Sequence[Spending]) -> Spending:
    return Spending(
        step="all",
        model="",
        calls=sum(each.calls for each in spending),
        failures=sum(each.failures for each in spending),
        input_tokens=sum(each.input_tokens for each in spending),
        output_tokens=sum(each.output_tokens for each in spending),
        cost=sum(each.cost for each in spending),
    )


def _counts(status: Status) -> list[tuple[str, str]]:
    used = [("size", size(status.bytes))] if status.bytes else []
    scrub = [("scrub", "pending: run vmemo doctor")] if status.scrub_pending else []
    return [
        ("bank", status.bank),
        ("engine", status.engine),
        ("embedder", f"{status.embedder} ({status.dimension} dimensions)"),
        ("messages", f"{status.messages:,} ({status.pending:,} pending)"),
        ("episodes", f"{status.episodes:,}"),
        ("facts", f"{status.facts:,} ({status.closed_facts:,} closed)"),
        ("entities", f"{status.entities:,}"),
        ("links", f"{status.links:,}"),
        *used,
        *scrub,
    ]


def size(count: int) -> str:
    """Return a number of bytes in kB or MB."""
    return f"{count / 1_000_000:.1f} MB" if count >= 1_000_000 else f"{count / 1000:.0f} kB"


def banks_table(names: Sequence[str]) -> RenderableType:
    """Return the banks' names, one per line."""
    return Text("\n".join(one_line(name) for name in names))


def fact_table(facts: Sequence[Fact]) -> Table:
    """Return a table of facts with their mention and occurrence dates."""
    rows = table("mentioned", "occurred", "network", "fact and id")
    for fact in facts:
        rows.add_row(day(fact.mentioned_at), occurred(fact), fact.network, with_id(_marked(fact), fact.id))
    return rows


def version_table(versions: Sequence[Fact]) -> Table:
    """Return a table of the versions of a fact: when each was recorded, and when it was true."""
    rows = table("recorded", "true", "fact and id")
    for fact in versions:
        rows.add_row(day(fact.recorded_at), fact.validity, with_id(fact.text, fact.id))
    return rows


def _marked(fact: Fact) -> str:
    if fact.invalid_at is not None:
        return f"(until {day(fact.invalid_at)}) {fact.text}"
    return f"(no longer believed) {fact.text}" if fact.expired_at is not None else fact.text


def marked_hit(hit: Hit) -> Text:
    """Return the text of a hit after its status."""
    note = Text(f"({hit.status_note}) ", style="yellow") if hit.status_note else Text()
    return note.append(one_line(hit.text), style="default")


def episode_table(episodes: Sequence[Episode]) -> Table:
    """Return a table of episodes."""
    rows = table("started", "messages>", "title and id")
    for episode in episodes:
        rows.add_row(day(episode.started_at), str(len(episode.messages)), with_id(episode.title, episode.id))
    return rows


def entity_table(entities: Sequence[Entity]) -> Table:
    """Return a table of entities with their aliases."""
    rows = table("type", "mentions>", "last seen", "name, aliases and id")
    for entity in entities:
        names = ", ".join((entity.name, *(alias for alias in entity.aliases if alias != entity.name)))
        rows.add_row(entity.type, str(entity.mentions), day(entity.last_seen), with_id(names, entity.id))
    return rows


def message_table(messages: Sequence[Message]) -> Table:
    """Return a table of messages."""
    rows = table("timestamp", "state", "document", "message and id")
    for message in messages:
        said = with_id(f"{message.voice}: {message.content}", message.id)
        rows.add_row(day(message.timestamp), message.state, Text(one_line(message.document or "")), said)
    return rows
