"""Graphs of ONNX, node by node, for the scripts beside this one."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

OPERATORS = 17


class Graph:
    """Nodes whose outputs are named after what they are."""

    def __init__(self, name):
        self.name, self.nodes, self.weights = name, [], []
        self.inputs, self.outputs, self.count = [], [], 0

    def input(self, name, element, shape):
        self.inputs.append(helper.make_tensor_value_info(name, element, shape))
        return name

    def weight(self, name, values, dtype=np.float32):
        self.weights.append(numpy_helper.from_array(np.array(values, dtype, order="C"), name))
        return name

    def integers(self, *values):
        self.count += 1
        return self.weight(f"integers_{self.count}", values, np.int64)

    def node(self, operator, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"{operator}_{self.count}_{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def output(self, name, value, shape):
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def save(self, folder):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        operators = [helper.make_opsetid("", OPERATORS)]
        model = helper.make_model(graph, opset_imports=operators, ir_version=8)
        checker.check_model(model)
        save(model, str(Path(folder) / f"{self.name}.onnx"))
