"""Parsers for the values of exclusive attributes; they return None for text that is not such a value."""

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
"""Attributes with one value at a time; `thing` is the name of something owned, such as a pet."""

_NAME_PARTICLES = frozenset("of the & de la du van von der den".split())
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_PHONE = re.compile(r"\+?[\d][\d ()./-]{5,22}")
_MEASURE = re.compile(r"([\d.]+) ?([a-z]+)")
_FEET = re.compile(r"(\d) ?(?:'|ft|feet|foot) ?(\d{1,2})?(?: ?(?:in|inches))?")
_UNIT_SYNONYMS = {
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
_JOB_QUALIFIERS = frozenset(
    """account aerospace assistant associate backend bank bus chemical chief civil clinical construction customer data
    deputy devops dental electrical elementary english executive fashion film financial flight freelance frontend
    general graphic head health history hotel interior junior kindergarten landscape lead legal licensed machine
    learning marketing math mechanical medical mental music network office operations pastry pediatric physics
    physical police principal private product professional project quality registered regional research sales
    science school security senior social software staff store structural systems taxi tax team technical train
    truck web yoga""".split()
)
_NOT_JOBS = frozenset("team group charm pair couple favor favour hobby".split())
_COLOURS = frozenset(
    """amber aqua azure beige black blue brown burgundy coral crimson cyan emerald gold gray green grey indigo
    lavender lilac lime magenta maroon navy ochre olive orange pink purple red rose ruby salmon sapphire scarlet
    silver teal turquoise violet white yellow""".split()
)
_SHADES = frozenset("dark light bright deep pale royal sky forest mint baby hot navy".split())
_SEASONS = frozenset("spring summer autumn fall winter".split())
_CATEGORIES_OF_NAMES = frozenset(
    """actor actress artist author band book city composer country director film game group movie musician novel
    painter player podcast poet restaurant series show singer song team writer""".split()
)
_CATEGORIES_OF_NOUNS = frozenset(
    "animal cuisine dessert dish drink flower food fruit meal snack spice sport tree vegetable".split()
)
_CATEGORY_SYNONYMS = {"color": "colour", "movie": "film", "flavor": "flavour", "series": "show"}
_CATEGORY_QUALIFIERS = frozenset("football soccer basketball baseball hockey video board card tv".split())
# Words that describe a thing without naming it.
_DESCRIPTIONS = frozenset(
    """amazing awesome back bad best better boring busy cold coming cool crazy delicious different done easy
    everything expensive fantastic fine free fun gone good gorgeous great hard healthy here hot incredible it mine
    missing near nice nothing on one open out over perfect playing popular ready sad something sold that there this
    tasty tired unknown wonderful yours yummy""".split()
)
_RELATIONSHIPS = frozenset(("single", "engaged", "married", "divorced", "widowed", "separated", "in a relationship"))
_TIME_ZONES = {
    **dict.fromkeys(("pst", "pdt", "pt", "pacific"), "pacific"),
    **dict.fromkeys(("mst", "mdt", "mt", "mountain"), "mountain"),
    **dict.fromkeys(("cst", "cdt", "ct", "central"), "central"),
    **dict.fromkeys(("est", "edt", "et", "eastern"), "eastern"),
}
_UTC_OFFSET = re.compile(r"(?:utc|gmt) ?([+-]) ?0?(\d{1,2})(?::?(\d\d))?")
_ZONE_AREA = re.compile(r"(?:africa|america|asia|atlantic|australia|europe|pacific)/[a-z_]+(?:/[a-z_]+)?")


def fold_value(text: str) -> str:
    """Return the text casefolded, without outer punctuation and repeated spaces. Accents stay: René is not Rene."""
    return " ".join(unicodedata.normalize("NFC", text.casefold()).split()).strip(" .,!'")


def favourite_category(text: str) -> str | None:
    """Return the normalized category of a favourite, or None for a vague one such as "part" or "thing"."""
    words = text.casefold().split()
    if not words or len(words) > 2 or (len(words) == 2 and words[0] not in _CATEGORY_QUALIFIERS):
        return None
    last = _CATEGORY_SYNONYMS.get(words[-1], words[-1])
    known = last in _CATEGORIES_OF_NAMES or last in _CATEGORIES_OF_NOUNS or last in ("colour", "season")
    return " ".join((*words[:-1], last)) if known else None


def favourite_value(category: str, text: str) -> str | None:
    """Return the value of a favourite if it names a member of the category."""
    words = fold_value(text).split()
    last = category.split()[-1]
    if last == "colour":
        return " ".join(words) if words and words[-1] in _COLOURS and set(words[:-1]) <= _SHADES else None
    if last == "season":
        return " ".join(words) if len(words) == 1 and words[0] in _SEASONS else None
    if last in _CATEGORIES_OF_NAMES:
        return parse_name(text, max_words=6)
    fits = 0 < len(words) <= 3 and not any(word in _DESCRIPTIONS or word.endswith("ed") for word in words)
    plain = all(word.isalpha() for word in words) and (last == "sport" or not " ".join(words).endswith("ing"))
    return " ".join(words) if fits and plain else None


def parse_name(text: str, *, max_words: int = 4) -> str | None:
    """Return a name: capitalised words or numbers, joined only by particles such as "of" or "van"."""
    words = text.split()
    if not 0 < len(words) <= max_words or not _is_name_word(words[-1]) or "," in text or ":" in text:
        return None
    return fold_value(text) if all(_is_name_word(word) or word in _NAME_PARTICLES for word in words) else None


def _is_name_word(word: str) -> bool:
    return word[:1].isupper() or word[:1].isdigit() or (word[:1].isalpha() and word[1:2].isupper())


def _place(text: str) -> str | None:
    value = canonical_place(fold_value(text))
    if all(place_level(part) for part in value.split(", ")):
        return value
    parts = [part.strip().removeprefix("the ") for part in text.split(",")]
    return value if len(parts) <= 2 and all(parse_name(part) for part in parts) else None


def _known_place(text: str) -> str | None:
    """Return a known place only: "I moved to Notion" states no residence."""
    value = _place(text)
    return value if value and place_level(value) else None


def _employer(text: str) -> str | None:
    name, _, where = text.partition(" in ")
    if not parse_name(name, max_words=5) or (where and not parse_name(where)):
        return None
    return fold_value(text).removeprefix("the ")


def _new_employer(text: str) -> str | None:
    """Return an employer that is not a school: one may "start at" either."""
    value = _employer(text)
    return value if value and not _SCHOOLS & set(value.split()) else None


def _occupation(text: str) -> str | None:
    words = fold_value(text).replace("-", " ").split()
    is_occupation = 0 < len(words) <= 4 and all(word.isalpha() and len(word) > 2 for word in words)
    return " ".join(words) if is_occupation and words[-1] not in _NOT_JOBS else None


def _known_job(text: str) -> str | None:
    """Return a known job only: "I am a terrible cook" states none."""
    words = (_occupation(text) or "").split()
    return " ".join(words) if words and words[-1] in _JOBS and set(words[:-1]) <= _JOB_QUALIFIERS else None


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
    found = _MEASURE.fullmatch(text.casefold())
    if not found or found[2] not in _UNIT_SYNONYMS or not re.fullmatch(r"\d{1,3}(?:\.\d{1,2})?", found[1]):
        return None
    return f"{float(found[1]):g} {_UNIT_SYNONYMS[found[2]]}"


def _time_zone(text: str) -> str | None:
    value = fold_value(text).removesuffix(" standard").removesuffix(" us").removeprefix("us ")
    offset = _UTC_OFFSET.fullmatch(value)
    if offset:
        return f"utc{offset[1]}{int(offset[2])}:{offset[3] or '00'}"
    return value if _ZONE_AREA.fullmatch(value) else _TIME_ZONES.get(value)


def _relationship(text: str) -> str | None:
    return text if text in _RELATIONSHIPS else None


VALUE_PARSERS: Mapping[str, Callable[[str], str | None]] = {
    "residence": _place,
    "moved": _known_place,
    "employer": _employer,
    "started": _new_employer,
    "job": _known_job,
    "works as": _occupation,
    "phone": _phone,
    "email": _email,
    "age": _age,
    "name": parse_name,
    "thing": parse_name,
    "relationship": _relationship,
    "timezone": _time_zone,
    "car": lambda text: parse_name(text, max_words=5),
    "weight": _measure,
    "height": _measure,
}
"""Parser by value type of the sentence form."""
