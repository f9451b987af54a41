"""Compares what dyno-oracle computed with the package `onnx` and with ONNX Runtime.

    python oracle.py write FOLDER      writes the standard's examples of all operators
    python oracle.py examples FOLDER   compares with the outputs of the examples
    python oracle.py random FOLDER     compares with onnx.reference and ONNX Runtime

Each folder inside holds model.onnx, and in test_data_set_0 input_N.pb, output_N.pb, and what the oracle
wrote: oracle_N.pb or oracle_error.txt. Outputs may differ by 1e-5 of the largest number, or by 1e-6.
"""

import collections
import os
import sys
import warnings

import numpy
import onnx
import onnx.reference
from onnx import helper, numpy_helper

# What the oracle does not claim to compute. Any other error is a failure.
REFUSED = [
    "the operator is not supported",
    "align_corners with a fraction",
    "the operator exists since",
    "expected an opset of",
    "elements of type",
    "training",
    "with negative padding",
    'attribute "mode" is not supported',
    'attribute "left_window_size" is not supported',
    "output 3 is not supported",
    "expected at most 6 inputs",
    "an image [",
]

# Examples that cannot agree to 1e-5.
EXCEPT = {
    "test_averagepool_2d_ceil_last_window_starts_on_pad": "written with four digits",
    "test_dynamicquantizelinear_expanded": "a quotient near a tie, in single precision",
    "test_l2normalization_axis_0": "0 / 0, which became 0 in later versions of the package",
    # The examples wrap around a sum below -128. The standard and ONNX Runtime limit it to -128.
    **{
        f"test_qlinearmatmul_{dims}D_int8_float{bits}": "20 instead of -128"
        for dims in (2, 3)
        for bits in (16, 32)
    },
}

# Examples whose outputs have four digits, or less: those of onnx.reference stand in for them.
COARSE = {"test_roialign_aligned_false", "test_roialign_aligned_true"}

# The options of recurrent nodes that onnx.reference does not ignore.
OPTIONS = {"hidden_size", "linear_before_reset"}


def tolerance(kind):
    return {"float16": 2e-3, "bfloat16": 2e-2}.get(str(kind), 1e-5)


def read(path):
    with open(path, "rb") as file:
        tensor = onnx.TensorProto.FromString(file.read())
    return tensor.name, numpy_helper.to_array(tensor)


def tensors(folder, prefix):
    found = []
    while os.path.exists(path := f"{folder}/{prefix}_{len(found)}.pb"):
        found.append(read(path))
    return found


def difference(expected, computed):
    """What differs between two lists of outputs, or None."""
    if len(expected) != len(computed):
        return f"{len(computed)} outputs instead of {len(expected)}"
    for number, (wanted, found) in enumerate(zip(expected, computed)):
        wanted = numpy.asarray(wanted)
        if (wanted.dtype, wanted.shape) != (found.dtype, found.shape):
            return f"output {number}: {found.dtype}{found.shape}, not {wanted.dtype}{wanted.shape}"
        allowed = tolerance(wanted.dtype)
        if wanted.dtype.kind in "iub":
            if not numpy.array_equal(wanted, found):
                return f"output {number}: integers differ"
            continue
        wanted, found = wanted.astype(numpy.float64), found.astype(numpy.float64)
        largest = numpy.abs(wanted[numpy.isfinite(wanted)]).max(initial=0.1)
        if not numpy.allclose(found, wanted, rtol=allowed, atol=allowed * largest, equal_nan=True):
            return f"output {number}: {numpy.nanmax(numpy.abs(found - wanted)):.3g} of {largest:.3g}"
    return None


def write(root):
    from onnx.backend.test.case.node import collect_testcases

    numeric = (numpy.ndarray, numpy.generic, int, float)
    for case in collect_testcases(None):
        for inputs, outputs in (case.data_sets or [])[:1]:
            if case.model is None or not all(isinstance(x, numeric) for x in [*inputs, *outputs]):
                continue
            names = [value.name for value in case.model.graph.input]
            data = f"{root}/{case.name}/test_data_set_0"
            os.makedirs(data, exist_ok=True)
            onnx.save(case.model, f"{root}/{case.name}/model.onnx")
            for prefix, values in [("input", inputs), ("output", outputs)]:
                for number, value in enumerate(values):
                    name = names[number] if prefix == "input" else ""
                    tensor = numpy_helper.from_array(numpy.asarray(value), name)
                    with open(f"{data}/{prefix}_{number}.pb", "wb") as file:
                        file.write(tensor.SerializeToString())


