"""Exported QDQ files and models quantized by ONNX Runtime: Dyno's answers beside those of ONNX Runtime.

A file that Dyno writes has to give the labels of Dyno's own engine in ONNX Runtime for every sample: as it is written,
and with all optimizations if it is exported with --exact. A model that ONNX Runtime quantizes (static in both forms,
dynamic) has to give the labels of ONNX Runtime in Dyno's engine, unless two answers are equal within the bound.

usage: qdq.py QDQ SCORES [--quick]
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h
from onnxruntime.quantization import (CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static)

QDQ, SCORES = sys.argv[1:3]
IS_QUICK = "--quick" in sys.argv
COUNT = 200 if IS_QUICK else 1000
RANDOM = np.random.default_rng(32)
# Shares of the largest answer. Exported files round as Dyno does: most answers differ by less than 1e-6, which is the order
# of sums of float32. A value between two codes may get the other one then. Operators on integers round the sums of models
# of others elsewhere, so that some values differ by a code.
EXPORTED, OTHERS = 5e-3, 0.08


def has_dot_products():
    """Whether the processor sums products of bytes in 32 bits (VNNI)."""
    try:
        with open("/proc/cpuinfo") as file:
            flags = file.read()
    except OSError:
        return False
    return "vnni" in flags or "asimddp" in flags


# Without such instructions, ONNX Runtime sums pairs of products in 16 bits, which overflow for weights of 8 bits
# (https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html). Weights of 7 bits are exact everywhere.
NARROW = not has_dot_products()


class Graph:
    def __init__(self, opset=17):
        self.nodes, self.tensors, self.fed, self.opset = [], [], {}, opset

    def feed(self, name, *shape):
        self.fed[name] = shape
        return name

    def weight(self, name, *shape, of):
        values = RANDOM.normal(0, np.sqrt(1 / of), shape).astype(np.float32)
        self.tensors.append(onnx.numpy_helper.from_array(values, name))
        return name

    def constant(self, values, kind=np.float32):
        name = f"c{len(self.tensors)}"
        self.tensors.append(onnx.numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def __call__(self, op, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{at}" for at in range(outputs)]
        self.nodes.append(h.make_node(op, inputs, names, name=f"n{len(self.nodes)}", **attributes))
        return names[0] if outputs == 1 else names

    def model(self, last, outputs):
        fed = [h.make_tensor_value_info(name, T.FLOAT, ["N", *shape]) for name, shape in self.fed.items()]
        out = h.make_tensor_value_info(last, T.FLOAT, ["N", outputs])
        graph = h.make_graph(self.nodes, "net", fed, [out], self.tensors)
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", self.opset)], ir_version=10)
        onnx.checker.check_model(model)
        return model


def perceptron(opset):
    g = Graph(opset)
    x = g.feed("x", 40)
    x = g("Relu", g("Gemm", x, g.weight("fc1.weight", 96, 40, of=40), g.weight("fc1.bias", 96, of=40), transB=1))
    x = g("Relu", g("Add", g("MatMul", x, g.weight("fc2.weight", 96, 64, of=48)), g.weight("fc2.bias", 64, of=64)))
    return g.model(g("Gemm", x, g.weight("fc3.weight", 64, 10, of=32), g.weight("fc3.bias", 10, of=64)), 10)


def normal(g, name, x, channels):
    parts = [g.constant(RANDOM.uniform(low, high, channels)) for low, high in
             [(0.7, 1.3), (-0.2, 0.2), (-0.1, 0.1), (0.5, 1.5)]]
    return g("BatchNormalization", x, *parts)


def convnet(opset):
    """A convolution with a normalization, a depthwise block with a branch, and a classifier."""
    g = Graph(opset)
    x = g.feed("x", 3, 16, 16)
    x = g("Relu", normal(g, "stem", g("Conv", x, g.weight("stem.weight", 16, 3, 3, 3, of=27), pads=[1] * 4), 16))
    y = g("Conv", x, g.weight("depth.weight", 16, 1, 3, 3, of=9), g.weight("depth.bias", 16, of=50), group=16, pads=[1] * 4)
    y = g("Clip", y, g.constant(0), g.constant(6))
    y = g("Conv", y, g.weight("point.weight", 16, 16, 1, 1, of=8), g.weight("point.bias", 16, of=50))
    x = g("MaxPool", g("Relu", g("Add", x, y)), kernel_shape=[2, 2], strides=[2, 2])
    x = g("Flatten", g("GlobalAveragePool", g("Conv", x, g.weight("last.weight", 32, 16, 3, 3, of=72), pads=[1] * 4)))
    return g.model(g("Gemm", x, g.weight("fc.weight", 10, 32, of=1), g.weight("fc.bias", 10, of=64), transB=1), 10)


def gru(opset):
    """Weights alone have formats: the state of a GRU is inside its node."""
    g = Graph(opset)
    x = g("Transpose", g.feed("x", 12, 10), perm=[1, 0, 2])
    bias = g.weight("gru.B", 1, 192, of=100)
    parts = [g.weight("gru.W", 1, 96, 10, of=10), g.weight("gru.R", 1, 96, 32, of=32), bias]
    _, last = g("GRU", x, *parts, outputs=2, hidden_size=32, linear_before_reset=1)
    x = g("Squeeze", last, g.constant([0], np.int64))
    return g.model(g("MatMul", x, g.weight("scores.weight", 32, 6, of=4)), 6)


def transformer(opset):
    g = Graph(opset)
    x = g.feed("x", 8, 32)

    def dense(name, x, inputs, outputs):
        product = g("MatMul", x, g.weight(f"{name}.weight", inputs, outputs, of=inputs))
        return g("Add", product, g.weight(f"{name}.bias", outputs, of=100))

    def heads(x, order):
        return g("Transpose", g("Reshape", x, g.constant([0, 0, 4, 8], np.int64)), perm=order)

    def norm(x):
        return g("LayerNormalization", x, g.constant(RANDOM.uniform(0.8, 1.2, 32)), g.constant(np.zeros(32)))

    query, key = heads(dense("query", x, 32, 32), [0, 2, 1, 3]), heads(dense("key", x, 32, 32), [0, 2, 3, 1])
    value = heads(dense("value", x, 32, 32), [0, 2, 1, 3])
    shares = g("Softmax", g("Mul", g("MatMul", query, key), g.constant(8 ** -0.5)), axis=-1)
    mixed = g("Reshape", g("Transpose", g("MatMul", shares, value), perm=[0, 2, 1, 3]), g.constant([0, 0, 32], np.int64))
    x = norm(g("Add", x, dense("out", mixed, 32, 32)))
    y = dense("up", x, 32, 64)
    half = g("Mul", g("Add", g("Erf", g("Mul", y, g.constant(2 ** -0.5))), g.constant(1)), g.constant(0.5))
    x = norm(g("Add", x, dense("down", g("Mul", y, half), 64, 32)))
    first = g("Gather", x, g.constant(0, np.int64), axis=1)
    return g.model(dense("scores", first, 32, 7), 7)


def ran(command, values):
    done = subprocess.run(command, input=values.tobytes(), capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.decode().strip())
    return np.frombuffer(done.stdout, np.float32).reshape(len(values), -1)


def runtime(path, values, optimized=True):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    # One sample at a time: scales of dynamic quantization depend on what is computed together.
    rows = [session.run(None, {"x": values[at:at + 1]})[0].ravel() for at in range(len(values))]
    return np.stack(rows)


def compared(name, ours, theirs, bound):
    """The largest difference as a share of the largest answer, and the labels that differ beyond it."""
    scale = np.abs(theirs).max()
    apart = np.abs(ours - theirs).max() / scale
    labels = int((ours.argmax(1) != theirs.argmax(1)).sum())
    line = f"{name}: {len(ours)} samples, {labels} labels differ, answers within {apart:.1e} of the largest"
    print(line)
    if bound != OTHERS:
        return [] if labels == 0 and apart <= bound else [line]
    # A label may differ only where two answers are as near as the bound.
    best = np.sort(theirs, 1)
    near = (best[:, -1] - best[:, -2]) / scale < 2 * bound
    wrong = int(((ours.argmax(1) != theirs.argmax(1)) & ~near).sum())
    return [] if wrong == 0 and labels <= len(ours) // 25 and apart <= bound else [line]


def formats(model, choose):
    """A configuration of formats for all products with weights, with biases that fit the weights."""
    lines = []
    for tensor in model.graph.initializer:
        name = tensor.name
        if not name.endswith((".weight", ".W", ".R")):
            continue
        most = np.abs(onnx.numpy_helper.to_array(tensor)).max()
        bias = -int(np.ceil(np.log2(most * 1.05)))
        layer = name.removesuffix(".weight").removesuffix(".W")
        lines += choose(layer, len(lines) // 2, bias)
    return "\n".join(lines) + "\n"


def fixed(bits, inputs, unsigned=()):
    def choose(layer, at, bias):
        width = bits[at % len(bits)]
        input_bits = inputs[at % len(inputs)]
        kind = "UFIXED" if layer in unsigned else "FIXED"
        return [f"{layer}.weight FIXED {width} {bias}", f"{layer}.input {kind} {input_bits} -2"]
    return choose


def weights_alone(layer, at, bias):
    return [f"{layer}.weight FIXED {[8, 4, 6][at % 3]} {bias}"]


def mixed(layer, at, bias):
    """Formats of all sorts that ONNX can express."""
    weight = [f"FIXED 4 {bias}", "EXP 4", "fp8-e4m3fn", "FLOAT 16", "bf16", f"FIXED 12 {bias}"][at % 6]
    activation = ["FIXED 8 -2", "FLOAT 16", "FIXED 12 -2", "fp8-e5m2"][at % 4]
    return [f"{layer}.weight {weight}", f"{layer}.input {activation}"]


class Samples(CalibrationDataReader):
    def __init__(self, values):
        self.rest = iter(values)

    def get_next(self):
        one = next(self.rest, None)
        return None if one is None else {"x": one[None]}


CASES = [
    ("perceptron", perceptron, [40], fixed([8, 4, 5], [8, 6, 7], ("fc2", "fc3"))),
    ("convnet with a depthwise layer", convnet, [3, 16, 16], fixed([8, 6, 7, 5, 4], [8, 7, 8], ("depth", "point"))),
    ("GRU, weights alone", gru, [12, 10], weights_alone),
    ("transformer block", transformer, [8, 32], fixed([8, 6, 4], [8, 7])),
    ("perceptron of all formats", perceptron, [40], mixed),
    ("transformer block of all formats", transformer, [8, 32], mixed),
]


def exported(folder):
    wrong = []
    for name, make, shape, choose in CASES:
        values = RANDOM.normal(0, 1, (COUNT, *shape)).astype(np.float32)
        for opset, more in [(17, []), (21, ["int4"])]:
            if choose is mixed and opset < 19:
                continue  # FP8 came with version 19.
            model = make(opset)
            plain, out, config = (os.path.join(folder, file) for file in ("plain.onnx", "out.onnx", "formats.txt"))
            onnx.save(model, plain)
            with open(config, "w") as file:
                file.write(formats(model, choose))
            for exact in ([], ["exact"]):
                ours = ran([QDQ, plain, config, out, *more, *exact], values)
                onnx.checker.check_model(out)
                sizes = [os.path.getsize(path) for path in (plain, out)]
                title = f"exported, {name}, opset {opset}{', exact' if exact else ''}, {sizes[0]} to {sizes[1]} bytes"
                wrong += compared(f"{title}, as written", ours, runtime(out, values, optimized=False), EXPORTED)
                # Without --exact, ONNX Runtime rounds biases, and activations of layers whose weights alone have a
                # format.
                bound = EXPORTED if exact else OTHERS
                wrong += compared(f"{title}, optimized", ours, runtime(out, values), bound)
    return wrong


def others(folder):
    wrong = []
    for name, make, shape, choose in CASES[:4]:
        values = RANDOM.normal(0, 1, (COUNT, *shape)).astype(np.float32)
        plain, out = (os.path.join(folder, file) for file in ("plain.onnx", "out.onnx"))
        onnx.save(make(17), plain)
        ways = [(f"static {form.name}{' per channel' if each else ''} {kind.name}", form, each, kind)
                for form, each, kind in [(QuantFormat.QDQ, False, QuantType.QInt8), (QuantFormat.QDQ, True, QuantType.QUInt8),
                                         (QuantFormat.QOperator, False, QuantType.QUInt8)]]
        for way, form, each, kind in ways:
            quantize_static(plain, out, Samples(values[:50]), quant_format=form, per_channel=each, activation_type=kind,
                            weight_type=QuantType.QInt8, reduce_range=NARROW)
            wrong += read(f"{name}, {way}", out, values)
        if choose is not weights_alone:
            quantize_dynamic(plain, out, reduce_range=NARROW)
            wrong += read(f"{name}, dynamic", out, values)
    return wrong


def read(name, path, values):
    try:
        ours = ran([SCORES, path, "graph"], values)
    except RuntimeError as error:
        print(f"{name}: {error}")
        return [f"{name}: {error}"]
    return compared(f"read, {name}", ours, runtime(path, values, optimized=False), OTHERS)


with tempfile.TemporaryDirectory() as folder:
    found = exported(folder) + others(folder)
if found:
    sys.exit("\n".join(["", "not as ONNX Runtime:", *found]))
