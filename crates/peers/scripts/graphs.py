"""Checks models that Dyno wrote with the packages `onnx` and `onnxruntime`.

    python graphs.py NAME.onnx PARAMETERS OPERATIONS [INPUTS]

The file must be valid, its shapes must be inferred without a gap, the operations
that follow from them must be those that Dyno counted, and outputs must be finite.
Of a graph that is too large to be run weights are inputs behind so many INPUTS.
"""

import math
import sys

import numpy
import onnx
import onnxruntime


def shapes_of(model):
    """Shapes of all values; those inside loops are in the loops' own graphs."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    shapes = {}
    note(inferred.graph, shapes)
    return inferred.graph, shapes


def note(graph, shapes):
    shapes.update({tensor.name: list(tensor.dims) for tensor in graph.initializer})
    for value in [*graph.value_info, *graph.input, *graph.output]:
        dims = value.type.tensor_type.shape.dim
        shapes[value.name] = [dim.dim_value if dim.HasField("dim_value") else 1 for dim in dims]
    for node in graph.node:
        for body in bodies_of(node):
            note(body, shapes)


def bodies_of(node):
    return [one.g for one in node.attribute if one.type == onnx.AttributeProto.GRAPH]


def integer(graph, name):
    """A constant without dimensions."""
    held = next(tensor for tensor in graph.initializer if tensor.name == name)
    return int(onnx.numpy_helper.to_array(held))


def products_of(graph, shapes):
    return sum(products(node, graph, shapes) for node in graph.node)


def products(node, graph, shapes):
    if node.op_type == "Loop":
        [body] = bodies_of(node)
        return integer(graph, node.input[0]) * products_of(body, shapes)
    first, out = shapes[node.input[0]], shapes[node.output[0] or node.output[1]]
    if node.op_type == "Conv":
        return math.prod(out) * math.prod(shapes[node.input[1]][1:])
    if node.op_type == "ConvTranspose":
        return math.prod(first) * math.prod(shapes[node.input[1]][1:])
    if node.op_type in ("MatMul", "Gemm"):
        return math.prod(out) * first[-1]
    if node.op_type == "LSTM":
        weights = math.prod(shapes[node.input[1]]) + math.prod(shapes[node.input[2]])
        return first[0] * first[1] * weights
    return 0


def weights_of(graph, inputs):
    """Shapes of what was learned."""
    if inputs is not None:
        weights = graph.input[int(inputs):]
        shapes = [[dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in weights]
        return [shape for shape in shapes if shape]
    no_weights = set()
    for node in graph.node:
        first = {"BatchNormalization": 3, "Resize": 1}.get(node.op_type, len(node.input))
        no_weights.update(node.input[first:])
    held = [tensor for tensor in graph.initializer if tensor.name not in no_weights]
    learned = [tensor for tensor in held if tensor.data_type == onnx.TensorProto.FLOAT]
    return [tensor.dims for tensor in learned if tensor.dims]


def fed(port, random):
    shape = [size if isinstance(size, int) else 1 for size in port.shape]
    if "__" in port.name:
        # An edge between the first nodes of two kinds, which all subgraphs have.
        return numpy.zeros(shape, dtype=numpy.int64)
    if port.type == "tensor(int64)":
        # No table has fewer rows than two.
        return random.integers(0, 2, shape)
    return random.standard_normal(shape, dtype=numpy.float32)


def main(path, parameters, operations, inputs=None):
    onnx.checker.check_model(path)
    # Weights in a file beside it may be more than memory holds twice.
    model = onnx.load(path, load_external_data=False)
    graph, shapes = shapes_of(model)
    found = 2 * products_of(graph, shapes)
    if found != int(operations):
        sys.exit(f"{path}: {found} operations by the shapes of onnx, Dyno says {operations}")
    found = sum(math.prod(shape) for shape in weights_of(model.graph, inputs))
    if found != int(parameters):
        sys.exit(f"{path}: {found} parameters in the file, Dyno says {parameters}")
    if inputs is not None:
        print(f"{path}: {found} parameters, which are not there; counted")
        return
    del model, graph
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
