"""Noise: small talk, questions that state nothing, and extracted facts that are no memories. Uncertain text is kept."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from vmemo.models.recalled import INSTRUCTIONS, LEGEND, NOTHING
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.names.lexicon import is_foreign
from vmemo.text.tokens import STOP_WORDS, terms

_MAX_NOISE_CHARS = 200
"""Longer messages are not small talk, and longer facts not about the conversation."""
# Part of an address, a price, a path or a tag.
_INFORMATIVE_CHARS = frozenset("@#/\\_$€£¥%")
_REPEATED_LETTER = re.compile(r"(.)\1{2,}")
_LAUGHTER = re.compile(r"(?:a*(?:ha){2,}h?|(?:he){2,}h?|(?:hi){2,}|(?:ja){2,}|lo+l|lmao|rofl|xd|hm+|mhm|aw+|www+)")
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


def _normalize(word: str) -> str:
    return unicodedata.normalize("NFC", word.casefold().replace("’", "'"))


_PHRASES = frozenset(
    tuple(_normalize(word) for word in phrase.split())
    for line in _SMALL_TALK.split("\n")
    for phrase in line.split("|")
    if phrase
)
_MAX_PHRASE_WORDS = max(len(phrase) for phrase in _PHRASES)

_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_RECALL_HEADING = re.compile(rf"## \d{{1,2}} (?:{_MONTHS}) \d{{4}}(?:: .*)?")
_ID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_RECALLED_LINE = re.compile(rf"- \[{_ID}\] \S")
_SHORTLY_RECALLED_LINE = re.compile(r"- \[[0-9a-f]{8}(?:-[0-9a-f]{6})?\] \S")
"""A recalled line below a heading; elsewhere, eight digits in brackets may be anything."""

_PARTICIPANT = r"(?:the |an |a |this )?(?:user|(?:ai )?assistant|ai|(?:ai |language )?model|agent|chatbot|bot|speaker)"
_SUBJECT = rf"(?:i|{_PARTICIPANT})"
_OTHER = r"(?: (?:to |with )?(?:the |each )?(?:user|assistant|ai|agent|chatbot|bot|speakers?|other|one another))?"
_AM = r"(?:i am|i'm|as|(?:the|this) (?:assistant|agent|chatbot|bot|model|ai) is)"
_POLITENESS = "|".join(
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
_CONVERSATION = r"(?:the|this) (?:conversation|dialogue|dialog|chat|exchange|transcript|episode)"
_FACTS = r"(?: (?:new|relevant|memorable|notable|further|other))?(?: (?:facts?|information|memories|details|content))"
_WERE = r"(?: (?:was|were|is|are|has been|have been|could be))?"
_FOUND = (
    r"(?: (?:found|extracted|provided|present|available|given|stated|worth remembering|to (?:extract|remember|add)))?"
)
_IN_CONVERSATION = r"(?: (?:in|from) (?:the|this) (?:conversation|lines|text|episode|message))?"
_META_TEXT = tuple(
    LazyPattern(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_SUBJECT}(?: and {_PARTICIPANT})? (?:politely |briefly |then |also )?(?:{_POLITENESS}){_OTHER}",
        rf"{_SUBJECT} (?:greeted|thanked){_OTHER} and (?:{_POLITENESS}){_OTHER}",
        rf"(?:{_AM} an (?:ai|artificial intelligence)(?: assistant| (?:language )?model)?"
        rf"|{_AM} a (?:large )?language model)(?:(?:,| and| that| without).*)?",
        r"(?:i am|i'm) (?:here|happy|ready|glad) to (?:help|assist)|i'm sorry,? but i can(?:'|no)t (?:help|assist).*",
        rf"{_CONVERSATION} (?:was|is) (?:about|between|short|brief|over|empty|casual|friendly)\b.*",
        rf"{_CONVERSATION} (?:began|begins|started|starts|ended|ends|opened|opens|closed|closes) with\b.*",
        rf"{_CONVERSATION} (?:contains?|contained|has|had|includes?) no\b.*",
        rf"{_CONVERSATION} (?:does|did)(?: not|n't)\b.*",
        rf"{_CONVERSATION} consist(?:s|ed) of\b.*",
        rf"(?:there (?:are|were|is|was) )?no{_FACTS}{_WERE}{_FOUND}{_IN_CONVERSATION}",
        rf"none|nothing{_WERE}{_FOUND}{_IN_CONVERSATION}",
        r"n/?a|null|nil|undefined|unknown|empty|todo|tbd|not (?:applicable|specified|available)",
        r"(?:here|below) (?:are|is) (?:the|a list of|some) (?:\w+ )?(?:facts?|json)\b.*",
        r"(?:return|respond with|output|provide)(?: only)?(?: valid| a| the)* json\b.*",
        r"(?:extract|write down|list)(?: all)?(?: the)? facts\b.*|write down what is worth .*",
        r"(?:each|every) fact (?:is|has|should|must) .*|(?:the )?list of facts (?:is|may be|should be) .*",
        r"turn (?:every relative time|words like) .*|keep every name, .*|you keep the long-term memory .*",
        r"(?:greetings|small talk|thanks)(?:(?:,| and| or)+ (?:thanks|small talk|greetings))* (?:is|are) not worth .*",
    )
)
_SCHEMA_WORDS = frozenset(
    """string str number integer int boolean bool array list object null true false text fact facts fact_type kind type
    what when where who why start end since date lines line sources entities entity name names causes known title
    narrative surprise confidence told again id world experience opinion description value key schema json""".split()
)
_ROLE_TERMS = frozenset(("user", "assist", "agent", "tool", "system", "ai"))
_ENGLISH_WORDS = frozenset("the and is are of to my with have has it you for that this he she they we i".split())
_SPEAKER_PREFIX = re.compile(r"[^:\n]{1,60}: ")


def is_small_talk(text: str) -> bool:
    """Return True if a message consists of greetings, thanks, farewells, acknowledgements, laughter or emoji."""
    if len(text) > _MAX_NOISE_CHARS or not _INFORMATIVE_CHARS.isdisjoint(text) or any(map(str.isnumeric, text)):
        return False
    return _consists_of_phrases(_words(text))


def _words(text: str) -> list[str]:
    """Return the casefolded words of letters and combining marks."""
    spaced = "".join(c if unicodedata.category(c)[0] in "LM" or c == "'" else " " for c in _normalize(text))
    words = (word.strip("'") for word in spaced.split())
    return [word for word in words if any(c.isalpha() for c in word)]


def _consists_of_phrases(words: Sequence[str]) -> bool:
    """Return True if the words can be divided into phrases of small talk."""
    reached = {0}
    for at in range(len(words)):
        if at in reached:
            reached.update(at + size for size in _phrase_lengths(words, at))
    return len(words) in reached


def _phrase_lengths(words: Sequence[str], at: int) -> Iterator[int]:
    if _LAUGHTER.fullmatch(words[at]):
        yield 1
    for size in range(1, min(_MAX_PHRASE_WORDS, len(words) - at) + 1):
        phrase = tuple(words[at : at + size])
        if phrase in _PHRASES or tuple(_REPEATED_LETTER.sub(r"\1", word) for word in phrase) in _PHRASES:
            yield size


def strip_recalled(text: str) -> str:
    """Return the message without lines that were recalled from memory, and without their headings."""
    lines = text.split("\n")
    removed = set(_recalled_lines(lines))
    if not removed:
        return text
    above_removed = False
    for at in range(len(lines) - 1, -1, -1):
        if at in removed:
            above_removed = True
        elif above_removed and _is_recall_heading(lines[at]):
            removed.add(at)
        elif lines[at].strip():
            above_removed = False
    kept = "\n".join(line for at, line in enumerate(lines) if at not in removed)
    return re.sub(r"\n{3,}", "\n\n", kept).strip()


def _recalled_lines(lines: Sequence[str]) -> Iterator[int]:
    """Yield the places of recalled lines and of the indented lines that continue them."""
    pattern, inside = _RECALLED_LINE, False
    for at, line in enumerate(lines):
        if _is_recall_heading(line):
            pattern, inside = _SHORTLY_RECALLED_LINE, False
        elif pattern.match(line.strip()) or _RECALLED_LINE.match(line.strip()) or line.strip() == NOTHING:
            inside = True
            yield at
        elif inside and line.startswith("  "):
            yield at
        elif line.strip():
            pattern, inside = _RECALLED_LINE, False


def _is_recall_heading(line: str) -> bool:
    return _RECALL_HEADING.fullmatch(line.strip()) is not None or line.startswith((LEGEND, INSTRUCTIONS))


def is_meta_text(text: str) -> bool:
    """Return True if a fact is about the conversation, the assistant's politeness or its instructions."""
    plain = " ".join(text.replace("’", "'").split()).strip(" .!\"'`*-")
    if len(plain) > _MAX_NOISE_CHARS:
        return False
    words = [word.casefold() for word in re.findall(r"\w+", plain)]
    return not words or set(words) <= _SCHEMA_WORDS or any(pattern.fullmatch(plain) for pattern in _META_TEXT)


