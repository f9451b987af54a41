"""Trains the 3D-UNet of the task `shapes-3d` and writes weights/shapes3d.safetensors.

    cargo run -p dyno-task --example training_data -- shapes-3d training 1200 DATA/training
    cargo run -p dyno-task --example training_data -- shapes-3d test 64 DATA/test
    python3 crates/task/training/shapes3d.py DATA crates/task/weights/shapes3d.safetensors

Needs torch, numpy and safetensors; takes about eight minutes on one core. Numbers are rounded to
16 bits. The graph that takes the weights is `graphs::unet3d::Unet3d`: that of the
benchmark with fewer levels and filters, so names are the same.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

SIDE = 32
CLASSES = 3
FILTERS = [8, 16]
BOTTLENECK = 32
EPOCHS = 5
BATCH = 4


def layer(before, after, stride=1):
    return nn.Sequential(
        nn.Conv3d(before, after, 3, stride, 1, bias=False),
        nn.InstanceNorm3d(after, affine=True), nn.ReLU())


class Pair(nn.Module):
    def __init__(self, before, after, stride=1):
        super().__init__()
        self.conv1, self.conv2 = layer(before, after, stride), layer(after, after)

    def forward(self, x):
        return self.conv2(self.conv1(x))


class Up(Pair):
    def __init__(self, before, after):
        super().__init__(2 * after, after)
        self.upsample_conv = nn.Sequential(nn.ConvTranspose3d(before, after, 2, 2))

    def forward(self, x, skip):
        return super().forward(torch.cat([self.upsample_conv(x), skip], 1))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_block = Pair(1, FILTERS[0])
        self.downsample = nn.ModuleList(
            Pair(before, after, 2) for before, after in zip(FILTERS, FILTERS[1:]))
        self.bottleneck = Pair(FILTERS[-1], BOTTLENECK, 2)
        up = [BOTTLENECK, *FILTERS[::-1]]
        self.upsample = nn.ModuleList(Up(before, after) for before, after in zip(up, up[1:]))
        self.output = nn.ModuleDict({"conv": nn.Sequential(nn.Conv3d(FILTERS[0], CLASSES, 1))})

    def forward(self, x):
        levels = [self.input_block(x)]
        for down in self.downsample:
            levels.append(down(levels[-1]))
        x = self.bottleneck(levels[-1])
        for up, skip in zip(self.upsample, levels[::-1]):
            x = up(x, skip)
        return self.output["conv"](x)


def read(folder):
    volumes = np.fromfile(folder / "volumes.f32", np.float32).reshape(-1, 1, SIDE, SIDE, SIDE)
    classes = np.fromfile(folder / "classes.u8", np.uint8).reshape(-1, SIDE, SIDE, SIDE)
    return torch.from_numpy(volumes), torch.from_numpy(classes)


def loss_of(scores, classes):
    truth = F.one_hot(classes.long(), CLASSES).movedim(-1, 1).float()
    chances = scores.softmax(1)
    both = (chances * truth).sum((2, 3, 4))
    dice = (2 * both + 1) / (chances.sum((2, 3, 4)) + truth.sum((2, 3, 4)) + 1)
    return F.cross_entropy(scores, classes.long()) + 1 - dice[:, 1:].mean()


def dice_of(net, volumes, classes):
    """Mean over volumes of each class that is not the background."""
    sums = np.zeros(CLASSES - 1)
    with torch.no_grad():
        for volume, truth in zip(volumes, classes):
            found = net(volume[None])[0].argmax(0)
            for of in range(1, CLASSES):
                both = ((found == of) & (truth == of)).sum().item()
                sums[of - 1] += 2 * both / ((found == of).sum() + (truth == of).sum()).item()
    return sums / len(volumes)


def main():
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    torch.manual_seed(1)
    volumes, classes = read(data / "training")
    test = read(data / "test")
    net = Unet()
    print(sum(p.numel() for p in net.parameters()), "parameters", flush=True)
    steps = EPOCHS * (len(volumes) // BATCH)
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    for epoch in range(EPOCHS):
        total = 0.0
        order = torch.randperm(len(volumes))
        for at in range(len(volumes) // BATCH):
            part = order[at * BATCH : (at + 1) * BATCH]
            loss = loss_of(net(volumes[part]), classes[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * BATCH / len(volumes)
        print(epoch, round(total, 4), *dice_of(net, *test).round(4), flush=True)
        save_file({name: of.half().contiguous() for name, of in net.state_dict().items()}, out)


main()
