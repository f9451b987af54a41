"""Networks that others trained, tuned and packed, beside ONNX Runtime: how long one sample takes on one thread.

usage: packed_nets.py DYNO FOLDER [--quick] [NET...]

Ours is tuned by `dyno tune run` to 99 % agreement with FLOAT 32 and played by the load generator, single stream: the median
of the latencies. The runtime executes the model in float32, and as its own tools quantise it to int8: dynamically, and
statically with 100 other samples for its ranges. It is called from Python with the same samples, drawn with a seed: the
median as well. All take turns, and the shortest median of each counts. One line of JSON for float32 beside float32, and one
for what was tuned beside the faster int8, with the shares that agree with FLOAT 32.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime
import trained
from searches import Judge, figure, quantised, session

DYNO, FOLDER = sys.argv[1:3]
QUICK = "--quick" in sys.argv
# All of MiniLM takes minutes.
NAMES = [name for name in trained.NETS if name in sys.argv[3:]] or (["g2p"] if QUICK else list(trained.NETS))
TURNS, SECONDS = (1, 0.5) if QUICK else (5, 3)
CALIBRATION = 100


def tuned(net, out):
    """What was found; its formats lie in the folder."""
    _, descriptor = net.described(DYNO)
    short = ["--passes", "small", "--max-evaluations", "40"] if QUICK else []
    command = [DYNO, "tune", "run", descriptor, "--out", out, "--json", "--no-progress", "--confirm", "none", *short]
    # A limit that comes first is no failure.
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout)


def ours(net, system, out):
    alone = ["--mode", "performance", "--scenario", "single-stream", "--profile", "quick", "--duration", f"{SECONDS}s"]
    test = trained.run(DYNO, system, net.path(net.files[0]), out, *alone)["tests"][0]
    return test["metrics"]["latency_ns"]["p50"] / 1e6


def theirs(net, runtime):
    fed, drawn = runtime.get_inputs()[0].name, np.random.default_rng(1)
    latencies, end = [], time.perf_counter() + SECONDS
    while not latencies or time.perf_counter() < end:
        sample = net.fed(drawn.integers(len(net.samples), size=1))
        start = time.perf_counter()
        runtime.run(None, {fed: sample})
        latencies.append(time.perf_counter() - start)
    return statistics.median(latencies) * 1e3


def compared(name, folder):
    net = trained.NETS[name](".", QUICK, CALIBRATION)
    found = tuned(net, os.path.join(folder, name))
    paths = {"float32": net.model, **quantised(net)}
    sessions = {way: session(path, 1) for way, path in paths.items()}
    more = f",lengths={net.path(net.files[1])}" if net.lengths is not None else ""
    formats = os.path.join(folder, name, "opt_conf.txt")
    systems = {"f32": f"tuned:model={net.model}{more}", "tuned": f"tuned:model={net.model},formats={formats}{more}"}
    medians = {key: [] for key in [*systems, *sessions]}
    for turn in range(TURNS):
        for key, system in systems.items():
            medians[key].append(ours(net, system, os.path.join(folder, f"{name}-{key}-{turn}")))
        for way, runtime in sessions.items():
            medians[way].append(theirs(net, runtime))
    least = {key: min(of) for key, of in medians.items()}
    print(f"{name}: {least} ms", file=sys.stderr)
    judge, beside = Judge(net), f"tune.{name}.against_runtime_ms"
    way, peer = min(("dynamic", "static"), key=least.get), f"onnxruntime-{onnxruntime.__version__}"
    figure(f"{beside}.f32", least["f32"], least["float32"], least["float32"] / least["f32"], "ms", None,
           peer_name=f"{peer}-fp32")
    figure(f"{beside}.tuned", least["tuned"], least[way], least[way] / least["tuned"], "ms", None,
           peer_name=f"{peer}-int8-{way}", agreements=[found["answer"]["accuracy"], judge.agreement(paths[way])])


def main():
    onnxruntime.set_default_logger_severity(3)
    os.makedirs(FOLDER, exist_ok=True)
    os.chdir(FOLDER)
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            compared(name, folder)


main()
