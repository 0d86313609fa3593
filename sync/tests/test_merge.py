"""Two copies of a bank that were written apart hold the same after a merge, in either direction."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings, strategies as st
from sync_banks import PHASES, Action, actions, apply_to, content_of, say

from vmemo import Memory
from vmemo_sync import diff, fork, merge


@example(
    before=[Action("say", 9, 959), Action("say", 11, 995)],
    left=[Action("edit", 22, 545, "Max"), Action("say", 0, 2915), Action("say", 10, 70, "Max")],
    right=[Action("say", 11, 105, "Max"), Action("edit", 100, 602, "Max"), Action("merge", 81)],
)
@example(
    before=[
        Action("say", place, n, speaker) for n, (place, speaker) in enumerate([(6, "Max"), (4, "Eve"), (8, "Max")])
    ],
    left=[Action("say", 8, 1237, "Max")],
    right=[Action("pin", 26), Action("merge", 25), Action("edit", 2, 304, "Max")],
)
# One edits a fact about Ana, and the other learns that she is Ana Silva; merged entities have another name since.
@example(
    before=[Action("say", 2, 1514, "Max"), Action("say", 5, 274)],
    left=[Action("edit", 1, 152, "Max"), Action("say", 4, 710), Action("merge", 2), Action("say", 4, 214)],
    right=[Action("say", 10, 89)],
)
# What one pins, or has not edited, the other repeats, so that it has more messages there.
@example(
    before=[Action("say", 1, 729, "Max"), Action("say", 3, 71)],
    left=[Action("say", 1, 498, "Max"), Action("say", 3, 194), Action("edit", 0, 1, "Max")],
    right=[Action("pin", 0)],
)
# One pins what the derivation from all messages leaves out: beside another speaker, it is no instruction.
@example(
    before=[Action("say", 8, 20)],
    left=[Action("say", 3, 364, "Max")],
    right=[Action("pin", 0)],
)
@settings(max_examples=3, phases=PHASES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(before=st.lists(say, min_size=1, max_size=5), left=actions, right=actions)
def test_copies_written_apart_hold_the_same_after_a_merge_in_either_direction(
    before: Sequence[Action], left: Sequence[Action], right: Sequence[Action]
) -> None:
    async def run(folder: Path) -> None:
        one = Memory(folder / "memory.db", bank="one")
        await apply_to(one, before)
        await fork(one, "two")
        two = one.bank("two")
        await apply_to(one, left)
        await apply_to(two, right)
        await one.close()
        # The same banks again, to merge them in the other direction.
        shutil.copytree(folder, folder / "other")
        other = Memory(folder / "other" / "memory.db", bank="one")
        await merge(two, one)
        await merge(other, other.bank("two"))
        merged, expected = await content_of(one), await content_of(other.bank("two"))
        assert merged == expected
        await merge(one, two)
        assert await content_of(two) == merged
        assert not await diff(one, two)
        await one.close()
        await other.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
