"""Commands that show and edit records: `inspect`, `why`, `opinions`, `observations`, `fact` and `entity`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, assert_never

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from vmemo import Fact, Memory, Provenance
from vmemo.cli.command import CommandGroup, Output, command
from vmemo.cli.options import OnBank, WithModel, Yes, time_option
from vmemo.cli.output import day, occurred, one_line, page, plain, status_table, table, with_id
from vmemo.cli.retain import confirm_deletion, deleted
from vmemo.cli.target import Target, run
from vmemo.errors import NotFound
from vmemo.models import ConfidenceChange, Entity, Episode, Message, requests as r

Listed = Literal["facts", "instructions", "pinned", "feedback", "episodes", "entities", "messages"]
What = Literal["status", "banks", "facts", "instructions", "pinned", "feedback", "episodes", "entities", "messages"]
FactArgument = Annotated[str, typer.Argument(metavar="FACT", help="A fact's id or short id.")]


@command(
    "vmemo inspect",
    "vmemo inspect facts --limit 50",
    "vmemo inspect instructions   the user's standing instructions",
    "vmemo inspect pinned         pinned facts",
    "vmemo inspect feedback       facts that were judged as hits",
    "vmemo inspect messages --document chat-2024-05 --json",
    "vmemo inspect facts --after 6d0c1f7e-…   the page after this id",
)
def inspect(
    what: Annotated[What, typer.Argument(help="What to show.")] = "status",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Records on a page.")] = 20,
    after: Annotated[str | None, typer.Option(metavar="ID", help="Start after this record.")] = None,
    document: Annotated[str | None, typer.Option(metavar="NAME", help="Only messages of this document.")] = None,
    *,
    target: WithModel,
) -> Output:
    """Show a bank's status, or a page of its records."""
    if document is not None and what != "messages":
        raise typer.BadParameter("Only messages belong to a document.", param_hint="--document")
    if what == "status":
        status = run(target, lambda memory: memory.status(), embeds=False)
        return Output(status, status_table(status))
    if what == "banks":
        names = run(target, lambda memory: memory.banks(), requires="database")
        return Output({"banks": names}, "\n".join(map(one_line, names)))
    return _list(target, what, limit=limit, after=after, document=document)


def _list(target: Target, what: Listed, *, limit: int, after: str | None, document: str | None = None) -> Output:
    found, rows = run(target, lambda memory: _read(memory, what, limit, after, document), embeds=False)
    more = found[-1].id if len(found) == limit else None
    return Output({what: found, "next": more}, page(rows if found else "Nothing here.", more))


async def _read(
    memory: Memory, what: Listed, limit: int, after: str | None, document: str | None
) -> tuple[Sequence[Fact | Episode | Entity | Message], Table]:
    given = {"after": after, "limit": limit}
    match what:
        case "facts" | "instructions" | "pinned" | "feedback":
            only = {} if what == "facts" else {what: True}
            facts = await memory.run(r.FactsRequest.of({**given, **only}))
            return facts, fact_table(facts)
        case "episodes":
            episodes = await memory.run(r.EpisodesRequest.of(given))
            rows = ((day(e.started_at), str(len(e.messages)), with_id(e.title, e.id)) for e in episodes)
            return episodes, table("started", "messages>", "title and id", rows=rows)
        case "entities":
            entities = await memory.run(r.EntitiesRequest.of(given))
            names = (", ".join(dict.fromkeys((each.name, *each.aliases))) for each in entities)
            rows = (
                (e.type, str(e.mentions), day(e.last_seen), with_id(name, e.id))
                for e, name in zip(entities, names, strict=True)
            )
            return entities, table("type", "mentions>", "last seen", "name, aliases and id", rows=rows)
        case "messages":
            messages = await memory.run(r.MessagesRequest.of({**given, "document": document}))
            rows = (
                (day(m.timestamp), m.state, Text(one_line(m.document or "")), with_id(f"{m.voice}: {m.content}", m.id))
                for m in messages
            )
            return messages, table("timestamp", "state", "document", "message and id", rows=rows)
        case _:
            assert_never(what)


