"""Latency of LSTM and GRU layers in PyTorch, ONNX Runtime and OpenVINO beside Dyno's, for the shapes of
DeepCPU's Table 1. Peers run in this process, Dyno in one of its own that is told by lines; blocks of calls take
turns. Prints one JSON line a cell, with the medians of each round.

usage: rnn.py CELLS_PROGRAM FOLDER PRECISION ROUNDS SECONDS [PART OF A NAME]...
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")
import numpy as np

ROWS = [
    (64, 64, 1, 100), (256, 64, 1, 100), (1024, 64, 1, 100), (64, 256, 1, 100), (64, 1024, 1, 100),
    (1024, 1024, 1, 100), (256, 256, 1, 1), (256, 256, 1, 10), (256, 256, 1, 100), (64, 64, 10, 100),
    (64, 64, 20, 100), (256, 256, 10, 100), (256, 256, 20, 100), (1024, 1024, 10, 100), (1024, 1024, 20, 100),
]
GATES = {"lstm": 4, "gru": 3}
# Threads that peers leave spinning after a call would run beside the next one's.
REST = 0.25


def cores():
    return sorted(os.sched_getaffinity(0))


def split(kind, matrix):
    return np.split(matrix, GATES[kind])


def order(kind, matrix, gates):
    parts = split(kind, matrix)
    return np.ascontiguousarray(np.concatenate([parts[gate] for gate in gates]))


class Case:
    """Weights in PyTorch's order (LSTM i, f, g, o; GRU r, z, n), uniform in 1/sqrt(H); standard normal input."""

    def __init__(self, kind, row, seed=1):
        inputs, units, batch, steps = row
        self.kind, self.row = kind, row
        random, bound = np.random.default_rng(seed), units ** -0.5
        draw = lambda *shape: random.uniform(-bound, bound, shape).astype(np.float32)
        outputs = GATES[kind] * units
        self.w, self.u, self.b, self.c = draw(outputs, inputs), draw(outputs, units), draw(outputs), draw(outputs)
        self.x = np.random.default_rng(seed + 1).standard_normal((steps, batch, inputs)).astype(np.float32)

    def reference(self):
        """The same in float64."""
        w, u, b, c = (part.astype(np.float64) for part in (self.w, self.u, self.b, self.c))
        inputs, units, batch, steps = self.row
        logistic = lambda value: 1 / (1 + np.exp(-value))
        state, cell, outputs = np.zeros((batch, units)), np.zeros((batch, units)), []
        for step in self.x.astype(np.float64):
            of_input, of_state = step @ w.T + b, state @ u.T + c
            if self.kind == "lstm":
                i, f, g, o = np.split(of_input + of_state, 4, 1)
                cell = logistic(f) * cell + logistic(i) * np.tanh(g)
                state = logistic(o) * np.tanh(cell)
            else:
                (r, z, n), (of_r, of_z, of_n) = np.split(of_input, 3, 1), np.split(of_state, 3, 1)
                z = logistic(z + of_z)
                state = (1 - z) * np.tanh(n + logistic(r + of_r) * of_n) + z * state
            outputs.append(state)
        return np.stack(outputs)

    def leave(self, folder):
        """Files for Dyno, whose GRU has its gates as z, r, n."""
        gates = [0, 1, 2, 3] if self.kind == "lstm" else [1, 0, 2]
        for name in "wubc":
            order(self.kind, getattr(self, name), gates).tofile(os.path.join(folder, name))
        self.x.tofile(os.path.join(folder, "x"))

    def onnx(self):
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        inputs, units, batch, steps = self.row
        gates = [0, 3, 1, 2] if self.kind == "lstm" else [1, 0, 2]
        ordered = {name: order(self.kind, getattr(self, name), gates)[None] for name in "wubc"}
        made = [
            numpy_helper.from_array(ordered["w"], "W"),
            numpy_helper.from_array(ordered["u"], "R"),
            numpy_helper.from_array(np.concatenate([ordered["b"], ordered["c"]], 1), "B"),
        ]
        more = {"linear_before_reset": 1} if self.kind == "gru" else {}
        node = helper.make_node(self.kind.upper(), ["X", "W", "R", "B"], ["Y"], hidden_size=units, **more)
        value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        graph = helper.make_graph(
            [node], "layer", [value("X", [steps, batch, inputs])], [value("Y", [steps, 1, batch, units])], made)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)


