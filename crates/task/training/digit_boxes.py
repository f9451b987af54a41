"""Trains the detector of the task `digits-boxes` and writes weights/digit_boxes.safetensors.

    cargo run -p dyno-task --example training_data -- digits-boxes training 8000 DATA/training
    cargo run -p dyno-task --example training_data -- digits-boxes test 500 DATA/test
    python3 crates/task/training/digit_boxes.py DATA crates/task/weights/digit_boxes.safetensors

Needs torch, numpy and safetensors; takes about five minutes on one core. Normalisations are
folded into the convolutions before them, and numbers are rounded to 16 bits. The graph that
takes the weights is `trained::digit_boxes`, and `ANCHORS`, `STRIDES` and `VARIANCES` are its.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

SIDE = 96
CLASSES = 10
STRIDES = [8, 16]
# Width and height in pixels, for each of the strides.
ANCHORS = [[(7, 18), (13, 18), (9, 24), (18, 24)], [(12, 31), (23, 31), (14, 38), (28, 38)]]
VARIANCES = (0.1, 0.2)
EPOCHS = 16
BATCH = 32


def conv(before, after, kernel, stride=1, groups=1):
    layer = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(after), nn.ReLU())


def separable(before, after, stride=1):
    return [conv(before, before, 3, stride, before), conv(before, after, 1)]


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.fine = nn.Sequential(
            conv(1, 16, 3, 2), conv(16, 32, 3, 2), conv(32, 32, 3), conv(32, 48, 3, 2),
            *separable(48, 64), *separable(64, 64),
        )
        self.coarse = nn.Sequential(*separable(64, 96, 2), *separable(96, 96))
        head = lambda width: nn.Sequential(
            conv(width, width, 3, groups=width), nn.Conv2d(width, 4 * (CLASSES + 4), 1))
        self.heads = nn.ModuleList([head(64), head(96)])
        for of in self.heads:
            nn.init.constant_(of[1].bias, 0)
            # Rare at first, as focal loss wants it.
            nn.init.constant_(of[1].bias[: 4 * CLASSES], -4.0)
            nn.init.normal_(of[1].weight, std=0.01)

    def forward(self, x):
        fine = self.fine(x)
        found = []
        for head, x in zip(self.heads, (fine, self.coarse(fine))):
            y = head(x).permute(0, 2, 3, 1)
            count = y.shape[1] * y.shape[2] * 4
            scores = y[..., : 4 * CLASSES].reshape(-1, count, CLASSES)
            found.append((scores, y[..., 4 * CLASSES :].reshape(-1, count, 4)))
        return torch.cat([s for s, _ in found], 1), torch.cat([b for _, b in found], 1)


def anchors():
    """Centre, width and height of each, in the order of the outputs."""
    all = []
    for stride, sizes in zip(STRIDES, ANCHORS):
        for row in range(SIDE // stride):
            for column in range(SIDE // stride):
                for width, height in sizes:
                    all.append(((column + 0.5) * stride, (row + 0.5) * stride, width, height))
    return torch.tensor(all)


def overlaps(one, other):
    """Of boxes as left, top, right, bottom."""
    low = torch.maximum(one[:, None, :2], other[None, :, :2])
    high = torch.minimum(one[:, None, 2:], other[None, :, 2:])
    both = (high - low).clamp(min=0).prod(2)
    area = lambda of: (of[:, 2:] - of[:, :2]).prod(1)
    return both / (area(one)[:, None] + area(other)[None, :] - both)


def corners(of):
    return torch.cat([of[:, :2] - of[:, 2:] / 2, of[:, :2] + of[:, 2:] / 2], 1)


def targets(objects, priors):
    """Class of each anchor (-1 none, -2 does not count) and the box that it should find."""
    classes = torch.full((len(priors),), -1)
    boxes = torch.zeros(len(priors), 4)
    if len(objects) == 0:
        return classes, boxes
    left, top, width, height = objects[:, 2:].float().unbind(1)
    truth = torch.stack([left + width / 2, top + height / 2, width, height], 1)
    shared = overlaps(corners(priors), corners(truth))
    best, which = shared.max(1)
    # Each object has the anchor that fits it best, whatever they share.
    own = shared.argmax(0)
    which[own] = torch.arange(len(objects))
    best[own] = 1.0
    classes[best >= 0.4] = -2
    is_match = best >= 0.5
    classes[is_match] = objects[which[is_match], 1].long()
    found = truth[which]
    boxes[:, :2] = (found[:, :2] - priors[:, :2]) / priors[:, 2:] / VARIANCES[0]
    boxes[:, 2:] = (found[:, 2:] / priors[:, 2:]).log() / VARIANCES[1]
    return classes, boxes


def read(folder, priors):
    pictures = np.fromfile(folder / "pictures.u8", np.uint8).reshape(-1, 1, SIDE, SIDE)
    objects = torch.from_numpy(np.fromfile(folder / "objects.i32", np.int32).reshape(-1, 6))
    of_each = [targets(objects[objects[:, 0] == at], priors) for at in range(len(pictures))]
    classes, boxes = (torch.stack(part) for part in zip(*of_each))
    return torch.from_numpy(pictures), classes, boxes


def loss_of(scores, boxes, classes, wanted):
    counts = classes > -2
    truth = F.one_hot(classes.clamp(min=-1) + 1, CLASSES + 1)[..., 1:].float()
    entropy = F.binary_cross_entropy_with_logits(scores, truth, reduction="none")
    sure = torch.sigmoid(scores)
    missed = truth * (1 - sure) + (1 - truth) * sure
    is_match = classes >= 0
    matches = is_match.sum().clamp(min=1)
    focal = (missed**2 * entropy)[counts].sum() / matches
    place = F.smooth_l1_loss(boxes[is_match], wanted[is_match], reduction="sum", beta=0.2) / matches
    return focal, place


def folded(net):
    """Weights and biases by the names of the graph."""
    out = {}
    def add(name, layer, norm=None):
        weight, bias = layer.weight.data, None if norm else layer.bias.data
        if norm:
            scale = norm.weight.data / (norm.running_var + norm.eps).sqrt()
            weight, bias = weight * scale[:, None, None, None], norm.bias.data - norm.running_mean * scale
        out[f"{name}.weight"], out[f"{name}.bias"] = weight.half().contiguous(), bias.half().contiguous()
    for part in ("fine", "coarse"):
        for at, of in enumerate(getattr(net, part)):
            add(f"{part}.{at}", of[0], of[1])
    for at, head in enumerate(net.heads):
        add(f"head.{at}.0", head[0][0], head[0][1])
        add(f"head.{at}.1", head[1])
    return out


def main():
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    torch.manual_seed(1)
    priors = anchors()
    pictures, classes, boxes = read(data / "training", priors)
    net = Detector()
    print(sum(p.numel() for p in net.parameters()), "parameters", flush=True)
    steps = EPOCHS * (len(pictures) // BATCH)
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for epoch in range(EPOCHS):
        net.train()
        sums = np.zeros(2)
        order = torch.randperm(len(pictures))
        for at in range(len(pictures) // BATCH):
            part = order[at * BATCH : (at + 1) * BATCH]
            found = net(pictures[part].float() / 255)
            focal, place = loss_of(*found, classes[part], boxes[part])
            optimizer.zero_grad()
            (focal + place).backward()
            optimizer.step()
            schedule.step()
            sums += focal.item(), place.item()
        print(epoch, *(sums * BATCH / len(pictures)).round(4), flush=True)
        save_file(folded(net.eval()), out)
    pictures, classes, boxes = read(data / "test", priors)
    with torch.no_grad():
        found = net(pictures.float() / 255)
        print("test", *(part.item() for part in loss_of(*found, classes, boxes)))


main()
