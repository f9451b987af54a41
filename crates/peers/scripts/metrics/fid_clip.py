"""Fréchet distance by SciPy's square root of a matrix, and cosines by NumPy, of features
that vary along unlike axes."""

import numpy
import scipy.linalg

from metrics import logs

METHOD = "fid-clip"
QUICK = 400
FULL = 5_000


def features(rng, count, mixing, shift):
    return rng.normal(size=(count, len(mixing))) @ mixing + shift


def make(folder, size, rng):
    # More samples than dimensions, as the benchmark has them: otherwise the root is of a
    # singular matrix, of which SciPy knows half of the digits.
    dimensions, of_clip = (48, 16) if size == QUICK else (2048, 512)
    mixing = rng.normal(size=(dimensions, dimensions)) / dimensions**0.5
    photographs = features(rng, 4 * dimensions, mixing * numpy.exp(-2 * rng.random(dimensions)), 0.4)
    numpy.save(folder / "mu.npy", photographs.mean(axis=0))
    # In Fortran's order, as transposed arrays are saved.
    numpy.save(folder / "sigma.npy", numpy.cov(photographs, rowvar=False).T)
    images = features(rng, size, mixing, 0.45).astype(numpy.float32)
    texts = rng.normal(size=(size, of_clip)).astype(numpy.float32)
    numpy.save(folder / "texts.npy", texts)
    clip = (0.3 * texts + rng.normal(size=texts.shape)).astype(numpy.float32)
    order = rng.permutation(size)
    answers = [(int(at), images[at].tobytes() + clip[at].tobytes()) for at in order]
    # Second answers do not count.
    answers += [(int(at), bytes(4 * (dimensions + of_clip))) for at in order[: size // 50]]
    logs.write(folder, answers)
    needs = {"mean": "mu.npy", "covariance": "sigma.npy", "texts": "texts.npy"}
    return {"with": needs, "element": "float32"}


def peer(folder):
    mean, covariance = numpy.load(folder / "mu.npy"), numpy.load(folder / "sigma.npy")
    texts = numpy.load(folder / "texts.npy").astype(numpy.float64)
    images, cosines = [], []
    for index, answer in logs.first_of_each(logs.read(folder)).items():
        values = numpy.frombuffer(answer, numpy.float32).astype(numpy.float64)
        images.append(values[: len(mean)])
        clip, text = values[len(mean):], texts[index]
        cosines.append(clip @ text / (numpy.linalg.norm(clip) * numpy.linalg.norm(text)))
    images = numpy.array(images)
    found = numpy.cov(images, rowvar=False)
    root = scipy.linalg.sqrtm(found @ covariance).real
    apart = images.mean(axis=0) - mean
    distance = apart @ apart + numpy.trace(found) + numpy.trace(covariance) - 2 * numpy.trace(root)
    return {"FID_SCORE": f"{distance:.8f}", "CLIP_SCORE": f"{100 * numpy.mean(cosines):.8f}"}
