"""Latency of an LSTM in ONNX Runtime and in Dyno while another process keeps each core busy. Both have as many threads
and take turns; ONNX Runtime runs in a process of its own too. Prints one JSON line with the quantiles of each round.

usage: rnn_neighbour.py NEIGHBOUR_PROGRAM UNITS STEPS THREADS ROUNDS SECONDS
"""

import json
import os
import subprocess
import sys
import time

LOOP = "while True: pass"
# Time for the scheduler to spread the loops.
SETTLE = 0.5


def times(units, steps, threads, seconds):
    """Calls of ONNX Runtime: their number and quantiles in milliseconds."""
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    random, bound = np.random.default_rng(1), units**-0.5
    draw = lambda name, *shape: numpy_helper.from_array(random.uniform(-bound, bound, shape).astype(np.float32), name)
    weights = [draw("w", 1, 4 * units, units), draw("r", 1, 4 * units, units), draw("b", 1, 8 * units)]
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    node = helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=units)
    graph = helper.make_graph(
        [node], "lstm", [value("x", [steps, 1, units])], [value("y", [steps, 1, 1, units])], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {"x": random.standard_normal((steps, 1, units)).astype(np.float32)}
    found, end = [], time.monotonic() + seconds
    while len(found) < 3 or time.monotonic() < end:
        start = time.perf_counter()
        session.run(None, feeds)
        found.append((time.perf_counter() - start) * 1e3)
    found.sort()
    quantile = lambda part: found[int((len(found) - 1) * part)]
    return {"calls": len(found), "p50": quantile(0.5), "p90": quantile(0.9), "p99": quantile(0.99)}


def main():
    program, units, steps, threads, rounds, seconds = sys.argv[1:]
    ours = [program, "time", f"lstm:{units}x{units}", threads, steps, seconds]
    peer = [sys.executable, "-B", __file__, "peer", units, steps, threads, seconds]
    loops = []
    try:
        for core in sorted(os.sched_getaffinity(0)):
            loop = subprocess.Popen([sys.executable, "-c", LOOP])
            loops.append(loop)
            os.sched_setaffinity(loop.pid, {core})
        time.sleep(SETTLE)
        found = {"ours": [], "peer": []}
        for turn in range(int(rounds)):
            for name, command in [("ours", ours), ("peer", peer)][:: 1 if turn % 2 == 0 else -1]:
                found[name].append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
        print(json.dumps(found), flush=True)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    if sys.argv[1] == "peer":
        units, steps, threads, seconds = sys.argv[2:]
        print(json.dumps(times(int(units), int(steps), int(threads), float(seconds))))
    else:
        main()
