"""What counts as a value of each exclusive attribute; anything else proves nothing and reads as None."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Literal

from vmemo.text.names.places import canonical_place, place_level

Attribute = Literal[
    "residence",
    "employer",
    "job",
    "phone",
    "email",
    "age",
    "name",
    "relationship",
    "favourite",
    "thing",
    "timezone",
    "car",
    "weight",
    "height",
]
"""What a person has one of at a time; `thing` is the name of something owned."""

_LINKING = frozenset("of the & de la du van von der den".split())
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_PHONE = re.compile(r"\+?[\d][\d ()./-]{5,22}")
_UNIT = re.compile(r"([\d.]+) ?([a-z]+)")
_FEET = re.compile(r"(\d) ?(?:'|ft|feet|foot) ?(\d{1,2})?(?: ?(?:in|inches))?")
_UNITS = {
    **dict.fromkeys(("kg", "kgs", "kilo", "kilos", "kilograms"), "kg"),
    **dict.fromkeys(("lb", "lbs", "pounds"), "lb"),
    **dict.fromkeys(("cm", "centimeters", "centimetres"), "cm"),
    **dict.fromkeys(("m", "meters", "metres"), "m"),
}
_SCHOOLS = frozenset(
    """university college school academy institute kindergarten gym church uni harvard stanford mit yale oxford
    cambridge princeton columbia berkeley ucla nyu juilliard cornell caltech""".split()
)
_JOBS = frozenset(
    """accountant actor actress analyst architect baker banker barber barista bartender biologist bookkeeper builder
    bus-driver butcher carpenter cashier chef chemist cleaner clerk cook counselor dentist designer developer doctor
    driver economist editor electrician engineer farmer firefighter florist gardener geologist hairdresser
    illustrator interpreter janitor journalist judge lawyer lecturer librarian locksmith machinist manager mathematician
    mechanic midwife nurse optician paralegal paramedic pharmacist physicist physiotherapist pilot plumber policeman
    postman programmer professor psychiatrist psychologist realtor receptionist recruiter reporter salesman
    scientist secretary statistician supervisor surgeon surveyor tailor teacher technician therapist translator tutor
    vet veterinarian waiter waitress welder""".split()
)
_FIELDS = frozenset(
    """account aerospace assistant associate backend bank bus chemical chief civil clinical construction customer data
    deputy devops dental electrical elementary english executive fashion film financial flight freelance frontend
    general graphic head health history hotel interior junior kindergarten landscape lead legal licensed machine
    learning marketing math mechanical medical mental music network office operations pastry pediatric physics
    physical police principal private product professional project quality registered regional research sales
    science school security senior social software staff store structural systems taxi tax team technical train
    truck web yoga""".split()
)
_NO_WORK = frozenset("team group charm pair couple favor favour hobby".split())
_COLOURS = frozenset(
    """amber aqua azure beige black blue brown burgundy coral crimson cyan emerald gold gray green grey indigo
    lavender lilac lime magenta maroon navy ochre olive orange pink purple red rose ruby salmon sapphire scarlet
    silver teal turquoise violet white yellow""".split()
)
_SHADES = frozenset("dark light bright deep pale royal sky forest mint baby hot navy".split())
_SEASONS = frozenset("spring summer autumn fall winter".split())
_PROPER = frozenset(
    """actor actress artist author band book city composer country director film game group movie musician novel
    painter player podcast poet restaurant series show singer song team writer""".split()
)
_COMMON = frozenset("animal cuisine dessert dish drink flower food fruit meal snack spice sport tree vegetable".split())
_KNOWN_AS = {"color": "colour", "movie": "film", "flavor": "flavour", "series": "show"}
_SPECIFIC = frozenset("football soccer basketball baseball hockey video board card tv".split())
# What "is" says about a thing without naming it.
_SAYING = frozenset(
    """amazing awesome back bad best better boring busy cold coming cool crazy delicious different done easy
    everything expensive fantastic fine free fun gone good gorgeous great hard healthy here hot incredible it mine
    missing near nice nothing on one open out over perfect playing popular ready sad something sold that there this
    tasty tired unknown wonderful yours yummy""".split()
)
_STATUS = frozenset(("single", "engaged", "married", "divorced", "widowed", "separated", "in a relationship"))
_ZONES = {
    **dict.fromkeys(("pst", "pdt", "pt", "pacific"), "pacific"),
    **dict.fromkeys(("mst", "mdt", "mt", "mountain"), "mountain"),
    **dict.fromkeys(("cst", "cdt", "ct", "central"), "central"),
    **dict.fromkeys(("est", "edt", "et", "eastern"), "eastern"),
}
_OFFSET = re.compile(r"(?:utc|gmt) ?([+-]) ?0?(\d{1,2})(?::?(\d\d))?")
_AREA = re.compile(r"(?:africa|america|asia|atlantic|australia|europe|pacific)/[a-z_]+(?:/[a-z_]+)?")


def fold_value(text: str) -> str:
    """The text small and without outer marks and double spaces; accents stay, as René is not Rene."""
    return " ".join(unicodedata.normalize("NFC", text.casefold()).split()).strip(" .,!'")


def favourite_category(kind: str) -> str | None:
    """The category of a favourite in one spelling, or None for one that depends on the talk ("part", "thing")."""
    words = kind.casefold().split()
    if not words or len(words) > 2 or (len(words) == 2 and words[0] not in _SPECIFIC):
        return None
    last = _KNOWN_AS.get(words[-1], words[-1])
    known = last in _PROPER or last in _COMMON or last in ("colour", "season")
    return " ".join((*words[:-1], last)) if known else None


def favourite_value(kind: str, text: str) -> str | None:
    """A value that names one of the category."""
    words = fold_value(text).split()
    last = kind.split()[-1]
    if last == "colour":
        return " ".join(words) if words and words[-1] in _COLOURS and set(words[:-1]) <= _SHADES else None
    if last == "season":
        return " ".join(words) if len(words) == 1 and words[0] in _SEASONS else None
    if last in _PROPER:
        return proper(text, longest=6)
    fits = 0 < len(words) <= 3 and not any(word in _SAYING or word.endswith("ed") for word in words)
    plain = all(word.isalpha() for word in words) and (last == "sport" or not words[-1:][0].endswith("ing"))
    return " ".join(words) if fits and plain else None


def proper(text: str, *, longest: int = 4) -> str | None:
    """A name: words with a capital or a figure, joined by nothing but what names are joined by."""
    words = text.split()
    if not 0 < len(words) <= longest or not _is_capital(words[-1]) or "," in text or ":" in text:
        return None
    return fold_value(text) if all(_is_capital(word) or word in _LINKING for word in words) else None


def _is_capital(word: str) -> bool:
    return word[:1].isupper() or word[:1].isdigit() or (word[:1].isalpha() and word[1:2].isupper())


def _place(text: str) -> str | None:
    value = canonical_place(fold_value(text))
    if all(place_level(part) for part in value.split(", ")):
        return value
    parts = [part.strip().removeprefix("the ") for part in text.split(",")]
    return value if len(parts) <= 2 and all(proper(part) for part in parts) else None


def _known_place(text: str) -> str | None:
    """For what moves anywhere: "I moved to Notion" names no home."""
    value = _place(text)
    return value if value and place_level(value) else None


def _employer(text: str) -> str | None:
    name, _, where = text.partition(" in ")
    if not proper(name, longest=5) or (where and not proper(where)):
        return None
    return fold_value(text).removeprefix("the ")


def _new_employer(text: str) -> str | None:
    """For who starts somewhere: that may be a school as well."""
    value = _employer(text)
    return value if value and not _SCHOOLS & set(value.split()) else None


def _work(text: str) -> str | None:
    words = fold_value(text).replace("-", " ").split()
    return (
        " ".join(words)
        if 0 < len(words) <= 4 and all(word.isalpha() and len(word) > 2 for word in words) and words[-1] not in _NO_WORK
        else None
    )


def _known_work(text: str) -> str | None:
    """For who is one: a terrible cook has another job."""
    words = (_work(text) or "").split()
    return " ".join(words) if words and words[-1] in _JOBS and set(words[:-1]) <= _FIELDS else None


def _phone(text: str) -> str | None:
    digits = re.sub(r"\D", "", text)
    return digits if _PHONE.fullmatch(text.strip()) and 6 <= len(digits) <= 15 else None


def _email(text: str) -> str | None:
    return text.casefold() if _EMAIL.fullmatch(text) else None


def _age(text: str) -> str | None:
    return str(int(text)) if text.isascii() and text.isdigit() and 0 < int(text) <= 120 else None


def _measure(text: str) -> str | None:
    feet = _FEET.fullmatch(text)
    if feet:
        return f"{feet[1]}'{int(feet[2] or 0)}"
    found = _UNIT.fullmatch(text.casefold())
    if not found or found[2] not in _UNITS or not re.fullmatch(r"\d{1,3}(?:\.\d{1,2})?", found[1]):
        return None
    return f"{float(found[1]):g} {_UNITS[found[2]]}"


def _zone(text: str) -> str | None:
    value = fold_value(text).removesuffix(" standard").removesuffix(" us").removeprefix("us ")
    offset = _OFFSET.fullmatch(value)
    if offset:
        return f"utc{offset[1]}{int(offset[2])}:{offset[3] or '00'}"
    return value if _AREA.fullmatch(value) else _ZONES.get(value)


def _status(text: str) -> str | None:
    return text if text in _STATUS else None


VALUE_PARSERS: Mapping[str, Callable[[str], str | None]] = {
    "residence": _place,
    "moved": _known_place,
    "employer": _employer,
    "started": _new_employer,
    "job": _known_work,
    "works as": _work,
    "phone": _phone,
    "email": _email,
    "age": _age,
    "name": proper,
    "thing": proper,
    "relationship": _status,
    "timezone": _zone,
    "car": lambda text: proper(text, longest=5),
    "weight": _measure,
    "height": _measure,
}
"""What reads a value, by the kind of form that it stands in."""
