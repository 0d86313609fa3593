"""Claims: short texts that state one value of an attribute that a subject has only one of.

A superseded fact is hidden as a whole, so a text that says anything besides its claim is not a claim.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from vmemo.text.names.lexicon import all_names, is_common_word, is_foreign, normalize_word

# Well-known places and their level; of two places of one level, neither contains the other.

_PlaceLevel = Literal["city", "state", "country", "region"]

_ALIASES = {
    "usa": "united states",
    "us": "united states",
    "u.s": "united states",
    "u.s.a": "united states",
    "america": "united states",
    "united states of america": "united states",
    "nyc": "new york",
    "new york city": "new york",
    "sf": "san francisco",
    "holland": "netherlands",
    "czechia": "czech republic",
    "turkiye": "turkey",
    "uae": "united arab emirates",
    "munchen": "munich",
    "koln": "cologne",
    "wien": "vienna",
    "praha": "prague",
    "roma": "rome",
    "milano": "milan",
    "torino": "turin",
    "firenze": "florence",
    "lisboa": "lisbon",
    "warszawa": "warsaw",
    "kobenhavn": "copenhagen",
    "geneve": "geneva",
    "bangalore": "bengaluru",
    "bombay": "mumbai",
    "saigon": "ho chi minh city",
}

# No country contains another, so the parts of the United Kingdom are regions.
_COUNTRIES = """argentina|australia|austria|bangladesh|belgium|bolivia|brazil|bulgaria|cambodia|cameroon|canada|chile
|china|colombia|costa rica|croatia|cuba|cyprus|czech republic|denmark|ecuador|egypt|estonia|ethiopia|finland|france
|germany|ghana|greece|guatemala|hungary|iceland|india|indonesia|iran|iraq|ireland|israel|italy|jamaica|japan|jordan
|kenya|latvia|lebanon|lithuania|malaysia|malta|mexico|morocco|nepal|netherlands|new zealand|nigeria|norway|pakistan
|panama|paraguay|peru|philippines|poland|portugal|qatar|romania|russia|rwanda|saudi arabia|senegal|serbia|slovakia
|slovenia|south africa|south korea|spain|sri lanka|sweden|switzerland|taiwan|tanzania|thailand|tunisia|turkey|uganda
|ukraine|united arab emirates|united states|uruguay|venezuela|vietnam|zambia|zimbabwe"""

_STATES = """alabama|alaska|arizona|arkansas|california|colorado|connecticut|delaware|florida|hawaii|idaho|illinois
|indiana|iowa|kansas|kentucky|louisiana|maine|maryland|massachusetts|michigan|minnesota|mississippi|missouri|montana
|nebraska|nevada|new hampshire|new jersey|new mexico|north carolina|north dakota|ohio|oklahoma|oregon|pennsylvania
|rhode island|south carolina|south dakota|tennessee|texas|utah|vermont|virginia|west virginia|wisconsin|wyoming
|alberta|british columbia|manitoba|new brunswick|nova scotia|ontario|saskatchewan|queensland|tasmania
|new south wales|bavaria|saxony|hesse|brandenburg"""

# Ambiguous names, parts of cities, and regions across countries: these are comparable with no other place.
_REGIONS = """africa|antarctica|asia|europe|north america|south america|latin america|central america|middle east
|scandinavia|uk|united kingdom|great britain|britain|england|scotland|wales|northern ireland|georgia|washington
|new england|midwest|bay area|silicon valley|east coast|west coast|balkans|caribbean|quebec|victoria|brooklyn
|manhattan|queens|bronx|the bronx|staten island|harlem|hollywood|catalonia|andalusia|tuscany|sicily|provence|bali
|java|korea|congo|guinea|luxembourg|monaco|punjab|kashmir|kerala|goa|crimea|siberia|yorkshire|cornwall"""

_CITIES = """aachen|aarhus|abu dhabi|accra|adelaide|ahmedabad|albuquerque|alicante|almaty|amman|amsterdam|ankara
|antwerp|athens|atlanta|auckland|austin|baghdad|baku|baltimore|bangkok|barcelona|basel|beijing|beirut|belfast|belgrade
|bengaluru|bergen|berlin|bern|bilbao|birmingham|bogota|bologna|bonn|bordeaux|boston|bratislava|bremen|brighton|brisbane
|bristol|brussels|bucharest|budapest|buenos aires|buffalo|cairo|calgary|cambridge|canberra|cape town|caracas|cardiff
|casablanca|charlotte|chengdu|chennai|chicago|cincinnati|cleveland|cologne|copenhagen|dakar|dallas|damascus|delhi
|denver|detroit|dhaka|doha|dortmund|dresden|dubai|dublin|dusseldorf|edinburgh|edmonton|eindhoven|essen|florence
|frankfurt|freiburg|gdansk|geneva|genoa|ghent|glasgow|gothenburg|graz|groningen|guadalajara|guangzhou|hamburg|hannover
|hanoi|havana|heidelberg|helsinki|ho chi minh city|hong kong|honolulu|houston|hyderabad|indianapolis|innsbruck|istanbul
|jakarta|jerusalem|johannesburg|kansas city|karachi|kathmandu|kharkiv|kolkata|krakow|kuala lumpur|kyiv|kyoto|lagos
|lahore|las vegas|lausanne|leeds|leipzig|leuven|lima|lisbon|liverpool|ljubljana|lodz|london|los angeles|louisville
|lucerne|lviv|lyon|madrid|malaga|malmo|manchester|manila|marrakesh|marseille|medellin|melbourne|memphis|mexico city
|miami|milan|milwaukee|minneapolis|minsk|montevideo|montpellier|montreal|moscow|mumbai|munich|nairobi|nantes|naples
|nashville|new delhi|new orleans|new york|newcastle|nice|nottingham|nuremberg|oakland|omaha|orlando|osaka|oslo|ottawa
|oxford|palermo|palo alto|paris|perth|philadelphia|phoenix|pittsburgh|porto|portland|poznan|prague|pune|raleigh
|reykjavik|riga|rio de janeiro|riyadh|rome|rotterdam|sacramento|salt lake city|salzburg|san antonio|san diego
|san francisco|san jose|santiago|sao paulo|sapporo|sarajevo|seattle|seoul|seville|shanghai|sheffield|shenzhen|sofia
|st petersburg|stavanger|stockholm|strasbourg|stuttgart|sydney|taipei|tallinn|tampa|tampere|tashkent|tbilisi|tel aviv
|the hague|thessaloniki|tokyo|toronto|toulouse|trieste|trondheim|tucson|tulsa|turin|turku|uppsala|utrecht|valencia
|vancouver|venice|verona|vienna|vilnius|warsaw|wellington|winnipeg|wroclaw|zagreb|zaragoza|zurich"""


def _listed(names: str, level: _PlaceLevel) -> dict[str, _PlaceLevel]:
    return dict.fromkeys(names.replace("\n", "").split("|"), level)


# Delhi and New Delhi may mean the same city, so they are not comparable.
_LEVELS: dict[str, _PlaceLevel] = {
    **_listed(_CITIES, "city"),
    **_listed(_STATES, "state"),
    **_listed(_COUNTRIES, "country"),
    **_listed(_REGIONS, "region"),
    "delhi": "region",
    "new delhi": "region",
}


def _canonical_place(name: str) -> str:
    """Return a place casefolded, without accents and under its listed name, with its state or country if given."""
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(c for c in decomposed if not unicodedata.combining(c))
    return ", ".join(_canonical_name(part.strip()) for part in plain.split(","))


def _canonical_name(part: str) -> str:
    name = part if part in _LEVELS else part.removeprefix("the ")
    return _ALIASES.get(name, name)


def _place_level(place: str) -> _PlaceLevel | None:
    """Return the level of a canonical place, if known; a place with its state or country is a city."""
    head, _, rest = place.partition(", ")
    if rest and _LEVELS.get(rest) in ("state", "country") and _LEVELS.get(head) in (None, "city"):
        return "city"
    return None if rest else _LEVELS.get(head)


# Values of attributes; a parser returns None for text that is not such a value.

Attribute = Literal["residence", "employer", "job", "phone", "email", "relationship"]
"""Attributes with one value at a time."""

_NAME_PARTICLES = frozenset("of the & de la du van von der den".split())
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_PHONE = re.compile(r"\+?[\d][\d ()./-]{5,22}")
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
_RELATIONSHIPS = frozenset(("single", "engaged", "married", "divorced", "widowed", "separated", "in a relationship"))


def _fold_value(text: str) -> str:
    """Return the text casefolded, without outer punctuation and repeated spaces. Accents stay: René is not Rene."""
    return " ".join(unicodedata.normalize("NFC", text.casefold()).split()).strip(" .,!'")


def _parse_name(text: str, *, max_words: int = 4) -> str | None:
    """Return a name: capitalised words or numbers, joined only by particles such as "of" or "van"."""
    words = text.split()
    if not 0 < len(words) <= max_words or not _is_name_word(words[-1]) or "," in text or ":" in text:
        return None
    return _fold_value(text) if all(_is_name_word(word) or word in _NAME_PARTICLES for word in words) else None


def _is_name_word(word: str) -> bool:
    return word[:1].isupper() or word[:1].isdigit() or (word[:1].isalpha() and word[1:2].isupper())


def _place(text: str) -> str | None:
    value = _canonical_place(_fold_value(text))
    if all(_place_level(part) for part in value.split(", ")):
        return value
    parts = [part.strip().removeprefix("the ") for part in text.split(",")]
    return value if len(parts) <= 2 and all(_parse_name(part) for part in parts) else None


def _known_place(text: str) -> str | None:
    """Return a known place only: "I moved to Notion" states no residence."""
    value = _place(text)
    return value if value and _place_level(value) else None


def _employer(text: str) -> str | None:
    name, _, where = text.partition(" in ")
    if not _parse_name(name, max_words=5) or (where and not _parse_name(where)):
        return None
    return _fold_value(text).removeprefix("the ")


def _new_employer(text: str) -> str | None:
    """Return an employer that is not a school: one may "start at" either."""
    value = _employer(text)
    return value if value and not _SCHOOLS & set(value.split()) else None


def _occupation(text: str) -> str | None:
    words = _fold_value(text).replace("-", " ").split()
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


def _relationship(text: str) -> str | None:
    return text if text in _RELATIONSHIPS else None


_VALUE_PARSERS: Mapping[str, Callable[[str], str | None]] = {
    "residence": _place,
    "moved": _known_place,
    "employer": _employer,
    "started": _new_employer,
    "job": _known_job,
    "works as": _occupation,
    "phone": _phone,
    "email": _email,
    "relationship": _relationship,
}
"""Parser by value type of the sentence form."""


# Sentence forms that state one value, as patterns for the text after the subject.

_ADVERB = r"(?:(?P<adverb>now|just|recently|finally|officially|currently|still|actually) )?"
_SUFFIX = r"(?: (?P<after>now|nowadays|these days|instead|currently))?"
# Longer ago is not accepted: a fact stored since then may be newer.
_WHEN = (
    r"(?: (?P<detail>(?:today|yesterday|tonight|this (?:morning|week|weekend|month)|last (?:night|week|weekend|month)"
    r"|over the weekend|on [A-Z][a-z]+day|(?:a|one|two|three|four|five|six|\d) (?:days?|weeks?) ago)"
    r"(?: \([^()]{1,40}\))?))?"
)
_AS_ROLE = r"(?: (?P<detail>as (?:a|an|the|their) [\w -]{3,40}?))?"
_NEW = r"(?:(?P<new>new|current) )?"
_IS = r"(?:is|am)"
_HAS = r"(?:(?:has|have) )?"
# A simple past may be long ago: "I became a teacher".
_RECENTLY = r"(?:(?:has|have) (?:just |now |recently |finally )?|(?:just|recently|finally) )"
_NOW_IS = r"is (?:(?P<adverb>now|currently|actually|officially) )?"
_VALUE = r"(?P<value>\S.*?)"
_CHANGE_ADVERBS = frozenset(
    ("now", "just", "recently", "finally", "officially", "nowadays", "these days", "instead", "new")
)


class _SentenceForm(NamedTuple):
    """A form of sentence, and the attribute that it states."""

    value_type: str
    """Key of the value parser."""
    attribute: Attribute
    owned: bool
    """Follows a possessive: "my", or a name with "'s"."""
    event: bool
    """Reports the change itself, as "moved to" does."""
    pattern: re.Pattern[str]


class _Statement(NamedTuple):
    """The value that a sentence states, without its subject; see `Claim` for the fields."""

    attribute: Attribute
    value: str
    about: str
    changes: bool
    event: bool
    detail: str


def _form(
    value_type: str, attribute: Attribute, pattern: str, *, owned: bool = False, event: bool = False
) -> _SentenceForm:
    return _SentenceForm(value_type, attribute, owned, event, re.compile(pattern))


_FORMS = (
    _form("residence", "residence", rf"{_ADVERB}(?:lives?|resides?) in {_VALUE}{_SUFFIX}"),
    _form("residence", "residence", rf"{_IS} {_ADVERB}(?:living|based) in {_VALUE}{_SUFFIX}"),
    _form("moved", "residence", rf"{_HAS}{_ADVERB}(?:moved|relocated) (?:back )?to {_VALUE}{_WHEN}", event=True),
    _form("moved", "residence", rf"{_HAS}{_ADVERB}moved (?>(?P<detail>from \S.*?) to ){_VALUE}", event=True),
    _form("employer", "employer", rf"{_ADVERB}works? (?:at|for) {_VALUE}{_AS_ROLE}{_SUFFIX}"),
    _form("employer", "employer", rf"{_IS} {_ADVERB}working (?:at|for) {_VALUE}{_AS_ROLE}{_SUFFIX}"),
    _form(
        "started",
        "employer",
        rf"{_HAS}{_ADVERB}started (?:(?:working|work) )?(?:at|for) {_VALUE}{_WHEN}",
        event=True,
    ),
    _form(
        "started",
        "employer",
        rf"{_HAS}{_ADVERB}(?:started|got|landed|has|have) (?:a|my|his|her|their) new job (?:at|with) {_VALUE}{_WHEN}",
        event=True,
    ),
    _form(
        "started",
        "employer",
        rf"{_RECENTLY}joined {_VALUE} (?P<detail>as (?:a|an|the|their) [\w -]{{3,40}})",
        event=True,
    ),
    _form("works as", "job", rf"{_ADVERB}works? as (?:a|an) {_VALUE}{_SUFFIX}"),
    _form("works as", "job", rf"{_IS} {_ADVERB}working as (?:a|an) {_VALUE}{_SUFFIX}"),
    _form("job", "job", rf"{_IS} {_ADVERB}(?:a|an) {_VALUE}{_SUFFIX}"),
    _form("job", "job", rf"{_RECENTLY}(?:became|become|got promoted to) (?:(?:a|an) )?{_VALUE}{_WHEN}", event=True),
    _form("works as", "job", rf"{_HAS}{_ADVERB}started (?:a new job|working) as (?:a|an) {_VALUE}{_WHEN}", event=True),
    _form(
        "phone",
        "phone",
        rf"{_NEW}(?:(?P<about>work|home|office|mobile|cell) )?(?:phone |telephone )?number {_NOW_IS}{_VALUE}{_SUFFIX}",
        owned=True,
    ),
    _form(
        "email",
        "email",
        rf"{_NEW}(?:(?P<about>work|personal|private|school) )?(?:e-?mail)(?: address)? {_NOW_IS}{_VALUE}{_SUFFIX}",
        owned=True,
    ),
    _form("relationship", "relationship", rf"{_IS} {_ADVERB}{_VALUE}(?: again)?{_SUFFIX}"),
    _form(
        "relationship",
        "relationship",
        rf"{_HAS}{_ADVERB}got(?:ten)? (?P<value>engaged|married|divorced){_WHEN}",
        event=True,
    ),
)


def _match_statement(predicate: str, *, owned: bool) -> _Statement | None:
    """Return what a predicate states, if it has exactly one of the forms."""
    for form in _FORMS:
        match = form.pattern.fullmatch(predicate) if form.owned is owned else None
        if match and (found := _statement(form, match.groupdict())):
            return found
    return None


def _statement(form: _SentenceForm, parts: dict[str, str | None]) -> _Statement | None:
    value = _VALUE_PARSERS[form.value_type](parts["value"] or "")
    if value is None:
        return None
    about = (parts.get("about") or "").replace("cell", "mobile")
    adverbs = {parts.get("adverb"), parts.get("after"), parts.get("new")}
    changes = form.event or (bool(adverbs & _CHANGE_ADVERBS) and "still" not in adverbs)
    return _Statement(form.attribute, value, about, changes, form.event, (parts.get("detail") or "").casefold())


# Claims and the relation between two of them.

_NEEDS_CHANGE: frozenset[Attribute] = frozenset(("employer", "job"))
"""Attributes that may have several values, unless a claim reports a change."""
# Divorced people are single too, and "got married" may refer to a time before a divorce.
_NEXT_RELATIONSHIPS = {
    "single": ("engaged", "married", "in a relationship"),
    "in a relationship": ("single",),
    "engaged": ("married", "single"),
    "married": ("divorced", "widowed", "single"),
}


class Claim(NamedTuple):
    """A value that a text states for an attribute of a subject."""

    subject: str
    attribute: Attribute
    value: str
    mistaken: bool = False
    """Corrects an earlier mistake, so that the denied value was never true."""
    changes: bool = False
    """Reports that the value is new."""
    about: str = ""
    """Subtype of the attribute, such as the "work" of a phone number."""
    denied: str = ""
    """The value that the text negates."""
    event: bool = False
    """Reports the change itself, as "moved to" does."""
    detail: str = ""
    """A time, role or origin that the text adds."""


def compare_claims(new: Claim, old: Claim) -> Literal["supersede", "duplicate"] | None:
    """Return the effect of a newer claim on an older one, or None if both stay valid."""
    if (new.subject, new.attribute, new.about) != (old.subject, old.attribute, old.about):
        return None
    if new.value == old.value:
        return "duplicate" if _adds_nothing(new, old) else None
    if old.detail or (new.denied and new.denied != old.value):
        return None
    if new.denied:
        return "supersede"
    if (new.attribute in _NEEDS_CHANGE and not new.changes) or not _are_exclusive(new, old):
        return None
    return "supersede"


def _adds_nothing(new: Claim, old: Claim) -> bool:
    return not new.denied and new.detail in ("", old.detail) and (old.event or not new.event)


def _are_exclusive(new: Claim, old: Claim) -> bool:
    """Return True if both values cannot be valid at once. A value that may be a more precise form of the other can."""
    new_words, old_words = set(re.split(r"[\s,]+", new.value)), set(re.split(r"[\s,]+", old.value))
    if new_words <= old_words or old_words <= new_words:
        return False
    match new.attribute:
        case "residence":
            return _are_distinct_places(new.value, old.value)
        case "employer":
            return not new_words & old_words
        case "phone":
            return not (new.value.endswith(old.value) or old.value.endswith(new.value))
        case "relationship":
            return new.value in _NEXT_RELATIONSHIPS.get(old.value, ())
        case _:
            return True


def _are_distinct_places(new: str, old: str) -> bool:
    """Return True for two known places of the same level, of which neither contains the other."""
    level = _place_level(new)
    same_level = level == _place_level(old) and level in ("city", "state", "country")
    return same_level and new.split(",")[0] != old.split(",")[0]


# Parsing of claims.

_MAX_CHARS = 300
_MAX_PARSED = 8192
"""Texts whose claims stay in memory: each is compared with many others."""
_MAX_WORDS = 16
_SPEAKER_PREFIX = re.compile(r"([^\s:!?][^:!?\n]{0,60}): ")
_NON_HUMAN_SPEAKERS = frozenset(("assistant", "tool", "system", "document"))
_GREETING = (
    r"(?:hey|hi|hello|hiya|good (?:morning|afternoon|evening)|thanks|thank you|wow|yay|great news|good news|guess what)"
    r"(?: there| again| everyone| all|(?-i:(?: [A-Z]\w+){1,2}))?[,.!:]+"
)
_INTRODUCTION = re.compile(
    rf"{_GREETING} |(?:by the way|btw|fyi|just so you know|for the record|anyway|oh|well|so|yes|yeah|yep|ok|okay"
    r"|update|news)[,.!:]* |as of \d{1,2} [a-z]+ \d{4},? ",
    re.IGNORECASE,
)
_ADDRESSEE = re.compile(r"([A-Z]\w+)[,!] (?=(?:I|My|my)\b)")
_CORRECTION = re.compile(r"(?:no|nope|sorry|actually|correction|oops|wait|i meant?)[,.!:]+ |actually ", re.IGNORECASE)
_CHANGE = re.compile(
    r"(?:now|nowadays|these days|as of (?:today|now)),? "
    r"|i(?:'ve| have)? (?:just |recently )?(?:switched|changed) jobs[;,.!:]+ ",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?<![.!])[.!]++ (?:thanks|thank you|cheers|bye|take care)[.!]*+$|(?<![\s.!])[\s.!]++$", re.IGNORECASE
)
_SECOND_SENTENCE = re.compile(r"(?<!\bSt)(?<!\bMt)(?<!\bFt)[.!] |\.\.|: |\s[-–—]+\s|—")
_DENIAL = re.compile(r", not (?:in |at |for |a |an )?(\S.*)")
_FORBIDDEN_CHARS = frozenset('?"“”„«»<>{}[]|`;*#\n\r\t\\…')
_UNCERTAIN_WORDS = frozenset(
    """not no never none neither nor and or but because so though although while when whenever where since until till
    unless if whether would could should might can must shall maybe perhaps probably possibly almost nearly roughly
    about around approximately supposedly apparently allegedly basically technically kinda sorta temporarily want
    wants wanted hope hopes hoped wish wishes plan plans planned dream dreams imagine imagined pretend pretends think
    thinks thought guess believe believes feel feels suppose consider considering going gonna used was were had been
    said says say told tells claims claimed heard hear reportedly also too both another either second part-time
    volunteer previously formerly once before soon tomorrow next like likes than joke joking kidding lol haha
    hahaha""".split()
)
_MODAL_VERBS = frozenset(("will", "may"))
_UNCERTAIN_ENDINGS = ("n't", "'ll", "'d")
_RELATIVES = frozenset(
    "wife husband spouse mother mom mum father dad girlfriend boyfriend fiance fiancee fiancé fiancée".split()
)
_RELATIVE_SYNONYMS = {"mom": "mother", "mum": "mother", "dad": "father", "fiancé": "fiance", "fiancée": "fiancee"}


class _Sentence(NamedTuple):
    words: str
    corrects: bool
    changes: bool
    denied: str


class _Subject(NamedTuple):
    name: str
    predicate: str
    owned: bool = False


def parse_claim(text: str) -> Claim | None:
    """Return the claim of an English text that states one present, certain and affirmative value and nothing else."""
    return _parse(text) if len(text) <= _MAX_CHARS else None


@lru_cache(maxsize=_MAX_PARSED)
def _parse(text: str) -> Claim | None:
    text = unicodedata.normalize("NFKC", text).replace("’", "'").strip()
    prefix = _SPEAKER_PREFIX.match(text)
    speaker = _fold_value(prefix[1]) if prefix else ""
    sentence = _single_sentence(text[prefix.end() :] if prefix else text)
    subject = _subject(sentence.words, speaker) if sentence and speaker not in _NON_HUMAN_SPEAKERS else None
    if sentence is None or subject is None or not subject.name:
        return None
    statement = _match_statement(subject.predicate, owned=subject.owned)
    return _claim(subject.name, sentence, statement) if statement and not is_foreign(sentence.words) else None


def _claim(subject: str, sentence: _Sentence, statement: _Statement) -> Claim | None:
    changes = statement.changes or sentence.changes
    denied = ""
    if sentence.denied:
        denied = _VALUE_PARSERS[statement.attribute](sentence.denied) or ""
        if not denied or denied == statement.value:
            return None
    mistaken = bool(denied) and sentence.corrects and not changes
    return Claim(
        subject=subject,
        attribute=statement.attribute,
        value=statement.value,
        mistaken=mistaken,
        changes=changes,
        about=statement.about,
        denied=denied,
        event=statement.event,
        detail=statement.detail,
    )


def _single_sentence(words: str) -> _Sentence | None:
    """Return the only sentence of a message, without greetings around it, or None if it is not certain."""
    corrects = changes = False
    for _ in range(5):
        if introduction := _CORRECTION.match(words):
            corrects = True
        elif introduction := _CHANGE.match(words):
            changes = True
        elif not (introduction := _INTRODUCTION.match(words) or _addressed(words)):
            break
        words = words[introduction.end() :]
    words = _strip_emoji(words)
    if words.endswith(".."):
        return None
    words = _CLOSING.sub("", words)
    if "\n" in words:
        return None
    denied = _DENIAL.search(words)
    words = words[: denied.start()] if denied else words
    if not words or len(words.split()) > _MAX_WORDS or _SECOND_SENTENCE.search(words) or _FORBIDDEN_CHARS & set(words):
        return None
    return None if _is_uncertain(words) else _Sentence(words, corrects, changes, denied[1] if denied else "")


def _addressed(words: str) -> re.Match[str] | None:
    """Match a name at the start that the message is addressed to; "Ideally, I live by the sea" has none."""
    match = _ADDRESSEE.match(words)
    return match if match and normalize_word(match[1]) in all_names() else None


def _strip_emoji(words: str) -> str:
    """Return the text without emoji at its end."""
    end = len(words)
    while end and (words[end - 1].isspace() or unicodedata.category(words[end - 1]) in ("So", "Sk", "Mn", "Cf")):
        end -= 1
    return words[:end]


def _is_uncertain(words: str) -> bool:
    """Return True if a word outside brackets negates, doubts, reports, conjoins or refers to another time."""
    for word in re.sub(r"\([^()]*\)", " ", words).split():
        plain = word.strip(",.!:")
        if (
            plain in _MODAL_VERBS
            or plain.casefold() in _UNCERTAIN_WORDS
            or plain.casefold().endswith(_UNCERTAIN_ENDINGS)
        ):
            return True
    return False


def _subject(words: str, speaker: str) -> _Subject | None:
    first, _, rest = words.partition(" ")
    match first.casefold():
        case "i":
            return _Subject(speaker, rest)
        case "i'm" | "im":
            return _Subject(speaker, f"is {rest}")
        case "i've":
            return _Subject(speaker, f"has {rest}")
        case "my":
            return _possession(speaker, rest)
        case "the" if rest.startswith("user "):
            return _Subject("user", rest.removeprefix("user "))
        case "the" if rest.startswith("user's "):
            return _possession("user", rest.removeprefix("user's "))
        case _:
            return _named_subject(words)


def _possession(owner: str, rest: str) -> _Subject | None:
    """Return a relative of whom the owner has one, or the owner with an attribute."""
    word, _, after = rest.partition(" ")
    relative = word.casefold().removesuffix("'s")
    if not owner:
        return None
    if relative not in _RELATIVES:
        return _Subject(owner, rest, owned=True)
    return _Subject(f"{owner}'s {_RELATIVE_SYNONYMS.get(relative, relative)}", after, owned=word.endswith("'s"))


def _named_subject(words: str) -> _Subject | None:
    """Return a subject of one to three capitalised words, the first of which is not a common word."""
    tokens = words.split()
    count = next((i for i, token in enumerate(tokens[:4]) if not token[:1].isupper() or token == "I"), 4)
    if not 0 < count < 4 or not _is_name(tokens[0]) or any(token.endswith(",") for token in tokens[:count]):
        return None
    owners = [i for i, token in enumerate(tokens[:count]) if token.endswith("'s")]
    if owners:
        end = owners[0] + 1
        return _possession(_fold_value(" ".join(tokens[:end]).removesuffix("'s")), " ".join(tokens[end:]))
    return _Subject(_fold_value(" ".join(tokens[:count])), " ".join(tokens[count:]))


def _is_name(word: str) -> bool:
    plain = normalize_word(word)
    return plain in all_names() or not is_common_word(plain)