def evaluator_outputs(folder, feeds):
    """Outputs of onnx.reference, or None where it does not run the model or ignores options."""
    model = onnx.load(f"{folder}/model.onnx")
    for node in model.graph.node:
        # It knows the rule of opset 13 only, and in some versions returns the last step alone.
        if node.op_type in ("Softmax", "RNN") and model.opset_import[0].version < 14:
            return None
        options = {attribute.name for attribute in node.attribute}
        lengths = len(node.input) > 4 and node.input[4]
        if node.op_type in ("LSTM", "GRU", "RNN") and (options - OPTIONS or lengths):
            return None
        # It computes no last cell state.
        if node.op_type == "LSTM" and len(node.output) > 2:
            return None
    try:
        return onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # It raises whatever NumPy does.
        return None


def with_steps_first(model):
    """The model with transposes around each batch-first recurrent node, which ONNX Runtime lacks."""
    nodes = []
    for node in model.graph.node:
        layout = [attribute for attribute in node.attribute if attribute.name == "layout"]
        before, after = [], []

        def transpose(source, target, order, where):
            where.append(helper.make_node("Transpose", [source], [target], perm=order))

        if layout and layout[0].i == 1:
            node.attribute.remove(layout[0])
            for place in (0, 5, 6):
                if place < len(node.input) and (name := node.input[place]):
                    node.input[place] = f"{name}_for_{node.name}"
                    transpose(name, node.input[place], [1, 0, 2], before)
            for place, name in enumerate(node.output):
                if name:
                    node.output[place] = f"{name}_steps_first"
                    order = [1, 0, 2] if place else [2, 0, 1, 3]
                    transpose(node.output[place], name, order, after)
        nodes += [*before, node, *after]
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model.SerializeToString()


def crashes_runtime(model):
    """Whether ONNX Runtime 1.23 aborts: an RNN of which one direction alone takes a parameter."""
    for node in model.graph.node:
        lengths = {a.name: len(a.floats or a.strings) for a in node.attribute}
        parameters = [lengths.get("activation_alpha"), lengths.get("activation_beta")]
        if node.op_type == "RNN" and lengths.get("activations") == 2 and 1 in parameters:
            return True
    return False


def runtime_outputs(folder, feeds):
    """Outputs of ONNX Runtime, or None for a model that it cannot run."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    onnx.checker.check_model(f"{folder}/model.onnx", full_check=True)
    model = onnx.load(f"{folder}/model.onnx")
    if crashes_runtime(model):
        return None
    model = with_steps_first(model)
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model, options, providers=providers).run(None, feeds)


def compare(kind, root):
    counts, failures = collections.Counter(), []
    for name in sorted(os.listdir(root)):
        folder, data = f"{root}/{name}", f"{root}/{name}/test_data_set_0"
        if os.path.exists(f"{data}/oracle_error.txt"):
            with open(f"{data}/oracle_error.txt") as file:
                error = file.read()
            counts["refused"] += 1
            if kind == "random" or not any(reason in error for reason in REFUSED):
                failures.append(f"{name}: {error}")
            continue
        computed = [value for _, value in tensors(data, "oracle")]
        feeds = dict(tensors(data, "input"))
        if kind == "random":
            peers = {
                "onnx.reference": evaluator_outputs(folder, feeds),
                "ONNX Runtime": runtime_outputs(folder, feeds),
            }
        elif name in COARSE:
            peers = {"onnx.reference": evaluator_outputs(folder, feeds)}
        else:
            peers = {"the examples": [value for _, value in tensors(data, "output")]}
        for peer, expected in peers.items():
            if expected is None or name in EXCEPT:
                counts[f"not run by {peer}"] += 1
                continue
            counts[f"compared with {peer}"] += 1
            if (what := difference(expected, computed)) is not None:
                failures.append(f"{name}: {peer}: {what}")
    print(", ".join(f"{number} {what}" for what, number in sorted(counts.items())))
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures or len(counts) < 2 else 0


def main():
    warnings.simplefilter("ignore")
    numpy.seterr(all="ignore")
    kind, root = sys.argv[1:]
    if kind == "write":
        write(root)
        return 0
    return compare(kind, root)


if __name__ == "__main__":
    sys.exit(main())
