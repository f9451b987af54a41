"""Top-1 by scikit-learn."""

import numpy
from sklearn.metrics import accuracy_score

from metrics import logs

METHOD = "top1"
QUICK = 2_000
FULL = 1_000_000


def make(folder, size, rng):
    labels = rng.integers(0, 1000, size)
    with open(folder / "val_map.txt", "w") as out:
        out.writelines(f"val/ILSVRC2012_val_{at:08}.JPEG {label}\n" for at, label in enumerate(labels))
    classes = numpy.where(rng.random(size) < 0.76, labels, rng.integers(0, 1000, size))
    order = rng.permutation(size)
    # A hundredth is answered a second time, and the second answer does not count.
    again = order[: size // 100]
    answers = [(int(at), numpy.int64(classes[at]).tobytes()) for at in order]
    answers += [(int(at), numpy.int64(7).tobytes()) for at in again]
    logs.write(folder, answers)
    return {"with": {"labels": "val_map.txt"}, "element": "int64"}


def peer(folder):
    labels = [int(line.split()[1]) for line in open(folder / "val_map.txt")]
    answers = logs.first_of_each(logs.read(folder))
    found = [int(numpy.frombuffer(answer, numpy.int64)[0]) for answer in answers.values()]
    accuracy = accuracy_score([labels[index] for index in answers], found)
    return {"acc": f"{100.0 * accuracy:.3f}"}
