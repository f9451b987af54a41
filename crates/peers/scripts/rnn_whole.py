"""Whole models with recurrent nodes in Dyno's executor of graphs and in ONNX Runtime, which take turns. Models come from
packages, or are exported by PyTorch with random weights. Prints one JSON line for each model and batch: the medians of
all rounds in milliseconds and the largest difference relative to the largest magnitude of an output.

usage: rnn_whole.py PROGRAM FOLDER ROUNDS SECONDS NAME...
"""

import importlib.util
import json
import os
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

THREADS = 1


def package(name, *parts):
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise LookupError(f"the package {name} is not installed")
    path = os.path.join(os.path.dirname(spec.origin), *parts)
    if not os.path.exists(path):
        raise LookupError(f"{path} is not there")
    return path


def silero(folder, batch, random):
    feeds = {
        "input": random.standard_normal((batch, 576)).astype(np.float32) * 0.1,
        "state": np.zeros((2, batch, 128), np.float32),
        "sr": np.array(16000, np.int64),
    }
    return package("silero_vad", "data", "silero_vad.onnx"), feeds


def ddddocr(name, shape):
    def case(folder, batch, random):
        path = package("ddddocr", name)
        port = onnx.load(path).graph.input[0]
        return path, {port.name: random.uniform(-1, 1, (batch, *shape)).astype(np.float32)}

    return case


