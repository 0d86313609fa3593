# pyright: basic, reportMissingImports=false
"""A small BERT in torch: the encoder with its two heads, and the cross-encoder that teaches it."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, INNER, LAYERS = 384, 12, 1536, 12
TOKEN_WIDTH = 48


class Layer(nn.Module):
    """Attention and feed-forward, each followed by its residual and norm.

    While `int8` is set, the linear maps imitate the arithmetic of an exported file.
    """

    int8: bool = False

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
            part.view(rows, length, HEADS, -1).transpose(1, 2)
            for part in self._mapped(states, self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        (attended,) = self._mapped(mixed.transpose(1, 2).reshape(rows, length, WIDTH), self.attended)
        states = self.attended_norm(states + self.dropout(attended))
        (inner,) = self._mapped(states, self.inner)
        (outer,) = self._mapped(F.gelu(inner), self.outer)
        return self.norm(states + self.dropout(outer))

    def _mapped(self, states: Tensor, *maps: nn.Linear) -> list[Tensor]:
        if not self.int8:
            return [each(states) for each in maps]
        rounded = _rounded_states(states)
        return [F.linear(rounded, _rounded_weight(each.weight), each.bias) for each in maps]


def _rounded_states(states: Tensor) -> Tensor:
    """Round as ONNX's DynamicQuantizeLinear, to 256 steps between least and greatest; gradients pass unchanged."""
    given = states.float()
    low, high = given.detach().aminmax()
    low, high = low.clamp_max(0), high.clamp_min(0)
    step = ((high - low) / 255).clamp_min(1e-8)
    return torch.fake_quantize_per_tensor_affine(given, step, (-low / step).round().int(), 0, 255)


def _rounded_weight(weight: Tensor) -> Tensor:
    """Round to 255 steps per output, as `export.py` does; gradients pass unchanged."""
    step = weight.detach().abs().amax(1).clamp_min(1e-8) / 127
    return torch.fake_quantize_per_channel_affine(weight, step, torch.zeros_like(step), 0, -127, 127)


def imitate_int8(model: nn.Module, *, on: bool) -> None:
    """Make all layers of a model imitate int8 arithmetic, or stop that."""
    for module in model.modules():
        if isinstance(module, Layer):
            module.int8 = on


class Bert(nn.Module):
    """The transformer: from ids and segments to states."""

    def __init__(self, layers: int = LAYERS) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(30522, WIDTH), nn.Embedding(512, WIDTH)
        self.segments, self.norm = nn.Embedding(2, WIDTH), nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers, self.dropout = nn.ModuleList(Layer() for _ in range(layers)), nn.Dropout(0.1)

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        """Return the last states."""
        return self.states(ids, segments, mask)[-1]

    def states(self, ids: Tensor, segments: Tensor, mask: Tensor) -> list[Tensor]:
        """Return the states after each layer."""
        places = torch.arange(ids.shape[1], device=ids.device)
        states = [self.dropout(self.norm(self.words(ids) + self.positions(places) + self.segments(segments)))]
        for layer in self.layers:
            states.append(layer(states[-1], mask[:, None, None, :]))
        return states[1:]

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

    def __init__(self, width: int = TOKEN_WIDTH, layers: int = LAYERS) -> None:
        super().__init__()
        self.bert = Bert(layers)
        self.tokens = nn.Linear(WIDTH, width, bias=False)
        self.attention = nn.Linear(WIDTH, 1, bias=False)
        nn.init.orthogonal_(self.tokens.weight)
        nn.init.zeros_(self.attention.weight)

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return pooled unit vectors, unit vectors of all tokens, and the weight of each token of a query."""
        return self.outputs(self.bert(ids, segments, mask))

    def outputs(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs of the last states."""
        pooled = F.normalize(states[:, 0].float(), dim=-1)
        return pooled, F.normalize(self.tokens(states).float(), dim=-1), self.attention(states)[..., 0].float()

    def load(self, weights: dict[str, np.ndarray], layers: list[int] | None = None) -> None:
        """Load a trained encoder with its heads; `layers` selects some of the twelve."""
        self.bert.load(weights, layers)
        with torch.no_grad():
            self.tokens.weight.copy_(torch.from_numpy(weights["token_head"].T.copy()))
            self.attention.weight.copy_(torch.from_numpy(weights["attention_head"].T.copy()))


class CrossEncoder(nn.Module):
    """Scores a question and a document together."""

    def __init__(self, layers: int = LAYERS) -> None:
        super().__init__()
        self.bert, self.score = Bert(layers), nn.Linear(WIDTH, 1)
        nn.init.zeros_(self.score.bias)

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        """Return one score per pair."""
        return self.score(self.bert(ids, segments, mask)[:, 0])[:, 0].float()
