"""Boxes by pycocotools, with crowds, categories that nobody looks for, and images without any."""

import contextlib
import io
import json

import numpy
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from metrics import logs

METHOD = "coco-map"
QUICK = 60
FULL = 5_000


def make(folder, size, rng):
    ids = [int(at) for at in numpy.sort(rng.choice(50 * size, 20, replace=False) % 90 + 1)]
    ids = sorted(set(ids))
    categories = [{"id": category, "name": f"c{category}"} for category in ids]
    images, annotations, answers = [], [], []
    numbers = rng.permutation(10 * size)[:size] + 1
    for at in range(size):
        width, height = (int(side) for side in rng.integers(200, 641, 2))
        image = {"id": int(numbers[at]), "width": width, "height": height, "file_name": f"{at}.jpg"}
        images.append(image)
        boxes = []
        for _ in range(int(rng.integers(0, 9))):
            left, top = rng.random(2) * 0.7
            across, down = 0.05 + rng.random(2) * 0.25
            category = int(rng.choice(ids[:-1]))
            bounds = [left * width, top * height, across * width, down * height]
            is_crowd = int(rng.random() < 0.05)
            annotations.append({"id": len(annotations) + 1, "image_id": image["id"],
                                "category_id": category, "bbox": [round(v, 2) for v in bounds],
                                "area": bounds[2] * bounds[3] * 0.7, "iscrowd": is_crowd})
            for _ in range(int(rng.integers(0, 4))):
                moved = numpy.array([top, left, top + down, left + across]) + rng.normal(0, 0.02, 4)
                score = round(float(rng.beta(3, 2)), 2)
                found = category if rng.random() < 0.9 else int(rng.choice(ids))
                boxes.append([at, *moved, score, found])
        for _ in range(int(rng.integers(0, 130 if at % 10 == 0 else 5))):
            top, left = rng.random(2) * 0.8
            boxes.append([at, top, left, top + 0.1, left + 0.1, round(float(rng.beta(1, 4)), 2),
                          int(rng.choice(ids[:2])) if at % 10 == 0 else 99])
        if rng.random() < 0.97:
            answers.append((at, numpy.array(boxes, numpy.float32).tobytes()))
    truth = {"info": {}, "images": images, "annotations": annotations, "categories": categories}
    (folder / "instances.json").write_text(json.dumps(truth))
    order = rng.permutation(len(answers))
    logs.write(folder, [answers[at] for at in order])
    return {"with": {"annotations": "instances.json"}, "element": "float32"}


def peer(folder):
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(folder / "instances.json"))
        images, found, seen = truth.dataset["images"], [], set()
        for index, answer in logs.first_of_each(logs.read(folder)).items():
            image = images[index]
            seen.add(image["id"])
            for box in numpy.frombuffer(answer, numpy.float32).reshape(-1, 7):
                _, top, left, bottom, right, score, category = box
                left, right = left * image["width"], right * image["width"]
                top, bottom = top * image["height"], bottom * image["height"]
                bounds = [float(left), float(top), float(right - left), float(bottom - top)]
                found.append({"image_id": image["id"], "category_id": int(category),
                              "bbox": bounds, "score": float(score)})
        evaluation = COCOeval(truth, truth.loadRes(found), iouType="bbox")
        evaluation.params.imgIds = list(seen)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return {"mAP": f"{100.0 * evaluation.stats[0]:.8f}"}