def g2p(folder, batch, random):
    """Letters to phonemes: a GRU reads the word, another one writes 20 phonemes greedily in a Loop."""
    saved = np.load(package("g2p_en", "checkpoint20.npz"))
    # PyTorch's gates are reset, update, new; those of ONNX update, reset, new.
    turned = lambda of: np.concatenate([of[256:512], of[:256], of[512:]])
    constants = []

    def constant(name, values):
        constants.append(numpy_helper.from_array(np.array(values, order="C"), name))
        return name

    def gru(side):
        weights = [constant(f"{side}_{kind}", turned(saved[f"{side}_w_{kind}"])[None]) for kind in ("ih", "hh")]
        bias = np.concatenate([turned(saved[f"{side}_b_{kind}"]) for kind in ("ih", "hh")])[None]
        return [*weights, constant(f"{side}_b", bias)]

    node = helper.make_node
    attributes = dict(hidden_size=256, linear_before_reset=1)
    step = [
        node("Gather", ["dec_emb", "last"], ["word"]),
        node("Unsqueeze", ["word", "zero_axis"], ["x"]),
        node("GRU", ["x", *gru("dec"), "", "state"], ["", "state_out"], **attributes),
        node("Squeeze", ["state_out", "zero_axis"], ["rows"]),
        node("Gemm", ["rows", "fc_w", "fc_b"], ["logits"], transB=1),
        node("ArgMax", ["logits"], ["next"], axis=1, keepdims=0),
        node("Identity", ["next"], ["said"]),
        node("Identity", ["go"], ["go_out"]),
    ]
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        step,
        "step",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []),
         info("last", TensorProto.INT64, ["batch"]), info("state", TensorProto.FLOAT, [1, "batch", 256])],
        [info("go_out", TensorProto.BOOL, []), info("next", TensorProto.INT64, ["batch"]),
         info("state_out", TensorProto.FLOAT, [1, "batch", 256]), info("said", TensorProto.INT64, ["batch"]),
         info("logits", TensorProto.FLOAT, ["batch", 74])],
    )
    for name in ("enc_emb", "dec_emb", "fc_w", "fc_b"):
        constant(name, saved[name])
    constant("zero_axis", np.array([0], np.int64))
    constant("steps", np.array(20, np.int64))
    constant("yes", np.array(True))
    constant("begin", np.full(batch, 2, np.int64))
    nodes = [
        node("Gather", ["enc_emb", "letters"], ["embedded"]),
        node("GRU", ["embedded", *gru("enc")], ["", "read"], **attributes),
        node("Loop", ["steps", "yes", "begin", "read"], ["end", "end_state", "phonemes", "scores"], body=body),
    ]
    graph = helper.make_graph(
        nodes, "g2p", [info("letters", TensorProto.INT64, ["steps_in", batch])],
        [info("phonemes", TensorProto.INT64, [20, batch]), info("scores", TensorProto.FLOAT, [20, batch, 74])],
        constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    path = os.path.join(folder, f"g2p-{batch}.onnx")
    onnx.save(model, path)
    return path, {"letters": random.integers(3, 29, (9, batch)).astype(np.int64)}


def exported(make, feeds, dynamo=False):
    """A module of PyTorch, exported by TorchScript or by dynamo."""

    def case(folder, batch, random):
        try:
            import torch
        except ImportError as error:
            raise LookupError(f"PyTorch: {error}") from None
        torch.manual_seed(1)
        module, inputs = make(torch).eval(), feeds(batch, random)
        path = os.path.join(folder, f"{type(module).__name__}-{batch}-{dynamo}.onnx")
        examples = tuple(torch.tensor(values) for values in inputs.values())
        torch.onnx.export(module, examples, path, input_names=list(inputs), dynamo=dynamo, verbose=False)
        return path, inputs

    return case


def classifier(cell, layers):
    def make(torch):
        class Classifier(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = torch.nn.Embedding(5000, 128)
                self.rnn = getattr(torch.nn, cell)(128, 128, layers, batch_first=True, bidirectional=True)
                self.head = torch.nn.Linear(256, 5)

            def forward(self, ids):
                return self.head(self.rnn(self.embedding(ids))[0].mean(1))

        return Classifier()

    return make


def tagger(torch):
    class Tagger(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(5000, 100)
            self.rnn = torch.nn.LSTM(100, 200, batch_first=True, bidirectional=True)
            self.norm, self.head = torch.nn.LayerNorm(400), torch.nn.Linear(400, 17)

        def forward(self, ids):
            return torch.log_softmax(self.head(self.norm(self.rnn(self.embedding(ids))[0])), -1)

    return Tagger()


def speaker(torch):
    """Resemblyzer's encoder of speakers with its own weights."""
    saved = torch.load(package("resemblyzer", "pretrained.pt"), map_location="cpu", weights_only=False)["model_state"]

    class Speaker(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.linear = torch.nn.LSTM(40, 256, 3, batch_first=True), torch.nn.Linear(256, 256)

        def forward(self, mels):
            raw = torch.relu(self.linear(self.lstm(mels)[1][0][-1]))
            return raw / torch.norm(raw, dim=1, keepdim=True)

    module = Speaker()
    module.load_state_dict({name: of for name, of in saved.items() if name.startswith(("lstm.", "linear."))})
    return module


def crnn(torch):
    class Crnn(torch.nn.Module):
        def __init__(self):
            super().__init__()
            cnn, channels = [], 1
            for wide, pool in [(32, 2), (64, 2), (128, (2, 1)), (128, (2, 1))]:
                cnn += [torch.nn.Conv2d(channels, wide, 3, padding=1), torch.nn.BatchNorm2d(wide), torch.nn.ReLU()]
                cnn += [torch.nn.MaxPool2d(pool)]
                channels = wide
            self.cnn = torch.nn.Sequential(*cnn)
            self.rnn = torch.nn.LSTM(256, 128, 2, bidirectional=True, batch_first=True)
            self.head = torch.nn.Linear(256, 97)

        def forward(self, image):
            seen = self.cnn(image)
            steps = seen.permute(0, 3, 1, 2).flatten(2)
            return torch.log_softmax(self.head(self.rnn(steps)[0]), -1)

    return Crnn()


IDS = lambda batch, random: {"ids": random.integers(0, 5000, (batch, 40)).astype(np.int64)}
MELS = lambda batch, random: {"mels": random.uniform(0, 1, (batch, 160, 40)).astype(np.float32)}
LINE = lambda batch, random: {"image": random.uniform(-1, 1, (batch, 1, 32, 160)).astype(np.float32)}

CASES = {
    "silero_vad": silero,
    "ddddocr": ddddocr("common.onnx", (1, 64, 160)),
    "ddddocr_old_int8": ddddocr("common_old.onnx", (1, 64, 160)),
    "g2p": g2p,
    "lstm_classifier": exported(classifier("LSTM", 1), IDS),
    "lstm_classifier_dynamo": exported(classifier("LSTM", 1), IDS, dynamo=True),
    "gru_classifier": exported(classifier("GRU", 2), IDS),
    "tagger": exported(tagger, IDS),
    "speaker_encoder": exported(speaker, MELS),
    "crnn": exported(crnn, LINE),
}


def session(path):
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def timed(peer, feeds, seconds):
    for _ in range(3):
        outputs = peer.run(None, feeds)
    found, end = [], time.monotonic() + seconds
    while len(found) < 3 or time.monotonic() < end:
        start = time.perf_counter()
        outputs = peer.run(None, feeds)
        found.append((time.perf_counter() - start) * 1e3)
    return sorted(found)[len(found) // 2], outputs


def difference(folder, expected):
    worst = 0.0
    for number, right in enumerate(expected):
        found, right = np.load(os.path.join(folder, f"output_{number}.npy")), np.asarray(right, np.float64)
        if found.shape != right.shape:
            return float("inf")
        if right.size:
            worst = max(worst, float(np.abs(found - right).max() / max(np.abs(right).max(), 1e-30)))
    return worst


def measure(name, batch, program, folder, rounds, seconds):
    path, feeds = CASES[name](folder, batch, np.random.default_rng(batch))
    peer = session(path)
    if any(isinstance(port.shape[0], int) and port.shape[0] != len(feeds[port.name])
           for port in peer.get_inputs() if port.shape and port.name != "state"):
        raise LookupError(f"the model has no batches of {batch}")
    for number, port in enumerate(peer.get_inputs()):
        np.save(os.path.join(folder, f"input_{number}.npy"), feeds[port.name])
    for number in range(len(peer.get_inputs()), 8):
        if os.path.exists(stale := os.path.join(folder, f"input_{number}.npy")):
            os.remove(stale)
    ours, theirs = [], []
    for _ in range(rounds):
        said = subprocess.run(
            [program, "time", path, folder, str(THREADS), str(seconds)], text=True, capture_output=True)
        if said.returncode:
            return {"model": name, "batch": batch, "failed": " ".join(said.stderr.split())[:300]}
        found = json.loads(said.stdout)
        ours.append(found["ms"])
        took, outputs = timed(peer, feeds, seconds)
        theirs.append(took)
    return {"model": name, "batch": batch, "ours": ours, "peer": theirs,
            "difference": difference(folder, outputs)}


def main():
    program, folder, rounds, seconds, *names = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for name in names or CASES:
        for batch in (1, 8):
            try:
                found = measure(name, batch, program, folder, int(rounds), float(seconds))
            except LookupError as missing:
                found = {"model": name, "batch": batch, "skipped": str(missing)}
            print(json.dumps(found), flush=True)


main()
