"""Statements over a bank's profile and those it had before."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select, update

from vmemo.models import FormerProfile, Profile, utc_now
from vmemo.models.changes import ProfileChange
from vmemo.stores.sql.schema import banks, profiles
from vmemo.stores.sql.timestamps import instant, micros


def save(connection: Connection, bank: int, change: ProfileChange) -> bool:
    """Replace the bank's profile and keep the previous one; return False if that is not the expected one."""
    stored = connection.execute(select(banks.c.profile).where(banks.c.seq == bank)).scalar_one()
    present = Profile.model_validate_json(stored)
    if change.expected is not None and present != change.expected:
        return False
    if present != change.profile:
        keep(connection, bank, [FormerProfile(profile=present, until=utc_now(), reason=change.reason)])
        connection.execute(update(banks).where(banks.c.seq == bank).values(profile=change.profile.model_dump_json()))
    return True


def keep(connection: Connection, bank: int, former: Sequence[FormerProfile]) -> None:
    """Add to the bank's history."""
    rows = [
        {
            "bank": bank,
            "profile": each.profile.model_dump_json(),
            "until": micros(each.until),
            "reason": each.reason,
        }
        for each in former
    ]
    connection.execute(insert(profiles), rows)


def former(connection: Connection, bank: int) -> list[FormerProfile]:
    """The profiles that the bank had before, oldest first."""
    rows = connection.execute(select(profiles).where(profiles.c.bank == bank).order_by(profiles.c.seq))
    return [
        FormerProfile(
            profile=Profile.model_validate_json(row.profile),
            until=instant(row.until),
            reason=row.reason,
        )
        for row in rows
    ]


def hand_on(connection: Connection, bank: int, other: int) -> None:
    """Make a bank's history another's."""
    connection.execute(update(profiles).where(profiles.c.bank == bank).values(bank=other))
