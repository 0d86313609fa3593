# pyright: basic, reportMissingImports=false
"""vmemo-encoder-1 in torch, which taught its successor English. Its files are in the history of this repository."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from encoder import HEADS, TOKEN_WIDTH, WIDTH, Layer
from torch import Tensor, nn

PREFIX = "Represent this sentence for searching relevant passages: "
PARTS = {
    "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
    "attended": "attention.output.dense", "attended_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense", "outer": "output.dense", "norm": "output.LayerNorm",
}  # fmt: skip
assert WIDTH % HEADS == 0


class Teacher(nn.Module):
    """A BERT of 12 layers whose first state is the pooled vector."""

    def __init__(self, weights: dict) -> None:
        super().__init__()
        tables = [
            nn.Embedding.from_pretrained(torch.from_numpy(weights[f"embeddings.{name}_embeddings.weight"].copy()))
            for name in ("word", "position", "token_type")
        ]
        self.words, self.positions, self.segments = tables
        self.norm, self.layers = nn.LayerNorm(WIDTH, eps=1e-12), nn.ModuleList(Layer() for _ in range(12))
        self.tokens, self.attention = nn.Linear(WIDTH, TOKEN_WIDTH, bias=False), nn.Linear(WIDTH, 1, bias=False)
        given = {"norm": "embeddings.LayerNorm"}
        given |= {
            f"layers.{n}.{ours}": f"encoder.layer.{n}.{theirs}" for n in range(12) for ours, theirs in PARTS.items()
        }
        own = dict(self.named_parameters())
        with torch.no_grad():
            for ours, theirs in given.items():
                for part in ("weight", "bias"):
                    value = torch.from_numpy(weights[f"{theirs}.{part}"].copy())
                    own[f"{ours}.{part}"].copy_(value.T if value.ndim == 2 else value)
            self.tokens.weight.copy_(torch.from_numpy(weights["token_head"].T.copy()))
            self.attention.weight.copy_(torch.from_numpy(weights["attention_head"].T.copy()))

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return pooled vectors, token vectors and the weights of a query's tokens."""
        places = torch.arange(ids.shape[1], device=ids.device)
        states = self.norm(self.words(ids) + self.positions(places) + self.segments(torch.zeros_like(ids)))
        for layer in self.layers:
            states = layer(states, mask[:, None, None, :])
        pooled = F.normalize(states[:, 0].float(), dim=-1)
        return pooled, F.normalize(self.tokens(states).float(), dim=-1), self.attention(states)[..., 0].float()
