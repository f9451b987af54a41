"""Boxes by pycocotools where images without an object are no samples, as SSD-ResNet-34 of
the first round has it; classes are positions in the list of categories."""

import contextlib
import io
import json

import numpy
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from metrics import logs

METHOD = "coco-map"
QUICK = 80
FULL = 2_000


def make(folder, size, rng):
    ids = [int(category) for category in rng.permutation(90)[:12] + 1]
    images, annotations, answers = [], [], []
    for at, number in enumerate(rng.permutation(10 * size)[:size] + 1):
        images.append({"id": int(number), "width": 640, "height": int(rng.integers(200, 641))})
        boxes, annotated = [], rng.random() < 0.8
        for _ in range(int(rng.integers(1, 6)) if annotated else 0):
            place = rng.integers(0, len(ids))
            bounds = [float(side) for side in rng.integers(10, 150, 4)]
            annotations.append({"id": len(annotations) + 1, "image_id": int(number),
                                "category_id": ids[place], "bbox": bounds,
                                "area": bounds[2] * bounds[3], "iscrowd": 0})
            left, top, across, down = bounds
            side = numpy.array([images[-1]["height"], 640] * 2)
            found = numpy.array([top, left, top + down, left + across]) / side
            found += rng.normal(0, 0.01, 4)
            boxes.append([*found, round(float(rng.random()), 2), place + 1])
        if annotated:
            sample = len(answers)
            boxes = [[sample, *box] for box in boxes if rng.random() < 0.9]
            answers.append((sample, numpy.array(boxes, numpy.float32).tobytes()))
    # A category that is not listed makes no sample.
    empty = next(image for image in images
                 if all(of["image_id"] != image["id"] for of in annotations))
    annotations.append({"id": len(annotations) + 1, "image_id": empty["id"], "category_id": 99,
                        "bbox": [1, 1, 9, 9], "area": 81, "iscrowd": 0})
    truth = {"info": {}, "images": images, "annotations": annotations,
             "categories": [{"id": category, "name": f"c{category}"} for category in ids]}
    (folder / "instances.json").write_text(json.dumps(truth))
    order = rng.permutation(len(answers))
    logs.write(folder, [answers[at] for at in order])
    return {"with": {"annotations": "instances.json"}, "element": "float32",
            "choose": {"images": "annotated", "classes": "positions"}}


def peer(folder):
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(folder / "instances.json"))
        listed = [category["id"] for category in truth.dataset["categories"]]
        annotated = {image for category in listed for image in truth.catToImgs[category]}
        images = [image for image in truth.dataset["images"] if image["id"] in annotated]
        found, seen = [], set()
        for index, answer in logs.first_of_each(logs.read(folder)).items():
            image = images[index]
            seen.add(image["id"])
            for box in numpy.frombuffer(answer, numpy.float32).reshape(-1, 7):
                _, top, left, bottom, right, score, place = box
                left, right = left * image["width"], right * image["width"]
                top, bottom = top * image["height"], bottom * image["height"]
                bounds = [float(left), float(top), float(right - left), float(bottom - top)]
                found.append({"image_id": image["id"], "category_id": listed[int(place) - 1],
                              "bbox": bounds, "score": float(score)})
        evaluation = COCOeval(truth, truth.loadRes(found), iouType="bbox")
        evaluation.params.imgIds = list(seen)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return {"mAP": f"{100.0 * evaluation.stats[0]:.8f}"}