def fact_table(facts: Sequence[Fact]) -> Table:
    """Return a table of facts with their mention and occurrence dates."""
    rows = table("mentioned", "occurred", "network", "fact and id")
    for fact in facts:
        mark = "(no longer believed) " if fact.expired_at is not None else ""
        mark = mark if fact.invalid_at is None else f"(until {day(fact.invalid_at)}) "
        rows.add_row(day(fact.mentioned_at), occurred(fact), fact.network, with_id(mark + fact.text, fact.id))
    return rows


@command(
    "vmemo why 0f9a3c52                               a short id from recall, reflect or a prompt",
    "vmemo why 0f9a3c52-7d1e-5b6f-9c3d-1e2f3a4b5c6d --json",
)
def why(fact: FactArgument, *, target: OnBank) -> Output:
    """Show the provenance of a fact: episode, source messages, and what replaced it."""
    chain = run(target, lambda memory: memory.why(fact), embeds=False)
    return Output(chain, tree(chain))


def tree(chain: Provenance) -> Tree:
    """Return the provenance as a tree with the fact at its root."""
    fact = chain.fact
    root = Tree(Text.assemble((one_line(fact.text), "bold"), f"\n{fact.network}, {fact.engine} engine, {fact.id}"))
    if fact.reason:
        root.add(Text(f"edited: {one_line(fact.reason)}", style="yellow"))
    for episode in chain.episodes:
        root.add(Text(f"episode of {day(episode.started_at)}: {one_line(episode.title)}", style="cyan"))
    for message in chain.messages:
        said = Text.assemble((f"message of {day(message.timestamp)}, {plain(message.id)}", "green"), "\n")
        root.add(said.append(f"{one_line(message.voice)}: {one_line(message.content)}"))
    for behind in chain.basis:
        root.add(tree(behind))
    for change in chain.confidence_changes:
        confidence = f"{change.before:.2f} → {change.after:.2f}"
        step = f"{change.stance} on {day(change.at)}, {confidence}: {one_line(change.reason)}"
        root.add(Text(step, style="magenta"))
    judged = {found.fact: f", revision model {found.probability:.2f}" for found in chain.newer}
    for newer in chain.superseded_by:
        reason = f" ({one_line(newer.reason)})" if newer.reason else judged.get(newer.id, "")
        judged.pop(newer.id, None)
        root.add(Text(f"replaced by {newer.id}{reason}: {one_line(newer.text)}", style="yellow"))
    for fact, probability in judged.items():
        root.add(Text(f"maybe outdated by {fact}{probability}", style="yellow"))
    return root


@command(
    "vmemo opinions",
    "vmemo opinions --why 0f9a3c52-7d1e-5b6f-9c3d-1e2f3a4b5c6d   an id from the list",
    "vmemo opinions --bank alice --json",
)
def opinions(
    why: Annotated[str | None, typer.Option(metavar="ID", help="Show how this opinion's confidence changed.")] = None,
    *,
    target: OnBank,
) -> Output:
    """List current opinions with their confidence, or the confidence history of one."""
    if why is not None:

        async def history(memory: Memory) -> tuple[Fact, list[ConfidenceChange]]:
            opinion = (await memory.why(why)).fact
            if opinion.network != "opinion":
                other = "`vmemo opinions` lists opinions; use `vmemo why` for other facts."
                raise NotFound(f"{why!r} is not an opinion. {other}")
            return opinion, await memory.trajectory(why)

        opinion, changes = run(target, history, embeds=False)
        return Output({"opinion": opinion, "confidence_changes": changes}, _trajectory(opinion, changes))
    held = run(target, lambda memory: memory.opinions(), embeds=False)
    rows = ((f"{each.confidence or 0:.2f}", day(each.mentioned_at), with_id(each.text, each.id)) for each in held)
    shown = table("confidence>", "formed", "opinion and id", rows=rows)
    return Output({"opinions": held}, shown if held else "There are no opinions.")


