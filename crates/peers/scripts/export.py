"""Holds what crates/task/export writes against the layers of PyTorch and TensorFlow in NumPy.

    python3 export.py FOLDER_OF_SCRIPTS SCRATCH

Weights are random and small; their names are those of the checkpoints, which are not needed.
"""

import sys

import numpy as np
import onnxruntime

SCRIPTS, SCRATCH = sys.argv[1:]
sys.path.insert(0, SCRIPTS)

import gnmt  # noqa: E402
import rnnt  # noqa: E402

# float32 against float64, over a few layers.
ROUNDING = 1e-5
RANDOM = np.random.default_rng(1)


def values(*shape):
    return (RANDOM.normal(size=shape) * 0.6).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def opened(graphs):
    for graph in graphs:
        graph.save(SCRATCH)
    return [onnxruntime.InferenceSession(f"{SCRATCH}/{graph.name}.onnx") for graph in graphs]


def called(session, fed):
    return dict(zip([port.name for port in session.get_outputs()], session.run(None, fed)))


def near(what, found, expected):
    far = float(np.abs(found - expected).max())
    if found.shape != expected.shape or not far < ROUNDING:
        sys.exit(f"{what}: {found.shape} differs from {expected.shape} by {far}")


def padded(rows, filler):
    longest = max(map(len, rows))
    every = np.full((len(rows), longest, *rows[0].shape[1:]), filler, rows[0].dtype)
    for to, row in zip(every, rows):
        to[: len(row)] = row
    return every, np.array([len(row) for row in rows])


