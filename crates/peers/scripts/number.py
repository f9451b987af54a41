"""Number formats beside the package ml_dtypes, ONNX Runtime's Cast and QuantizeLinear, and the reference of ONNX.

All codes are decoded. Encoded are: every value, what lies in the middle of two neighbours, the numbers of float32 next
to these, zeros, infinities, NaN, and random numbers. Where a peer means something else, it must be as the table of the
page says.

usage: number.py CONVERT PAGE [--quick] [--write]
"""

import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import onnx.helper
import onnx.reference
import onnxruntime
from onnx import TensorProto as T

BEGIN, END = "<!-- peers number -->", "<!-- end of peers number -->"
NO_NUMBER = 0xFFFFFFFF
FLAGS = [flag for flag in sys.argv[3:] if flag.startswith("--")]
CONVERT, PAGE = sys.argv[1:3]
RANDOM = 100_000 if "--quick" in FLAGS else 2_000_000

# Our name, NumPy's type, ONNX's type, bits.
FORMATS = [
    ("F16", np.float16, T.FLOAT16, 16),
    ("bf16", ml_dtypes.bfloat16, T.BFLOAT16, 16),
    ("fp8-e4m3fn", ml_dtypes.float8_e4m3fn, T.FLOAT8E4M3FN, 8),
    ("fp8-e5m2", ml_dtypes.float8_e5m2, T.FLOAT8E5M2, 8),
    ("fp8-e4m3fnuz", ml_dtypes.float8_e4m3fnuz, T.FLOAT8E4M3FNUZ, 8),
    ("fp8-e5m2fnuz", ml_dtypes.float8_e5m2fnuz, T.FLOAT8E5M2FNUZ, 8),
    ("fp8-e4m3", ml_dtypes.float8_e4m3, None, 8),
    ("fp8-e3m4", ml_dtypes.float8_e3m4, None, 8),
    ("fp8-e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz, None, 8),
    ("fp6-e3m2", ml_dtypes.float6_e3m2fn, None, 6),
    ("fp6-e2m3", ml_dtypes.float6_e2m3fn, None, 6),
    ("fp4-e2m1", ml_dtypes.float4_e2m1fn, T.FLOAT4E2M1, 4),
    ("e8m0", ml_dtypes.float8_e8m0fnu, getattr(T, "FLOAT8E8M0", None), 8),
    ("int4", ml_dtypes.int4, None, 4),
    ("uint4", ml_dtypes.uint4, None, 4),
    ("int2", ml_dtypes.int2, None, 2),
    ("uint2", ml_dtypes.uint2, None, 2),
]
WHOLE = [("int8", T.INT8, np.int8), ("uint8", T.UINT8, np.uint8), ("int4", T.INT4, ml_dtypes.int4),
         ("uint4", T.UINT4, ml_dtypes.uint4)]


def ours(format, numbers, *how):
    """What the library makes of float32 or of codes."""
    ran = subprocess.run([CONVERT, format, *how], input=numbers.tobytes(), capture_output=True)
    if ran.returncode:
        sys.exit(f"{format} {how}: {ran.stderr.decode()}")
    return np.frombuffer(ran.stdout, np.uint32)


def decoded(format, codes):
    """As float32; what is no number is NaN."""
    values = ours(format, codes.astype(np.uint32), "decode").view(np.float32).copy()
    values[codes == NO_NUMBER] = np.nan
    return values


def as_type(codes, dtype):
    """Values of a type of NumPy from codes of it."""
    small = np.uint16 if np.dtype(dtype).itemsize == 2 else np.uint8
    if np.dtype(dtype).name.startswith("int"):
        bits = int(np.dtype(dtype).name[3:])
        small, codes = np.int8, np.where(codes >> (bits - 1), codes.astype(np.int32) - (1 << bits), codes)
    return codes.astype(small).view(dtype)


def same(a, b):
    return (a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))


def inputs(values):
    """Borders between a format's values, and numbers of all sorts."""
    values = np.unique(values[np.isfinite(values)].astype(np.float64))
    middles = ((values[1:] + values[:-1]) / 2)
    # Beyond the largest, half a step and a whole one.
    beyond = values[-1] + np.array([0.5, 1, 1.5]) * (values[-1] - values[-2])
    points = np.concatenate([values, middles, beyond, -beyond])
    points = points[np.abs(points) <= np.finfo(np.float32).max].astype(np.float32)
    near = [points, np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(-np.inf))]
    some = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38], np.float32)
    random = np.random.default_rng(7)
    bits = random.integers(0, 1 << 32, RANDOM, np.uint32).view(np.float32)
    spread = (random.standard_normal(RANDOM) * min(np.abs(values).max(), 1e30)).astype(np.float32)
    return np.concatenate([*near, some, bits, spread, random.standard_normal(RANDOM).astype(np.float32)])


def kinds(x, values):
    """Sorts of numbers on which definitions may differ."""
    values = values[np.isfinite(values)]
    least, most = values.min(), values.max()
    beyond = np.isfinite(x) & ((x > most) | (x < least))
    kind = np.full(x.shape, "in range", "U24")
    kind[(x < 0) & (least >= 0)] = "below zero"
    kind[beyond & ~((x < 0) & (least >= 0))] = "beyond the largest"
    kind[x == 0] = "zero"
    kind[np.isinf(x)] = "infinity"
    kind[np.isnan(x)] = "NaN"
    return kind


TABLE, COUNTS = [], {}


