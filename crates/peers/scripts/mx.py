"""Weights in MX formats as `dyno tune scale` writes them, beside a plain reimplementation of the OCP text.

The reimplementation follows "OCP Microscaling Formats (MX) Specification v1.0": the scale of a block of 32 is two to the
power of floor(log2(largest magnitude)) - emax of the element (section 6.3); elements are rounded to the nearest, ties to
even, and saturate (sections 5.3 and 6.3). It shares nothing with Dyno: values of elements are listed from the widths in
the text. The file is read by ONNX Runtime, and its weights must be equal to the last bit.

usage: mx.py DYNO FOLDER
"""

import math
import os
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h

DYNO, FOLDER = sys.argv[1:3]
ROWS, COLUMNS, BLOCK = 256, 24, 32


def floats(exponent_bits, fraction_bits, bias, largest):
    """All magnitudes of an element type, by code."""
    values = []
    for code in range(1 << (exponent_bits + fraction_bits)):
        exponent, fraction = divmod(code, 1 << fraction_bits)
        part = fraction / (1 << fraction_bits)
        value = part * 2.0 ** (1 - bias) if exponent == 0 else (1 + part) * 2.0 ** (exponent - bias)
        if value <= largest:
            values.append(value)
    return values


# Table 1 and section 5.3 of the text: emax, and the magnitudes.
ELEMENTS = {
    "mxfp8-e5m2": (15, floats(5, 2, 15, 57344)),
    "mxfp8-e4m3": (8, floats(4, 3, 7, 448)),
    "mxfp6-e3m2": (4, floats(3, 2, 3, 28)),
    "mxfp6-e2m3": (2, floats(2, 3, 1, 7.5)),
    "mxfp4": (2, floats(2, 1, 1, 6)),
}


def rounded(x, magnitudes):
    """The nearest value; of two equally near ones, the one with the even code."""
    size = abs(x)
    if size >= magnitudes[-1]:
        return math.copysign(magnitudes[-1], x)
    above = next(code for code, value in enumerate(magnitudes) if value >= size)
    if magnitudes[above] == size:
        return math.copysign(size, x)
    below = above - 1
    to_above, to_below = magnitudes[above] - size, size - magnitudes[below]
    nearest = below if to_below < to_above or (to_below == to_above and below % 2 == 0) else above
    return math.copysign(magnitudes[nearest], x)


def quantized(block, emax, magnitudes):
    most = max(abs(float(x)) for x in block)
    if most == 0:
        return [0.0] * len(block)
    scale = 2.0 ** (math.floor(math.log2(most)) - emax)
    return [rounded(float(x) / scale, magnitudes) * scale for x in block]


def main():
    random = np.random.default_rng(7)
    weights = (random.normal(0, 1, (ROWS, COLUMNS)) * 2.0 ** random.integers(-12, 12, (1, COLUMNS))).astype(np.float32)
    # Ties, powers of two, values that saturate, and a block of zeros.
    weights[:32, 0] = np.arange(32) / 16
    weights[:32, 1] = 2.0 ** np.arange(-16, 16)
    weights[:32, 2] = 0
    weights[:32, 3] = np.linspace(-1.999, 1.999, 32)
    tensor = onnx.numpy_helper.from_array(weights, "fc.weight")
    fed, out = (h.make_tensor_value_info(name, T.FLOAT, ["N", size]) for name, size in (("x", ROWS), ("y", COLUMNS)))
    graph = h.make_graph([h.make_node("MatMul", ["x", "fc.weight"], ["y"])], "mx", [fed], [out], [tensor])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10)
    path, made = (os.path.join(FOLDER, name) for name in ("mx.onnx", "mx.scaled.onnx"))
    onnx.save(model, path)
    wrong = []
    for name, (emax, magnitudes) in ELEMENTS.items():
        done = subprocess.run([DYNO, "tune", "scale", path, "--format", f"fc.weight={name}", "--out", made],
                              capture_output=True, text=True)
        if done.returncode:
            wrong.append(f"{name}: {done.stderr.strip()}")
            continue
        options = onnxruntime.SessionOptions()
        # As the file is written: a fused kernel adds and takes off 2^-137 for zeros.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
        found = session.run(None, {"x": np.eye(ROWS, dtype=np.float32)})[0]
        columns = weights.T.reshape(COLUMNS, ROWS // BLOCK, BLOCK)
        expected = [[value for block in column for value in quantized(block, emax, magnitudes)] for column in columns]
        expected = np.array(expected, np.float32).T
        differ = int((found != expected).sum())
        print(f"{name}: {expected.size} weights, {differ} differ from the text")
        if differ:
            wrong.append(f"{name}: {differ} of {expected.size} weights differ")
    if wrong:
        sys.exit("\n".join(wrong))


main()
