"""What a reading model should not be shown, and what it writes that is no memory. In doubt, everything stays."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from vmemo.text.tokens import terms

_LONGEST = 200
"""Characters of the longest message that may be small talk, and of a fact that may be about itself."""
# Signs of an address, a price, a path or a tag.
_SIGNS = frozenset("@#/\\_$€£¥%")
_DRAWN_OUT = re.compile(r"(.)\1{2,}")
_LAUGHING = re.compile(r"(?:a*(?:ha){2,}h?|(?:he){2,}h?|(?:hi){2,}|(?:ja){2,}|lo+l|lmao|rofl|xd|hm+|mhm|aw+|www+)")
_SMALL_TALK = """
hi|hey|hello|hiya|howdy|yo|hi there|hey there|hello there|greetings|welcome|welcome back|hi again|hello again
good morning|good afternoon|good evening|good night|good day|morning|morning everyone|hi everyone|hello everyone
hi all|hey all|hello all|how are you|how are you doing|how are you today|how's it going|how is it going|what's up
whats up|sup|how do you do|nice to meet you|good to see you|great to see you|long time no see|i'm fine|i'm good
i'm fine thanks|i'm good thanks|fine thanks|good thanks|and you|how about you|hope you're well
thanks|thank you|thx|ty|thanks a lot|thanks so much|thank you so much|thank you very much|many thanks|cheers
much appreciated|thanks again|thank you again|you're welcome|you are welcome|no problem|no worries|my pleasure
anytime|don't mention it|ok|okay|k|kk|alright|all right|sure|sure thing|got it|i see|understood|noted|makes sense
sounds good|cool|nice|great|awesome|perfect|amazing|wonderful|wow|oh|ah|oh wow|oh nice|oh cool|lovely|fantastic
excellent|right|fair enough|will do|very nice|very good|so nice|so cool|that's great|that's nice|that's awesome
bye|goodbye|bye bye|see you|see ya|see you later|see you soon|talk to you later|talk soon|ttyl|later|take care
have a nice day|have a good day|have a great day|have a good one|have a good night|have a nice weekend|sleep well
sorry|oops|please|congrats|congratulations|well done|good job|good luck|hallo|guten morgen|guten tag|guten abend
gute nacht|danke|danke schön|vielen dank|danke dir|bitte|bitte schön|gern geschehen|tschüss|tschüs|auf wiedersehen
bis später|bis bald|wie geht's|wie geht es dir|wie geht es ihnen|alles klar|servus|moin|grüß gott|salut|bonjour
bonsoir|bonne nuit|merci|merci beaucoup|de rien|au revoir|à bientôt|ça va|comment ça va|d'accord|hola|buenos días
buenas tardes|buenas noches|gracias|muchas gracias|de nada|adiós|hasta luego|hasta mañana|cómo estás|qué tal|vale
ciao|buongiorno|buonasera|buonanotte|grazie|grazie mille|prego|arrivederci|come stai|va bene|olá|oi|bom dia
boa tarde|boa noite|obrigado|obrigada|muito obrigado|muito obrigada|tchau|tudo bem|até logo|hoi|goedemorgen
goedenavond|dank je|dank je wel|dankjewel|bedankt|doei|tot ziens|hej|tack|tack så mycket|god morgon|hej då|cześć
dzień dobry|dobry wieczór|dziękuję|dzięki|do widzenia|merhaba|teşekkürler|teşekkür ederim|günaydın|привет
здравствуйте|доброе утро|добрый день|добрый вечер|спасибо|большое спасибо|спасибо большое|пожалуйста|пока
до свидания|как дела|хорошо|ок|привіт|дякую|你好|您好|谢谢|谢谢你|謝謝|早上好|早安|晚安|再见|好的|嗨|不客气
こんにちは|おはよう|おはようございます|こんばんは|ありがとう|ありがとうございます|さようなら|おやすみ|おやすみなさい
はい|了解|了解です|안녕|안녕하세요|감사합니다|고마워|고마워요|잘 자|네|مرحبا|شكرا|السلام عليكم|صباح الخير|नमस्ते
धन्यवाद|शुक्रिया|สวัสดี|ขอบคุณ|xin chào|cảm ơn|terima kasih|selamat pagi|halo|jambo|asante
"""


def _key(word: str) -> str:
    return unicodedata.normalize("NFC", word.casefold().replace("’", "'"))


_PHRASES = frozenset(
    tuple(_key(word) for word in phrase.split())
    for line in _SMALL_TALK.split("\n")
    for phrase in line.split("|")
    if phrase
)
_LONGEST_PHRASE = max(len(phrase) for phrase in _PHRASES)

_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_HEADING = re.compile(rf"\s*## \d{{1,2}} (?:{_MONTHS}) \d{{4}}(?:: .*)?\s*")
_ID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_RECALLED = re.compile(rf"\s*- \[{_ID}\] .*")
_NOTHING = "Memory holds nothing about this."

_ROLE = r"(?:the |an |a |this )?(?:user|(?:ai )?assistant|ai|(?:ai |language )?model|agent|chatbot|bot|speaker)"
_ONE = rf"(?:i|{_ROLE})"
_OTHER = r"(?: (?:to |with )?(?:the |each )?(?:user|assistant|ai|agent|chatbot|bot|speakers?|other|one another))?"
_AM = r"(?:i am|i'm|as|(?:the|this) (?:assistant|agent|chatbot|bot|model|ai) is)"
_MANNERS = "|".join(
    (
        r"(?:has |have |had )?(?:greeted|thanked|welcomed|acknowledged|answered|responded|replied|apologi[sz]ed)",
        r"(?:said|says) (?:hi|hello|hey|goodbye|bye|thanks|thank you)",
        r"(?:asked|asks|answered) (?:a|some|the|another) questions?",
        r"asked how (?:the user|the assistant|they) (?:was|were|is|are)(?: doing)?",
        r"asked how (?:it|they|i) (?:can|could|may) help",
        r"(?:asked for|offered|offers|provided|gave|requested) (?:(?:some|more|its) )?(?:help|assistance|support)",
        r"offered to (?:help|assist)",
        r"(?:is|am|was|were) (?:ready|happy|glad|here|available) to (?:help|assist)",
        r"expressed (?:gratitude|thanks|appreciation)",
        r"(?:started|began|ended|initiated|continued) (?:the|a) conversation",
        r"made (?:a )?small talk|exchanged (?:greetings|pleasantries)|(?:sent|wrote) (?:a|the) message",
        rf"wished{_OTHER} a (?:good|nice|great) (?:day|night|weekend)",
    )
)
_TALK = r"(?:the|this) (?:conversation|dialogue|dialog|chat|exchange|transcript|episode)"
_KIND = r"(?: (?:new|relevant|memorable|notable|further|other))?(?: (?:facts?|information|memories|details|content))"
_WERE = r"(?: (?:was|were|is|are|has been|have been|could be))?"
_FOUND = (
    r"(?: (?:found|extracted|provided|present|available|given|stated|worth remembering|to (?:extract|remember|add)))?"
)
_IN_TALK = r"(?: (?:in|from) (?:the|this) (?:conversation|lines|text|episode|message))?"
_OWN_WORDS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_ONE}(?: and {_ROLE})? (?:politely |briefly |then |also )?(?:{_MANNERS}){_OTHER}",
        rf"{_ONE} (?:greeted|thanked){_OTHER} and (?:{_MANNERS}){_OTHER}",
        rf"(?:{_AM} an (?:ai|artificial intelligence)(?: assistant| (?:language )?model)?"
        rf"|{_AM} a (?:large )?language model)(?:(?:,| and| that| without).*)?",
        r"(?:i am|i'm) (?:here|happy|ready|glad) to (?:help|assist)|i'm sorry,? but i can(?:'|no)t (?:help|assist).*",
        rf"{_TALK} (?:was|is) (?:about|between|short|brief|over|empty|casual|friendly)\b.*",
        rf"{_TALK} (?:began|begins|started|starts|ended|ends|opened|opens|closed|closes) with\b.*",
        rf"{_TALK} (?:contains?|contained|has|had|includes?) no\b.*|{_TALK} (?:does|did)(?: not|n't)\b.*",
        rf"{_TALK} consist(?:s|ed) of\b.*",
        rf"(?:there (?:are|were|is|was) )?no{_KIND}{_WERE}{_FOUND}{_IN_TALK}|none|nothing{_WERE}{_FOUND}{_IN_TALK}",
        r"n/?a|null|nil|undefined|unknown|empty|todo|tbd|not (?:applicable|specified|available)",
        r"(?:here|below) (?:are|is) (?:the|a list of|some) (?:\w+ )?(?:facts?|json)\b.*",
        r"(?:return|respond with|output|provide)(?: only)?(?: valid| a| the)* json\b.*",
        r"(?:extract|write down|list)(?: all)?(?: the)? facts\b.*|write down what is worth .*",
        r"(?:each|every) fact (?:is|has|should|must) .*|(?:the )?list of facts (?:is|may be|should be) .*",
        r"turn (?:every relative time|words like) .*|keep every name, .*|you keep the long-term memory .*",
        r"(?:greetings|small talk|thanks)(?:(?:,| and| or)+ (?:thanks|small talk|greetings))* (?:is|are) not worth .*",
    )
)
_FIELDS = frozenset(
    """string str number integer int boolean bool array list object null true false text fact facts fact_type kind type
    what when where who why start end since date lines line sources entities entity name names causes known title
    narrative surprise confidence told again id world experience opinion description value key schema json""".split()
)
_ROLES = frozenset(("user", "assist", "agent", "tool", "system", "ai"))
_ENGLISH = frozenset("the and is are of to my with have has it you for that this he she they we i".split())
_VOICE = re.compile(r"[^:\n]{1,60}: ")


def is_small_talk(text: str) -> bool:
    """Whether a message is nothing but greetings, thanks, farewells, acknowledgements, laughter or emoji."""
    if len(text) > _LONGEST or any(c.isnumeric() or c in _SIGNS for c in text):
        return False
    return _is_covered(_words(text))


def _words(text: str) -> list[str]:
    """Runs of letters with the marks that belong to them, small."""
    spaced = "".join(c if unicodedata.category(c)[0] in "LM" or c == "'" else " " for c in _key(text))
    words = (word.strip("'") for word in spaced.split())
    return [word for word in words if any(c.isalpha() for c in word)]


def _is_covered(words: Sequence[str]) -> bool:
    """Whether the words are phrases of small talk from the first to the last."""
    reached = {0}
    for at in range(len(words)):
        if at in reached:
            reached.update(at + size for size in _sizes(words, at))
    return len(words) in reached


def _sizes(words: Sequence[str], at: int) -> Iterator[int]:
    if _LAUGHING.fullmatch(words[at]):
        yield 1
    for size in range(1, min(_LONGEST_PHRASE, len(words) - at) + 1):
        phrase = tuple(words[at : at + size])
        if phrase in _PHRASES or tuple(_DRAWN_OUT.sub(r"\1", word) for word in phrase) in _PHRASES:
            yield size


def strip_recalled(text: str) -> str:
    """The message without lines that memory itself had recalled, and without the headings over them."""
    lines = text.split("\n")
    gone = {at for at, line in enumerate(lines) if _RECALLED.fullmatch(line.rstrip()) or line.strip() == _NOTHING}
    if not gone:
        return text
    under = None
    for at in range(len(lines) - 1, -1, -1):
        if at in gone:
            under = at
        elif under is not None and _HEADING.fullmatch(lines[at]):
            gone.add(at)
        elif lines[at].strip():
            under = None
    kept = "\n".join(line for at, line in enumerate(lines) if at not in gone)
    return re.sub(r"\n{3,}", "\n\n", kept).strip()


def is_meta_text(text: str) -> bool:
    """Whether a "fact" tells of the conversation, of the model's manners or of its instructions, not of the world."""
    plain = " ".join(text.replace("’", "'").split()).strip(" .!\"'`*-")
    if len(plain) > _LONGEST:
        return False
    words = [word.casefold() for word in re.findall(r"\w+", plain)]
    return not words or set(words) <= _FIELDS or any(pattern.fullmatch(plain) for pattern in _OWN_WORDS)


def is_grounded(text: str, sources: Sequence[str], known: Sequence[str] = ()) -> bool:
    """Whether a fact may come from its sources: a word or number is shared, or another language hides what is."""
    wanted = set(terms(text))
    told = {term for source in (*sources, *known) for term in terms(source)}
    if (wanted - _ROLES) & told:
        return True
    spoken = [_VOICE.sub("", source, count=1) for source in sources]
    if _is_foreign(spoken) and _has_latin(text):
        return True
    return bool(wanted & told) and _is_english(text) and not any(map(_is_english, spoken))


def _has_latin(text: str) -> bool:
    return any(unicodedata.name(c, "").startswith("LATIN") for c in text if c.isalpha())


def _is_foreign(spoken: Sequence[str]) -> bool:
    """Whether there are letters, and none of them is Latin."""
    return any(c.isalpha() for words in spoken for c in words) and not any(map(_has_latin, spoken))


def _is_english(text: str) -> bool:
    return not _ENGLISH.isdisjoint(re.findall(r"\w+", text.casefold()))
