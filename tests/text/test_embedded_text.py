"""Embedded text of a fact."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vmemo.text.temporal.annotation import embedded_text


@pytest.mark.parametrize(
    ("text", "embedded"),
    [
        ("Bo: I ran.", "8 May 2023. Bo: I ran."),
        ("Bo: I ran yesterday (= 7 May 2023).", "8 May 2023. Bo: I ran yesterday (7 May 2023)."),
        ("Bo: I ran yesterday (7 May 2023).", "8 May 2023. Bo: I ran yesterday (7 May 2023)."),
        ("Bo: I leave next Friday.", "8 May 2023. Bo: I leave next Friday (19 May 2023)."),
    ],
)
def test_the_embedded_text_has_the_date_of_the_mention_and_likely_dates(text: str, embedded: str) -> None:
    assert embedded_text(text, datetime(2023, 5, 8, 12, tzinfo=UTC)) == embedded
