#!/usr/bin/env python3
"""Makes the ONNX files of this folder, one for each option of LSTM, GRU and RNN, and `outputs.json`:
what ONNX Runtime makes of them. Weights and inputs are random, of a fixed seed.

    python3 make.py [FOLDER SEED]            # needs numpy and onnxruntime
"""
import json
import pathlib
import struct
import sys

import numpy as np
import onnxruntime as ort

HERE = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
STEPS, BATCH, INPUTS, UNITS = 4, 3, 2, 3
RANDOM = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 7)


# The wire format of protocol buffers: a key, then a number, four bytes, or a length and bytes.
def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


# Messages with the field numbers of onnx.proto.
TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9}


def tensor(name, array):
    array = np.asarray(array)
    dims = b"".join(field(1, d) for d in array.shape)
    return dims + field(2, TYPES[array.dtype.name]) + field(8, name) + field(9, array.tobytes())


def attribute(name, value):
    out = field(1, name)
    if isinstance(value, np.ndarray):
        return out + field(5, tensor("", value)) + field(20, 4)
    if isinstance(value, float):
        return out + field(2, value) + field(20, 1)
    if isinstance(value, int):
        return out + field(3, value) + field(20, 2)
    if isinstance(value, str):
        return out + field(4, value) + field(20, 3)
    if isinstance(value, bytes):
        return out + field(6, value) + field(20, 5)
    if isinstance(value[0], float):
        return out + b"".join(field(7, v) for v in value) + field(20, 6)
    if isinstance(value[0], str):
        return out + b"".join(field(9, v) for v in value) + field(20, 8)
    return out + b"".join(field(8, v) for v in value) + field(20, 7)


def node(op, inputs, outputs, domain="", **attributes):
    out = b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs)
    out += field(3, outputs[0] + "_node") + field(4, op)
    out += b"".join(field(5, attribute(*item)) for item in attributes.items())
    return out + (field(7, domain) if domain else b"")


def port(name, kind, shape):
    dims = b"".join(field(1, field(1, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, TYPES[kind]) + field(2, dims)))


def graph(name, nodes, tensors, inputs, outputs):
    out = b"".join(field(1, n) for n in nodes) + field(2, name)
    out += b"".join(field(5, tensor(*item)) for item in tensors.items())
    return out + b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs)


def model(body):
    sets = [field(1, ""), field(1, "com.microsoft")]
    sets = [sets[0] + field(2, 14), sets[1] + field(2, 1)]
    return field(1, 7) + field(2, "make.py") + field(7, body) + b"".join(field(8, s) for s in sets)


def uniform(*shape, scale=0.8):
    return RANDOM.uniform(-scale, scale, shape).astype(np.float32)


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1, "DynamicQuantizeLSTM": 4}
CASES = {}


def case(name, op, direction="forward", bias=True, lengths=False, initial=False, peepholes=False,
         make=None, quantised=None, **attributes):
    count, gates = (2 if direction == "bidirectional" else 1), GATES[op]
    rows, is_lstm = gates * UNITS, gates == 4
    tensors = {"W": uniform(count, rows, INPUTS), "R": uniform(count, rows, UNITS)}
    batch_first = attributes.get("layout", 0)
    turn = (lambda a: np.ascontiguousarray(a.swapaxes(0, 1))) if batch_first else (lambda a: a)
    feeds = {"X": turn(uniform(STEPS, BATCH, INPUTS, scale=2.0))}
    names = ["X", "W", "R", "", "", "", "", ""]
    if bias:
        tensors["B"], names[3] = uniform(count, 2 * rows), "B"
    if lengths:
        feeds["lengths"], names[4] = np.array([2, 4, 1], np.int32), "lengths"
    if initial:
        for at, state in enumerate(["h0", "c0"][: 2 if is_lstm else 1]):
            feeds[state], names[5 + at] = turn(uniform(count, BATCH, UNITS)), state
    if peepholes:
        tensors["P"], names[7] = uniform(count, 3 * UNITS), "P"
    if quantised:
        for weights in "WR":
            of = tensors[weights].swapaxes(1, 2)
            per = (count, rows) if quantised == "channel" else (count,)
            scale = np.abs(of).max(axis=1 if quantised == "channel" else (1, 2)).reshape(per) / 100
            wide = scale.reshape(count, 1, -1)
            kind, zero = (np.int8, 0) if quantised == "channel" else (np.uint8, 120)
            tensors[weights] = np.clip(np.rint(of / wide) + zero, -128 if zero == 0 else 0, 255).astype(kind)
            tensors[weights + "_scale"] = scale.astype(np.float32)
            tensors[weights + "_zero"] = np.full(per, zero, kind)
        names += ["W_scale", "W_zero", "R_scale", "R_zero"]
    outputs = ["Y", "Y_h", "Y_c"][: 3 if is_lstm else 2]
    while names and not names[-1]:
        names.pop()
    rnn = node(op, names, outputs, "com.microsoft" if quantised else "", hidden_size=UNITS,
               direction=direction, **attributes)
    ports = [port("Y", "float32", [BATCH, STEPS, count, UNITS] if batch_first else [STEPS, count, BATCH, UNITS])]
    ports += [port(o, "float32", [BATCH, count, UNITS] if batch_first else [count, BATCH, UNITS]) for o in outputs[1:]]
    inputs = [port(n, a.dtype.name, a.shape) for n, a in feeds.items()]
    nodes, tensors = make(rnn, tensors) if make else ([rnn], tensors)
    CASES[name] = (model(graph(name, nodes, tensors, inputs, ports)), feeds, outputs)