def compare(format, peer, how, x, found, theirs, values):
    """One row for each sort of number that differs."""
    differs = ~same(found, theirs)
    COUNTS[peer] = COUNTS.get(peer, 0) + x.size
    kind = kinds(x, values)
    for sort in np.unique(kind[differs]):
        at = np.flatnonzero(differs & (kind == sort))
        # The same on every machine and with --quick: the first are the borders, in order.
        at = at[0]
        text = lambda v: "NaN" if np.isnan(v) else f"{v:.7g}"
        mine = "an error" if np.isnan(found[at]) and not np.isnan(values).any() else text(found[at])
        TABLE.append(f"| `{format}` | {peer} | {how} | {sort} | {text(x[at])} | {mine} | {text(theirs[at])} |")


def cast_model(to, saturate, sort):
    cast = onnx.helper.make_node("Cast", ["x"], ["y"], to=to, **({} if saturate is None else {"saturate": saturate}))
    back = onnx.helper.make_node("Cast", ["y"], ["z"], to=T.FLOAT)
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([cast, back], "g", [value("x", T.FLOAT, [None])], [value("z", T.FLOAT, [None])])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", sort)])
    model.ir_version = 10
    return model


def onnxruntime_of(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Otherwise it leaves out casts there and back.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


def casts(name, to, x, values):
    """The Cast of ONNX, by its reference and by ONNX Runtime."""
    is_eight = name.startswith("fp8")
    for saturate, how in [(1, "saturate"), (0, "infinite")] if is_eight else [(None, "default")]:
        opset = 24 if name == "e8m0" else 23 if name.startswith("fp4") else 19
        model = cast_model(to, saturate, opset)
        words = {"saturate": ["saturate"], "infinite": ["infinite"]}.get(how, [])
        found = decoded(name, ours(name, x, "encode", *words))
        peers = [("ONNX's reference", lambda m: lambda x: onnx.reference.ReferenceEvaluator(m).run(None, {"x": x})[0]),
                 ("ONNX Runtime", onnxruntime_of)]
        for peer, make in peers:
            try:
                with np.errstate(all="ignore"):
                    theirs = np.asarray(make(model)(x), np.float32)
            except Exception as error:
                print(f"without {peer}'s Cast to {name}: {str(error).splitlines()[0][:90]}")
                continue
            compare(name, f"{peer}, Cast", how, x, found, theirs, values)


def types():
    """NumPy's types: all codes, and numbers to codes."""
    for name, dtype, to, bits in FORMATS:
        codes = np.arange(1 << bits, dtype=np.uint32)
        values = decoded(name, codes)
        with np.errstate(all="ignore"):
            theirs = as_type(codes, dtype).astype(np.float32)
        if not same(values, theirs).all():
            sys.exit(f"{name}: codes {codes[~same(values, theirs)][:9]} are worth something else")
        x = inputs(values)
        is_whole = "int" in name
        words = ["infinite", *(["truncate"] if is_whole else [])]
        with np.errstate(all="ignore"):
            theirs = x.astype(dtype).astype(np.float32)
        found = decoded(name, ours(name, x, "encode", *words))
        peer = "NumPy" if name == "F16" else "ml_dtypes"
        compare(name, peer, "toward zero" if is_whole else "infinite", x, found, theirs, values)
        if to is not None:
            casts(name, to, x, values)


def affine():
    """QuantizeLinear, with scales that divide and that do not."""
    for name, to, dtype in WHOLE:
        for scale, zero in [(0.1, 0), (0.25, 3), (1 / 3, 1)]:
            node = onnx.helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"])
            back = onnx.helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])
            value = onnx.helper.make_tensor_value_info
            given = [onnx.helper.make_tensor("s", T.FLOAT, [], [scale]), onnx.helper.make_tensor("z", to, [], [zero])]
            graph = onnx.helper.make_graph([node, back], "g", [value("x", T.FLOAT, [None])],
                                           [value("y", T.FLOAT, [None])], given)
            model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
            model.ir_version = 10
            whole = np.arange(-600, 600, dtype=np.float64)
            borders = ((whole + 0.5) * np.float32(scale)).astype(np.float32)
            up, down = np.float32(np.inf), np.float32(-np.inf)
            x = np.concatenate([borders, np.nextafter(borders, up), np.nextafter(borders, down),
                                np.array([0, -0.0, np.inf, -np.inf, 3e38], np.float32),
                                np.random.default_rng(5).standard_normal(RANDOM).astype(np.float32) * 20])
            codes = ours(name, x, "affine", repr(float(np.float32(scale))), str(zero))
            found = (decoded(name, codes) - np.float32(zero)) * np.float32(scale)
            theirs = onnxruntime_of(model)(x)
            values = (decoded(name, np.arange(1 << (8 if "8" in name else 4), dtype=np.uint32)) - zero) * scale
            compare(name, "ONNX Runtime, QuantizeLinear", f"scale {scale:.4g}", x, found + np.float32(0), theirs + np.float32(0), values)


types()
affine()
head = ["| format | peer | overflow or rounding | numbers | such as | Dyno | the peer |", "| --- | --- | --- | --- | --- | --- | --- |"]
table = "\n".join(head + TABLE)
for peer, count in COUNTS.items():
    print(f"{peer}: {count:,} numbers")
text = open(PAGE, encoding="utf-8").read()
before, _, rest = text.partition(BEGIN)
was, _, after = rest.partition(END)
if "--write" in FLAGS:
    open(PAGE, "w", encoding="utf-8").write(f"{before}{BEGIN}\n{table}\n{END}{after}")
elif was.strip() != table:
    print(table)
    print(f"differs from the table in {PAGE}; see it, and write it with --write")
    sys.exit(1)
print(f"{len(TABLE)} rows of differences, all in the table" if TABLE else "no difference")
