"""Networks of the built-in engines beside ONNX Runtime, in float32: chains with both of them, and graphs.

usage: scores.py SCORES [--quick]
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

SCORES = sys.argv[1]
# Of the largest score: sums of float32 in another order.
LIMIT = 1e-4
RANDOM = np.random.default_rng(8)


class Net:
    """A chain of nodes, each fed by the last."""

    def __init__(self, shape):
        self.nodes, self.tensors, self.last = [], [], "image"
        self.shape = shape

    def weight(self, *shape):
        name = f"w{len(self.tensors)}.weight"
        bound = np.sqrt(3 / max(1, np.prod(shape[1:])))
        values = RANDOM.uniform(-bound, bound, shape).astype(np.float32)
        self.tensors.append(onnx.numpy_helper.from_array(values, name))
        return name

    def constant(self, values):
        name = f"c{len(self.tensors)}"
        self.tensors.append(onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def then(self, op, *more, **attributes):
        output = f"v{len(self.nodes)}"
        self.nodes.append(h.make_node(op, [self.last, *more], [output], **attributes))
        self.last = output
        return self

    def model(self):
        fed = h.make_tensor_value_info("image", T.FLOAT, ["N", *self.shape])
        out = h.make_tensor_value_info(self.last, T.FLOAT, None)
        graph = h.make_graph(self.nodes, "net", [fed], [out], self.tensors)
        return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)


def lenet():
    net = Net([1, 28, 28])
    net.then("Conv", net.weight(20, 1, 5, 5), net.weight(20))
    net.then("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    net.then("Conv", net.weight(50, 20, 5, 5), net.weight(50))
    net.then("MaxPool", kernel_shape=[2, 2], strides=[2, 2]).then("Flatten")
    net.then("Gemm", net.weight(500, 800), net.weight(500), transB=1).then("Relu")
    return net.then("Gemm", net.weight(10, 500), net.weight(10), transB=1).then("Softmax", axis=-1)


def padded():
    net = Net([3, 17, 14])
    net.then("Conv", net.weight(9, 3, 3, 4), auto_pad="SAME_UPPER", strides=[2, 1]).then("LeakyRelu", alpha=0.1)
    net.then("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 1, 1], count_include_pad=1)
    net.then("Conv", net.weight(33, 9, 3, 2), net.weight(33), auto_pad="SAME_LOWER")
    net.then("Clip", net.constant(np.float32(0)), net.constant(np.float32(0.5)))
    net.then("AveragePool", kernel_shape=[2, 3], strides=[1, 2], pads=[0, 1, 1, 1])
    net.then("MaxPool", kernel_shape=[2, 2], pads=[1, 0, 0, 1])
    return net.then("GlobalAveragePool").then("Flatten").then("MatMul", net.weight(33, 7))


def perceptron():
    net = Net([30])
    net.then("MatMul", net.weight(30, 65)).then("Add", net.weight(65)).then("Relu")
    return net.then("Gemm", net.weight(65, 5), net.weight(5))


def biased():
    net = Net([2, 8, 8])
    net.then("Conv", net.weight(8, 2, 5, 5), pads=[2, 2, 2, 2]).then("Add", net.weight(8, 1, 1)).then("Relu")
    net.then("MaxPool", kernel_shape=[3, 3], strides=[3, 3])
    net.then("Reshape", net.constant(np.array([-1, 32], np.int64)))
    return net.then("MatMul", net.weight(32, 10)).then("Add", net.weight(1, 10))


def rounded_up():
    net = Net([3, 13, 12])
    net.then("MaxPool", kernel_shape=[3, 2], strides=[2, 3], pads=[0, 1, 1, 1], ceil_mode=1)
    net.then("Conv", net.weight(8, 3, 3, 3), net.weight(8), pads=[1, 1, 1, 1])
    net.then("AveragePool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    net.then("AveragePool", kernel_shape=[2, 2], strides=[2, 2], pads=[1, 0, 0, 0], ceil_mode=1)
    return net.then("Flatten").then("MatMul", net.weight(48, 7))


class Graph:
    """Nodes with names for what they are fed."""

    def __init__(self):
        self.nodes, self.tensors, self.fed = [], [], {}

    def feed(self, name, *shape, whole=None):
        """An input; `whole` are numbers below this."""
        self.fed[name] = (shape, whole)
        return name

    def weight(self, *shape, of=None):
        name = f"w{len(self.tensors)}.weight"
        bound = np.sqrt(3 / max(1, of or np.prod(shape[1:])))
        self.tensors.append(onnx.numpy_helper.from_array(RANDOM.uniform(-bound, bound, shape).astype(np.float32), name))
        return name

    def constant(self, values, kind=np.float32):
        name = f"c{len(self.tensors)}"
        self.tensors.append(onnx.numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def __call__(self, op, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{at}" for at in range(outputs)]
        self.nodes.append(h.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def normal(self, x, channels):
        mean = self.constant(RANDOM.uniform(-0.2, 0.2, channels))
        variance = self.constant(RANDOM.uniform(0.5, 2, channels))
        return self("BatchNormalization", x, self.weight(channels, of=3), self.weight(channels), mean, variance)

    def model(self, last):
        kind = {None: T.FLOAT}
        fed = [h.make_tensor_value_info(name, kind.get(whole, T.INT64), ["N", *shape])
               for name, (shape, whole) in self.fed.items()]
        out = h.make_tensor_value_info(last, T.FLOAT, None)
        graph = h.make_graph(self.nodes, "net", fed, [out], self.tensors)
        return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)


def residual():
    g = Graph()
    x = g.feed("image", 3, 16, 15)
    x = g("Relu", g.normal(g("Conv", x, g.weight(16, 3, 3, 3), g.weight(16), pads=[1, 1, 1, 1]), 16))
    y = g("HardSwish", g.normal(g("Conv", x, g.weight(16, 1, 3, 3), group=16, pads=[1, 1, 1, 1]), 16))
    y = g("Conv", y, g.weight(16, 4, 1, 1), g.weight(16), group=4)
    squeeze = g("Sigmoid", g("Conv", g("Relu", g("Conv", g("GlobalAveragePool", y), g.weight(4, 16, 1, 1))),
                             g.weight(16, 4, 1, 1)))
    x = g("Relu", g("Add", x, g("Mul", y, squeeze)))
    a = g("Conv", x, g.weight(8, 16, 3, 3), strides=[2, 2], dilations=[2, 1], pads=[2, 1, 2, 1])
    b = g("MaxPool", g("Conv", x, g.weight(6, 8, 3, 5), group=2, strides=[2, 2], pads=[1, 2, 1, 2]),
          kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    x = g("Concat", a, b, axis=1)
    x = g.normal(g("Tanh", x), 14)
    x = g("Clip", x, g.constant(-0.8), g.constant(0.9))
    x = g("Flatten", g("ReduceMean", x, axes=[2, 3], keepdims=1))
    return g, g("Softmax", g("Gemm", x, g.weight(10, 14), g.weight(10), transB=1), axis=-1)


def attention():
    g = Graph()
    tokens, mask = g.feed("tokens", 9, whole=50), g.feed("mask", 9, whole=2)
    x = g("Gather", g.weight(50, 24, of=3), tokens)
    places = g("CumSum", g("Add", g("Sub", tokens, tokens), g.constant([1], np.int64)), g.constant(1, np.int64), exclusive=1)
    x = g("Add", x, g("Gather", g.weight(12, 24, of=3), places))
    x = g("LayerNormalization", x, g.weight(24), g.weight(24), axis=-1)
    masked = g("Cast", g("Unsqueeze", mask, g.constant([1, 2], np.int64)), to=T.FLOAT)
    masked = g("Mul", g("Sub", g.constant(1.0), masked), g.constant(-1e4))
    shape = g("Concat", g("Slice", g("Shape", x), *[g.constant(n, np.int64) for n in ([0], [2])]),
              g.constant([4, 6], np.int64), axis=0)

    def heads(order):
        y = g("Add", g("MatMul", x, g.weight(24, 24)), g.weight(24))
        return g("Transpose", g("Reshape", y, shape), perm=order)

    q, k, v = heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])
    scores = g("Add", g("Div", g("MatMul", q, k), g.constant(6 ** 0.5)), masked)
    y = g("Transpose", g("MatMul", g("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    y = g("MatMul", g("Reshape", y, g.constant([0, 0, 24], np.int64)), g.weight(24, 24))
    x = g("LayerNormalization", g("Add", x, y), g.weight(24), g.weight(24), axis=-1)
    y = g("MatMul", x, g.weight(24, 40))
    y = g("Mul", g("Mul", y, g("Add", g("Erf", g("Div", y, g.constant(2 ** 0.5))), g.constant(1.0))), g.constant(0.5))
    left, right = g("Split", g("MatMul", y, g.weight(40, 24)), outputs=2, axis=2)
    y = g("Where", g("Greater", left, right), left, g("Mul", right, g.constant(0.5)))
    y = g("Pow", g("Sub", y, g("ReduceMean", y, axes=[-1])), g.constant(2.0))
    return g, g("ReduceMean", g("Sqrt", g("Add", y, g.constant(1e-3))), axes=[1], keepdims=0)


def recurrent(op, gates, **attributes):
    g = Graph()
    x = g("Transpose", g.feed("x", 7, 5), perm=[1, 0, 2])
    two = attributes.get("direction") == "bidirectional"
    ways = 2 if two else 1
    bias = g.weight(ways, 2 * gates * 11)
    lengths = g("Squeeze", g("Cast", g.feed("lengths", 1, whole=(1, 7)), to=T.INT32), g.constant([1], np.int64))
    first = g.feed("first", 11 * ways)
    first = g("Transpose", g("Reshape", first, g.constant([0, ways, 11], np.int64)), perm=[1, 0, 2])
    weights = [g.weight(ways, gates * 11, 5, of=5), g.weight(ways, gates * 11, 11, of=11), bias]
    outputs = 3 if op == "LSTM" else 2
    more = []
    if attributes.pop("peepholes", False):
        more = ["", g.weight(ways, 33, of=3)]
    found = g(op, x, *weights, lengths, first, *more, hidden_size=11, outputs=outputs, **attributes)
    y = g("Transpose", found[0], perm=[2, 0, 1, 3])
    y = g("Reshape", y, g.constant([0, 7 * ways * 11], np.int64))
    ends = [g("Reshape", g("Transpose", end, perm=[1, 0, 2]), g.constant([0, ways * 11], np.int64)) for end in found[1:]]
    return g, g("Concat", y, *ends, axis=1)


def spoken():
    g = Graph()
    x = g("Relu", g("Conv", g.feed("sound", 2, 40), g.weight(12, 2, 5), g.weight(12), strides=[2], pads=[2, 1]))
    x = g("AveragePool", x, kernel_shape=[3], strides=[2])
    x = g("LeakyRelu", g("Conv", x, g.weight(12, 1, 3), group=12, dilations=[2]), alpha=0.2)
    x = g("Transpose", x, perm=[2, 0, 1])
    x = g("LSTM", x, g.weight(1, 36, 12, of=12), g.weight(1, 36, 9, of=9), hidden_size=9, outputs=2)[1]
    x = g("Squeeze", x, g.constant([0], np.int64))
    return g, g("Elu", g("MatMul", x, g.weight(9, 4)))


GRAPHS = {
    "residual": residual,
    "attention": attention,
    "spoken": spoken,
    "lstm": lambda: recurrent("LSTM", 4),
    "lstm both ways": lambda: recurrent("LSTM", 4, direction="bidirectional"),
    "lstm clipped": lambda: recurrent("LSTM", 4, clip=0.3, input_forget=1),
    "lstm with peepholes": lambda: recurrent("LSTM", 4, direction="bidirectional", peepholes=True),
    "gru": lambda: recurrent("GRU", 3),
    "gru clipped": lambda: recurrent("GRU", 3, clip=0.2),
    "gru reset first": lambda: recurrent("GRU", 3, linear_before_reset=1, direction="bidirectional"),
    "rnn": lambda: recurrent("RNN", 1, direction="reverse", activations=["Relu"]),
}


def compare(name, model, fed, *more):
    expected = onnxruntime.InferenceSession(model).run(None, fed)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model)
        numbers = b"".join(values.astype(np.float32).tobytes() for values in fed.values())
        said = subprocess.run([SCORES, path, *more], input=numbers, stdout=subprocess.PIPE, check=True).stdout
    found = np.frombuffer(said, np.float32).reshape(expected.shape)
    off = np.max(np.abs(found - expected)) / np.max(np.abs(expected))
    print(f"{name}: {off:.1e} of the largest score")
    if not off < LIMIT:
        sys.exit(f"{name} differs by {off}, more than {LIMIT}")


def main():
    for make in (lenet, padded, perceptron, biased, rounded_up):
        net = make()
        images = {"image": RANDOM.uniform(0, 1, [70, *net.shape]).astype(np.float32)}
        model = net.model().SerializeToString()
        compare(make.__name__, model, images)
        compare(f"{make.__name__} as a graph", model, images, "graph")
    for name, make in GRAPHS.items():
        graph, last = make()
        fed = {}
        for port, (shape, whole) in graph.fed.items():
            least, most = whole if isinstance(whole, tuple) else (0, whole)
            fed[port] = (RANDOM.uniform(-1, 1, [37, *shape]).astype(np.float32) if whole is None
                         else RANDOM.integers(least, most, [37, *shape]))
        compare(name, graph.model(last).SerializeToString(), fed)


main()
