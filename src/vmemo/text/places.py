"""Well-known places and their level; of two places of one level, neither contains the other."""

from __future__ import annotations

import unicodedata
from typing import Literal

PlaceLevel = Literal["city", "state", "country", "region"]

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


def _listed(names: str, level: PlaceLevel) -> dict[str, PlaceLevel]:
    return dict.fromkeys(names.replace("\n", "").split("|"), level)


# Delhi and New Delhi may mean the same city, so they are not comparable.
_LEVELS: dict[str, PlaceLevel] = {
    **_listed(_CITIES, "city"),
    **_listed(_STATES, "state"),
    **_listed(_COUNTRIES, "country"),
    **_listed(_REGIONS, "region"),
    "delhi": "region",
    "new delhi": "region",
}


def canonical_place(name: str) -> str:
    """Return a place casefolded, without accents and under its listed name, with its state or country if given."""
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(c for c in decomposed if not unicodedata.combining(c))
    return ", ".join(_canonical_name(part.strip()) for part in plain.split(","))


def _canonical_name(part: str) -> str:
    name = part if part in _LEVELS else part.removeprefix("the ")
    return _ALIASES.get(name, name)


def place_level(place: str) -> PlaceLevel | None:
    """Return the level of a canonical place, if known; a place with its state or country is a city."""
    head, _, rest = place.partition(", ")
    if rest and _LEVELS.get(rest) in ("state", "country") and _LEVELS.get(head) in (None, "city"):
        return "city"
    return None if rest else _LEVELS.get(head)
