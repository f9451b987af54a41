"""Latency of the models that DeepCPU serves in PyTorch beside Dyno's: text similarity of 33 documents, an
attention-sum reader and BiDAF, with the same weights and words. Peers run in this process, Dyno in one of its own
that is told by lines; blocks of calls take turns. Prints one JSON line a model, with the medians of each round.

usage: rnn_models.py MODELS_PROGRAM FOLDER PRECISION ROUNDS SECONDS MODEL...
"""

import json
import os
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from rnn import REST, cores, counts, timed

VOCABULARY = 50000


class Dyno:
    """Dyno's program, which answers lines by lines of JSON."""

    def __init__(self, program):
        self.process = subprocess.Popen(
            [program, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, line):
        print(line, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("dyno's program ended: " + line)
        return json.loads(answer)


torch.set_grad_enabled(False)


def mixed(stream, count):
    """The generator of `dyno_rnn::served`, each number by itself."""
    with np.errstate(over="ignore"):
        x = np.uint64(stream << 36) + np.arange(count, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def words(which, steps, batch):
    """As (steps, batch)."""
    found = mixed((1 << 20) + (1 << 8) + which, steps * batch) % np.uint64(VOCABULARY)
    return torch.from_numpy(found.astype(np.int64).reshape(steps, batch))


class Drawn:
    """Weights, each tensor from the next stream."""

    def __init__(self):
        self.stream = 0

    def take(self, shape, scale):
        self.stream += 1
        found = mixed(self.stream, int(np.prod(shape))) >> np.uint64(40)
        numbers = (found.astype(np.float32) / np.float32(1 << 23) - np.float32(1)) * np.float32(scale)
        return torch.from_numpy(numbers.reshape(shape))

    def table(self, width):
        return nn.Embedding.from_pretrained(self.take((VOCABULARY, width), 1.0))

    def linear(self, inputs, outputs):
        layer = nn.Linear(inputs, outputs)
        for parameter in (layer.weight, layer.bias):
            parameter.data.copy_(self.take(parameter.shape, np.float32(inputs) ** -0.5))
        return layer

    def recurrent(self, kind, inputs, units, layer=None, index=0):
        """A bidirectional layer, or one of a stack. Dyno's GRU has its gates as z, r, n."""
        layer = layer or kind(inputs, units, bidirectional=True)
        gates = [0, 1, 2, 3] if kind is nn.LSTM else [1, 0, 2]
        for direction in ("", "_reverse"):
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                parameter = getattr(layer, f"{name}_l{index}{direction}")
                parts = self.take(parameter.shape, np.float32(units) ** -0.5).chunk(len(gates))
                parameter.data.copy_(torch.cat([parts[gate] for gate in gates]))
        return layer


class TextSimilarity(nn.Module):
    def __init__(self):
        super().__init__()
        drawn = Drawn()
        self.table = drawn.table(200)
        self.encoder = drawn.recurrent(nn.GRU, 200, 512)
        self.inputs = (words(0, 20, 34),)

    def forward(self, texts):
        states = self.encoder(self.table(texts))[1]
        vectors = torch.cat((states[0], states[1]), 1)
        return F.cosine_similarity(vectors[:1], vectors[1:])

    def numbers(self, found):
        return found


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        drawn = Drawn()
        self.table = drawn.table(200)
        self.of_query = drawn.recurrent(nn.GRU, 200, 256)
        self.of_documents = drawn.recurrent(nn.GRU, 200, 256)
        self.inputs = (words(0, 20, 1), words(1, 100, 10))

    def forward(self, query, documents):
        states = self.of_query(self.table(query))[1]
        keys = self.of_documents(self.table(documents))[0]
        scores = keys.reshape(-1, 512) @ states.reshape(512)
        weights = scores.softmax(0)
        sums = torch.zeros(VOCABULARY, dtype=weights.dtype).index_add_(0, documents.reshape(-1), weights)
        return sums.argmax(), sums

    def numbers(self, found):
        """What Dyno answers: the sum of each word where it stands first."""
        seen, places = set(), []
        for word in self.inputs[1].reshape(-1).tolist():
            places.append(0.0 if word in seen else found[1][word].item())
            seen.add(word)
        return torch.tensor(places, dtype=torch.float64)


class Bidaf(nn.Module):
    def __init__(self):
        super().__init__()
        drawn, width, units = Drawn(), 50, 100
        self.table = drawn.table(width)
        self.highways = nn.ModuleList(drawn.linear(width, width) for _ in range(4))
        self.contextual = drawn.recurrent(nn.LSTM, width, units)
        self.weights = nn.Parameter(drawn.take((6 * units,), 0.1))
        self.modelling = nn.LSTM(8 * units, units, num_layers=2, bidirectional=True)
        for index in range(2):
            drawn.recurrent(nn.LSTM, None, units, self.modelling, index)
        self.of_end = drawn.recurrent(nn.LSTM, 14 * units, units)
        self.start, self.end = (drawn.linear(10 * units, 1) for _ in range(2))
        self.inputs = (words(0, 100, 1), words(1, 15, 1))

    def encode(self, text):
        x = self.table(text)
        for gate, candidate in zip(self.highways[::2], self.highways[1::2]):
            t = torch.sigmoid(gate(x))
            x = t * torch.relu(candidate(x)) + (1 - t) * x
        return self.contextual(x)[0].squeeze(1)

    def forward(self, context, query):
        h, u = self.encode(context), self.encode(query)
        of_h, of_u, of_both = self.weights.chunk(3)
        scores = (h @ of_h).unsqueeze(1) + u @ of_u + (h * of_both) @ u.T
        to_query = scores.softmax(1) @ u
        to_context = scores.amax(1).softmax(0) @ h
        aware = torch.cat((h, to_query, h * to_query, h * to_context), 1)
        modelled = self.modelling(aware.unsqueeze(1))[0].squeeze(1)
        start = self.start(torch.cat((aware, modelled), 1)).squeeze(1).softmax(0)
        state = (start @ modelled).expand_as(modelled)
        joined = torch.cat((aware, modelled, state, modelled * state), 1)
        ended = self.of_end(joined.unsqueeze(1))[0].squeeze(1)
        return start, self.end(torch.cat((aware, ended), 1)).squeeze(1).softmax(0)

    def numbers(self, found):
        return torch.cat(found)


MODELS = {"text_similarity": TextSimilarity, "reader": Reader, "bidaf": Bidaf}


def peers(make, precision):
    """Names and models."""
    if precision == "fp32":
        return [("torch-fp32", make().eval())]
    found = [("torch-bf16", make().eval().to(torch.bfloat16))]
    try:
        from torch.ao.quantization import quantize_dynamic

        # Layers of single numbers stay as they are: so does Dyno's.
        kinds = {nn.GRU, nn.LSTM, nn.Linear}
        found.append(("torch-int8", quantize_dynamic(make().eval(), kinds, dtype=torch.qint8)))
    except Exception as error:
        print(f"torch-int8 is not there: {error}", file=sys.stderr)
    return found


def measure(dyno, name, precision, rounds, seconds, folder):
    opened = dyno.ask(f"open {name} {precision} {len(cores())} {folder}")
    make = MODELS[name]
    of = lambda model: model.numbers(model(*model.inputs)).double().numpy()
    expected = of(make().eval().double())
    error = lambda found: float(np.abs(found - expected).max())
    errors = {"dyno": error(np.fromfile(os.path.join(folder, "y"), np.float32).astype(np.float64))}
    models = peers(make, precision)
    for peer, model in models:
        errors[peer] = error(of(model))
    times = {"dyno": []}
    for _ in range(rounds):
        time.sleep(REST)
        told = dyno.ask(f"time {seconds}")
        times["dyno"].append(told["ms"])
        for peer, model in models:
            for threads in counts():
                torch.set_num_threads(threads)
                time.sleep(REST)
                call = lambda: model(*model.inputs)
                call()
                times.setdefault(f"{peer}/{threads}", []).append(timed(call, seconds))
    return {"model": name, "times": times, "errors": errors, **opened, "allocations": told["allocations"]}


def main():
    program, folder, precision, rounds, seconds = sys.argv[1:6]
    dyno = Dyno(program)
    for name in sys.argv[6:]:
        print(json.dumps(measure(dyno, name, precision, int(rounds), float(seconds), folder)), flush=True)


main()
