"""A search of a peer beside one of `dyno tune`: what both are counted by."""

import json
import os
import time

import onnxruntime


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


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
