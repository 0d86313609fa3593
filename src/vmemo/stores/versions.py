"""Schema versions that this release can't use. Versions are numbered, so a greater one is newer."""

from __future__ import annotations

from vmemo.errors import NotFound, SchemaTooNew, StoreError


def refuse_newer(version: str | None, head: str) -> None:
    """Raise `SchemaTooNew` for a database from the future."""
    if version is not None and version > head:
        raise SchemaTooNew(
            f"The database has schema {version}, this vmemo knows up to {head}. "
            "Nothing was touched. Upgrade vmemo to open it."
        )


def refuse_other(version: str | None, head: str) -> None:
    """Raise `NotFound` for a database without memories, and `StoreError` for one of another release."""
    refuse_newer(version, head)
    if version is None:
        raise NotFound("There are no memories in this database. Nothing was made; correct its URL.")
    if version != head:
        raise StoreError(
            f"The database has schema {version} of an earlier release, and would have to be upgraded to {head}. "
            "Nothing was touched. Open it once with this release to upgrade it, for example with `vmemo doctor`."
        )