class Dyno:
    name = "dyno"

    def __init__(self, program):
        self.process = subprocess.Popen(
            [program, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, line):
        print(line, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("dyno's program ended: " + line)
        return json.loads(answer)

    def open(self, case, precision, folder):
        case.leave(folder)
        shape = " ".join(map(str, case.row))
        self.opened = self.ask(f"open {case.kind} {shape} {precision} {folder}")
        inputs, units, batch, steps = case.row
        return np.fromfile(os.path.join(folder, "y"), np.float32).reshape(steps, batch, units)

    def time(self, seconds):
        """Milliseconds of a call."""
        told = self.ask(f"time {seconds}")
        self.opened["allocations"] = max(self.opened.get("allocations", 0), told["allocations"])
        return told["ms"]


def timed(call, seconds):
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 100000):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[len(times) // 2]


def torch_peers(case, precision):
    import torch

    torch.set_grad_enabled(False)
    inputs, units, batch, steps = case.row
    layer = torch.nn.LSTM if case.kind == "lstm" else torch.nn.GRU
    model = layer(inputs, units).eval()
    for parameter, values in zip(model.parameters(), (case.w, case.u, case.b, case.c)):
        parameter.data.copy_(torch.from_numpy(values))
    x = torch.from_numpy(case.x)
    found = []
    if precision == "fp32":
        found.append(("torch-fp32", lambda: model(x)[0].numpy()))
    else:
        narrow, narrow_x = layer(inputs, units).eval(), x.to(torch.bfloat16)
        narrow.load_state_dict(model.state_dict())
        narrow = narrow.to(torch.bfloat16)
        found.append(("torch-bf16", lambda: narrow(narrow_x)[0].float().numpy()))
        try:
            from torch.ao.quantization import quantize_dynamic

            whole = quantize_dynamic(torch.nn.Sequential(model), {layer}, dtype=torch.qint8)
            found.append(("torch-int8", lambda: whole(x)[0].numpy()))
        except Exception as error:
            print(f"torch-int8 is not there: {error}", file=sys.stderr)

    def with_threads(threads, call):
        def run():
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
            return call()
        return run

    return [(name, threads, with_threads(threads, call)) for name, call in found for threads in counts()]


def onnxruntime_peers(case, precision):
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    model = case.onnx().SerializeToString()
    if precision != "fp32":
        if case.kind != "lstm":
            return []
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic

        with tempfile.TemporaryDirectory() as folder:
            plain, whole = os.path.join(folder, "plain.onnx"), os.path.join(folder, "whole.onnx")
            onnx.save(case.onnx(), plain)
            quantize_dynamic(plain, whole, weight_type=QuantType.QInt8)
            with open(whole, "rb") as file:
                model = file.read()
    found = []
    for threads in counts():
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        name = "onnxruntime-fp32" if precision == "fp32" else "onnxruntime-int8"
        found.append((name, threads, lambda session=session: session.run(None, {"X": case.x})[0][:, 0]))
    return found


def openvino_peers(case, precision):
    import openvino

    model, found = case.onnx().SerializeToString(), []
    core = openvino.Core()
    # Without the instructions the hint is let pass, and all is computed in float32: then it is called so.
    has_bf16 = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    name = "openvino-bf16" if precision != "fp32" and has_bf16 else "openvino-fp32"
    for threads in counts():
        options = {
            "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": True,
            "INFERENCE_PRECISION_HINT": "f32" if precision == "fp32" else "bf16",
        }
        compiled = core.compile_model(core.read_model(model), "CPU", options)
        request = compiled.create_infer_request()
        request.set_input_tensor(openvino.Tensor(case.x))

        def run(request=request):
            request.infer()
            return request.get_output_tensor(0).data[:, 0]

        found.append((name, threads, run))
    return found


def counts():
    return sorted({1, len(cores())})


def measure(dyno, case, precision, rounds, seconds, folder):
    output = dyno.open(case, precision, folder)
    peers = []
    for make in (torch_peers, onnxruntime_peers, openvino_peers):
        try:
            peers += make(case, precision)
        except (ImportError, RuntimeError) as error:
            print(f"without {make.__name__[:-6]}: {error}", file=sys.stderr)
    reference = case.reference()
    error = lambda found: float(np.abs(np.asarray(found, np.float64) - reference).max())
    errors = {"dyno": error(output)}
    for name, threads, call in peers:
        errors[name] = error(call())
    times = {"dyno": []}
    for _ in range(rounds):
        time.sleep(REST)
        times["dyno"].append(dyno.time(seconds))
        for name, threads, call in peers:
            time.sleep(REST)
            call()
            times.setdefault(f"{name}/{threads}", []).append(timed(call, seconds))
    return {"times": times, "errors": errors, **dyno.opened}


def main():
    program, folder, precision, rounds, seconds = sys.argv[1:6]
    wanted = sys.argv[6:]
    dyno = Dyno(program)
    for kind in GATES:
        for row in ROWS:
            name = f"rnn.{precision}.{kind}." + "x".join(map(str, row))
            if wanted and not any(part in name for part in wanted):
                continue
            found = measure(dyno, Case(kind, row), precision, int(rounds), float(seconds), folder)
            print(json.dumps({"name": name, **found}), flush=True)


if __name__ == "__main__":
    main()
