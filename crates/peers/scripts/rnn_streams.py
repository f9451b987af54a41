"""Streams over the Open Inference Protocol beside ONNX Runtime, whose states this script keeps by hand: each step of
several sequences is a request with a sequence_id to `dyno serve`, and all outputs must be equal.

usage: rnn_streams.py DYNO FOLDER
"""

import json
import os
import subprocess
import sys
import threading
import urllib.request

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(3)

INPUTS, UNITS, STREAMS, STEPS = 5, 24, 9, 12
# Largest accepted difference of numbers of at most about 1.
MOST = 1e-5
CELLS = {"LSTM": 4, "GRU": 3, "RNN": 1}


def model(cell, with_head):
    """A layer with its states as inputs and outputs, and a linear head if wanted."""
    random = np.random.default_rng(7)
    gates = CELLS[cell] * UNITS
    draw = lambda name, *shape: numpy_helper.from_array(random.uniform(-0.3, 0.3, shape).astype(np.float32), name)
    weights = [draw("w", 1, gates, INPUTS), draw("r", 1, gates, UNITS), draw("b", 1, 2 * gates)]
    states = ["h", "c"] if cell == "LSTM" else ["h"]
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    options = {"linear_before_reset": 1} if cell == "GRU" else {}
    outputs = ["Y", *(f"{state}n" for state in states)]
    nodes = [helper.make_node(cell, ["x", "w", "r", "b", "", *states], outputs, "layer", hidden_size=UNITS, **options)]
    state_shape = [1, 1, UNITS]
    given = [value("x", ["steps", 1, INPUTS]), *(value(state, state_shape) for state in states)]
    last = value("Y", ["steps", 1, 1, UNITS])
    if with_head:
        weights.append(draw("v", UNITS, 3))
        nodes.append(helper.make_node("MatMul", ["Y", "v"], ["scores"], "head"))
        last = value("scores", ["steps", 1, 1, 3])
    found = [last, *(value(f"{state}n", state_shape) for state in states)]
    graph = helper.make_graph(nodes, "stream", given, found, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


class Server:
    """`dyno serve` with a system, until the end of a `with` block."""

    def __init__(self, dyno, system):
        command = [dyno, "serve", "--system", system, "--http", "127.0.0.1:0", "--threads", "1", "--model-name", "m"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.startswith("http "):
                self.url = line.split()[1]
            if line.strip() == "ready":
                return
        raise SystemExit(f"dyno serve --system {system} is not ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def infer(self, inputs, parameters):
        tensors = [
            {"name": name, "datatype": "FP32", "shape": list(array.shape), "data": array.ravel().tolist()}
            for name, array in inputs.items()
        ]
        body = json.dumps({"inputs": tensors, "parameters": parameters}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/v2/models/m/infer", body)) as answer:
            outputs = json.load(answer)["outputs"]
        return {one["name"]: np.array(one["data"], np.float32).reshape(one["shape"]) for one in outputs}


def pieces(stream):
    """Requests of a stream: first and last step."""
    first = 0
    while first < STEPS:
        last = min(STEPS, first + 1 + (stream + first) % 3)
        yield first, last
        first = last


def compare(dyno, path, cell, with_head):
    onnx.save(model(cell, with_head), path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    states = ["h", "c"] if cell == "LSTM" else ["h"]
    if with_head:
        system = f"rnn:{path},states=" + "+".join(f"{state}:{state}n" for state in states)
    else:
        system = f"rnn:{path}#layer,outputs=Y+Y_h" + ("+Y_c" if cell == "LSTM" else "")
    names = ["scores" if with_head else "Y", *(f"{state}n" if with_head else f"Y_{state}" for state in states)]
    data = np.random.default_rng(1).standard_normal((STREAMS, STEPS, 1, INPUTS)).astype(np.float32)
    # Infinite for a stream that does not come to its end.
    differences = [np.inf] * STREAMS

    def play(server, stream):
        kept = {state: np.zeros((1, 1, UNITS), np.float32) for state in states}
        most = 0.0
        for first, last in pieces(stream):
            x = data[stream, first:last]
            expected = session.run(None, {"x": x, **kept})
            kept = dict(zip(states, expected[1:]))
            parameters = {"sequence_id": f"s{stream}", "sequence_start": first == 0, "sequence_end": last == STEPS}
            given = {"x": x} if with_head else {"sequence": x.transpose(1, 0, 2)}
            found = server.infer(given, parameters)
            for name, right in zip(names, expected):
                most = max(most, float(np.abs(found[name].ravel() - right.ravel()).max()))
        differences[stream] = most

    with Server(dyno, system) as server:
        # All streams at once, so that they share calls.
        threads = [threading.Thread(target=play, args=(server, stream)) for stream in range(STREAMS)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        with urllib.request.urlopen(f"{server.url}/metrics") as page:
            left = [line for line in page.read().decode().splitlines() if line.startswith("dyno_sequences{")]
    if left != ['dyno_sequences{model="m"} 0']:
        sys.exit(f"{system}: sequences that ended are kept: {left}")
    if not all(difference <= MOST for difference in differences):
        sys.exit(f"{system}: differs from ONNX Runtime by {max(differences):.1e}, more than {MOST}")
    print(f"{system}: {STREAMS} streams of {STEPS} steps, largest difference {max(differences):.1e}")


def main():
    dyno, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for cell in CELLS:
        for with_head in [False, True]:
            compare(dyno, os.path.join(folder, f"{cell.lower()}{'_head' if with_head else ''}.onnx"), cell, with_head)


if __name__ == "__main__":
    main()
