"""Ratings by the definitions of TorchRec, written with NumPy: TorchRec itself would bring
gigabytes."""

import numpy

from metrics import logs

METHOD = "normalized-entropy"
QUICK = 200
FULL = 100_000


def make(folder, size, rng):
    def answers():
        for at in range(size):
            count = int(rng.integers(1, 40))
            labels = (rng.random(count) < 0.3).astype(numpy.float32)
            noise = rng.normal(0, 1, count)
            # Distinct, because the order of equal predictions is nobody's.
            predictions = 1 / (1 + numpy.exp(-(noise + labels - 1)))
            parts = [[at // 100, at], predictions, labels, numpy.ones(count), [count]]
            yield at, numpy.concatenate(parts).astype(numpy.float32).tobytes()

    logs.write(folder, answers())
    return {"with": {}, "element": "float32"}


def peer(folder):
    entropy = weight = positive = negative = right = areas = groups = 0.0
    for _, answer in logs.read(folder):
        values = numpy.frombuffer(answer, numpy.float32)
        count = int(values[-1])
        predictions, labels, weights = values[2:-1].astype(numpy.float64).reshape(3, count)
        shares = predictions.clip(1e-12, 1 - 1e-12)
        entropy -= (weights * labels * numpy.log2(shares)).sum()
        entropy -= (weights * (1 - labels) * numpy.log2(1 - shares)).sum()
        weight += weights.sum()
        positive += (weights * labels).sum()
        negative += (weights * (1 - labels)).sum()
        right += (weights * ((predictions >= 0.5) == labels)).sum()
        good = labels.sum()
        if 0 < good < count and not (predictions == predictions[0]).all():
            ranks = numpy.argsort(numpy.argsort(predictions, kind="stable")) + 1
            areas += ((ranks * labels).sum() - good * (good + 1) / 2) / (good * (count - good))
            groups += 1
    mean = positive / weight
    norm = -positive * numpy.log2(mean) - negative * numpy.log2(1 - mean)
    figures = {"DLRM_NE": entropy / norm, "DLRM_ACC": right / weight,
               "DLRM_AUC": (areas + 1e-9) / (groups + 2e-9)}
    return {name: f"{value:.10f}" for name, value in figures.items()}
