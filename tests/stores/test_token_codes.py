"""Token vectors in three bits: nearly the same directions, and the same bytes when they are packed again."""

from collections.abc import Sequence

import numpy as np
import pytest

from vmemo.models.search import StoredTokens, TokenVectors
from vmemo.stores.values import decode_tokens, encode_tokens
from vmemo_conformance.samples import some_tokens


@pytest.mark.parametrize("width", [1, 3, 8, 48, 50])
def test_packed_token_vectors_keep_their_directions_and_pack_to_the_same_bytes(width: int) -> None:
    given = [some_tokens(count, width) for count in (1, 30, 4)]
    packed = encode_tokens(given)
    assert [len(each) for each in packed] == [len(tokens) * 3 * -(-width // 8) for tokens in given]
    found = _known(decode_tokens([(width, each) for each in packed]))
    for n, tokens in enumerate(given):
        assert (found[n] * tokens).sum(axis=1).min() > 0.95
        assert np.allclose(np.linalg.norm(found[n], axis=1), 1, atol=1e-5)
    assert encode_tokens(found) == packed
    # An export has signed bytes.
    exported = [(np.rint(each * 127) / 127).astype(np.float32) for each in found]
    assert encode_tokens(exported) == packed


def test_texts_of_different_widths_are_packed_together() -> None:
    given = [some_tokens(2, 8), some_tokens(3, 16)]
    packed = encode_tokens(given)
    assert packed == [*encode_tokens(given[:1]), *encode_tokens(given[1:])]
    found = _known(decode_tokens([(8, packed[0]), (16, packed[1])]))
    assert [each.shape for each in found] == [(2, 8), (3, 16)]


def test_texts_without_token_vectors_keep_their_places() -> None:
    given = [some_tokens(2, 8), some_tokens(3, 8)]
    first, second = encode_tokens(given)
    found = decode_tokens([None, (8, first), None, (8, second)])
    assert [None if each is None else each.vectors.shape for each in found] == [None, (2, 8), None, (3, 8)]
    assert found[0] is None
    assert np.array_equal(_known(found)[1], _known(decode_tokens([(8, second)]))[0])
    assert list(decode_tokens([None, None])) == [None, None]


def _known(found: Sequence[StoredTokens | None]) -> list[TokenVectors]:
    return [each.vectors for each in found if each is not None]
