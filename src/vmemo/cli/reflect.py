"""`vmemo reflect`."""

from __future__ import annotations

from typing import Annotated

import typer

from vmemo.cli.command import command
from vmemo.cli.options import (
    DEFAULT_BANK,
    DEFAULT_DB,
    After,
    AsJson,
    AtTime,
    BankName,
    Before,
    Db,
    Entities,
    Filters,
    IncludeExpired,
    KnownAt,
    Metadata,
    Networks,
    Tags,
)
from vmemo.cli.output import plain, print_json
from vmemo.cli.place import Place, run


@command(
    'vmemo reflect "What present would suit Maya?"',
    'vmemo reflect "Where does Maya live?" --at-time 2024-05-01T00:00Z',
    'vmemo reflect "What did I promise?" --network experience --json',
)
def reflect(  # noqa: PLR0913 - each is an option of the command line
    query: Annotated[str, typer.Argument(help="The question.")],
    at_time: AtTime = None,
    known_at: KnownAt = None,
    after: After = None,
    before: Before = None,
    include_expired: IncludeExpired = False,
    network: Networks = None,
    tag: Tags = None,
    entity: Entities = None,
    meta: Metadata = None,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """Answer a question from memory, with the ids of the facts that the answer rests on."""
    options = Filters(
        at_time=at_time,
        known_at=known_at,
        after=after,
        before=before,
        include_expired=include_expired,
        network=network,
        tag=tag,
        entity=entity,
        meta=meta,
    ).options()
    answer = run(Place(db, bank), lambda memory: memory.reflect(query, **options))
    if as_json:
        print_json(answer.model_dump(mode="json"))
    else:
        typer.echo(plain(answer.text))
