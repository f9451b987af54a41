"""Cosines and nearest neighbours by NumPy, of vectors that are a little off."""

import numpy

from metrics import logs

METHOD = "embedding-agreement"
QUICK = 300
FULL = 4_000


def make(folder, size, rng):
    # Texts about the same few things, so that many are about as near to each other.
    things = rng.normal(size=(size // 10, 384))
    vectors = things[rng.integers(0, len(things), size)] + rng.normal(size=(size, 384))
    numpy.save(folder / "vectors.npy", vectors.astype(numpy.float32))
    found = (vectors + 0.1 * rng.normal(size=vectors.shape)).astype(numpy.float32)
    order = rng.permutation(size)[: size - size // 20]
    answers = [(int(at), found[at].tobytes()) for at in order]
    # Second answers do not count.
    answers += [(int(at), bytes(4 * 384)) for at in order[: size // 50]]
    logs.write(folder, answers)
    return {"with": {"vectors": "vectors.npy"}, "element": "float32"}


def peer(folder):
    answers = logs.first_of_each(logs.read(folder))
    vectors = numpy.load(folder / "vectors.npy").astype(numpy.float64)[list(answers)]
    found = numpy.frombuffer(b"".join(answers.values()), numpy.float32).astype(numpy.float64)
    found = found.reshape(vectors.shape)
    pair = [each / numpy.linalg.norm(each, axis=1, keepdims=True) for each in (vectors, found)]
    near = [each @ each.T for each in pair]
    for each in near:
        numpy.fill_diagonal(each, -numpy.inf)
    chosen = near[0][numpy.arange(len(found)), near[1].argmax(axis=1)]
    agreed = (chosen >= near[0].max(axis=1) - 1e-6).mean()
    cosine = (pair[0] * pair[1]).sum(axis=1).mean()
    return {"cosine": f"{100 * cosine:.9f}", "nearest": f"{100 * agreed:.9f}"}
