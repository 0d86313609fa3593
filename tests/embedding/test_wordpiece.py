"""Our tokenizer against the reference implementation, built from the same vocabulary."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings, strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece as ReferenceWordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from vmemo.embedding.wordpiece import WordPiece
from vmemo_models import ENCODER

CLS, SEP, UNKNOWN = 101, 102, 100

ALIKE = [
    "",
    " ",
    "Hello, World!",
    "don't  stop\tbelieving\r\nnow",
    "Ångström café naïve über ÉLÈVE Ñandú ğ İstanbul ß ŒUVRE",
    "e\u0301 a\u030a combining, ộ stacked",
    "ΣΊΣΥΦΟΣ σίσυφος Война и мир",
    "日本語のテキスト 中文测试 한국어 かな カナ",
    "豈 更 compatibility ideographs 〇 ㊗",
    "emoji 😀👩‍👩‍👧‍👦 🏳️‍🌈 ☕️ 1️⃣",
    "zero\u200bwidth\u200cnon\u200djoiner\ufeffmark \u2060word",
    "control\x00\x01\x1b[31m\x7f\x85 characters \ufffd",
    "spaces\u00a0\u1680\u2003\u2028\u2029\u202f\u205f\u3000end",
    "https://example.com/a/b?c=d&e=%20f#frag me@host.org C:\\dir\\file.txt",
    "x" * 100,
    "x" * 101,
    "supercalifragilisticexpialidocious " + "antidisestablishmentarianism" * 4,
    "!@#$%^&*()_+-=[]{}|;':\",./<>?`~",
    "«guillemets» “quotes” ‘single’ – — … ¿qué? ¡sí! 、。「」",
    "$5 €6 £7 ¥8 3½ m² H₂O x³ ﬁne ＦＵＬＬ",
    "עברית العربيّة हिन्दी ไทย",
    "\U000e0041tag \U000f0000private \u0378unassigned",
    "word " * 600,
    "unaffable" * 9 + " " + "日" * 700,
    "ab," * 3000,
]

ALPHABET = st.one_of(
    st.characters(max_codepoint=0x7F),
    st.characters(max_codepoint=0x61C),
    st.characters(min_codepoint=0x900, max_codepoint=0x9FC),
    st.characters(min_codepoint=0xE01, max_codepoint=0xEB9),
    st.characters(min_codepoint=0x1E00, max_codepoint=0x2E42),
    st.characters(min_codepoint=0x2E80, max_codepoint=0xA700),
    st.characters(min_codepoint=0xA900, max_codepoint=0xA9BC),
    st.characters(min_codepoint=0xAA00, max_codepoint=0xFFFF, exclude_categories=("Cs",)),
    st.characters(min_codepoint=0x1F000, max_codepoint=0x10FFFF),
)
"""Left out: blocks with marks and punctuation newer than the reference's Unicode tables, where we differ."""


@cache
def vocabulary() -> list[str]:
    return ENCODER.read("vocab.txt").decode().removesuffix("\n").split("\n")


@cache
def ours() -> WordPiece:
    return WordPiece(vocabulary(), max_tokens=512)


@cache
def reference() -> Tokenizer:
    ids = {token: number for number, token in enumerate(vocabulary())}
    built = Tokenizer(ReferenceWordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    built.normalizer = BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
    built.pre_tokenizer = BertPreTokenizer()
    return built


def expected(text: str) -> list[int]:
    return [CLS, *reference().encode(text, add_special_tokens=False).ids[:510], SEP]


@pytest.mark.parametrize("text", ALIKE, ids=lambda text: ascii(text)[:30])
def test_ids_are_those_of_the_reference(text: str) -> None:
    assert ours().encode(text) == expected(text)


@settings(deadline=None, max_examples=400)
@given(st.text(ALPHABET, max_size=300))
def test_ids_of_any_text_are_those_of_the_reference(text: str) -> None:
    assert ours().encode(text) == expected(text)


@settings(deadline=None, max_examples=20)
@given(st.text("ab é,日\u0301", min_size=1, max_size=9), st.integers(400, 3000))
def test_a_text_longer_than_one_chunk_is_split_as_if_it_were_whole(text: str, times: int) -> None:
    tokenizer = WordPiece(vocabulary(), max_tokens=100_000)
    ids = reference().encode(text * times, add_special_tokens=False).ids
    assert tokenizer.encode(text * times) == [CLS, *ids[:99_998], SEP]


@pytest.mark.parametrize("marker", ["[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"])
def test_a_marker_in_a_text_is_plain_text(marker: str) -> None:
    ids = ours().encode(f"before {marker} after")
    assert ids.count(CLS) == ids.count(SEP) == 1
    assert not {0, UNKNOWN, 103} & set(ids)
    assert ids == ours().encode(f"before [ {marker[1:-1].lower()} ] after")


@pytest.mark.parametrize("text", ["[PAD]", "[CLS]", "[unused1]", "##ing"])
def test_no_text_reaches_a_reserved_id(text: str) -> None:
    assert all(number in (CLS, SEP) or number >= 999 for number in ours().encode(text))


def test_a_text_beyond_the_limit_is_cut_and_still_ends_with_the_end_marker() -> None:
    ids = ours().encode("memory " * 1000)
    assert len(ids) == 512
    assert ids[-1] == SEP


@pytest.mark.parametrize("character", ["a", " ", "\u0301", "\u200b", "日", "a,"])
def test_a_text_of_a_million_characters_is_encoded(character: str) -> None:
    assert len(ours().encode(character * 1_000_000)) <= 512


def test_a_lone_surrogate_is_dropped() -> None:
    assert ours().encode("a\ud800b") == ours().encode("ab")
