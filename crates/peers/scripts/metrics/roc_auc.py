"""Clicks by scikit-learn, labels in day_23, samples of 100 to 700 pairs."""

import numpy
from sklearn.metrics import roc_auc_score

from metrics import logs

METHOD = "roc-auc"
QUICK = 50
FULL = 5_000


def make(folder, size, rng):
    sizes = rng.integers(100, 701, size)
    starts = numpy.concatenate([[0], numpy.cumsum(sizes)])
    labels = (rng.random(starts[-1]) < 0.035).astype(numpy.int64)
    with open(folder / "trace.txt", "w") as out:
        out.writelines(f"{a}, {b}, {b - a}\n" for a, b in zip(starts[:-1], starts[1:]))
    with open(folder / "day_23", "w") as out:
        out.writelines(f"{label}\t{at % 97}\tff{at:08x}\n" for at, label in enumerate(labels))
        out.write("beyond the trace\n")
    # Coarse, so that there are ties.
    noise = rng.normal(0, 1, starts[-1])
    scores = numpy.round(1 / (1 + numpy.exp(-(noise + 1.2 * labels - 2))), 3).astype(numpy.float32)
    answers = ((int(at), scores[starts[at]:starts[at + 1]].tobytes()) for at in rng.permutation(size))
    logs.write(folder, answers)
    return {"with": {"day_23": "day_23", "trace": "trace.txt"}, "element": "float32"}


def peer(folder):
    sizes = [int(line.split(", ")[2]) for line in open(folder / "trace.txt")]
    starts = numpy.concatenate([[0], numpy.cumsum(sizes)])
    labels = []
    with open(folder / "day_23") as day:
        for at, line in enumerate(day):
            if at >= starts[-1]:
                break
            labels.append(int(line.split("\t")[0]))
    labels = numpy.array(labels)
    answers = logs.first_of_each(logs.read(folder))
    found = numpy.concatenate([numpy.frombuffer(answer, numpy.float32) for answer in answers.values()])
    wanted = numpy.concatenate([labels[starts[index]:starts[index + 1]] for index in answers])
    return {"AUC": f"{100.0 * roc_auc_score(wanted, found):.3f}"}
