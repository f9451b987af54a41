"""Writes the two models that the task `gnmt` takes: encoder.onnx and decoder.onnx.

    python3 crates/task/export/gnmt.py ende_gnmt_model_4_layer/translate.ckpt FOLDER

Needs tensorflow, which only reads the checkpoint, numpy and onnx. What the models take and put
out is said in docs/tasks/speech-and-translation.md. The network is `wmt16_gnmt_4_layer` of the
`nmt` tutorial: encoder `gnmt`, attention `normed_bahdanau` in the architecture `gnmt_v2`.
"""

import sys

import numpy as np
from graph import Graph
from onnx import TensorProto

# From this layer on, what comes in is added to what comes out.
RESIDUAL_FROM = 2
# BasicLSTMCell adds it to the forget gate.
FORGET = 1.0


class Weights:
    """Variables of a checkpoint by the end of their names."""

    def __init__(self, variables):
        self.variables = variables

    def __getitem__(self, end):
        found = [name for name in self.variables if f"/{name}".endswith(f"/{end}")]
        if len(found) != 1:
            sys.exit(f"expected one variable whose name ends in {end}, found {found}")
        return self.variables[found[0]]

    def layers(self, of):
        return sum(of in name and name.endswith("lstm_cell/kernel") for name in self.variables)

    def cell(self, name):
        """Weights of an LSTM as ONNX has them: of inputs, of outputs, biases."""
        kernel, bias = self[f"{name}/basic_lstm_cell/kernel"], self[f"{name}/basic_lstm_cell/bias"]
        size = kernel.shape[1] // 4
        # Gates: TensorFlow has input, cell, forget, output; ONNX input, output, forget, cell.
        i, c, f, o = np.split(np.concatenate([kernel, bias[None]]), 4, axis=1)
        f = np.concatenate([f[:-1], f[-1:] + FORGET])
        every = np.concatenate([i, o, f, c], axis=1)
        of_inputs, of_outputs, bias = np.split(every, [kernel.shape[0] - size, kernel.shape[0]])
        return of_inputs.T, of_outputs.T, np.concatenate([bias[0], np.zeros_like(bias[0])])


def lstm(graph, x, name, cells, fed, **attributes):
    """A layer over [T, N, inputs] that reads in as many ways as there are cells."""
    parts = zip(("of_inputs", "of_outputs", "biases"), zip(*cells))
    parts = [graph.weight(f"{name}.{part}", np.stack(values)) for part, values in parts]
    size = cells[0][1].shape[1]
    return graph.node("LSTM", x, *parts, *fed, outputs=3, hidden_size=size, **attributes)


def encoder(weights):
    graph = Graph("encoder")
    pieces = graph.input("pieces", TensorProto.INT64, ["N", "T"])
    lengths = graph.input("lengths", TensorProto.INT64, ["N"])
    counts = graph.node("Cast", lengths, to=TensorProto.INT32)
    table = graph.weight("table", weights["embeddings/encoder/embedding_encoder"])
    x = graph.node("Gather", table, graph.node("Transpose", pieces, perm=[1, 0]))
    both = [weights.cell(f"encoder/bidirectional_rnn/{way}") for way in ("fw", "bw")]
    size = both[0][1].shape[1]
    every, last, cell = lstm(graph, x, "both", both, [counts], direction="bidirectional")
    x = graph.node("Transpose", every, perm=[0, 2, 1, 3])
    x = graph.node("Reshape", x, graph.integers(0, 0, 2 * size))
    # The decoder begins where the backward one ended.
    states = [[graph.node("Gather", of, graph.weight(f"backward_{at}", 1, np.int64), axis=0)
               for at, of in enumerate((last, cell))]]
    for layer in range(1, 1 + weights.layers("encoder/rnn/")):
        cells = [weights.cell(f"encoder/rnn/multi_rnn_cell/cell_{layer - 1}")]
        every, *state = lstm(graph, x, f"layer_{layer}", cells, [counts])
        y = graph.node("Squeeze", every, graph.integers(1))
        x = graph.node("Add", y, x) if layer >= RESIDUAL_FROM else y
        states.append([graph.node("Squeeze", of, graph.integers(0)) for of in state])
    memory = graph.node("Transpose", x, perm=[1, 0, 2])
    graph.output("memory", memory, ["N", "T", size])
    of_memory = graph.weight("of_memory", weights["decoder/memory_layer/kernel"])
    graph.output("keys", graph.node("MatMul", memory, of_memory), ["N", "T", size])
    for layer, state in enumerate(states):
        for kind, value in zip(("output", "cell"), state):
            graph.output(f"{kind}_{layer}", value, ["N", size])
    return graph


