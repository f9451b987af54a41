"""Networks that others trained: Intel Neural Compressor and ONNX Runtime's own quantisation beside `dyno tune`.

usage: against_nets.py DYNO FOLDER [--quick] [--static] [NET...]

Of each network all are told the same model, the same samples and when an answer agrees with FLOAT 32's (trained.py), and
that 1 % of the answers may differ. Samples of one length are run together by both. The peer's search is its default:
all that it can in int8; then kinds of operators, one after the other; then (`basic`) operators back to float32, until the
agreement is there or 100 trials are over. Its approach is `dynamic`, where ranges are those of each call; with `--static`
it is asked for that as well, with 100 other samples for ranges. What is counted is seconds of evaluation alone: of the
peer, inside of its accuracy function, which runs ONNX Runtime on all samples; of ours, of its journal. Ours is asked twice:
on all samples from the beginning, up to the first answer that is no larger than the peer's; and as it is by default, a
fifth of them first, up to such an answer and up to its end. Sizes are bits of weights and of inputs of layers with weights; what the peer's model
holds as float32 as well counts as float32. One line of JSON for each.

The peer has no way to quantise GRU: these layers stay in float32. Where it finds nothing within the margin, there is no
line of sizes, nor of seconds to one. ONNX Runtime quantises without a search: its lines have the share that agrees.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

# Each trial says much.
os.environ.setdefault("LOGLEVEL", "WARNING")

import onnx
import trained
from onnx import TensorProto
from searches import Judge, Trials, config, figure, quantised, reached

DYNO, FOLDER = sys.argv[1:3]
QUICK = "--quick" in sys.argv
# All of MiniLM takes minutes.
NAMES = [name for name in trained.NETS if name in sys.argv[3:]] or (["g2p"] if QUICK else list(trained.NETS))
MARGIN = 0.01
# More than it takes to an answer as small as the peer's.
LOOK = 40 if QUICK else 120
TRIALS = 10 if QUICK else 100
CALIBRATION = 100


def bits(net, model, layers):
    """Of a peer's model: 8 for each weight that is in bytes and for its layer's input, else 32."""
    # What tensors and their transposed twins are called in the model as it was.
    layer_of = {}
    for tensor in onnx.load(net.model).graph.initializer:
        names = [tensor.name, tensor.name.removesuffix(".weight"), tensor.name.removesuffix("_w")]
        layer_of |= {tensor.name: name for name in names if name in layers["layer_name"]}
    for node in onnx.load(net.model).graph.node:
        if node.op_type == "Transpose" and node.input[0] in layer_of:
            layer_of[node.output[0]] = layer_of[node.input[0]]
    kinds = {}
    for tensor in model.graph.initializer:
        layer = layer_of.get(tensor.name.removesuffix("_quantized"))
        if layer is not None:
            kinds.setdefault(layer, set()).add(tensor.data_type in (TensorProto.INT8, TensorProto.UINT8))
    missing = [name for name in layers["layer_name"] if name not in kinds]
    if missing:
        sys.exit(f"the peer's model has no weights of {missing}")
    sizes = zip(layers["layer_name"], layers["wgt_size"], layers["act_size"])
    return sum((weights + inputs) * (8 if kinds[name] == {True} else 32) for name, weights, inputs in sizes)


def peer(net, judge, approach):
    """Its trials, its model or None, and seconds of all."""
    from neural_compressor import quantization

    class Loader:
        batch_size = 1

        def __iter__(self):
            for sample in net.others:
                yield sample, 0

    trials = Trials(judge.agreement)
    start = time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):
        loader = Loader() if approach == "static" else None
        asked = config(approach, len(net.others), MARGIN, TRIALS)
        found = quantization.fit(net.model, asked, calib_dataloader=loader, eval_func=trials.accuracy)
    whole = time.perf_counter() - start
    print(f"{net.name}, {approach}: {len(trials.seconds)} evaluations in {sum(trials.seconds):.2f} s of {whole:.2f} s,"
          f" agreements {trials.accuracies}", file=sys.stderr)
    return trials, found and found.model


def ours(descriptor, layers, most, *options):
    """Seconds of evaluation to an answer of at most so many bits, and to the end; its document."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        command = [DYNO, "tune", "run", descriptor, "--out", out, "--json", "--no-progress", "--confirm", "none", *options]
        # A limit that comes first is no failure.
        found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout)
        first, seconds = reached(out, found, layers, most)
    answer = found["answer"]
    print(f"ours {options}: at most {most} bits after {first} s, the end after {found['evaluations']} in {seconds:.2f} s,"
          f" {answer['objective']:.0f} bits, agreement {answer['accuracy']}", file=sys.stderr)
    return first, seconds, found


def runtime(net, judge, layers, answer):
    """ONNX Runtime's quantisation of the model, without a search."""
    for way, small in quantised(net).items():
        agreements, most = [answer["accuracy"], judge.agreement(small)], bits(net, onnx.load(small), layers)
        print(f"{net.name}, ONNX Runtime {way}: agreement {agreements[1]}, {most} bits", file=sys.stderr)
        figure(f"tune.{net.name}.against_runtime_{way}_bits", answer["objective"], most, most / answer["objective"],
               "bits", None, agreements=agreements)


def compared(name):
    net = trained.NETS[name](".", QUICK, CALIBRATION)
    layers, descriptor = net.described(DYNO)
    judge = Judge(net)
    trials, model = peer(net, judge, "dynamic")
    # Without an answer it stays with FLOAT 32, and nothing is as small.
    most = 0 if model is None else bits(net, model, layers)
    short = ["--passes", "full", "--max-evaluations", str(LOOK)]
    first, _, _ = ours(descriptor, layers, most, *short)
    by_default, seconds, found = ours(descriptor, layers, most, *(short if QUICK else []))
    answer, evaluations = found["answer"], sum(found["evaluations"].values())

    def about(trials, model):
        # Ours, then the peer's.
        best = trials.accuracies[-1] if model is not None else max(trials.accuracies[1:])
        return {"agreements": [answer["accuracy"], best], "evaluations": [evaluations, len(trials.seconds)],
                "found": model is not None}

    tune, theirs = f"tune.{name}.against_peer", sum(trials.seconds)
    if model is not None and (first is None or by_default is None):
        sys.exit(f"no answer of at most {most} bits")
    if model is not None:
        figure(f"{tune}_seconds", first, theirs, theirs / first, "s", 100)
        figure(f"{tune}_default_seconds", by_default, theirs, theirs / by_default, "s", 100)
        figure(f"{tune}_bits", answer["objective"], most, most / answer["objective"], "bits", 1)
    figure(f"{tune}_whole_seconds", seconds, theirs, theirs / seconds, "s", None, **about(trials, model))
    runtime(net, judge, layers, answer)
    if "--static" in sys.argv:
        trials, model = peer(net, judge, "static")
        theirs = sum(trials.seconds)
        figure(f"{tune}_static_seconds", seconds, theirs, theirs / seconds, "s", None, **about(trials, model))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    os.chdir(FOLDER)
    for name in NAMES:
        compared(name)


main()
