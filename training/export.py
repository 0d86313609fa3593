"""Writes trained weights into the int8 graph of the model that they started from, with the two heads added.

    python training/export.py TRAINED.npz START.onnx OUT.onnx

Needs `onnx` and `onnxruntime`. Matrices are quantised by column and symmetrically, tables by tensor, activations at
run time; the heads stay in float32.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import onnx
from bert import parameter_names
from onnx import TensorProto, helper, numpy_helper

STATES = "last_hidden_state"


def float_weights(trained: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the trained weights by BERT's usual names; matrices are (inputs, outputs)."""
    found = {}
    for ours, theirs in parameter_names(list(range(12))):
        value = trained[f"bert.{ours}"].astype(np.float32)
        found[theirs] = value.T if value.ndim == 2 and theirs.startswith("encoder") else value
    return found


def refill(model: onnx.ModelProto, weights: dict[str, np.ndarray]) -> None:
    """Replace the weights of the model."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "MatMulInteger":
            layer = re.fullmatch(r"/(encoder/layer\.\d+/.+)/MatMul_quant", node.name)[1].replace("/", ".")
            _matrix(tensors, node.input[1].removesuffix("_quantized"), weights[f"{layer}.weight"])
    for name, value in weights.items():
        if name in tensors:
            tensors[name].CopyFrom(numpy_helper.from_array(value, name))
        elif f"{name}_quantized" in tensors:
            _table(tensors, name, value)


def _matrix(tensors: dict[str, onnx.TensorProto], name: str, value: np.ndarray) -> None:
    scale = np.maximum(np.abs(value).max(axis=0), 1e-8) / 127
    put(tensors, f"{name}_quantized", np.rint(value / scale).clip(-127, 127).astype(np.int8))
    put(tensors, f"{name}_scale", scale.astype(np.float32))
    put(tensors, f"{name}_zero_point", np.zeros(value.shape[1], np.int8))


def _table(tensors: dict[str, onnx.TensorProto], name: str, value: np.ndarray) -> None:
    kind = numpy_helper.to_array(tensors[f"{name}_quantized"]).dtype
    if kind == np.int8:
        scale, zero = np.abs(value).max() / 127, 0
    else:
        scale = (value.max() - value.min()) / 255
        zero = int(np.rint(-value.min() / scale))
    limits = np.iinfo(kind)
    put(tensors, f"{name}_quantized", (np.rint(value / scale) + zero).clip(limits.min, limits.max).astype(kind))
    put(tensors, f"{name}_scale", np.array(scale, np.float32))
    put(tensors, f"{name}_zero_point", np.array(zero, kind))


def put(tensors: dict[str, onnx.TensorProto], name: str, value: np.ndarray) -> None:
    """Replace a tensor of the same shape and type."""
    old = numpy_helper.to_array(tensors[name])
    if (old.shape, old.dtype) != (value.shape, value.dtype):
        raise ValueError(f"{name} is {old.dtype} {old.shape}, not {value.dtype} {value.shape}")
    tensors[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(value), name))


def add_heads(model: onnx.ModelProto, tokens: np.ndarray, attention: np.ndarray) -> None:
    """Add outputs: the first token's state, unit vectors of all tokens, and their weights in a query."""
    graph = model.graph
    for name, value in (
        ("token_head", np.ascontiguousarray(tokens.T.astype(np.float32))),
        ("attention_head", np.ascontiguousarray(attention.T.astype(np.float32))),
        ("first", np.array(0, np.int64)),
    ):
        graph.initializer.append(numpy_helper.from_array(value, name))
    graph.node.extend(
        [
            helper.make_node("Gather", [STATES, "first"], ["pooled"], axis=1),
            helper.make_node("MatMul", [STATES, "token_head"], ["projected"]),
            helper.make_node("LpNormalization", ["projected"], ["tokens"], axis=-1, p=2),
            helper.make_node("MatMul", [STATES, "attention_head"], ["attended"]),
            helper.make_node("Squeeze", ["attended"], ["attention"], axes=[2]),
        ]
    )
    del graph.output[:]
    width = tokens.shape[0]
    for name, shape in (("pooled", ["n", 384]), ("tokens", ["n", "length", width]), ("attention", ["n", "length"])):
        graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))


def main() -> None:
    """Write the model."""
    trained, start, out = dict(np.load(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3])
    model = onnx.load(start)
    refill(model, float_weights(trained))
    add_heads(model, trained["tokens.weight"], trained["attention.weight"])
    onnx.checker.check_model(model)
    onnx.save(model, out)
    print(out, f"{out.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
