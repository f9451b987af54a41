"""LeNet on MNIST: Intel Neural Compressor's accuracy-aware quantisation beside `dyno tune`, in turn.

usage: against.py DYNO FOLDER [--quick]

FOLDER has MNIST and lenet.onnx, as `bench/tune` leaves them. Both are told the same model, the same images and
labels, and that 1 % of the accuracy may be lost; both have all layers to choose from. The peer's strategy is its
default, `basic`: int8 for all first, then operators back to float32 until the accuracy is there. What is counted
is seconds of evaluation alone: of the peer, inside of its accuracy function, which runs ONNX Runtime on all
images; of ours, of its journal. Ours is asked twice: on all images from the beginning, up to the first answer that is
no larger than the peer's; and as it is by default, a tenth of them first, up to such an answer and up to its end. Sizes
are bits of weights and of inputs of layers with weights. One line of JSON for each.

The peer's first trial passes, int8 for all, so that it has nothing to search, and no search can ask less than its two
evaluations. So it is asked once more to go on, as ours does: its strategy `exhaustive` over what each layer may be, to
the end of as many trials as it makes by default. What it can reach is no smaller: it has no format below int8.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib

import numpy as np
from onnx import TensorProto
from searches import Trials, config, figure, reached, session

DYNO, FOLDER = sys.argv[1:3]
QUICK = "--quick" in sys.argv
MARGIN = 0.01
ROUNDS = 1 if QUICK else 3
# The peer's default.
TRIALS = 10 if QUICK else 100
MODEL = os.path.abspath(os.path.join(FOLDER, "lenet.onnx"))


def part(name, count):
    path = os.path.join(FOLDER, f"mnist-{name}")
    images = np.fromfile(f"{path}-images", np.uint8).reshape(-1, 1, 28, 28)[:count]
    labels = np.fromfile(f"{path}-labels", np.uint8)[:count]
    return images.astype(np.float32) / 256, labels.astype(np.int64)


class Peer(Trials):
    def __init__(self, images, labels):
        super().__init__(self.right)
        self.images, self.labels = images, labels

    def right(self, model):
        run = session(model)
        name, right = run.get_inputs()[0].name, 0
        for at in range(0, len(self.labels), 1000):
            scores = run.run(None, {name: self.images[at : at + 1000]})[0]
            right += int((scores.argmax(1) == self.labels[at : at + 1000]).sum())
        return right / len(self.labels)

    def tune(self, calibration, goes_on=False):
        from neural_compressor import quantization

        class Loader:
            batch_size = 50

            def __iter__(self):
                for at in range(0, len(calibration), self.batch_size):
                    yield calibration[at : at + self.batch_size], 0

        asked = config("static", len(calibration), MARGIN, TRIALS, goes_on)
        start = time.perf_counter()
        found = quantization.fit(MODEL, asked, calib_dataloader=Loader(), eval_func=self.accuracy)
        if found is None:
            sys.exit("the peer finds no model within the margin")
        return found.model, time.perf_counter() - start


def bits(model, layers):
    """Of the peer's model: 8 for each weight that is in bytes and for its layer's input, else 32."""
    tensors = [tensor for tensor in model.graph.initializer if len(tensor.dims) > 1]
    left = [int(np.prod(tensor.dims)) for tensor in tensors if tensor.data_type in (TensorProto.INT8, TensorProto.UINT8)]
    total = 0
    for weights, inputs in zip(layers["wgt_size"], layers["act_size"]):
        is_small = weights in left
        if is_small:
            left.remove(weights)
        total += (weights + inputs) * (8 if is_small else 32)
    if left:
        sys.exit(f"weights of the peer's model are of no layer: {left}")
    return total


def ours(layers, most, *options):
    """Seconds of evaluation to an answer of at most so many bits on all images; to the end; its document."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        command = [DYNO, "tune", "run", "against.toml", "--out", out, "--json", "--no-progress", "--confirm", "none", *options]
        found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        first, seconds = reached(out, found, layers, most)
    if first is None:
        sys.exit(f"no answer of at most {most} bits")
    return first, seconds, found


def main():
    test, labels = part("test", 2000 if QUICK else None)
    calibration, _ = part("train", 500)
    os.chdir(FOLDER)
    np.save("against-images.npy", test)
    np.save("against-labels.npy", labels)
    command = [DYNO, "tune", "profile", MODEL, "--samples", "against-images.npy"]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    layers = tomllib.loads(said)
    with open("against.toml", "w", encoding="utf-8") as file:
        files = 'model = "lenet.onnx"\nsamples = "against-images.npy"\nlabels = "against-labels.npy"\n'
        file.write(f"{said}{files}err_margin = {MARGIN}\n")
    rows = []
    for _ in range(ROUNDS):
        peer = Peer(test, labels)
        with contextlib.redirect_stdout(sys.stderr):
            model, whole = peer.tune(calibration)
        most = bits(model, layers)
        first, _, _ = ours(layers, most, "--passes", "full")
        by_default, all_seconds, found = ours(layers, most)
        evaluations = sum(found["evaluations"].values())
        theirs = sum(peer.seconds)
        print(f"peer: {len(peer.seconds)} evaluations in {theirs:.2f} s of {whole:.2f} s, {most} bits, accuracy"
              f" {peer.accuracies[-1]} of {peer.accuracies[0]}; ours: as small after {first:.3f} s"
              f" ({by_default:.3f} s by default), the end after"
              f" {evaluations} in {all_seconds:.2f} s, {found['answer']['objective']:.0f} bits, accuracy"
              f" {found['answer']['accuracy']} of {found['baselines']['full']['accuracy']}", file=sys.stderr)
        rows.append((first, by_default, all_seconds, theirs, found["answer"]["objective"], most))
    first, by_default, all_seconds, theirs, small, most = (statistics.median(column) for column in zip(*rows))
    figure("tune.against_peer_seconds", first, theirs, theirs / first, "s", 100)
    figure("tune.against_peer_default_seconds", by_default, theirs, theirs / by_default, "s", 100)
    figure("tune.against_peer_whole_seconds", all_seconds, theirs, theirs / all_seconds, "s", None)
    figure("tune.against_peer_bits", small, most, most / small, "bits", 1)
    peer = Peer(test, labels)
    with contextlib.redirect_stdout(sys.stderr):
        model, whole = peer.tune(calibration, goes_on=True)
    theirs = sum(peer.seconds)
    print(f"peer, exhaustive: {len(peer.seconds)} evaluations in {theirs:.2f} s of {whole:.2f} s,"
          f" {bits(model, layers)} bits, accuracies {min(peer.accuracies)} to {max(peer.accuracies)}", file=sys.stderr)
    figure("tune.against_peer_search_seconds", all_seconds, theirs, theirs / all_seconds, "s", 100)


main()
