"""A small BERT in torch: the encoder with its two heads, and the cross-encoder that teaches it."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, INNER, LAYERS = 384, 12, 1536, 12
TOKEN_WIDTH = 48


class Layer(nn.Module):
    """Attention and feed-forward, each followed by its residual and norm."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.attended, self.attended_norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH, eps=1e-12)
        self.inner, self.outer = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.norm, self.dropout = nn.LayerNorm(WIDTH, eps=1e-12), nn.Dropout(0.1)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return the next states."""
        rows, length, _ = states.shape
        query, key, value = (
            part(states).view(rows, length, HEADS, -1).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        mixed = mixed.transpose(1, 2).reshape(rows, length, WIDTH)
        states = self.attended_norm(states + self.dropout(self.attended(mixed)))
        return self.norm(states + self.dropout(self.outer(F.gelu(self.inner(states)))))


class Bert(nn.Module):
    """The transformer: from ids and segments to states."""

    def __init__(self, layers: int = LAYERS) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(30522, WIDTH), nn.Embedding(512, WIDTH)
        self.segments, self.norm = nn.Embedding(2, WIDTH), nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers, self.dropout = nn.ModuleList(Layer() for _ in range(layers)), nn.Dropout(0.1)

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        """Return the last states."""
        places = torch.arange(ids.shape[1], device=ids.device)
        states = self.dropout(self.norm(self.words(ids) + self.positions(places) + self.segments(segments)))
        for layer in self.layers:
            states = layer(states, mask[:, None, None, :])
        return states

    def load(self, weights: dict[str, np.ndarray], layers: list[int] | None = None) -> None:
        """Load weights by BERT's usual names; `layers` selects some of the twelve."""
        names = list(parameter_names(layers or list(range(len(self.layers)))))
        own = dict(self.named_parameters())
        with torch.no_grad():
            for ours, theirs in names:
                value = torch.from_numpy(np.ascontiguousarray(weights[theirs]))
                matrix = value.ndim == 2 and theirs.startswith("encoder")
                own[ours].copy_(value.T if matrix else value)


def parameter_names(layers: list[int]) -> list[tuple[str, str]]:
    """Return our parameter names with BERT's."""
    names = [(f"{ours}.weight", f"embeddings.{theirs}.weight") for ours, theirs in _TABLES]
    names += [(f"norm.{part}", f"embeddings.LayerNorm.{part}") for part in ("weight", "bias")]
    for number, layer in enumerate(layers):
        for ours, theirs in _PARTS:
            names += [
                (f"layers.{number}.{ours}.{p}", f"encoder.layer.{layer}.{theirs}.{p}") for p in ("weight", "bias")
            ]
    return names


_TABLES = [("words", "word_embeddings"), ("positions", "position_embeddings"), ("segments", "token_type_embeddings")]
_PARTS = [
    ("query", "attention.self.query"),
    ("key", "attention.self.key"),
    ("value", "attention.self.value"),
    ("attended", "attention.output.dense"),
    ("attended_norm", "attention.output.LayerNorm"),
    ("inner", "intermediate.dense"),
    ("outer", "output.dense"),
    ("norm", "output.LayerNorm"),
]


class Encoder(nn.Module):
    """An encoder with two outputs: a pooled vector for search, and a short vector per token for reranking."""

    def __init__(self, width: int = TOKEN_WIDTH) -> None:
        super().__init__()
        self.bert = Bert()
        self.tokens = nn.Linear(WIDTH, width, bias=False)
        self.attention = nn.Linear(WIDTH, 1, bias=False)
        nn.init.orthogonal_(self.tokens.weight)
        nn.init.zeros_(self.attention.weight)

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return pooled unit vectors, unit vectors of all tokens, and the weight of each token of a query."""
        states = self.bert(ids, segments, mask)
        pooled = F.normalize(states[:, 0].float(), dim=-1)
        return pooled, F.normalize(self.tokens(states).float(), dim=-1), self.attention(states)[..., 0].float()


class CrossEncoder(nn.Module):
    """Scores a question and a document together."""

    def __init__(self, layers: int = LAYERS) -> None:
        super().__init__()
        self.bert, self.score = Bert(layers), nn.Linear(WIDTH, 1)
        nn.init.zeros_(self.score.bias)

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        """Return one score per pair."""
        return self.score(self.bert(ids, segments, mask)[:, 0])[:, 0].float()
