"""Volumes of labels by NiBabel and NumPy, of unlike edges, types and scalings, with some
that have no tumor."""

import nibabel
import numpy

from metrics import logs

METHOD = "mean-dice"
QUICK = 5
FULL = 43


def blob(shape, rng, radius):
    """A ball somewhere, in voxels of the volume."""
    center = [rng.uniform(0.2, 0.8) * edge for edge in shape]
    axes = numpy.ogrid[tuple(slice(edge) for edge in shape)]
    return sum((axis - at) ** 2 for axis, at in zip(axes, center)) < radius * radius


def make(folder, size, rng):
    edges = 24 if size == QUICK else 128
    numbers = rng.permutation(300)[:size]
    cases, answers = [], []
    for at, number in enumerate(numbers):
        shape = tuple(int(edge) for edge in rng.integers(edges // 2, 2 * edges, 3))
        truth, found = numpy.zeros(shape, numpy.uint8), numpy.zeros(shape, numpy.uint8)
        truth[blob(shape, rng, edges * 0.5)] = 1
        if at % 4 != 3:
            truth[blob(shape, rng, edges * 0.2)] = 2
        moved = numpy.roll(truth, int(rng.integers(0, 4)), int(rng.integers(0, 3)))
        found[:] = numpy.where(rng.random(shape) < 0.98, moved, rng.integers(0, 3, shape))
        if at % 4 == 3:
            found[found == 2] = 0
        kind = [numpy.uint8, numpy.int16, numpy.float32, numpy.float64][at % 4]
        image = nibabel.Nifti1Image(truth.astype(kind), numpy.diag([1.6, 1.2, 1.2, 1]))
        if at % 3 == 1:
            # Stored as 2, 4 and 6.
            header = nibabel.Nifti1Header(endianness=">")
            image = nibabel.Nifti1Image((2 * truth + 2).astype(numpy.int16), numpy.eye(4), header)
            image.header.set_slope_inter(0.5, -1)
        case = f"case_{number:05}"
        (folder / "nifti" / case).mkdir(parents=True)
        nibabel.save(image, folder / "nifti" / case / "segmentation.nii.gz")
        cases.append(case)
        answers.append((at, found.tobytes()))
    # The last one stands twice in the list and in the log, as the data set has it.
    cases.append(cases[-1])
    answers.append((size, answers[-1][1]))
    (folder / "cases.txt").write_text("\n".join(cases) + "\n")
    order = rng.permutation(len(answers))
    logs.write(folder, [answers[at] for at in order])
    return {"with": {"volumes": "nifti", "cases": "cases.txt"}, "element": "int8"}


def peer(folder):
    cases = (folder / "cases.txt").read_text().split()
    scores = []
    for index, answer in logs.read(folder):
        file = folder / "nifti" / cases[index] / "segmentation.nii.gz"
        truth = nibabel.load(file).get_fdata().astype(numpy.uint8)
        found = numpy.frombuffer(answer, numpy.int8).reshape(truth.shape)
        # A volume of zeros and ones for each class, as the script of the benchmark has it.
        classes = numpy.eye(3)
        truth, found = classes[truth.reshape(-1)][:, 1:], classes[found.reshape(-1)][:, 1:]
        common = (truth * found).sum(axis=0)
        together = truth.sum(axis=0) + found.sum(axis=0)
        scores.append((2 * common + 1e-6) / (together + 1e-6))
    return {"DICE": f"{numpy.mean(scores):.10f}"}
