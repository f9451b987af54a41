"""Networks of the built-in evaluator beside ONNX Runtime, in float32.

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


def main():
    for make in (lenet, padded, perceptron, biased):
        net = make()
        model = net.model().SerializeToString()
        images = RANDOM.uniform(0, 1, [70, *net.shape]).astype(np.float32)
        expected = onnxruntime.InferenceSession(model).run(None, {"image": images})[0]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            with open(path, "wb") as file:
                file.write(model)
            said = subprocess.run([SCORES, path], input=images.tobytes(), stdout=subprocess.PIPE, check=True).stdout
        found = np.frombuffer(said, np.float32).reshape(expected.shape)
        off = np.max(np.abs(found - expected)) / np.max(np.abs(expected))
        print(f"{make.__name__}: {off:.1e} of the largest score")
        if not off < LIMIT:
            sys.exit(f"{make.__name__} differs by {off}, more than {LIMIT}")


main()
