"""Likelihoods of labels by NiBabel and NumPy, of cropped and padded volumes."""

import json

import nibabel
import numpy

from metrics import logs

METHOD = "brats-dice"
QUICK = 2
FULL = 6
PADDED = (224, 224, 160)


def make(folder, size, rng):
    (folder / "labelsTr").mkdir()
    cases, answers = [], []
    for at in range(size):
        # Depth, height and width, as arrays have them; files have them the other way round.
        whole = (155, 240, 240)
        edges = [int(edge) for edge in rng.integers((100, 120, 90), (155, 200, 159))]
        start = [int(rng.integers(0, all_of - edge + 1)) for all_of, edge in zip(whole, edges)]
        truth = numpy.zeros(whole, numpy.uint8)
        axes = numpy.ogrid[tuple(slice(edge) for edge in whole)]
        square = sum((axis - first - edge // 2) ** 2 for axis, first, edge in zip(axes, start, edges))
        for label, radius in ((1, 40), (2, 28), (3, 0 if at % 2 else 16)):
            truth[square < radius * radius] = label
        name = f"BraTS19_{at:03}"
        image = nibabel.Nifti1Image(truth.T, numpy.eye(4))
        nibabel.save(image, folder / "labelsTr" / f"{name}.nii.gz")
        part = tuple(slice(first, first + edge) for first, edge in zip(start, edges))
        likely = rng.normal(size=(4, *PADDED)).astype(numpy.float16)
        before = [(all_of - edge) // 2 for all_of, edge in zip(PADDED, edges)]
        inside = tuple(slice(first, first + edge) for first, edge in zip(before, edges))
        for label in range(4):
            likely[(label, *inside)][truth[part] == label] += numpy.float16(3)
        if at % 2:
            likely[3] = -9
        bounds = [[first, first + edge] for first, edge in zip(start, edges)]
        cases.append({"name": name, "size_after_cropping": edges, "crop_bbox": bounds})
        answers.append((at, likely.tobytes()))
    (folder / "cases.json").write_text(json.dumps(cases))
    logs.write(folder, answers[::-1])
    return {"with": {"labels": "labelsTr", "cases": "cases.json"}, "element": "float16"}


def peer(folder):
    cases, found = json.loads((folder / "cases.json").read_text()), []
    for index, answer in logs.read(folder):
        case = cases[index]
        likely = numpy.frombuffer(answer, numpy.float16).reshape(4, *PADDED)
        edges = case["size_after_cropping"]
        before = [(all_of - edge) // 2 for all_of, edge in zip(PADDED, edges)]
        inside = tuple(slice(first, first + edge) for first, edge in zip(before, edges))
        image = nibabel.load(folder / "labelsTr" / f"{case['name']}.nii.gz")
        truth = numpy.asarray(image.dataobj).T
        labels = numpy.zeros(truth.shape, numpy.uint8)
        labels[tuple(slice(*bounds) for bounds in case["crop_bbox"])] = likely[(slice(None), *inside)].argmax(0)
        regions = []
        for region in ((1, 2, 3), (2, 3), (3,)):
            one, other = numpy.isin(truth, region), numpy.isin(labels, region)
            together = one.sum() + other.sum()
            regions.append(2 * (one & other).sum() / together if together else numpy.nan)
        found.append(regions)
    means = [float(f"{mean:.4f}") for mean in numpy.nanmean(found, axis=0)]
    return {"DICE": f"{sum(means) / 3:.8f}"}
