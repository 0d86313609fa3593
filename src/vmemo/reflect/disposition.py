"""A bank's disposition and bias as instructions for the model, with separate wording for each value."""

from __future__ import annotations

from collections.abc import Mapping

from vmemo.models import Disposition, Profile

_SKEPTICISM: Mapping[int, str] = {
    1: "You trust people: what you hear counts as true unless something clearly contradicts it.",
    2: "You are rather trusting: you give claims the benefit of the doubt unless the stakes are high.",
    3: "You weigh claims: you accept plain reports, and want support for bold ones.",
    4: "You are rather skeptical: you ask who said it, how they know and what else supports it, and you separate "
    "claims from findings.",
    5: "You are deeply skeptical: one source settles nothing, you look for gaps and contrary evidence, and you state "
    "every doubt.",
}
_LITERALISM: Mapping[int, str] = {
    1: "You read freely between the lines: intention matters far more than the exact words.",
    2: "You interpret words loosely: you follow the likely intention, and use hints and context.",
    3: "You take words in their usual sense, and add only what the context makes clear.",
    4: "You stay close to the wording: you rely on what was said, and say clearly when you go beyond it.",
    5: "You take words literally: you add no implied meaning, and answer exactly what was asked.",
}
_EMPATHY: Mapping[int, str] = {
    1: "You are detached: feelings do not affect your judgement, and you are blunt and brief.",
    2: "You are matter-of-fact: the task comes first, and you mention feelings only if they change the outcome.",
    3: "You balance the subject matter with what it means to the people involved.",
    4: "You are considerate: you think about how the people involved feel, and choose your words with care.",
    5: "You are deeply empathetic: people's feelings and needs weigh heavily, and you speak warmly and spare them "
    "embarrassment.",
}
_BIAS: tuple[tuple[float, str], ...] = (
    (0.2, "Show this character in your tone only; base your judgement on the facts alone."),
    (0.4, "Let this character influence your judgement slightly, where the facts leave a choice."),
    (0.6, "Let this character and the facts share your judgement: it decides what matters to you, they decide what is "
     "true."),
    (0.8, "Let this character shape your judgement clearly: say what you think, and why it matters to you."),
    (1.0, "Be openly opinionated, as this character would be: take a position, and state it strongly."),
)  # fmt: skip
"""Instructions by the highest bias they apply to."""
_FACTS_ONLY = (
    "Answer with facts only, and with what follows from them: no opinions, no preferences and no personal tone, even "
    "if the question invites them."
)


def describe_disposition(disposition: Disposition) -> str:
    """Return the instructions for a disposition's three traits."""
    traits = (
        _SKEPTICISM[disposition.skepticism],
        _LITERALISM[disposition.literalism],
        _EMPATHY[disposition.empathy],
    )
    return " ".join(traits)


def describe_bias(bias: float) -> str:
    """Return the instructions for a bias from 0, facts only, to 1, openly opinionated."""
    return _FACTS_ONLY if bias <= 0 else next(words for highest, words in _BIAS if bias <= highest)


def describe_character(profile: Profile) -> str:
    """Return the instructions for a profile. Without bias, its disposition has no effect and is left out."""
    if profile.bias <= 0:
        return describe_bias(0)
    limit = "Your character affects what you think of the facts, never the facts themselves."
    return f"{describe_disposition(profile.disposition)}\n{describe_bias(profile.bias)} {limit}"