def decoder(weights):
    graph = Graph("decoder")
    piece = graph.input("piece", TensorProto.INT64, ["B"])
    lengths = graph.input("lengths", TensorProto.INT64, ["B"])
    table = weights["embeddings/decoder/embedding_decoder"]
    size = table.shape[1]
    memory, keys = (graph.input(name, TensorProto.FLOAT, ["B", "T", size])
                    for name in ("memory", "keys"))
    context = graph.input("context", TensorProto.FLOAT, ["B", size])
    x = graph.node("Gather", graph.weight("table", table), piece)
    for layer in range(weights.layers("decoder/multi_rnn_cell/")):
        names = [f"output_{layer}", f"cell_{layer}"]
        state = [graph.input(name, TensorProto.FLOAT, ["B", size]) for name in names]
        cell = "cell_0_attention/attention" if layer == 0 else f"cell_{layer}"
        cells = [weights.cell(f"decoder/multi_rnn_cell/{cell}")]
        both = graph.node("Concat", x, context, axis=1)
        first = [graph.node("Unsqueeze", of, graph.integers(0)) for of in (both, *state)]
        _, *new = lstm(graph, first[0], f"layer_{layer}", cells, ["", *first[1:]])
        new = [graph.node("Squeeze", of, graph.integers(0)) for of in new]
        for name, value in zip(names, new):
            graph.output(f"next_{name}", value, ["B", size])
        if layer == 0:
            context = attention(graph, weights, new[0], memory, keys, lengths)
            graph.output("next_context", context, ["B", size])
        x = graph.node("Add", new[0], x) if layer >= RESIDUAL_FROM else new[0]
    projection = weights["decoder/output_projection/kernel"]
    scores = graph.node("MatMul", x, graph.weight("projection", projection))
    scores = graph.node("LogSoftmax", scores, axis=1)
    graph.output("log_probabilities", scores, ["B", projection.shape[1]])
    return graph


def attention(graph, weights, query, memory, keys, lengths):
    """The sum of the memory in the shares that the query has in it."""
    place = "attention/bahdanau_attention"
    of_query = graph.weight("of_query", weights[f"{place}/query_layer/kernel"])
    query = graph.node("Unsqueeze", graph.node("MatMul", query, of_query), graph.integers(1))
    bias = graph.weight("attention_bias", weights[f"{place}/attention_b"])
    bent = graph.node("Tanh", graph.node("Add", graph.node("Add", keys, query), bias))
    along = weights[f"{place}/attention_v"]
    along = weights[f"{place}/attention_g"] * along / np.sqrt(np.sum(along * along))
    scores = graph.node("MatMul", bent, graph.weight("attention_v", along))
    zero, one = graph.weight("zero", 0, np.int64), graph.weight("one", 1, np.int64)
    pieces = graph.node("Gather", graph.node("Shape", memory), one)
    places = graph.node("Range", zero, pieces, one)
    is_there = graph.node("Less", places, graph.node("Unsqueeze", lengths, graph.integers(1)))
    scores = graph.node("Where", is_there, scores, graph.weight("never", -np.inf))
    shares = graph.node("Unsqueeze", graph.node("Softmax", scores, axis=1), graph.integers(1))
    return graph.node("Squeeze", graph.node("MatMul", shares, memory), graph.integers(1))


def read(checkpoint):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(checkpoint)
    return Weights({name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()})


def main():
    checkpoint, folder = sys.argv[1:]
    weights = read(checkpoint)
    for graph in (encoder(weights), decoder(weights)):
        graph.save(folder)


if __name__ == "__main__":
    main()
