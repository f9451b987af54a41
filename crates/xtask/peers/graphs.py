"""Checks models that Dyno wrote with the packages `onnx` and `onnxruntime`.

    python graphs.py NAME.onnx PARAMETERS OPERATIONS

The file must be valid, its shapes must be inferred without a gap, the operations
that follow from them must be those that Dyno counted, and outputs must be finite.
"""

import math
import sys

import numpy
import onnx
import onnxruntime


def shapes_of(model):
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    graph = inferred.graph
    shapes = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    for value in [*graph.value_info, *graph.input, *graph.output]:
        dims = value.type.tensor_type.shape.dim
        shapes[value.name] = [dim.dim_value if dim.HasField("dim_value") else 1 for dim in dims]
    return shapes


def products_of(node, shapes):
    first, out = shapes[node.input[0]], shapes[node.output[0]]
    if node.op_type == "Conv":
        return math.prod(out) * math.prod(shapes[node.input[1]][1:])
    if node.op_type == "ConvTranspose":
        return math.prod(first) * math.prod(shapes[node.input[1]][1:])
    if node.op_type in ("MatMul", "Gemm"):
        return math.prod(out) * first[-1]
    return 0


def fed(port, random):
    shape = [size if isinstance(size, int) else 1 for size in port.shape]
    if port.type == "tensor(int64)":
        # No table has fewer rows than two.
        return random.integers(0, 2, shape)
    return random.standard_normal(shape, dtype=numpy.float32)


def main(path, parameters, operations):
    onnx.checker.check_model(path)
    model = onnx.load(path)
    shapes = shapes_of(model)
    found = 2 * sum(products_of(node, shapes) for node in model.graph.node)
    if found != int(operations):
        sys.exit(f"{path}: {found} operations by the shapes of onnx, Dyno says {operations}")
    no_weights = set()
    for node in model.graph.node:
        first = {"BatchNormalization": 3, "Resize": 1}.get(node.op_type, len(node.input))
        no_weights.update(node.input[first:])
    held = [tensor for tensor in model.graph.initializer if tensor.name not in no_weights]
    learned = [tensor for tensor in held if tensor.data_type == onnx.TensorProto.FLOAT]
    found = sum(math.prod(tensor.dims) for tensor in learned if tensor.dims)
    if found != int(parameters):
        sys.exit(f"{path}: {found} parameters in the file, Dyno says {parameters}")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    random = numpy.random.default_rng(1)
    outputs = session.run(None, {port.name: fed(port, random) for port in session.get_inputs()})
    for port, values in zip(session.get_outputs(), outputs):
        if not numpy.isfinite(values).all():
            sys.exit(f"{path}: output {port.name} is not finite")
        if list(values.shape) != shapes[port.name]:
            sys.exit(f"{path}: output {port.name} is {values.shape}, not {shapes[port.name]}")
    print(f"{path}: {len(outputs)} outputs, finite")


if __name__ == "__main__":
    main(*sys.argv[1:])
