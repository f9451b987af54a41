"""Ten small models, tuned by `dyno tune`, exported, and judged by a third part of the samples in ONNX Runtime.

Everything is generated from seeds. A model is a random network whose last layer is fitted to labels by least squares: a
perceptron, residual and mixing layers, convolutions (plain, depthwise, inverted residual, along time), a transformer block,
a GRU and an LSTM. `dyno tune run` gets a part of the samples, of which it holds out a half. The answer is exported with
`--exact`. On the third part, which neither has seen, ONNX Runtime executes the model before and after:

tune.own_models_confirmed: models whose answer is VALID and loses no more than the margin on the third part.
tune.qdq_roundtrip_models: models whose exported file has the labels of Dyno's engine for each sample of the third part.

usage: ten_models.py DYNO QDQ FOLDER [--quick]
"""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h

DYNO, QDQ, FOLDER = sys.argv[1:4]
IS_QUICK = "--quick" in sys.argv
# Samples of the tuner, and of the third part.
TUNED, THIRD = (1200, 1500) if IS_QUICK else (3000, 4000)
# Samples to which the last layer is fitted.
FITTED = 2000
MARGIN = 0.05 if IS_QUICK else 0.03
CLASSES = 8
# A sum of float32 in another order may move a value to the next code, so labels of equal answers may differ.
TIE = 1e-4