class Torch:
    """`torch.nn.LSTM`: gates input, forget, cell, output, and two biases."""

    def __init__(self):
        self.weights = {}

    def add(self, name, sizes):
        for layer, (inputs, size) in enumerate(sizes):
            for kind, shape in (("weight_ih", (4 * size, inputs)), ("weight_hh", (4 * size, size)),
                                ("bias_ih", (4 * size,)), ("bias_hh", (4 * size,))):
                self.weights[f"{name}.{kind}_l{layer}"] = values(*shape)

    def lstm(self, name, layer, xs, state=None):
        of_inputs, of_outputs, one, two = (
            self.weights[f"{name}.{kind}_l{layer}"].astype(np.float64)
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        h, c = state or (np.zeros(of_outputs.shape[1]),) * 2
        every = []
        for x in xs:
            i, f, g, o = np.split(of_inputs @ x + one + of_outputs @ h + two, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            every.append(h)
        return np.array(every), (h, c)


def check_rnnt():
    features, size, said, hidden, symbols = 6, 8, 5, 7, 29
    net = Torch()
    net.add("encoder.pre_rnn.lstm", [(features, size), (size, size)])
    net.add("encoder.post_rnn.lstm", [(2 * size, size), (size, size), (size, size)])
    net.add("prediction.dec_rnn.lstm", [(said, said)] * 2)
    weights = net.weights
    weights["prediction.embed.weight"] = values(symbols - 1, said)
    for place, shape in ((0, (hidden, size + said)), (3, (symbols, hidden))):
        weights[f"joint.net.{place}.weight"] = values(*shape)
        weights[f"joint.net.{place}.bias"] = values(shape[0])
    encoder, prediction, joint = opened([of(weights) for of in (rnnt.encoder, rnnt.prediction, rnnt.joint)])
    utterances = [values(count, features) for count in (7, 4, 9, 1)]
    # Whatever stands behind an utterance is not heard.
    every, lengths = padded(utterances, 9)
    heard = called(encoder, {"features": every, "lengths": lengths})["heard"]
    for found, x in zip(heard, utterances):
        for layer in range(2):
            x, _ = net.lstm("encoder.pre_rnn.lstm", layer, x)
        x = np.concatenate([x, np.zeros((len(x) % 2, size))]).reshape(-1, 2 * size)
        for layer in range(3):
            x, _ = net.lstm("encoder.post_rnn.lstm", layer, x)
        near("rnnt encoder", found[: len(x)], x)
    fed = {f"{kind}_{layer}": np.zeros((2, said), np.float32)
           for layer in range(2) for kind in ("output", "cell")}
    states = [[None] * 2 for _ in range(2)]
    for characters in ([-1, -1], [3, 27], [0, 5]):
        found = called(prediction, {"character": np.array(characters)[:, None], **fed})
        for row, character in enumerate(characters):
            table = weights["prediction.embed.weight"]
            x = (np.zeros(said) if character < 0 else table[character])[None]
            for layer in range(2):
                x, states[row][layer] = net.lstm(
                    "prediction.dec_rnn.lstm", layer, x, states[row][layer])
            near("rnnt prediction", found["said"][row], x[0])
        fed = {name: found[f"next_{name}"] for name in fed}
    one, two = values(3, size), values(3, said)
    x = np.concatenate([one, two], 1) @ weights["joint.net.0.weight"].T + weights["joint.net.0.bias"]
    x = np.maximum(x, 0) @ weights["joint.net.3.weight"].T + weights["joint.net.3.bias"]
    near("rnnt joint", called(joint, {"heard": one, "said": two})["scores"], x)


class TensorFlow:
    """`BasicLSTMCell`: one kernel, gates input, cell, forget and 1, output."""

    def __init__(self):
        self.variables = {}

    def add(self, name, inputs, size):
        self.variables[f"dynamic_seq2seq/{name}/basic_lstm_cell/kernel"] = values(inputs + size, 4 * size)
        self.variables[f"dynamic_seq2seq/{name}/basic_lstm_cell/bias"] = values(4 * size)

    def cell(self, name, x, h, c):
        kernel, bias = (self.variables[f"dynamic_seq2seq/{name}/basic_lstm_cell/{kind}"]
                        for kind in ("kernel", "bias"))
        i, g, f, o = np.split(np.concatenate([x, h]).astype(np.float64) @ kernel + bias, 4)
        c = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(g)
        return np.tanh(c) * sigmoid(o), c

    def layer(self, name, xs):
        h = c = np.zeros(self.variables[f"dynamic_seq2seq/{name}/basic_lstm_cell/bias"].size // 4)
        every = []
        for x in xs:
            h, c = self.cell(name, x, h, c)
            every.append(h)
        return np.array(every), (h, c)


ATTENTION = "decoder/multi_rnn_cell/cell_0_attention/attention"


def gnmt_variables(size, pieces):
    net = TensorFlow()
    for way in ("fw", "bw"):
        net.add(f"encoder/bidirectional_rnn/{way}", size, size)
    for layer, inputs in enumerate((2 * size, size, size)):
        net.add(f"encoder/rnn/multi_rnn_cell/cell_{layer}", inputs, size)
    net.add(ATTENTION, 2 * size, size)
    for layer in (1, 2, 3):
        net.add(f"decoder/multi_rnn_cell/cell_{layer}", 2 * size, size)
    of = f"dynamic_seq2seq/{ATTENTION}/bahdanau_attention"
    net.variables |= {
        "embeddings/encoder/embedding_encoder": values(pieces, size),
        "embeddings/decoder/embedding_decoder": values(pieces, size),
        "dynamic_seq2seq/decoder/memory_layer/kernel": values(size, size),
        "dynamic_seq2seq/decoder/output_projection/kernel": values(size, pieces),
        f"{of}/query_layer/kernel": values(size, size),
        f"{of}/attention_v": values(size),
        f"{of}/attention_b": values(size),
        f"{of}/attention_g": np.float32(1.3),
        "learning_rate": np.float32(1),
    }
    return net


def gnmt_encoder(net, pieces):
    x = net.variables["embeddings/encoder/embedding_encoder"][pieces]
    forward, _ = net.layer("encoder/bidirectional_rnn/fw", x)
    backward, state = net.layer("encoder/bidirectional_rnn/bw", x[::-1])
    x, states = np.concatenate([forward, backward[::-1]], 1), [state]
    for layer in range(3):
        y, state = net.layer(f"encoder/rnn/multi_rnn_cell/cell_{layer}", x)
        x = y + x if layer >= 1 else y
        states.append(state)
    return x, states


def gnmt_step(net, piece, memory, context, states):
    variables, of = net.variables, f"dynamic_seq2seq/{ATTENTION}/bahdanau_attention"
    x, new = variables["embeddings/decoder/embedding_decoder"][piece], []
    for layer, state in enumerate(states):
        name = ATTENTION if layer == 0 else f"decoder/multi_rnn_cell/cell_{layer}"
        h, c = net.cell(name, np.concatenate([x, context]), *state)
        new.append((h, c))
        if layer == 0:
            along = variables[f"{of}/attention_v"]
            along = variables[f"{of}/attention_g"] * along / np.linalg.norm(along)
            keys = memory @ variables["dynamic_seq2seq/decoder/memory_layer/kernel"]
            query = h @ variables[f"{of}/query_layer/kernel"] + variables[f"{of}/attention_b"]
            shares = np.exp(np.tanh(keys + query) @ along)
            context = shares / shares.sum() @ memory
        x = h + x if layer >= 2 else h
    scores = x @ variables["dynamic_seq2seq/decoder/output_projection/kernel"]
    return scores - np.log(np.exp(scores).sum()), context, new


def check_gnmt():
    size, pieces = 6, 11
    net = gnmt_variables(size, pieces)
    weights = gnmt.Weights(net.variables)
    encoder, decoder = opened([gnmt.encoder(weights), gnmt.decoder(weights)])
    sentences = [np.array(one) for one in ([3, 4, 5], [6, 7, 8, 9, 10], [1])]
    every, lengths = padded(sentences, 2)
    fed = called(encoder, {"pieces": every, "lengths": lengths})
    expected = [gnmt_encoder(net, one) for one in sentences]
    for row, (memory, states) in enumerate(expected):
        near("gnmt memory", fed["memory"][row, : len(memory)], memory)
        for layer, state in enumerate(states):
            for kind, value in zip(("output", "cell"), state):
                near(f"gnmt {kind}", fed[f"{kind}_{layer}"][row], value)
    fed |= {"context": np.zeros((3, size), np.float32), "lengths": lengths}
    contexts, states = [np.zeros(size)] * 3, [states for _, states in expected]
    for said in ([1, 1, 1], [4, 7, 2], [5, 9, 10]):
        found = called(decoder, {**fed, "piece": np.array(said)})
        for row, piece in enumerate(said):
            scores, contexts[row], states[row] = gnmt_step(
                net, piece, expected[row][0], contexts[row], states[row])
            near("gnmt decoder", found["log_probabilities"][row], scores)
        fed |= {name: found[f"next_{name}"] for name in fed if f"next_{name}" in found}


check_rnnt()
check_gnmt()
print("models of rnnt and gnmt as NumPy has them")
