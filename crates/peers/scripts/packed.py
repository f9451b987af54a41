"""LeNet on MNIST with packed weights beside ONNX Runtime, on one thread and the same images, in turn.

usage: packed.py BENCH FOLDER [--quick]

BENCH is the bench `tune` of dyno-number; FOLDER has MNIST and lenet.onnx, as `bench/tune` leaves them. The runtime
executes the model in float32, and as its own tools quantise it to int8: dynamically, and statically with 200 images
of the training part for its ranges. Each round measures every configuration once; the shortest run of all rounds
counts. One line of JSON for each configuration of ours and number of images, beside the runtime's fastest of that
kind: float32 beside float32, whole numbers beside int8.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime
from onnxruntime import quantization

BENCH, FOLDER = sys.argv[1:3]
QUICK = "--quick" in sys.argv
ROUNDS, SECONDS = (2, 0.05) if QUICK else (7, 0.25)
IMAGES = [1, 64]
MODEL = os.path.join(FOLDER, "lenet.onnx")


def part(name, count):
    images = np.fromfile(os.path.join(FOLDER, f"mnist-{name}-images"), np.uint8, count * 784)
    return images.reshape(-1, 1, 28, 28).astype(np.float32) / 256


class Calibration(quantization.CalibrationDataReader):
    def __init__(self, name):
        self.fed = iter([{name: image[None]} for image in part("train", 200)])

    def get_next(self):
        return next(self.fed, None)


def sessions(folder):
    """The runtime's sessions, by their names."""
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1

    def session(path):
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    found = {"fp32": session(MODEL)}
    paths = {name: os.path.join(folder, f"{name}.onnx") for name in ("int8-static", "int8-dynamic")}
    fed = found["fp32"].get_inputs()[0].name
    makers = {
        "int8-static": lambda path: quantization.quantize_static(MODEL, path, Calibration(fed), per_channel=True),
        "int8-dynamic": lambda path: quantization.quantize_dynamic(MODEL, path),
    }
    for name, make in makers.items():
        try:
            make(paths[name])
            found[name] = session(paths[name])
        except Exception as error:  # What the runtime cannot do is told, and is no failure of ours.
            print(f"without {name}: {str(error).splitlines()[0]}", file=sys.stderr)
    return found, fed


def shortest(call):
    end, found = time.perf_counter() + SECONDS, float("inf")
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        found = min(found, time.perf_counter() - start)
    return found * 1e6


def main():
    bench = [BENCH, "--bench", FOLDER, "--serve"] + ["--quick"] * QUICK
    ours = subprocess.Popen(bench, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(line):
        print(line, file=ours.stdin, flush=True)
        return json.loads(ours.stdout.readline())

    names = json.loads(ours.stdout.readline())["names"]
    with tempfile.TemporaryDirectory() as folder:
        peers, fed = sessions(folder)
    for count in IMAGES:
        images = part("test", count)
        times, labels = {}, {}
        for _ in range(ROUNDS):
            for name in names:
                told = ask(f"{name} {count} {SECONDS}")
                times.setdefault(name, []).append(told["us"])
                labels[name] = told["labels"]
            for name, peer in peers.items():
                labels[name] = peer.run(None, {fed: images})[0].argmax(1).tolist()
                times.setdefault(name, []).append(shortest(lambda: peer.run(None, {fed: images})))
        if labels["f32"] != labels["fp32"]:
            sys.exit(f"labels differ in float32: {labels['f32']}, the runtime's {labels['fp32']}")
        best = {name: min(found) for name, found in times.items()}
        for name in [*names, *peers]:
            same = sum(a == b for a, b in zip(labels[name], labels["fp32"]))
            print(f"{name}: {best[name]:.1f} us for {count}, {same} labels as in float32", file=sys.stderr)
        whole = [name for name in peers if name != "fp32"]
        for name in names:
            among = ["fp32"] if name == "f32" or not whole else whole
            peer = min(among, key=best.get)
            print(json.dumps({
                "name": f"tune.lenet.against_runtime_us.{name}.batch{count}", "ours": round(best[name], 2),
                "peer": round(best[peer], 2), "ratio": round(best[peer] / best[name], 3), "unit": "us",
                "peer_name": f"onnxruntime-{onnxruntime.__version__}-{peer}", "goal": None,
            }), flush=True)
    ours.stdin.close()
    sys.exit(ours.wait())


main()
