"""Samples of `prepare` (an example of dyno-task) beside those of Pillow, OpenCV and NumPy:
`images.py PREPARE FOLDER`. A case has pictures, steps, what the library makes of them, and
how far apart two values may be: at most, and in which share of them. A case that would
also pass with a sample spoiled in one row fails."""

import json
import pathlib
import subprocess
import sys

import cv2
import numpy
from PIL import Image

PREPARE, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
# To smaller, larger, half, a third, wider and lower, narrower and higher.
SIZES = [(224, 224), (300, 300), (160, 120), (107, 80), (640, 100), (400, 200), (64, 480)]


def scene(width, height, rng):
    """Slopes, edges and some grain, as photographs have them."""
    y, x = numpy.mgrid[0:height, 0:width]
    picture = numpy.stack([120 + 100 * numpy.sin(x / 31 + y / (17 + 9 * c)) for c in range(3)], 2)
    for _ in range(12):
        left, top = rng.integers(0, width), rng.integers(0, height)
        picture[top:top + height // 5, left:left + width // 5] = rng.integers(0, 256, 3)
    return (picture + rng.normal(0, 3, picture.shape)).clip(0, 255).astype(numpy.uint8)


def pictures():
    """PNG files: scenes and noise of odd and even sizes, high and wide."""
    rng = numpy.random.default_rng(7)
    made = {"wide": scene(320, 240, rng), "high": scene(241, 503, rng),
            "noise": rng.integers(0, 256, (240, 320, 3), numpy.uint8),
            "narrow": rng.integers(0, 256, (301, 57, 3), numpy.uint8)}
    for name, values in made.items():
        Image.fromarray(values).save(FOLDER / f"{name}.png")
    return [FOLDER / f"{name}.png" for name in made]


def photographs():
    """JPEG files of several qualities and samplings of colours, progressive and grey."""
    picture = Image.fromarray(scene(331, 245, numpy.random.default_rng(8)))
    made = []
    for quality in (95, 85, 75):
        for sampling in (0, 1, 2):
            made.append(FOLDER / f"scene-{quality}-{sampling}.jpg")
            picture.save(made[-1], quality=quality, subsampling=sampling)
    for name, picture, options in (("grey", picture.convert("L"), {}),
                                   ("progressive", picture, {"progressive": True})):
        made.append(FOLDER / f"{name}.jpg")
        picture.save(made[-1], quality=90, **options)
    return made


def turned(suffix):
    """Files whose metadata say each way to turn them, and two that say no way."""
    picture = Image.fromarray(scene(64, 40, numpy.random.default_rng(9)))
    made = []
    for way in range(0, 10):
        exif = Image.Exif()
        exif[0x0112] = way
        made.append(FOLDER / f"turned-{way}{suffix}")
        picture.save(made[-1], exif=exif, **({"quality": 95} if suffix == ".jpg" else {}))
    return made


def by_pillow(path):
    return numpy.asarray(Image.open(path).convert("RGB"))


def by_opencv(path):
    return cv2.cvtColor(cv2.imread(str(path), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def planes(values):
    return values.transpose(2, 0, 1)


def shorter(picture, to):
    """Width and height whose shorter is `to`."""
    height, width, _ = picture.shape
    return (to, to * height // width) if height > width else (to * width // height, to)


def middle(picture, side):
    height, width, _ = picture.shape
    top, left = (height - side) // 2, (width - side) // 2
    return picture[top:top + side, left:left + side]


def resnet50(path):
    picture = by_opencv(path)
    picture = cv2.resize(picture, shorter(picture, 256), interpolation=cv2.INTER_AREA)
    means = numpy.array([123.68, 116.78, 103.94], numpy.float32)
    return planes(middle(picture, 224).astype(numpy.float32) - means)


def retinanet(path):
    picture = cv2.resize(by_opencv(path).astype(numpy.float32), (800, 800))
    return planes(picture / numpy.float32(255))


def ssd_mobilenet(path):
    return cv2.resize(by_opencv(path).astype(numpy.float32), (300, 300)).astype(numpy.uint8)


def torchvision(path):
    picture = Image.open(path).convert("RGB")
    size = shorter(numpy.asarray(picture), 256)
    picture = middle(numpy.asarray(picture.resize(size, Image.BILINEAR)), 224)
    picture = picture.astype(numpy.float32) / numpy.float32(255)
    means = numpy.array([0.485, 0.456, 0.406], numpy.float32)
    return planes((picture - means) / numpy.array([0.229, 0.224, 0.225], numpy.float32))


FLOAT = {"do": "float"}
CROP = {"do": "centre-crop", "width": 224, "height": 224}


def values(do, *of):
    return {"do": do, "values": of}


def resizes(by, library, floats=False):
    """Steps and what the library makes, for each size."""
    for width, height in SIZES:
        step = {"do": "resize", "width": width, "height": height, "by": by}
        yield ([FLOAT, step] if floats else [step],
               lambda path, size=(width, height): library(by_pillow(path), size))


def opencv(interpolation, kind=numpy.uint8):
    return lambda picture, size: cv2.resize(picture.astype(kind), size, interpolation=interpolation)


def pillow(resample):
    return lambda picture, size: numpy.asarray(Image.fromarray(picture).resize(size, resample))


def cases():
    """Name, pictures, (steps, library) pairs, layout, most, share that may differ at all."""
    png, jpeg = pictures(), photographs()
    yield "PNG", png, [([], by_opencv)], "nhwc", 0, 0
    yield "JPEG beside Pillow", jpeg, [([], by_pillow)], "nhwc", 5, 0.4
    yield "JPEG beside OpenCV", jpeg, [([], by_opencv)], "nhwc", 5, 0.4
    yield "orientation of PNG", turned(".png"), [([], by_opencv)], "nhwc", 0, 0
    yield "orientation of JPEG", turned(".jpg"), [([], by_opencv)], "nhwc", 5, 0.4
    yield ("opencv-linear", png, list(resizes("opencv-linear", opencv(cv2.INTER_LINEAR))),
           "nhwc", 1, 0.002)
    yield "opencv-area", png, list(resizes("opencv-area", opencv(cv2.INTER_AREA))), "nhwc", 0, 0
    yield ("opencv-linear of floats", png,
           list(resizes("opencv-linear", opencv(cv2.INTER_LINEAR, numpy.float32), True)),
           "nhwc", 0.02, 1)
    yield ("pillow-bilinear", png, list(resizes("pillow-bilinear", pillow(Image.BILINEAR))),
           "nhwc", 0, 0)
    yield ("pillow-bicubic", png, list(resizes("pillow-bicubic", pillow(Image.BICUBIC))),
           "nhwc", 0, 0)
    area = {"do": "resize-shorter", "to": 256, "by": "opencv-area"}
    steps = [area, CROP, FLOAT, values("subtract", 123.68, 116.78, 103.94)]
    yield "ResNet-50", png, [(steps, resnet50)], "nchw", 0, 0
    linear = {"do": "resize", "width": 800, "height": 800, "by": "opencv-linear"}
    steps = [FLOAT, linear, values("divide", 255)]
    yield "RetinaNet", png, [(steps, retinanet)], "nchw", 0.0001, 1
    steps = [FLOAT, {**linear, "width": 300, "height": 300}, {"do": "byte"}]
    yield "SSD-MobileNet", png, [(steps, ssd_mobilenet)], "nhwc", 1, 0.01
    steps = [{**area, "by": "pillow-bilinear"}, CROP, FLOAT, values("divide", 255),
             values("subtract", 0.485, 0.456, 0.406), values("divide", 0.229, 0.224, 0.225)]
    yield "torchvision", png, [(steps, torchvision)], "nchw", 0.000001, 1


def played(name, paths, pairs, layout):
    """Of every picture: ours and the library's sample."""
    jobs, peers = [], []
    for steps, library in pairs:
        for path in paths:
            out = FOLDER / f"{name}-{len(jobs)}.raw".replace(" ", "-")
            jobs.append({"picture": str(path), "step": steps, "layout": layout, "out": str(out)})
            peers.append(library(path))
    (FOLDER / "jobs.json").write_text(json.dumps(jobs))
    subprocess.run([PREPARE, FOLDER / "jobs.json"], check=True)
    for job, peer in zip(jobs, peers):
        ours = numpy.fromfile(job["out"], peer.dtype)
        if ours.size != peer.size:
            sys.exit(f"{name}: {job['picture']}: {ours.size} values of dyno, {peer.size} of the library")
        yield ours.reshape(peer.shape).astype(float), peer.astype(float)


def difference(samples):
    """The largest, and the share of values that differ."""
    apart = numpy.concatenate([abs(ours - peer).ravel() for ours, peer in samples])
    return apart.max(), (apart > 0).mean()


def main():
    failed = 0
    for name, paths, pairs, layout, most, share in cases():
        samples = list(played(name, paths, pairs, layout))
        found = difference(samples)
        passes = found[0] <= most and found[1] <= share
        # A row that lies where its neighbour belongs.
        ours, peer = samples[0]
        spoiled = ours.copy()
        middle_row = ours.shape[0] // 2 if layout == "nhwc" else (0, ours.shape[1] // 2)
        spoiled[middle_row] = numpy.flip(ours[middle_row], 0)
        notices = difference([(spoiled, peer)])[0] > most
        print(f"images {name}: {len(samples)} samples, at most {found[0]:.3g} apart "
              f"(allowed {most}), {100 * found[1]:.3g} % differ (allowed {100 * share:g} %)"
              f"{'' if passes else ': FAILED'}{'' if notices else ': FAILED, sees no spoiled row'}")
        failed += not (passes and notices)
    sys.exit(failed > 0)


main()
