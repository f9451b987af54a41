"""A search of a peer beside one of `dyno tune`: what both are counted by."""

import contextlib
import json
import os
import sys
import time

import numpy as np
import onnx
import onnxruntime

# Of samples that are run together.
BLOCK = {"g2p": 250, "minilm": 32}


def session(model, threads=os.cpu_count()):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class Judge:
    """Runs a model on all samples; the share of answers that agree with those of FLOAT 32."""

    def __init__(self, net):
        self.net = net
        order = np.arange(len(net.samples))
        lengths = np.zeros(len(order)) if net.lengths is None else net.lengths
        alike = [order[lengths == length] for length in np.unique(lengths)]
        step = BLOCK[net.name]
        self.blocks = [block[at : at + step] for block in alike for at in range(0, len(block), step)]
        self.base = self.answers(net.model)

    def answers(self, model):
        run = session(model)
        name, found = run.get_inputs()[0].name, [None] * len(self.net.samples)
        for block in self.blocks:
            for at, answer in zip(block, run.run(None, {name: self.net.fed(block)})[0]):
                found[at] = answer
        return found

    def agreement(self, model):
        return sum(map(self.net.agree, self.answers(model), self.base)) / len(self.base)


def quantised(net):
    """Paths of the model in int8, as ONNX Runtime quantises it: dynamically, and with the ranges of other samples."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    fed = onnx.load(net.model).graph.input[0].name

    class Reader(CalibrationDataReader):
        left = iter(net.others)

        def get_next(self):
            sample = next(self.left, None)
            return None if sample is None else {fed: sample}

    ready = net.path(f"{net.name}-ready.onnx")
    quant_pre_process(net.model, ready, skip_symbolic_shape=True)
    ways = {"dynamic": lambda path: quantize_dynamic(ready, path, per_channel=True),
            "static": lambda path: quantize_static(ready, path, Reader(), per_channel=True)}
    paths = {way: net.path(f"{net.name}-{way}.onnx") for way in ways}
    for way, quantise in ways.items():
        with contextlib.redirect_stdout(sys.stderr):
            quantise(paths[way])
    return paths


class Trials:
    """Of a peer: the seconds of each evaluation alone, and what it says."""

    def __init__(self, accuracy):
        self.of, self.seconds, self.accuracies = accuracy, [], []

    def accuracy(self, model):
        start = time.perf_counter()
        self.accuracies.append(self.of(model.SerializeToString()))
        self.seconds.append(time.perf_counter() - start)
        return self.accuracies[-1]


def config(approach, samples, margin, trials, goes_on=False):
    """Of Intel Neural Compressor. It ends with the first model that passes; `goes_on` ends with its trials instead."""
    from neural_compressor import PostTrainingQuantConfig
    from neural_compressor.config import AccuracyCriterion, TuningCriterion

    return PostTrainingQuantConfig(
        approach=approach,
        # "auto" ends with the first that passes, whatever the strategy.
        quant_level=1 if goes_on else "auto",
        calibration_sampling_size=[samples],
        tuning_criterion=TuningCriterion(
            strategy="exhaustive" if goes_on else "basic", timeout=10**6 if goes_on else 0, max_trials=trials),
        accuracy_criterion=AccuracyCriterion(criterion="relative", tolerable_loss=margin),
    )


def reached(out, found, layers, most):
    """Seconds of evaluation to an answer of at most so many bits on all samples, None without one; and to the end."""
    sizes = {}
    for key, end in (("wgt_size", "weight"), ("act_size", "input")):
        sizes |= {f"{name}.{end}": size for name, size in zip(layers["layer_name"], layers[key])}
    with open(os.path.join(out, "journal.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file][1:]
    least, seconds, first = found["baselines"]["full"]["threshold"], 0, None
    for line in lines:
        result = line["result"]
        seconds += result["seconds"]
        size = sum(int(words.split()[1]) * sizes[name] for name, words in line["formats"].items())
        passes = line["set"] == "full" and not result.get("is_bound") and result["accuracy"] >= least
        if first is None and passes and size <= most:
            first = seconds
    return first, seconds


def figure(name, ours, peer, ratio, unit, goal, **more):
    print(json.dumps({"name": name, "ours": ours, "peer": peer, "ratio": ratio, "unit": unit, "goal": goal, **more}), flush=True)
