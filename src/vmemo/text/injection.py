"""Prompt injection: instructions to the model inside memories, and answers that follow or reveal them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.tokens import STOP_WORDS

MIN_REPEATED_WORDS = 8
"""Consecutive words that an answer does not share with its prompt by chance."""
_EXISTING = (
    "previous|prior|earlier|preceding|above|former|original|initial|existing|system|safety|hidden|secret|internal"
)
_RULES = "instructions?|prompts?|rules?|guidelines?|directives?"
_NOT_OF_A_TOPIC = r"(?!\s+(?:of|about|on|for (?!this|me|the user))\b)"
"""Excludes the rules of a game or a house."""
_LEAD_WORDS = (
    r"and|then|must|should|please|now|to|will|just|so|also|can you|could you|"
    r"(?<!\bi )(?<!\bwe )(?<!\byou )(?<!\bthey )always"
)
_START = rf"(?:^|[.!?:;,…\"'(*>#\]–—-]\s{{0,3}}|\b(?:{_LEAD_WORDS})\s+)"
"""Start of an imperative. A report about ignored rules has a subject such as "I" or "she" there."""
_OVERRIDES: Mapping[str, tuple[str, str, str]] = {
    "en": (
        rf"{_START}(?:ignore|disregard|forget|override|bypass|violate|abandon)\b",
        rf"\b(?:{_EXISTING}|your(?!\s+\w+['’]s)|all|any)\b",
        rf"\b(?:{_RULES})\b{_NOT_OF_A_TOPIC}",
    ),
    "de": (
        rf"{_START}(?:ignorier\w*|vergiss|missachte\w*)\b(?!\s+nicht)",
        r"\b(?:deine?\w?|ihre|alle|bisherige\w*|vorherige\w*|vorige\w*|frühere\w*|obige\w*)\b",
        r"\b(?:anweisung\w*|regeln|vorgaben|instruktionen|prompts?)\b",
    ),
    "fr": (
        rf"{_START}(?:ignore[zr]?|oublie[zr]?|néglige[zr]?)\b(?!\s+pas)",
        r"\b(?:précédent\w*|antérieur\w*|tes|vos|toutes|ci-dessus)\b",
        r"\b(?:instructions|règles|consignes|directives)\b",
    ),
    "es, it, pt": (
        rf"{_START}(?:ignor[ae]|olvid[ae]|omit[ae]|dimentica|trascura|esque(?:ça|ce)|desconsidere)\b",
        r"\b(?:anterior\w*|previ[ao]s|precedenti|tod[ao]s|tutte|tus|sus|tue|sue|suas|tuas)\b",
        r"\b(?:instrucciones|reglas|istruzioni|regole|instruções|regras|indicaciones|diretrizes)\b",
    ),
    "nl": (
        rf"{_START}(?:negeer|vergeet)\b(?!\s+niet)",
        r"\b(?:eerdere|vorige|voorgaande|alle|je|jouw|uw)\b",
        r"\b(?:instructies|regels|aanwijzingen)\b",
    ),
    "pl": (
        rf"{_START}(?:z?ignoruj|zapomnij)\b",
        r"\b(?:poprzedni\w*|wcześniejsz\w*|wszystki\w*|swoi\w*)\b",
        r"\b(?:instrukcj\w+|zasad\w*|polece\w+)\b",
    ),
    "ru": (
        rf"{_START}(?:(?:про)?игнорируй\w*|забудь\w*)\b",
        r"\b(?:предыдущ\w+|прежни\w+|все|свои|твои|системн\w+)\b",
        r"\b(?:инструкци\w+|правила|указани\w+)\b",
    ),
    "tr": (r"\b(?:önceki|tüm|bütün|kendi)\b", r"\b(?:talimat\w*|kural\w*|yönerge\w*)", r"\b(?:yok say|görmezden gel)"),
    "zh": ("忽略|无视|忘记|忘掉", "之前|以前|前面|上面|上述|所有|你的|系统", "指令|指示|规则|提示"),
    "ja": ("以前|これまで|今まで|上記|すべて|全て|あなた", "指示|命令|ルール|指令|プロンプト", "無視し|忘れて"),
    "ko": ("이전|앞선|모든|당신의", "지시|명령|규칙|지침|프롬프트", "무시하|잊어"),
    "ar": (r"(?:تجاهل|انسَ?)\b", "السابقة|جميع|كل|الخاصة بك", "التعليمات|القواعد|الأوامر"),
}
"""Overriding of the model's rules, by language: a first pattern, followed by the two others in the same sentence."""
_RESPOND_VERBS = "answer|respond|reply|act|behave|speak|obey|ignore|pretend"
_OVERRIDING = (
    # To break the rules, or to act as if there were none.
    rf"\b(?:do not|don['’]t|stop|never)\s+(?:follow|obey)\w*\s+(?:(?:your|these|those)\s+(?:\w+\s+)?(?:{_RULES})\b"
    rf"|the\s+(?:{_RULES})\s+(?:that )?you (?:were|are|have been) given)",
    r"\b(?:ignore|disregard|forget)\s+(?:everything|all)\s+(?:above|before this|you (?:were|have been|are) told)\b",
    rf"\b(?:pretend|act)\s+(?:(?:as (?:if|though)|that)\s+)?(?:you|your|there)\b[^.!?\n]{{0,30}}"
    rf"\b(?:{_RULES}|restrictions)\b",
    # To reveal the prompt, the profile or other users' data.
    rf"{_START}(?:reveal|print|repeat|output|show|leak|recite|disclose|display|expose|dump|tell)\b[^.!?\n]{{0,40}}"
    rf"\b(?:your|{_EXISTING})\s+(?:\w+\s+){{0,2}}(?:{_RULES}|profile|message|configuration)\b{_NOT_OF_A_TOPIC}",
    rf"{_START}(?:reveal|leak|disclose|expose)\s+(?:the|your)\s+(?:\w+\s+)?profile\b",
    rf"{_START}(?:repeat|print|output|show|copy)\b[^.!?\n]{{0,20}}\b(?:text|words|lines?|everything|all)\s+above\b",
    r"\beverything you know about (?:other|all|the other) (?:users?|people|customers?)\b",
    r"\b(?:deine[nrms]?|den|das|tu|ton|il tuo|seu|o)\s+(?:system-?prompt|prompt (?:del sistema|do sistema|système))\b",
    # To take another role.
    r"\byou are now (?:DAN\b|in \w+ mode|free from|no longer bound|un\w+ed\b"
    r"|(?:an?|the) (?:\w+ ){0,2}(?:assistant|AI|bot|model|chatbot|pirate|hacker|administrator)\b)",
    rf"\byou (?:must|will|shall) now (?:{_RESPOND_VERBS}|be|reveal|follow|forget)\b",
    r"\bfrom (?:now|here|this (?:moment|point)) on(?:wards?)?,? you (?:are|act as|play) an?\b",
    # To give a fixed answer.
    rf"{_START}(?:answer|respond|reply)\b[^.!?\n]{{0,30}}"
    r"\b(?:(?:only|exactly|just|solely) with|with (?:only|nothing but))\b",
    r"\b(?:you are|you['’]re|the user|users?) ask\w*\b[^.!?\n]{0,60}\b(?:always|only|never)\b",
    # To hide sources or instructions.
    r"\b(?:do not|don['’]t|never) cite (?:this|these|any|anything|it|your|sources)\b",
    r"\b(?:do not|don['’]t|never) mention (?:this|these|your) "
    r"(?:instructions?|rules?|prompts?|memor(?:y|ies)|messages?)\b",
    # Addressed to any model, or formatted as a system message.
    r"\b(?:AI|language|chat)[ -]?(?:assistants?|models?|bots?|agents?)\b[^.!?\n]{0,30}\b(?:must|reading this)\b",
    r"\b(?:note|message|attention|instructions?)\s+(?:to|for)\s+(?:the|any|all|every)\s+(?:\w+ ){0,2}"
    r"(?:language models?|AIs?|LLMs?|assistants?|chatbots?)\b",
    rf"{_START}(?:new|updated|additional|important) instructions?\s*:",
    r"</?(?:system|assistant|instructions?|prompt)>|<\|\w+\|>|\[/?INST\]|<<SYS>>|#{2,9}\s{0,3}(?:system|instructions?)\b",
    r"[.!?:;>\n]\s{0,3}system\s{0,3}:",
)
"""Instructions against the model's rules, which nobody may give."""
_DIRECTIVES = (
    rf"\bfrom (?:now|here|this (?:moment|point)) on(?:wards?)?,? (?:(?:please|always|only|just) )*"
    rf"(?:you (?:are an?|must|shall|only|(?:will )?(?:{_RESPOND_VERBS}))\b|(?:{_RESPOND_VERBS})\b)",
    r"\b(?:ab (?:jetzt|sofort)|von nun an),?\s+(?:antworte|sprich|sprichst|bist du|handle)",
    r"\bà partir de maintenant,?\s+(?:tu |vous )?(?:ne )?(?:répond|parle|agis|es\b|êtes)",
    r"\b(?:a partir de (?:ahora|agora)|desde ahora|da ora in poi|d'ora in poi),?\s+"
    r"(?:solo |só )?(?:respond|rispond|contesta|habla|parla|fala|act[uú]a|agisci|eres|sei|você)",
)
"""Instructions on how to answer, which only the user may give."""
_SAME_SENTENCE = r"[^.!?。\n]{0,80}?"
_OVERRIDE = LazyPattern(
    "|".join(
        (
            *(f"(?:{a})(?={_SAME_SENTENCE}(?:{b})){_SAME_SENTENCE}(?:{c})" for a, b, c in _OVERRIDES.values()),
            *_OVERRIDING,
        )
    ),
    re.IGNORECASE | re.MULTILINE,
)
_DIRECTIVE = LazyPattern("|".join(_DIRECTIVES), re.IGNORECASE | re.MULTILINE)
_SENTENCE = LazyPattern(r"[^.!?。！？\n]+[.!?。！？\n]*")
_WORD = LazyPattern(r"\w+")
_SECOND_PERSON = frozenset("you your yours yourself you're".split())