def is_grounded(text: str, sources: Sequence[str], known: Sequence[str] = ()) -> bool:
    """Return True if a fact shares a term with its sources, or if they are in another language."""
    wanted = set(terms(text))
    stated = {term for source in (*sources, *known) for term in terms(source)}
    if (wanted - _ROLE_TERMS) & stated:
        return True
    messages = [_SPEAKER_PREFIX.sub("", source, count=1) for source in sources]
    if _is_foreign(messages) and _has_latin(text):
        return True
    return bool(wanted & stated) and _is_english(text) and not any(map(_is_english, messages))


def _has_latin(text: str) -> bool:
    return any(unicodedata.name(c, "").startswith("LATIN") for c in text if c.isalpha())


def _is_foreign(messages: Sequence[str]) -> bool:
    """Return True if the messages have letters, none of which is Latin."""
    return any(c.isalpha() for text in messages for c in text) and not any(map(_has_latin, messages))


def _is_english(text: str) -> bool:
    return not _ENGLISH_WORDS.isdisjoint(re.findall(r"\w+", text.casefold()))


# Questions that state nothing. English only; text in other languages is kept.

_MAX_QUESTION_CHARS = 240
"""Longer messages are kept: a long question describes a situation."""
_SENTENCE = re.compile(r"[^.?!\n]+(?:[.!](?=\w)[^.?!\n]+)*[.?!]*")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_AUX = "is|are|was|were|am|do|does|did|has|have|had|will|would|can|could|should|shall|may|might"


