"""Words that keyword search finds in another form, script or spelling."""

from __future__ import annotations

import pytest

from vmemo import Memory
from vmemo.models.settings import Settings
from vmemo_conformance.embedders import HashEmbedder

# The first line has a word of the question in another form; the other lines share only function words with it.
LANGUAGES = {
    "ar": ("المعلمون في المدرسة", ["القطار في الساعة", "الشاي على الطاولة"], "أين المعلم؟"),
    "de": ("Die Häuser sind jetzt leer.", ["Der Zug ist um acht da.", "Wer hat die Suppe?"], "Wer hat das Haus?"),
    "es": (
        "Los contratos están en la mesa.",
        ["¿Dónde está el tren?", "La sopa es de ayer."],
        "¿Dónde está el contrato?",
    ),
    "fr": ("Les voisines sont au marché.", ["Le train est à huit heures.", "Où est la soupe ?"], "Où est la voisine ?"),
    "hi": ("लड़कियों के जूते नीले हैं", ["गाड़ी आठ बजे की है", "चाय मेज़ पर है"], "लड़की का जूता कौन सा है?"),
    "id": (
        "Pembayaran itu sudah lunas.",
        ["Kapan saya harus pergi?", "Sup ini dari kemarin."],
        "Kapan saya harus bayar?",
    ),
    "it": (
        "I contratti sono della banca.",
        ["Il treno è alle otto.", "Dove è la zuppa di ieri?"],
        "Dove è il contratto?",
    ),
    "pl": ("Mam już bilety na koncert.", ["Gdzie jest pociąg?", "Zupa jest z wczoraj."], "Gdzie jest mój bilet?"),
    "pt": ("As vizinhas não estão em casa.", ["Onde está o trem?", "A sopa é de ontem."], "Onde está a vizinha?"),
    "ru": ("Купили зимние сапоги.", ["Какой у меня поезд?", "Суп был вчера."], "Какой у меня зимний сапог?"),
    "tr": (
        "Kitapları ona verdim, sonra çok sevindi.",
        ["Tren nerede?", "Çorba dünden kaldı."],
        "Kitap nerede ve kimin?",
    ),
    "vi": ("Má phanh của xe đã mòn.", ["Con ma ở nhà cũ.", "Mạ lúa đã lên xanh."], "Má phanh giá bao nhiêu?"),
    "ko": ("회의는 목요일이에요.", ["기차는 여덟 시예요.", "국은 어제 거예요."], "회의가 언제예요?"),
    "ja": ("LINEで住所を送った。", ["電車は八時です。", "スープは昨日のです。"], "住所はLINE?"),
}


def first_of(lines: list[str], question: str) -> str | None:
    with Memory(":memory:", embedder=HashEmbedder(dimension=512), settings=Settings(channels={"keyword"})) as memory:
        memory.retain_sync(lines)
        return next((hit.fact.text.removeprefix("User: ") for hit in memory.recall_sync(question).hits), None)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_word_is_found_in_another_form(language: str) -> None:
    line, (before, after), question = LANGUAGES[language]
    assert first_of([before, line, after], question) == line


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ("Ich bin bei Frau Werner in der Karlstrasse.", "Werner Karlstrasse"),
        ("Ich bin bei Frau Werner in der Karlstrasse.", "What do you know about Werner?"),
        ("El contrato de Dolores está en la oficina.", "Who is Dolores?"),
        ("Chị Trâm ở đường Đồng Khởi.", "tram dong khoi"),
    ],
)
def test_a_text_in_another_language_is_found_by_a_question_whose_language_is_unknown(line: str, question: str) -> None:
    assert first_of(["We ate soup.", line, "The train leaves at eight."], question) == line


def test_accents_may_be_left_out() -> None:
    assert first_of(["Il pleut ici.", "Le café de Zoé est fermé.", "C'est tout."], "ou est le cafe de zoe") is not None


def test_function_words_of_another_language_do_not_count() -> None:
    assert first_of(["Wo ist denn das, und wer hat es?", "Das Konzert ist im Mai."], "Wer hat denn das Konzert?") == (
        "Das Konzert ist im Mai."
    )
