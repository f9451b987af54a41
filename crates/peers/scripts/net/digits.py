"""The built-in perceptron of dyno, computed by NumPy of its files: what a server must answer."""

import pathlib
import sys

import numpy as np

TRAIN, TEST, PIXELS, HIDDEN, CLASSES = 1257, 540, 64, 48, 10


def load(root):
    """Ink of the test images, their labels, and the scores of each image."""
    data = pathlib.Path(root) / "crates/sut/data"
    rows = np.fromfile(data / "digits.bin", np.uint8).reshape(-1, PIXELS + 1)
    ink = rows[TRAIN : TRAIN + TEST, :PIXELS].astype(np.float32) / 16
    labels = rows[TRAIN : TRAIN + TEST, PIXELS].astype(np.int64)
    hidden, hidden_bias, output, output_bias = weights(root)
    return ink, labels, np.maximum(ink @ hidden + hidden_bias, 0) @ output + output_bias


def weights(root):
    """Of both layers, each with its bias."""
    numbers = np.fromfile(pathlib.Path(root) / "crates/sut/data/digits-mlp.bin", np.float32)
    ends = np.cumsum([PIXELS * HIDDEN, HIDDEN, HIDDEN * CLASSES])
    hidden, hidden_bias, output, output_bias = np.split(numbers, ends)
    return hidden.reshape(PIXELS, HIDDEN), hidden_bias, output.reshape(HIDDEN, CLASSES), output_bias


def check(scores, expected, what):
    """Fails where scores are not those of NumPy."""
    scores = np.asarray(scores, np.float32).reshape(expected.shape)
    if not np.allclose(scores, expected, rtol=1e-4, atol=1e-4):
        sys.exit(f"{what}: scores differ by up to {np.abs(scores - expected).max()}")
    print(f"{what}: {len(scores)} images as NumPy computes them")
