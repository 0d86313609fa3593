# pyright: basic, reportMissingImports=false
"""Writes trained weights into the int8 graph of the model that they started from, with the two heads added.

    python training/export.py TRAINED.npz START.onnx OUT.onnx
    python training/export.py DISTILLED.npz PACKAGED.onnx OUT.onnx

Needs `onnx`. Matrices are quantised by column and symmetrically, tables by tensor, activations at run time; the heads
stay in float32. A distilled encoder has the tables of the packaged one. The largest, of words, is left out: its file
ends with the header of a graph of one tensor, to which the loader appends the table from the packaged file.
Concatenated messages of a protocol buffer are merged, so the result is a complete model.
"""

from __future__ import annotations

import copy
import hashlib
import sys
from pathlib import Path

import numpy as np
import onnx
from bert import parameter_names
from onnx import TensorProto, helper, numpy_helper
from weights import matrix_name

STATES = "last_hidden_state"
WORDS = "embeddings.word_embeddings.weight_quantized"
GRAPH_FIELD, TENSOR_FIELD = b"\x3a", b"\x2a"
"""Tags of `ModelProto.graph` and `GraphProto.initializer`."""


def float_weights(trained: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the trained weights by BERT's usual names; matrices are (inputs, outputs)."""
    found = {}
    layers = 1 + max(int(name.split(".")[2]) for name in trained if name.startswith("bert.layers."))
    for ours, theirs in parameter_names(list(range(layers))):
        if f"bert.{ours}" not in trained:
            continue
        value = trained[f"bert.{ours}"].astype(np.float32)
        found[theirs] = value.T if value.ndim == 2 and theirs.startswith("encoder") else value
    return found


def refill(model: onnx.ModelProto, weights: dict[str, np.ndarray]) -> None:
    """Replace the weights of the model."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "MatMulInteger":
            _matrix(tensors, node.input[1].removesuffix("_quantized"), weights[matrix_name(node.name)])
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


def cut(model: onnx.ModelProto, layers: int) -> None:
    """Keep the first layers, and the heads."""
    graph = model.graph
    last = f"/encoder/layer.{layers - 1}/output/LayerNorm/Add_1_output_0"
    for node in graph.node:
        node.input[:] = [last if name == STATES else name for name in node.input]
    needed, kept = {output.name for output in graph.output}, []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.insert(0, node)
    tensors = [tensor for tensor in graph.initializer if tensor.name in needed]
    for field, values in ((graph.node, kept), (graph.initializer, tensors)):
        copies = [copy.deepcopy(value) for value in values]
        del field[:]
        field.extend(copies)
    del graph.value_info[:]


def export_distilled(trained: dict[str, np.ndarray], packaged: Path, out: Path) -> None:
    """Write a distilled encoder without its table of words, and print where the packaged file has that."""
    model, found = onnx.load(packaged), float_weights(trained)
    layers = sum(name.endswith("output.dense.bias") and "attention" not in name for name in found)
    cut(model, layers)
    refill(model, found)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for name in ("tokens", "attention"):
        put(tensors, f"{name.removesuffix('s')}_head", trained[f"{name}.weight"].T.astype(np.float32))
    onnx.checker.check_model(model)
    words = tensors[WORDS].SerializeToString()
    part = TENSOR_FIELD + varint(len(words)) + words
    model.graph.initializer.remove(tensors[WORDS])
    out.write_bytes(model.SerializeToString() + GRAPH_FIELD + varint(len(part)))
    start = packaged.read_bytes().index(part)
    print(f"words: bytes {start} to {start + len(part)}, SHA-256 {hashlib.sha256(part).hexdigest()}")


def varint(number: int) -> bytes:
    """Return a number as a protocol buffer writes it."""
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def main() -> None:
    """Write the model."""
    trained, start, out = dict(np.load(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3])
    if "bert.words.weight" not in trained:
        export_distilled(trained, start, out)
    else:
        model = onnx.load(start)
        refill(model, float_weights(trained))
        add_heads(model, trained["tokens.weight"], trained["attention.weight"])
        onnx.checker.check_model(model)
        onnx.save(model, out)
    print(out, f"{out.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
