"""Recurrent layers that PyTorch's exporter leaves as many small nodes, because a program calls cells step by step.

usage: unrolled.py FOLDER SEED

The files that the tests have were made with seed 1 by PyTorch 2.15 (exporter of TorchScript, operators 17), with
outputs of ONNX Runtime 1.32 in outputs.json.
"""

import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")
import numpy as np
import onnxruntime
import torch

INPUTS, UNITS, BATCH, STEPS = 5, 6, 2, 7


class Written(torch.nn.Module):
    """A cell as tutorials write it, over all steps of an input of steps x batch x inputs."""

    def __init__(self, gates, step):
        super().__init__()
        self.of_input, self.of_state = torch.nn.Linear(INPUTS, gates * UNITS), torch.nn.Linear(UNITS, gates * UNITS)
        self.step = step

    def forward(self, x):
        h, c, outputs = x.new_zeros(BATCH, UNITS), x.new_zeros(BATCH, UNITS), []
        for step in range(STEPS):
            h, c = self.step(self, x[step], h, c)
            outputs.append(h)
        return torch.stack(outputs)


def lstm(cell, x, h, c):
    i, f, g, o = (cell.of_input(x) + cell.of_state(h)).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def joined_lstm(cell, x, h, c):
    weight = torch.cat([cell.of_input.weight, cell.of_state.weight], 1)
    sums = torch.nn.functional.linear(torch.cat([x, h], 1), weight, cell.of_input.bias)
    gates = sums[:, : 3 * UNITS].sigmoid()
    i, f, o = gates[:, :UNITS], gates[:, UNITS:2 * UNITS], gates[:, 2 * UNITS:]
    c = i * sums[:, 3 * UNITS:].tanh() + f * c
    return o * c.tanh(), c


def gru(cell, x, h, c):
    (r, z, n), (of_r, of_z, of_n) = cell.of_input(x).chunk(3, 1), cell.of_state(h).chunk(3, 1)
    r, z = (r + of_r).sigmoid(), (z + of_z).sigmoid()
    n = (n + r * of_n).tanh()
    return n + z * (h - n), c


def reset_first(cell, x, h, c):
    r, z, n = cell.of_input(x).chunk(3, 1)
    weights, biases = cell.of_state.weight.chunk(3), cell.of_state.bias.chunk(3)
    of = lambda at, state: torch.nn.functional.linear(state, weights[at], biases[at])
    r, z = (r + of(0, h)).sigmoid(), (z + of(1, h)).sigmoid()
    n = (n + of(2, r * h)).tanh()
    return (1 - z) * n + z * h, c


class Cells(torch.nn.Module):
    """Two `LSTMCell`s, the second over what the first puts out."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.LSTMCell(INPUTS, UNITS), torch.nn.LSTMCell(UNITS, UNITS)

    def forward(self, x):
        first = second = (x.new_zeros(BATCH, UNITS), x.new_zeros(BATCH, UNITS))
        outputs = []
        for step in range(STEPS):
            first = self.first(x[step], first)
            second = self.second(first[0], second)
            outputs.append(second[0])
        return torch.stack(outputs)


def main():
    folder, seed = sys.argv[1], int(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(seed)
    models = {
        "lstm": Written(4, lstm), "lstm_joined": Written(4, joined_lstm), "gru": Written(3, gru),
        "gru_reset_first": Written(3, reset_first), "lstm_cells": Cells(),
    }
    x, cases = torch.randn(STEPS, BATCH, INPUTS), {}
    for name, model in models.items():
        path = os.path.join(folder, name + ".onnx")
        torch.onnx.export(
            model.eval(), (x,), path, input_names=["x"], output_names=["y"], opset_version=17, dynamo=False)
        output = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x.numpy()})[0]
        cases[name] = [float(np.float32(number)) for number in output.ravel()]
    with open(os.path.join(folder, "outputs.json"), "w", encoding="utf-8") as file:
        json.dump({"x": [float(number) for number in x.numpy().ravel()], "y": cases}, file)


main()
