"""Writes the three models that the task `rnnt` takes: encoder.onnx, prediction.onnx, joint.onnx.

    python3 crates/task/export/rnnt.py DistributedDataParallel_1576581068.9962234-epoch-100.pt FOLDER

Needs torch, which only reads the checkpoint, numpy and onnx. What the models take and put out is
said in docs/tasks/speech-and-translation.md. Layers and their sizes are those of the weights.
"""

import sys

import numpy as np
from graph import Graph
from onnx import TensorProto


def lstm(graph, x, weights, name, layer, state=None):
    """A layer over [T, N, inputs]: all outputs, and the output and cell of the last step."""

    def part(kind):
        values = weights[f"{name}.{kind}_l{layer}"]
        # Gates: PyTorch has input, forget, cell, output; ONNX input, output, forget, cell.
        i, f, c, o = np.split(values, 4)
        return np.concatenate([i, o, f, c])

    place = f"{name}.{layer}"
    fed = [
        x,
        graph.weight(f"{place}.of_inputs", part("weight_ih")[None]),
        graph.weight(f"{place}.of_outputs", part("weight_hh")[None]),
        graph.weight(f"{place}.biases", np.concatenate([part("bias_ih"), part("bias_hh")])[None]),
    ]
    if state is not None:
        fed += ["", *(graph.node("Unsqueeze", one, graph.integers(0)) for one in state)]
    size = weights[f"{name}.weight_hh_l{layer}"].shape[1]
    every, last, cell = graph.node("LSTM", *fed, outputs=3, hidden_size=size)
    return (
        graph.node("Squeeze", every, graph.integers(1)),
        graph.node("Squeeze", last, graph.integers(0)),
        graph.node("Squeeze", cell, graph.integers(0)),
    )


def layers(weights, name):
    return sum(key.startswith(f"{name}.weight_hh_l") for key in weights)


def turned(graph, x):
    return graph.node("Transpose", x, perm=[1, 0, 2])


def encoder(weights):
    graph = Graph("encoder")
    inputs = weights["encoder.pre_rnn.lstm.weight_ih_l0"].shape[1]
    x = turned(graph, graph.input("features", TensorProto.FLOAT, ["N", "T", inputs]))
    lengths = graph.input("lengths", TensorProto.INT64, ["N"])
    for layer in range(layers(weights, "encoder.pre_rnn.lstm")):
        x, _, _ = lstm(graph, x, weights, "encoder.pre_rnn.lstm", layer)
    x = turned(graph, x)
    # Frames behind the end of an utterance are zeros here, as they are where it stands alone.
    zero, one = graph.weight("zero", 0, np.int64), graph.weight("one", 1, np.int64)
    frames = graph.node("Gather", graph.node("Shape", x), one)
    places = graph.node("Range", zero, frames, one)
    is_there = graph.node("Less", places, graph.node("Unsqueeze", lengths, graph.integers(1)))
    is_there = graph.node("Cast", is_there, to=TensorProto.FLOAT)
    x = graph.node("Mul", x, graph.node("Unsqueeze", is_there, graph.integers(2)))
    odd = graph.node("Mod", graph.node("Unsqueeze", frames, graph.integers(0)), graph.integers(2))
    padding = graph.node("Concat", graph.integers(0, 0, 0, 0), odd, graph.integers(0), axis=0)
    x = graph.node("Pad", x, padding)
    joined = weights["encoder.post_rnn.lstm.weight_ih_l0"].shape[1]
    x = turned(graph, graph.node("Reshape", x, graph.integers(0, -1, joined)))
    for layer in range(layers(weights, "encoder.post_rnn.lstm")):
        x, _, _ = lstm(graph, x, weights, "encoder.post_rnn.lstm", layer)
    size = weights["encoder.post_rnn.lstm.weight_hh_l0"].shape[1]
    graph.output("heard", turned(graph, x), ["N", "P", size])
    return graph


def prediction(weights):
    graph, name = Graph("prediction"), "prediction.dec_rnn.lstm"
    table = weights["prediction.embed.weight"]
    size = table.shape[1]
    character = graph.input("character", TensorProto.INT64, ["N", 1])
    zero = graph.integers(0)
    is_said = graph.node("GreaterOrEqual", character, zero)
    is_said = graph.node("Cast", is_said, to=TensorProto.FLOAT)
    number = graph.node("Max", character, zero)
    x = graph.node("Gather", graph.weight("table", table), number)
    # Before anything was said, the character is -1 and its vector zero.
    x = turned(graph, graph.node("Mul", x, graph.node("Unsqueeze", is_said, graph.integers(2))))
    for layer in range(layers(weights, name)):
        names = [f"output_{layer}", f"cell_{layer}"]
        state = [graph.input(one, TensorProto.FLOAT, ["N", size]) for one in names]
        x, *new = lstm(graph, x, weights, name, layer, state)
        for one, value in zip(names, new):
            graph.output(f"next_{one}", value, ["N", size])
    graph.output("said", graph.node("Squeeze", x, graph.integers(0)), ["N", size])
    return graph


def joint(weights):
    graph = Graph("joint")
    places = sorted({int(key.split(".")[-2]) for key in weights if key.startswith("joint.net.")})
    said = weights["prediction.embed.weight"].shape[1]
    heard = weights[f"joint.net.{places[0]}.weight"].shape[1] - said
    inputs = [
        graph.input("heard", TensorProto.FLOAT, ["N", heard]),
        graph.input("said", TensorProto.FLOAT, ["N", said]),
    ]
    x = graph.node("Concat", *inputs, axis=1)
    for place in places:
        parts = [graph.weight(f"{place}.{part}", weights[f"joint.net.{place}.{part}"])
                 for part in ("weight", "bias")]
        x = graph.node("Gemm", x, *parts, transB=1)
        if place != places[-1]:
            x = graph.node("Relu", x)
    graph.output("scores", x, ["N", weights[f"joint.net.{places[-1]}.bias"].shape[0]])
    return graph


def read(path):
    import torch

    state = torch.load(path, map_location="cpu", weights_only=False)["state_dict"]
    return {
        name.removeprefix("module.").replace("joint_net", "joint.net"): values.float().numpy()
        for name, values in state.items()
    }


def main():
    checkpoint, folder = sys.argv[1:]
    weights = read(checkpoint)
    for graph in (encoder(weights), prediction(weights), joint(weights)):
        graph.save(folder)


if __name__ == "__main__":
    main()