def _ignore_case(pattern: str) -> LazyPattern:
    return LazyPattern(pattern, re.IGNORECASE)


_OPENING = (
    r"\W*(?:(?:hey|hi|hello|so|ok|okay|well|and|but|also|then|oh|wow|yeah|yes|no|sure|cool|nice|great|thanks|thank you|"
    r"please|sorry|now|anyway|by the way|btw|quick question|just curious|out of curiosity)\b[\s,!.:–—-]*)*+"
)
_ASKING_START = _ignore_case(
    rf"{_OPENING}(?:(?:who|whom|whose|which|what|where|when|why|how)(?:'s|'re|'d|'ll)?\b"
    rf"|(?:{_AUX})(?:n't)?\s+(?:i|you|we|they|he|she|it|there|this|that|these|those|the|any|some|my|your|his|her|our|"
    r"their|its|anyone|anybody|someone|somebody|everyone|everybody|anything|something|everything)\b"
    rf"|(?-i:(?:{_AUX}|{'|'.join(word.capitalize() for word in _AUX.split('|'))})(?:n't)?\s+[A-Z])"
    r"|(?:in|at|on|for|to|with|from|by|since|until|about) (?:what|which|whom|when|where)\b"
    r"|any(?:thing|one|body|where)?\b|and you\b|really\b|seriously\b|you\b\W*$)"
)
_STRICT_START = _ignore_case(
    rf"{_OPENING}(?:(?:who|what|where|when|why|which)(?:'s|'re)\b|(?:who|what|where|when|why) (?:{_AUX})\b"
    rf"|(?:what|which) \w+ (?:{_AUX}) (?:i|you|we|they|he|she|my|your|our)\b"
    rf"|how (?:{_AUX}|many|much|often|long|old|far|tall|big)\b|do you (?:know|remember|recall)\b)"
)
"""The start of a question that needs no question mark."""
_FINITE = _ignore_case(rf"\b(?:{_AUX})\b|'s\b|'re\b")
_STATED_SUBJECT = r"(?:i|we|he|she|they|it|there|my|our|his|her|their|the|i'[a-z]+|we'[a-z]+|s?he's|they'[a-z]+)"
_REPORTING = r"(?:tell|told|mention(?:ed)?|say|said|know|knew|heard?|believe|reali[sz]e|notice|see|guess|think)"
_STATED_CLAUSE = (
    # "Have I mentioned that I moved?", "Did you know Anna got married?"
    _ignore_case(
        rf"\b{_REPORTING}(?: you| that| already| yet| about it){{0,3}} (?:that )?(?!the\b){_STATED_SUBJECT}\s+\w+\s+\w"
    ),
    _ignore_case(
        r"\b(?:tell|told|mention|mentioned|heard?|know) (?:you |that ){0,2}(?:about )?(?-i:[A-Z]\w+) \w+\s+\w"
    ),
    _ignore_case(r"\b(?:remember|recall|forget|forgot) (?:that|when|how) (?:i|we|you|my|he|she|they)\b"),
    _ignore_case(
        rf"\b(?:that|because|since|although|though|while|if|unless|after|before|as) (?:{_STATED_SUBJECT}|you)\b"
    ),
    _ignore_case(r"\b(?:now that|given|considering|seeing (?:as|that)|even though|due to|thanks to|in case|so that)\b"),
    _ignore_case(r"\b(?:after|before|while|since|from|for|about|with|when) (?:just |recently )?(?!being\b)[a-z]+ing\b"),
    _ignore_case(r"\bwhen (?:i|we|he|she|they|my|you) |\b(?:i|we)(?:'m|'ve|'d|'re|'ll| am| are| was| were) "),
    _ignore_case(r"[,;:–—(\[]\s*(?:i|we|my|he|she|they|it|the|but|who|which|a|an)\b|[\[\]{}<>]"),
    _ignore_case(
        r"(?<!do )(?<!did )(?<!would )(?<!could )(?<!should )(?<!can )(?<!might )(?<!will )\b(?:i|we) (?:just|need|"
        r"want|love|like|hate|plan|hope|prefer|recently|finally|bought|got|moved|started|use|own)\b"
    ),
)
_ADVICE = _ignore_case(
    r"\b(?:should|could|can|would|best|better|good|great|nice|recommend\w*|suggest\w*|tips?|advice|ideas?|help|ways?|"
    r"how (?:do|to|about)|what about|improve|fix|learn|find|make|plan|worth)\b"
)
_OWN = _ignore_case(r"\b(?:my|our|me|us|mine|ours|i'm|i've)\b")
_OTHERS = _ignore_case(r"\b(?:your|his|her|their|[^\W\d_]+'s)\b")
_STATE = _ignore_case(rf"{_OPENING}how(?:'s|'re| is| are| was| were| did| do| does| has| have)\b")
_GENERIC = STOP_WORDS | frozenset(
    """ok okay hey hi hello oh wow yeah yes thanks thank please really seriously anyway today tonight day days week
    weekend weekends morning afternoon evening night lately recently going go doing do been new up plan plans thing
    things anything something everything nothing anyone everyone else more life news latest happening happened happen
    fun interesting exciting get got think feel feeling like know tell mean say said share hear curious question time
    much many lot bit good great well nice cool d m how's what's who's where's that's it's you're far long back keep
    keeping holding treating finally next yet already still""".split()
)
"""Words that name nothing in particular."""


