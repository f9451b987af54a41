"""Steps per second of many concurrent streams of an LSTM within a bound of the 99th percentile. Each stream takes a
step at an interval, as frames of audio come, which is shortened until the bound fails. The latency of a step counts from
when it was due. Two loops in this process keep the states by hand: one over ONNX Runtime, one over Dyno's engine. The
third way is `dyno serve` with `dyno run` as its client over HTTP, both on this machine. Prints two JSON lines: each of our
ways beside the loop over ONNX Runtime.

usage: rnn_streams_load.py DYNO FOLDER UNITS STREAMS P99_MS SECONDS
"""

import contextlib
import heapq
import json
import math
import os
import subprocess
import sys
import tempfile
import time

import dyno_rnn
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

# Each next rate is higher by this factor, until one misses the bound in each of its tries: what else the machine does
# for a moment decides no rate.
FACTOR = 1.25
TRIES = 3
FIRST_RATE = 2000.0


def session(units):
    random, bound = np.random.default_rng(1), units**-0.5
    draw = lambda name, *shape: numpy_helper.from_array(random.uniform(-bound, bound, shape).astype(np.float32), name)
    weights = [draw("w", 1, 4 * units, units), draw("r", 1, 4 * units, units), draw("b", 1, 8 * units)]
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    node = helper.make_node("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["y", "hn", "cn"], hidden_size=units)
    states = lambda names: [value(name, [1, "rows", units]) for name in names]
    given = [value("x", [1, "rows", units]), *states(["h", "c"])]
    found = [value("y", [1, 1, "rows", units]), *states(["hn", "cn"])]
    graph = helper.make_graph([node], "lstm", given, found, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def onnx_runtime(units):
    """A function that computes a step of some rows from their inputs and states, by ONNX Runtime."""
    lstm = session(units)
    return lambda x, h, c: [after[0] for after in lstm.run(["hn", "cn"], {"x": x[None], "h": h[None], "c": c[None]})]


def dyno_engine(units):
    """The counterpart by Dyno's engine, through its Python module."""
    threads = len(os.sched_getaffinity(0))
    model = dyno_rnn.Model(f"lstm:{units}x{units}", threads=threads, steps=1)
    return lambda x, h, c: np.asarray(model.run_on(x[None], np.stack([h, c]))[1]).reshape(2, len(x), units)


def loop(step, units, streams, rate, seconds):
    """Steps per second and the 99th percentile in ms of a loop that computes all due steps in one call."""
    random, interval = np.random.default_rng(2), streams / rate
    data = random.standard_normal((streams, units)).astype(np.float32)
    hidden, cells = np.zeros((streams, units), np.float32), np.zeros((streams, units), np.float32)
    start = time.perf_counter()
    due = [(start + interval * random.random(), stream) for stream in range(streams)]
    heapq.heapify(due)
    latencies = []
    while (now := time.perf_counter()) < start + seconds:
        if due[0][0] > now:
            time.sleep(min(due[0][0] - now, 1e-3))
            continue
        batch = []
        while due and due[0][0] <= now:
            batch.append(heapq.heappop(due))
        rows = [stream for _, stream in batch]
        hidden[rows], cells[rows] = step(data[rows], hidden[rows], cells[rows])
        end = time.perf_counter()
        for at, stream in batch:
            latencies.append((end - at) * 1e3)
            heapq.heappush(due, (at + interval, stream))
    # The first round of each stream comes from a cold start.
    latencies = latencies[len(latencies) // 4 :]
    return len(latencies) / (0.75 * seconds), float(np.percentile(latencies, 99)) if latencies else float("inf")


@contextlib.contextmanager
def server(dyno, units, streams):
    """The URL of a fresh server: streams that a test leaves unfinished would hold the places of the next one."""
    serve = [dyno, "serve", "--system", f"rnn:lstm:{units}x{units}", "--model-name", "m", "--http", "127.0.0.1:0"]
    serve += ["--threads", "1", "--batch", "96", "--sequences", str(streams)]
    process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = None
        for line in process.stdout:
            if line.startswith("http "):
                url = line.split()[1]
            if line.strip() == "ready":
                break
        yield url
    finally:
        process.terminate()
        process.wait()


def ours(dyno, units, streams, rate, seconds, folder):
    # Streams start one after another within one interval, and none ends during the test, as at the peer.
    interval = f"{round(streams / rate * 1e6)}us"
    steps = 2 + 2 * math.ceil(seconds * rate / streams)
    with tempfile.TemporaryDirectory(dir=folder) as out, server(dyno, units, streams) as url:
        command = [dyno, "run", "--system", f"oip:{url}/m,binary=true,sequences={streams},steps={steps},every={interval}"]
        command += ["--shape", f"sequence=1x1x{units}"]
        command += ["--scenario", "server", "--max-concurrency", str(streams)]
        command += ["--ramp", interval, "--duration", f"{seconds}s"]
        command += ["--mode", "performance", "--json", "--no-progress", "--out", os.path.join(out, "run")]
        printed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    test = json.loads(printed)["tests"][0]
    metrics = test["metrics"]
    if metrics["error_rate"]:
        raise SystemExit(f"{metrics['error_rate']:.1%} of the steps failed at {rate:.0f} steps/s: {test['reasons']}")
    return metrics["rates"]["completed_samples_per_s"], metrics["latency_ns"]["p99"] / 1e6


def peak(play, bound):
    """The highest steps per second whose 99th percentile keeps the bound, and that percentile."""
    best, rate = (0.0, None), FIRST_RATE
    while True:
        for _ in range(TRIES):
            steps, p99 = play(rate)
            print(f"{rate:.0f} asked: {steps:.0f} steps/s, p99 {p99:.2f} ms", file=sys.stderr)
            if p99 <= bound and steps >= best[0]:
                break
        else:
            return best
        best, rate = (steps, p99), rate * FACTOR


def main():
    dyno, folder, units, streams, bound, seconds = sys.argv[1:]
    units, streams, bound, seconds = int(units), int(streams), float(bound), float(seconds)
    os.makedirs(folder, exist_ok=True)
    theirs, in_process = (
        peak(lambda rate: loop(step, units, streams, rate, seconds), bound)
        for step in (onnx_runtime(units), dyno_engine(units))
    )
    over_http = peak(lambda rate: ours(dyno, units, streams, rate, seconds, folder), bound)
    for place, mine in (("in_process", in_process), ("over_http", over_http)):
        found = {"place": place, "ours": mine[0], "ours_p99_ms": mine[1], "peer": theirs[0], "peer_p99_ms": theirs[1]}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
