"""Labels of places by scikit-learn, whose F1 of a class is its Dice, with samples that have
not every class."""

import numpy
from sklearn.metrics import f1_score

from metrics import logs

METHOD = "dice"
QUICK = 20
FULL = 1_000


def make(folder, size, rng):
    shape = (size, 16, 24)
    labels = rng.integers(0, 5, shape).astype(numpy.uint8)
    # Of every third sample two classes are missing, and mostly not found either.
    labels[::3][labels[::3] > 2] = 0
    found = numpy.where(rng.random(shape) < 0.8, labels, rng.integers(0, 5, shape))
    found[::6] = numpy.minimum(found[::6], 2)
    numpy.save(folder / "labels.npy", labels)
    # Classes of no label.
    found[2::6, 0] = numpy.array([-1, 9, 300])[rng.integers(0, 3, found[2::6, 0].shape)]
    found = found.astype(numpy.int16)
    order = rng.permutation(size)
    answers = [(int(at), found[at].tobytes()) for at in order]
    # Second answers do not count.
    answers += [(int(at), found[0].tobytes()) for at in order[: size // 10]]
    logs.write(folder, answers)
    return {"with": {"labels": "labels.npy"}, "element": "int16"}


def peer(folder):
    labels = numpy.load(folder / "labels.npy")
    classes = range(1, int(labels.max()) + 1)
    scores = []
    for index, answer in logs.first_of_each(logs.read(folder)).items():
        truth, found = labels[index].reshape(-1), numpy.frombuffer(answer, numpy.int16)
        scores.append(f1_score(truth, found, labels=classes, average=None, zero_division=1.0))
    return {"DICE": f"{numpy.mean(scores):.12f}"}
