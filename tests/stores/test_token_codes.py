"""Token vectors in three bits: nearly the same directions, and the same bytes when they are packed again."""

import numpy as np
import pytest

from vmemo.stores.sqlite.token_codes import packed_tokens, unpacked_tokens
from vmemo.testing.samples import some_tokens


@pytest.mark.parametrize("width", [1, 3, 8, 48, 50])
def test_packed_token_vectors_keep_their_directions_and_pack_to_the_same_bytes(width: int) -> None:
    given = [some_tokens(count, width) for count in (1, 30, 4)]
    packed = packed_tokens(given)
    assert [len(each) for each in packed] == [len(tokens) * 3 * -(-width // 8) for tokens in given]
    found = unpacked_tokens((n, width, each) for n, each in enumerate(packed))
    for n, tokens in enumerate(given):
        assert (found[n] * tokens).sum(axis=1).min() > 0.95
        assert np.allclose(np.linalg.norm(found[n], axis=1), 1, atol=1e-5)
    assert packed_tokens([found[n] for n in range(3)]) == packed
    # An export has signed bytes.
    exported = [(np.rint(found[n] * 127) / 127).astype(np.float32) for n in range(3)]
    assert packed_tokens(exported) == packed


def test_texts_of_different_widths_are_packed_together() -> None:
    given = [some_tokens(2, 8), some_tokens(3, 16)]
    packed = packed_tokens(given)
    assert packed == [*packed_tokens(given[:1]), *packed_tokens(given[1:])]
    found = unpacked_tokens([(0, 8, packed[0]), (1, 16, packed[1])])
    assert [found[n].shape for n in (0, 1)] == [(2, 8), (3, 16)]
