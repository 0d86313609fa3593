"""Options that set fields of a bank's profile, and a profile as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from vmemo import Profile
from vmemo.cli.output import one_line
from vmemo.models import Disposition

WHOLE = 2000
"""Maximum characters of a background or reason in the output."""


def _trait(name: str, help: str) -> object:
    return typer.Option(name, min=1, max=5, help=help)


AgentName = Annotated[str | None, typer.Option("--name", metavar="NAME", help="The agent's name.")]
Skepticism = Annotated[int | None, _trait("--skepticism", "1 (trusting) to 5 (skeptical).")]
Literalism = Annotated[int | None, _trait("--literalism", "1 (reads between the lines) to 5 (literal).")]
Empathy = Annotated[int | None, _trait("--empathy", "1 (detached) to 5 (empathetic).")]
Bias = Annotated[
    float | None,
    typer.Option("--bias", min=0.0, max=1.0, help="How strongly the profile shapes answers; 0 is facts only."),
]
NewBackground = Annotated[
    str | None,
    typer.Option("--background", metavar="TEXT", help="The background, in the first person; replaces the old one."),
]


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """New values of profile fields; None keeps a field."""

    name: str | None
    skepticism: int | None
    literalism: int | None
    empathy: int | None
    bias: float | None
    background: str | None

    def applied(self, to: Profile) -> Profile:
        """Return the profile with these values applied."""
        traits = {"skepticism": self.skepticism, "literalism": self.literalism, "empathy": self.empathy}
        own = {"name": self.name, "bias": self.bias, "background": self.background}
        disposition = Disposition.of({**to.disposition.model_dump(), **_given(traits)})
        return Profile.of({**to.model_dump(), **_given(own), "disposition": disposition})


def _given(values: dict[str, int | None] | dict[str, str | float | None]) -> dict[str, str | float]:
    return {name: value for name, value in values.items() if value is not None}


def profile_table(profile: Profile) -> Table:
    """Return a profile as a table of its fields."""
    grid = Table.grid(padding=(0, 2))
    background = one_line(profile.background, WHOLE) or "(none)"
    for name, value in (
        ("name", one_line(profile.name)),
        ("disposition", traits(profile.disposition)),
        ("bias", f"{profile.bias:.2f}"),
        ("background", background),
    ):
        grid.add_row(Text(name, style="bold"), Text(value))
    return grid


def traits(disposition: Disposition) -> str:
    """Return a disposition on one line."""
    return ", ".join(f"{name} {value}" for name, value in disposition.model_dump().items())
