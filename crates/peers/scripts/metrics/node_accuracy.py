"""Classes of nodes by NumPy, with labels of nodes that are no samples and have none."""

import numpy

from metrics import logs

METHOD = "node-accuracy"
QUICK = 2_000
FULL = 800_000


def make(folder, size, rng):
    labels = rng.integers(0, 2983, 4 * size).astype(numpy.float32)
    nodes = rng.permutation(4 * size)[:size]
    has_none = numpy.ones(4 * size, bool)
    has_none[nodes] = False
    labels[has_none & (rng.random(4 * size) < 0.5)] = numpy.nan
    # Without a header, as the larger graphs have it.
    labels.tofile(folder / "node_label_2K.npy")
    numpy.save(folder / "val_idx.npy", nodes)
    classes = numpy.where(rng.random(size) < 0.73, labels[nodes], rng.integers(0, 2983, size))
    classes = classes.astype(numpy.int32)
    order = rng.permutation(size)
    answers = [(int(at), classes[at].tobytes()) for at in order]
    # Second answers do not count.
    answers += [(int(at), numpy.int32(0).tobytes()) for at in order[: size // 50]]
    logs.write(folder, answers)
    return {"with": {"labels": "node_label_2K.npy", "nodes": "val_idx.npy"}, "element": "int32"}


def peer(folder):
    labels = numpy.memmap(folder / "node_label_2K.npy", numpy.float32, "r")
    nodes = numpy.load(folder / "val_idx.npy")
    good = total = 0
    for index, answer in logs.first_of_each(logs.read(folder)).items():
        label = int(labels[nodes[index]])
        good += int(numpy.frombuffer(answer, numpy.int32)[0]) == label
        total += 1
    return {"acc": f"{good / total:.12f}"}
