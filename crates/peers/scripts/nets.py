"""Tunes networks with the weights that others trained, by `dyno tune`: how far answers stay those of FLOAT 32.

usage: nets.py DYNO SCORES FOLDER [--quick | NET]

Both models are compared with ONNX Runtime first. What was tuned is then played by `dyno run`: the agreement of its
answers with those of FLOAT 32 has to be the evaluator's. One line of JSON for each, or for NET alone, g2p or minilm.
"""

import json
import os
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
import trained

DYNO, SCORES, FOLDER = sys.argv[1:4]
QUICK = "--quick" in sys.argv
# All of MiniLM takes minutes.
NAMES = [name for name in trained.NETS if name in sys.argv[4:]] or (["g2p"] if QUICK else list(trained.NETS))
# Of the largest number: sums of float32 in another order.
LIMIT = 1e-4


def compared(model, values):
    """The engine's answers beside ONNX Runtime's."""
    session = onnxruntime.InferenceSession(model)
    expected = session.run(None, {session.get_inputs()[0].name: values})[0]
    fixed = os.path.join(FOLDER, "fixed.onnx")
    loaded = onnx.load(model)
    loaded.graph.input[0].type.tensor_type.shape.dim[1].dim_value = values.shape[1]
    onnx.save(loaded, fixed)
    said = subprocess.run([SCORES, fixed, "graph"], input=values.astype(np.float32).tobytes(), stdout=subprocess.PIPE, check=True)
    found = np.frombuffer(said.stdout, np.float32).reshape(expected.shape)
    off = np.max(np.abs(found - expected)) / np.max(np.abs(expected))
    print(f"{os.path.basename(model)}: {off:.1e} of the largest number beside ONNX Runtime", flush=True)
    if not off < LIMIT:
        sys.exit(f"{model} differs by {off}, more than {LIMIT}")


def tuned(net):
    start = time.monotonic()
    _, descriptor = net.described(DYNO)
    out = net.path(f"tuned-{net.name}-{int(time.time())}")
    # All of it takes minutes.
    short = ["--passes", "small", "--max-evaluations", "60"] if QUICK else []
    ran = subprocess.run([DYNO, "tune", "run", descriptor, "--out", out, "--json", "--confirm", "none", *short], stdout=subprocess.PIPE, text=True)
    if ran.returncode not in (0, 1):
        sys.exit(f"dyno tune run {descriptor} exits with {ran.returncode}")
    found = json.loads(ran.stdout)
    with open(os.path.join(out, "opt_conf.txt"), encoding="utf-8") as file:
        print(file.read(), end="")
    return found, time.monotonic() - start, out


def answers(net, system, out):
    samples = net.path(net.files[0])
    trained.run(DYNO, system, samples, out, "--mode", "accuracy", "--scenario", "offline", "--workers", str(os.cpu_count()))
    with open(os.path.join(out, "Offline", "accuracy", "mlperf_log_accuracy.json"), encoding="utf-8") as file:
        found = {line["qsl_idx"]: np.frombuffer(bytes.fromhex(line["data"]), net.kind) for line in json.load(file)}
    return [found[at] for at in range(len(found))]


def played(net, out):
    """The network that was tuned under the load generator: its agreement, and the latency of a sample beside FLOAT 32."""
    formats = os.path.join(out, "opt_conf.txt")
    more = f",lengths={net.path(net.files[1])}" if net.lengths is not None else ""
    systems = {"float32": f"tuned:model={net.model}{more}", "tuned": f"tuned:model={net.model},formats={formats}{more}"}
    base, found = [answers(net, system, os.path.join(out, key)) for key, system in systems.items()]
    share = float(np.mean([net.agree(one, other) for one, other in zip(found, base)]))
    with open(formats, encoding="utf-8") as file:
        lines = [line.split(" ", 1) for line in file.read().splitlines() if not line.startswith("#")]
    trial = {"schema": "dyno.trial", "schema_version": 1, "number": 1, "set": "full", "formats": dict(lines)}
    command = [DYNO, "tune", "trial", net.path(f"{net.name}.toml")]
    said = subprocess.run(command, input=json.dumps(trial), stdout=subprocess.PIPE, check=True, text=True).stdout
    expected = json.loads(said)["result"]["accuracy"]
    if share != expected:
        sys.exit(f"{net.name}: played, {share} of the answers agree, and the evaluator says {expected}")
    alone = ["--mode", "performance", "--scenario", "single-stream", "--profile", "quick", "--duration", "5s"]
    samples = net.path(net.files[0])
    tests = {key: trained.run(DYNO, system, samples, os.path.join(out, key + "-alone"), *alone)["tests"][0] for key, system in systems.items()}
    return {"played": share, "latency_ms": {key: test["metrics"]["latency_ns"]["p50"] / 1e6 for key, test in tests.items()}}


def told(name, found, seconds, out, played):
    answer, base = found["answer"], found["base_objective"]
    line = {"name": name, "bits": answer["objective"], "ratio": base / answer["objective"], "evaluations": found["evaluations"],
            "seconds": seconds, "agreement": answer["accuracy"], "out": out, **played}
    print(json.dumps(line), flush=True)
    if not answer["accuracy"] >= 0.99:
        sys.exit(f"{name}: an agreement of {answer['accuracy']}, less than 0.99")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name in NAMES:
        net = trained.NETS[name](FOLDER, QUICK)
        if net.lengths is None:
            compared(net.model, net.samples[:64])
        else:
            common = np.bincount(net.lengths).argmax()
            compared(net.model, net.samples[net.lengths == common][:, :common])
        found, seconds, out = tuned(net)
        told(name, found, seconds, out, played(net, out))


main()