class Net:
    """A graph without its last layer, with the random weights of a seed."""

    def __init__(self, seed, *shape):
        self.random = np.random.default_rng(seed)
        self.nodes, self.tensors, self.shape = [], [], shape
        self.count = 0

    def weight(self, name, *shape, of, gain=2.0):
        values = self.random.normal(0, np.sqrt(gain / of), shape).astype(np.float32)
        self.tensors.append(onnx.numpy_helper.from_array(values, name))
        return name

    def constant(self, values, kind=np.float32):
        name = f"c{len(self.tensors)}"
        self.tensors.append(onnx.numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def __call__(self, op, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"v{self.count}_{at}" for at in range(outputs)]
        self.nodes.append(h.make_node(op, inputs, names, name=f"n{self.count}", **attributes))
        return names[0] if outputs == 1 else names

    def dense(self, name, x, inputs, outputs, gain=2.0):
        bias = self.weight(f"{name}.bias", outputs, of=20)
        return self("Add", self("MatMul", x, self.weight(f"{name}.weight", inputs, outputs, of=inputs, gain=gain)), bias)

    def conv(self, name, x, inputs, outputs, size, group=1, **attributes):
        shape = [outputs, inputs // group, *[size] * (len(self.shape) - 1)]
        weight = self.weight(f"{name}.weight", *shape, of=int(np.prod(shape[1:])))
        return self("Conv", x, weight, self.weight(f"{name}.bias", outputs, of=20), group=group, **attributes)

    def norm(self, x, size):
        return self("LayerNormalization", x, self.constant(self.random.uniform(0.8, 1.2, size)),
                    self.constant(np.zeros(size)))

    def model(self, last, outputs):
        fed = [h.make_tensor_value_info("x", T.FLOAT, ["N", *self.shape])]
        out = h.make_tensor_value_info(last, T.FLOAT, ["N", outputs])
        graph = h.make_graph(self.nodes, "net", fed, [out], self.tensors)
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10)
        onnx.checker.check_model(model)
        return model


def perceptron(seed):
    g = Net(seed, 32)
    x = g("Relu", g.dense("fc1", "x", 32, 64))
    return g, g("Relu", g.dense("fc2", x, 64, 96)), 96


def residual(seed):
    g = Net(seed, 48)
    x = g("Relu", g.dense("stem", "x", 48, 64))
    for at in range(3):
        y = g.dense(f"up{at}", g("Tanh", g.dense(f"down{at}", x, 64, 32)), 32, 64, gain=1.0)
        x = g("Add", x, y)
    return g, g("Relu", x), 64


def convnet(seed):
    g = Net(seed, 2, 10, 10)
    x = g("MaxPool", g("Relu", g.conv("conv1", "x", 2, 12, 3, pads=[1] * 4)), kernel_shape=[2, 2], strides=[2, 2])
    x = g("MaxPool", g("Relu", g.conv("conv2", x, 12, 24, 3)), kernel_shape=[2, 2], strides=[1, 1])
    return g, g("Flatten", x), 96


def depthwise(seed):
    g = Net(seed, 3, 8, 8)
    x = g("Relu", g.conv("stem", "x", 3, 16, 3, pads=[1] * 4))
    for at in range(2):
        y = g("Relu", g.conv(f"depth{at}", x, 16, 16, 3, group=16, pads=[1] * 4))
        x = g("Relu", g.conv(f"point{at}", y, 16, 16, 1))
    return g, g("Flatten", g("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])), 256


def inverted(seed):
    g = Net(seed, 3, 8, 8)
    x = g.conv("stem", "x", 3, 8, 3, pads=[1] * 4, strides=[2, 2])
    y = g("Clip", g.conv("expand", x, 8, 32, 1), g.constant(0), g.constant(6))
    y = g("Clip", g.conv("depth", y, 32, 32, 3, group=32, pads=[1] * 4), g.constant(0), g.constant(6))
    x = g("Add", x, g.conv("project", y, 32, 8, 1))
    return g, g("Flatten", x), 128


def temporal(seed):
    g = Net(seed, 6, 24)
    x = g("Relu", g.conv("conv1", "x", 6, 16, 3, pads=[1, 1]))
    x = g("Relu", g.conv("conv2", x, 16, 16, 3, dilations=[2], pads=[2, 2]))
    return g, g("Flatten", g("AveragePool", x, kernel_shape=[4], strides=[4])), 96


def transformer(seed):
    g = Net(seed, 8, 24)
    query, key, value = (g.dense(name, "x", 24, 24, gain=1.0) for name in ("query", "key", "value"))

    def heads(x, order):
        return g("Transpose", g("Reshape", x, g.constant([0, 0, 3, 8], np.int64)), perm=order)

    scores = g("MatMul", heads(query, [0, 2, 1, 3]), heads(key, [0, 2, 3, 1]))
    shares = g("Softmax", g("Mul", scores, g.constant(8 ** -0.5)), axis=-1)
    mixed = g("Transpose", g("MatMul", shares, heads(value, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
    mixed = g("Reshape", mixed, g.constant([0, 0, 24], np.int64))
    x = g.norm(g("Add", "x", g.dense("out", mixed, 24, 24, gain=1.0)), 24)
    y = g.dense("up", x, 24, 48)
    half = g("Mul", g("Add", g("Erf", g("Mul", y, g.constant(2 ** -0.5))), g.constant(1)), g.constant(0.5))
    x = g.norm(g("Add", x, g.dense("down", g("Mul", y, half), 48, 24)), 24)
    return g, g("Flatten", x), 192


def recurrent(op, gates):
    def make(seed):
        g, hidden = Net(seed, 10, 8), 32
        x = g("Transpose", "x", perm=[1, 0, 2])
        parts = [g.weight("rnn.W", 1, gates * hidden, 8, of=8, gain=1.0),
                 g.weight("rnn.R", 1, gates * hidden, hidden, of=hidden, gain=1.0),
                 g.weight("rnn.B", 1, 2 * gates * hidden, of=20)]
        more = {"linear_before_reset": 1} if op == "GRU" else {}
        outputs = g(op, x, *parts, outputs=1 + gates // 2, hidden_size=hidden, **more)
        # All states, so that the last layer sees the whole sequence.
        x = g("Transpose", g("Squeeze", outputs[0], g.constant([1], np.int64)), perm=[1, 0, 2])
        return g, g("Flatten", x), 320
    return make


def mixer(seed):
    g = Net(seed, 8, 16)
    x = g("Relu", g.dense("tokens", g("Transpose", "x", perm=[0, 2, 1]), 8, 12))
    x = g.norm(g("Relu", g.dense("channels", g("Transpose", x, perm=[0, 2, 1]), 16, 16)), 16)
    return g, g("Flatten", x), 192


MODELS = {
    "perceptron": perceptron, "residual": residual, "convnet": convnet, "depthwise": depthwise, "inverted": inverted,
    "temporal": temporal, "transformer": transformer, "gru": recurrent("GRU", 3), "lstm": recurrent("LSTM", 4),
    "mixer": mixer,
}


def samples(seed, shape, count):
    """A prototype for each class, moved and mixed with noise."""
    random = np.random.default_rng(seed + 1000)
    size = int(np.prod(shape))
    prototypes = random.normal(0, 1, (CLASSES, size))
    labels = random.integers(0, CLASSES, count)
    moved = prototypes[labels] * random.uniform(0.5, 1.3, (count, 1)) + random.normal(0, 0.3 * size ** 0.38, (count, size))
    return moved.reshape(count, *shape).astype(np.float32), labels.astype(np.int64)


def runtime(path, values):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"x": part})[0] for part in np.array_split(values, max(1, len(values) // 256))])


def fitted(make, seed, path):
    """Writes a model whose last layer is fitted, and returns the samples that were not used for that."""
    g, last, width = make(seed)
    x, y = samples(seed, g.shape, FITTED + TUNED + THIRD)
    onnx.save(g.model(last, width), path)
    features = runtime(path, x[:FITTED])
    wanted = np.eye(CLASSES)[y[:FITTED]] - 1 / CLASSES
    mean, scale = features.mean(0), features.std(0) + 1e-3
    scaled = (features - mean) / scale
    weights = np.linalg.solve(scaled.T @ scaled + 0.1 * FITTED * np.eye(width), scaled.T @ wanted)
    weights /= scale[:, None]
    bias = -mean @ weights
    g.tensors.append(onnx.numpy_helper.from_array(weights.astype(np.float32), "last.weight"))
    g.tensors.append(onnx.numpy_helper.from_array(bias.astype(np.float32), "last.bias"))
    onnx.save(g.model(g("Add", g("MatMul", last, "last.weight"), "last.bias"), CLASSES), path)
    return x[FITTED:], y[FITTED:]


def without_state(profile):
    """The state of a recurrent node stays in FLOAT 32, because ONNX cannot round it: it gets no values."""
    lines = []
    names = []
    for line in profile.splitlines():
        key, _, value = line.partition(" = ")
        if key == "layer_name":
            names = json.loads(value)
        if key == "act_size":
            sizes = json.loads(value)
            sizes = [0 if name.startswith("rnn.") else size for name, size in zip(names, sizes)]
            line = f"act_size = {json.dumps(sizes)}"
        lines.append(line)
    return "\n".join(lines)


def dyno(*arguments):
    return subprocess.run([DYNO, "tune", *arguments], capture_output=True, text=True)


def tuned(name, folder, at):
    path = os.path.join(folder, "model.onnx")
    x, y = fitted(MODELS[name], at, path)
    files = {"x.npy": x[:TUNED], "y.npy": y[:TUNED]}
    for file, values in files.items():
        np.save(os.path.join(folder, file), values)
    found = dyno("profile", path, "--samples", os.path.join(folder, "x.npy"))
    if found.returncode:
        raise RuntimeError(f"{name}: {found.stderr.strip()}")
    descriptor = os.path.join(folder, "net.toml")
    with open(descriptor, "w") as file:
        file.write(f'err_margin = {MARGIN}\nmodel = "model.onnx"\nsamples = "x.npy"\nlabels = "y.npy"\nplatform = "onnx"\n')
        keys = ("platform", "err_margin", "model", "samples", "labels")
        lines = [line for line in without_state(found.stdout).splitlines() if line.partition(" ")[0] not in keys]
        file.write("\n".join(lines) + "\n")
    out = os.path.join(folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    found = dyno("run", descriptor, "--out", out, "--json", "--no-progress")
    if not found.stdout:
        raise RuntimeError(f"{name}: {found.stderr.strip()}")
    answer = json.loads(found.stdout)
    return path, os.path.join(out, "opt_conf.txt"), answer, x[TUNED:], y[TUNED:]


def scores_of_dyno(path, formats, out, values):
    done = subprocess.run([QDQ, path, formats, out, "exact"], input=values.tobytes(), capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.decode().strip())
    return np.frombuffer(done.stdout, np.float32).reshape(len(values), -1)


def judged(name, at):
    """Whether the answer is confirmed and holds on the third part, and whether its labels survive the export."""
    folder = os.path.join(FOLDER, "ten", name)
    os.makedirs(folder, exist_ok=True)
    path, formats, answer, x, y = tuned(name, folder, at)
    verdict = (answer.get("confirmation") or {}).get("verdict", "none")
    out = os.path.join(folder, "out.onnx")
    ours = scores_of_dyno(path, formats, out, x)
    before, after = runtime(path, x), runtime(out, x)
    base, kept = ((scores.argmax(1) == y).mean() for scores in (before, after))
    lost = 1 - kept / base
    differ = ours.argmax(1) != after.argmax(1)
    best = np.sort(after, 1)
    near = best[:, -1] - best[:, -2] < TIE * np.abs(after).max()
    found = answer["answer"]["objective"]
    print(f"{name}: {verdict}, {found:.0f} of {answer['base_objective']:.0f} bits, FLOAT 32 is right on {base:.4f} of the "
          f"third part, the answer loses {100 * lost:.2f} % of that; {differ.sum()} of {len(x)} labels differ in ONNX "
          f"Runtime", file=sys.stderr, flush=True)
    return verdict == "VALID" and lost <= MARGIN, not (differ & ~near).any()


def main():
    names = list(MODELS)[3:8:2] if IS_QUICK else list(MODELS)
    found = [judged(name, 1 + list(MODELS).index(name)) for name in names]
    for at, figure in enumerate(("own_models_confirmed", "qdq_roundtrip_models")):
        count = sum(bool(one[at]) for one in found)
        print(json.dumps({"name": f"tune.{figure}", "ours": count, "peer": None, "ratio": None, "unit": f"of {len(names)}",
                          "goal": len(names)}))


main()