def is_bare_question(text: str) -> bool:
    """Return True if a message only asks, and no part of it states something.

    "Have I mentioned that I moved to Porto?" states a move, and "How do I groom my poodle?" that there is a poodle;
    "Where do I live?" states nothing.
    """
    sentences = _questions(text)
    return bool(sentences) and not any(map(_states_something, sentences)) and not is_foreign(text)


def is_empty_question(text: str) -> bool:
    """Return True if a message only asks and names nothing: "How was your weekend?", "And you?"."""
    sentences = _questions(text)
    words = (word.casefold() for sentence in sentences for word in _WORD.findall(sentence))
    return bool(sentences) and all(word in _GENERIC for word in words) and not is_foreign(text)


def _questions(text: str) -> list[str]:
    """Return the questions of a short message that consists of nothing else but small talk."""
    text = text.strip().replace("’", "'")
    if len(text) > _MAX_QUESTION_CHARS:
        return []
    sentences = [sentence for found in _SENTENCE.findall(text) if not is_small_talk(sentence := found.strip())]
    return sentences if all(map(_asks, sentences)) else []


def _asks(sentence: str) -> bool:
    if sentence.rstrip("\"') !").endswith("?"):
        return _ASKING_START.match(sentence) is not None
    # "What is important to me is my family" has a second verb.
    return _STRICT_START.match(sentence) is not None and len(_FINITE.findall(sentence)) < 2


def _states_something(sentence: str) -> bool:
    if any(clause.search(sentence) for clause in _STATED_CLAUSE):
        return True
    if _ADVICE.search(sentence) and (_OWN.search(sentence) or any(map(str.isdigit, sentence))):
        return True
    return _STATE.match(sentence) is not None and _OTHERS.search(sentence) is not None and _is_specific(sentence)


def _is_specific(sentence: str) -> bool:
    """Return True if a question names at least two things: "How was your trip to Rome?", not "How was your day?"."""
    words = {word.casefold() for word in _WORD.findall(sentence)}
    return len(words - _GENERIC) >= 2