def contains_instructions(text: str) -> bool:
    """Return True if a text contains instructions to the model that reads it."""
    return overrides_rules(text) or _DIRECTIVE.search(text) is not None


def overrides_rules(text: str) -> bool:
    """Return True if a text contains instructions to break or reveal the model's rules, or to take another role."""
    return _OVERRIDE.search(text) is not None


def remove_instructions(text: str) -> str:
    """Return the text without the sentences that contain instructions."""
    return "".join(sentence for sentence in _SENTENCE.findall(text) if not contains_instructions(sentence))


def repeats_prompt(text: str, prompt: str, *, allowed: str, min_words: int = MIN_REPEATED_WORDS) -> bool:
    """Return True if an answer repeats consecutive words of the prompt that are not part of the allowed text."""
    runs = set(_runs(text, min_words)).intersection(_runs(prompt, min_words))
    return bool(runs.difference(_runs(allowed, min_words)))


def addresses_assistant(question: str) -> bool:
    """Return True if a question may be about the assistant; in languages other than English any may."""
    words = set(_words(question))
    return not _SECOND_PERSON.isdisjoint(words) or STOP_WORDS.isdisjoint(words)


def _runs(text: str, length: int) -> Iterator[tuple[str, ...]]:
    """Yield every run of so many words."""
    words = _words(text)
    return (tuple(words[at : at + length]) for at in range(len(words) - length + 1))


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