def _trajectory(opinion: Fact, changes: Sequence[ConfidenceChange]) -> RenderableType:
    head = Text.assemble((one_line(opinion.text), "bold"), f"\nconfidence {opinion.confidence or 0:.2f}, {opinion.id}")
    if not changes:
        return Group(head, "Its confidence has not changed.")
    rows = table("when", "stance", "confidence>", "reason and evidence")
    for change in changes:
        reason = Text.assemble(one_line(change.reason), *(("\n" + id, "dim") for id in change.evidence))
        rows.add_row(day(change.at), change.stance, f"{change.before:.2f} → {change.after:.2f}", reason)
    return Group(head, rows)


@command("vmemo observations", 'vmemo observations "Alice" --json', "vmemo observations Alice --bank team")
def observations(
    entity: Annotated[
        str | None, typer.Argument(metavar="ENTITY", help="An entity by name or id. Default: all.")
    ] = None,
    *,
    target: OnBank,
) -> Output:
    """List observations of an entity, or of all; `vmemo why` shows the facts behind one."""
    found = run(target, lambda memory: memory.observations(entity), embeds=False)
    return Output({"observations": found}, fact_table(found) if found else "There are no observations.")


@command("vmemo fact get 0f9a3c52", "vmemo fact get 0f9a3c52 --json", name="fact get")
def get_fact(fact: FactArgument, *, target: OnBank) -> Output:
    """Show one fact."""
    return _fact(run(target, lambda memory: memory.get(fact), embeds=False))


def _fact(fact: Fact) -> Output:
    marks = ", pinned" if fact.pinned else ""
    judged = [f"\n{'right' if each.useful else 'wrong'} for: {one_line(each.question)}" for each in fact.feedback]
    about = f"{fact.network}, {fact.engine} engine{marks}, {fact.id}"
    return Output(fact, f"{one_line(fact.text)}\n{about}{''.join(judged)}")


@command("vmemo fact history 0f9a3c52", "vmemo fact history 0f9a3c52 --json", name="fact history")
def fact_history(fact: FactArgument, *, target: OnBank) -> Output:
    """Show all versions of a fact, oldest first."""
    found = run(target, lambda memory: memory.history(fact), embeds=False)
    rows = ((day(each.recorded_at), each.validity, with_id(each.text, each.id)) for each in found)
    return Output({"facts": found}, table("recorded", "true", "fact and id", rows=rows))


@command(
    'vmemo fact update 0f9a3c52 "Ana lives in Porto."',
    'vmemo fact update 0f9a3c52 "Ana lives in Porto." --valid-at 2024-03-01 --reason "She moved." --json',
    name="fact update",
)
def update_fact(
    fact: FactArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The new text.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, which `vmemo why` shows.")] = "",
    valid_at: Annotated[
        datetime | None, time_option("Since when it is true: a date, or a time with a time zone. Default: now.")
    ] = None,
    *,
    target: OnBank,
) -> Output:
    """Write a new version of a fact; the old one is closed and stays in its history."""
    return _fact(run(target, lambda memory: memory.update(fact, text, reason, valid_at=valid_at)))


@command("vmemo fact delete 0f9a3c52", "vmemo fact delete 0f9a3c52 --yes --json", name="fact delete")
def delete_fact(fact: FactArgument, yes: Yes = False, *, target: WithModel) -> Output:
    """Delete one fact with what rests on it, and the messages that state nothing else."""
    confirm_deletion(f"fact {one_line(fact)} from bank {one_line(target.bank)!r}", yes=yes)
    return deleted(run(target, lambda memory: memory.delete(fact)))


@command("vmemo fact pin 0f9a3c52", "vmemo fact pin 0f9a3c52 --json", name="fact pin")
def pin_fact(fact: FactArgument, *, target: OnBank) -> Output:
    """Pin a current fact, so that maintenance never closes it."""
    return _fact(run(target, lambda memory: memory.pin(fact)))