for op in ("LSTM", "GRU", "RNN"):
    for direction in ("forward", "reverse", "bidirectional"):
        case(f"{op.lower()}_{direction}_lengths_initial", op, direction, lengths=True, initial=True)
    case(f"{op.lower()}_no_bias", op, bias=False)
    case(f"{op.lower()}_clip", op, "bidirectional", clip=0.3)
case("lstm_peepholes", "LSTM", peepholes=True, initial=True)
case("lstm_peepholes_clip", "LSTM", "bidirectional", peepholes=True, initial=True, clip=0.4)
case("lstm_input_forget", "LSTM", input_forget=1, peepholes=True, initial=True)
case("lstm_activations", "LSTM", "bidirectional", activations=["HardSigmoid", "ScaledTanh", "Softsign",
     "Sigmoid", "Elu", "Affine"], activation_alpha=[0.3, 0.9, 0.7, 0.6], activation_beta=[0.4, 0.8, 0.1])
case("gru_reset_after", "GRU", "bidirectional", linear_before_reset=1, lengths=True, initial=True)
case("gru_reset_after_clip", "GRU", linear_before_reset=1, clip=0.3)
case("gru_activations", "GRU", activations=["HardSigmoid", "Softplus"])
for name in ("Relu", "LeakyRelu", "HardSigmoid", "Elu", "Softsign", "Softplus", "Sigmoid"):
    case(f"rnn_{name.lower()}_defaults", "RNN", activations=[name])
# Without its alpha, ONNX Runtime takes 0 and not the operator's 1, which ONNX asks for.
case("rnn_thresholdedrelu", "RNN", activations=["ThresholdedRelu"], activation_alpha=[0.3])
case("rnn_affine", "RNN", activations=["Affine"], activation_alpha=[0.5], activation_beta=[0.1])
case("rnn_scaledtanh", "RNN", activations=["ScaledTanh"], activation_alpha=[0.5], activation_beta=[0.7])
case("lstm_dynamic_tensor", "DynamicQuantizeLSTM", quantised="tensor")
case("lstm_dynamic_channel", "DynamicQuantizeLSTM", "bidirectional", quantised="channel")


def chained(rnn, tensors):
    """W through Constant, Transpose and Unsqueeze; R through Slice and Identity; B through Concat."""
    turned = np.ascontiguousarray(tensors["W"][0].T)
    long = np.concatenate([np.ones((1, 2, UNITS), np.float32), tensors["R"]], axis=1)
    half = tensors["B"].shape[1] // 2
    nodes = [
        node("Constant", [], ["w_turned"], value=turned),
        node("Transpose", ["w_turned"], ["w_flat"], perm=[1, 0]),
        node("Unsqueeze", ["w_flat", "first"], ["W"]),
        node("Slice", ["r_long", "two", "end", "second"], ["r_cut"]),
        node("Identity", ["r_cut"], ["R"]),
        node("Concat", ["b_input", "b_state"], ["B"], axis=1),
        rnn,
    ]
    return nodes, {
        "first": np.array([0]), "second": np.array([1]), "two": np.array([2]), "r_long": long,
        "end": np.array([2**63 - 1]), "b_input": tensors["B"][:, :half], "b_state": tensors["B"][:, half:],
    }


def branched(rnn, tensors):
    """The node inside of a branch, its weights half inside and half around; the condition is constant."""
    outer = {"yes": np.array(True), "W": tensors.pop("W")}
    inner = rnn.replace(b"Y", b"Z")
    ports = [port(name, "float32", [STEPS, 1, BATCH, UNITS] if name == "Z" else [1, BATCH, UNITS])
             for name in ("Z", "Z_h", "Z_c")]
    then = graph("then", [inner], tensors, [], ports)
    others = [node("ConstantOfShape", [shape], [name], value=np.zeros(1, np.float32))
              for shape, name in (("all", "Z"), ("one", "Z_h"), ("one", "Z_c"))]
    outer |= {"all": np.array([STEPS, 1, BATCH, UNITS]), "one": np.array([1, BATCH, UNITS])}
    other = graph("else", others, {}, [], ports)
    return [node("If", ["yes"], ["Y", "Y_h", "Y_c"], then_branch=then, else_branch=other)], outer


case("lstm_chained", "LSTM", make=chained)
case("lstm_in_a_branch", "LSTM", make=branched)

records = {"origin": f"make.py with onnxruntime {ort.__version__}, CPU", "cases": {}}
for name, (data, feeds, outputs) in CASES.items():
    (HERE / f"{name}.onnx").write_bytes(data)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    found = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(outputs, feeds)
    plain = lambda a: {"shape": a.shape, "values": [float(np.float32(x)) if a.dtype == np.float32 else int(x) for x in a.ravel()]}
    records["cases"][name] = {
        "feeds": {key: plain(value) for key, value in feeds.items()},
        "outputs": {key: plain(value) for key, value in zip(outputs, found)},
    }
lines = [f'  "{name}": {json.dumps(record)}' for name, record in records["cases"].items()]
text = f'{{"origin": {json.dumps(records["origin"])},\n "cases": {{\n' + ",\n".join(lines) + "\n}}\n"
(HERE / "outputs.json").write_text(text)
