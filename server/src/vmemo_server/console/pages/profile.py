"""The profile of a bank: name, disposition, background and its history."""

from __future__ import annotations

from fastapi import APIRouter, Response

from vmemo.errors import InvalidInput
from vmemo.models import Profile
from vmemo.models.requests import BackgroundRequest, ProfileUpdate
from vmemo_server.console.dependencies import ReadPage, WriteForm
from vmemo_server.console.flash import redirect
from vmemo_server.console.route import ConsoleRoute
from vmemo_server.console.session import Form

router = APIRouter(include_in_schema=False, prefix="/console/banks/{bank}/profile", route_class=ConsoleRoute)
TRAITS = {
    "skepticism": ("trusting", "skeptical"),
    "literalism": ("reads between the lines", "literal"),
    "empathy": ("detached", "empathetic"),
}
"""The traits, with the ends of their scales."""
FORMER = 50


@router.get("")
async def profile(page: ReadPage) -> Response:
    """Show the profile and the ones before."""
    former = await page.memory.former_profiles()
    return page.render(
        "profile.html",
        profile=await page.memory.profile(),
        former=former[::-1][:FORMER],
        traits=TRAITS,
        has_model=page.memory.lookup.models,
    )


@router.post("")
async def save(form: WriteForm) -> Response:
    """Replace the profile."""
    await form.memory.run(ProfileUpdate(profile=_profile(form.form)))
    return redirect(form.path("profile"), "saved")


@router.post("/background")
async def add_background(form: WriteForm) -> Response:
    """Merge a statement into the background."""
    await form.memory.run(BackgroundRequest.of({"snippet": form.form.text("snippet")}))
    return redirect(form.path("profile"), "background")


def _profile(form: Form) -> Profile:
    try:
        disposition = {name: int(form.text(name)) for name in TRAITS}
        bias = float(form.text("bias"))
    except ValueError as error:
        raise InvalidInput("The traits are whole numbers from 1 to 5, and the bias a number from 0 to 1.") from error
    values = {"name": form.text("name"), "background": form.text("background"), "bias": bias}
    return Profile.of({**values, "disposition": disposition})