@command("vmemo fact unpin 0f9a3c52", "vmemo fact unpin 0f9a3c52 --json", name="fact unpin")
def unpin_fact(fact: FactArgument, *, target: OnBank) -> Output:
    """Unpin a fact."""
    return _fact(run(target, lambda memory: memory.unpin(fact)))


@command(
    'vmemo fact feedback 0f9a3c52 "Where does Ana live?"',
    'vmemo fact feedback 0f9a3c52 "Where does Ana live?" --useful --reason "She said so." --json',
    'vmemo fact feedback 0f9a3c52 "Where does Ana live?" --remove',
    name="fact feedback",
)
def feedback(
    fact: FactArgument,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question that recalled it.")],
    useful: Annotated[bool, typer.Option("--useful/--wrong", help="It is a right or a wrong hit.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the feedback.")] = False,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, shown with the feedback.")] = "",
    *,
    target: OnBank,
) -> Output:
    """Judge a fact as a hit: recalls of such a question rank it a little higher or lower."""
    judgement = None if remove else useful
    return _fact(run(target, lambda memory: memory.feedback(fact, question, judgement, reason)))


@command("vmemo entity list", "vmemo entity list --limit 100 --bank alice --json", name="entity list")
def list_entities(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Entities on a page.")] = 20,
    after: Annotated[str | None, typer.Option(metavar="ID", help="Start after this entity.")] = None,
    *,
    target: OnBank,
) -> Output:
    """List entities with their aliases."""
    return _list(target, "entities", limit=limit, after=after)


@command("vmemo entity merges", "vmemo entity merges --bank alice --json", name="entity merges")
def list_merges(*, target: OnBank) -> Output:
    """List merges of entities and their reasons; `vmemo entity undo` reverts one."""
    found = run(target, lambda memory: memory.merges(), embeds=False)
    rows = table("when", "reason", "names and the merge's id")
    for each in found:
        undone = f"(undone {day(each.undone_at)}) " if each.undone_at is not None else ""
        rows.add_row(day(each.at), Text(one_line(each.reason)), with_id(undone + ", ".join(each.names), each.id))
    return Output({"merges": found}, rows if found else "There are no merges.")


@command(
    'vmemo entity merge "Robert Hale" "Bob Hale"',
    'vmemo entity merge Robert Bob --reason "she said so" --json',
    name="entity merge",
)
def merge_entities(
    keep: Annotated[str, typer.Argument(metavar="KEEP", help="The entity to keep, by name or id.")],
    absorb: Annotated[str, typer.Argument(metavar="ABSORB", help="The entity to merge into it.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, shown in the list of merges.")] = "",
    *,
    target: OnBank,
) -> Output:
    """Merge two entities; all names stay as aliases, and the merge can be undone."""
    done = run(target, lambda memory: memory.merge_entities(keep, absorb, reason), embeds=False)
    merged = f"Merged {one_line(', '.join(done.names))} into {one_line(keep)}."
    return Output(done, f"{merged}\nTo undo: vmemo entity undo {done.id}")


@command(
    "vmemo entity undo 0f9a3c52-7d1e-5b6f-9c3d-1e2f3a4b5c6d   an id as `vmemo entity merges` shows it",
    "vmemo entity undo 0f9a3c52-7d1e-5b6f-9c3d-1e2f3a4b5c6d --json",
    name="entity undo",
)
def undo_merge(
    merge: Annotated[str, typer.Argument(metavar="MERGE", help="A merge's id.")], *, target: OnBank
) -> Output:
    """Undo a merge; the two entities are not merged again automatically."""
    apart = run(target, lambda memory: memory.undo_merge(merge), embeds=False)
    return Output({"merge": merge, "entity": apart}, f"Merge undone; entity {apart} is separate again.")


entity = CommandGroup(
    "entity", "List, merge and separate entities.", (list_entities, list_merges, merge_entities, undo_merge)
)
fact = CommandGroup(
    "fact",
    "Read, edit, pin, judge and delete one fact.",
    (get_fact, fact_history, update_fact, delete_fact, pin_fact, unpin_fact, feedback),
)
