"""The module in Python: what it computes, and what it refuses. Tests of PyTorch skip without it."""

import array
import math
import os
import pathlib
import signal
import tempfile
import threading
import time
import types
import unittest

import dyno_rnn


def numbers(*shape):
    """A buffer of float32 of this shape."""
    count = math.prod(shape)
    values = array.array("f", ((i % 11) / 11.0 - 0.5 for i in range(count)))
    return memoryview(values).cast("B").cast("f", shape)


def negation(*dims):
    """An ONNX file with the node Not: y of x, both booleans of these dimensions."""

    def part(field, content):
        return bytes([field << 3 | 2, len(content)]) + content

    def number(field, value):
        return bytes([field << 3, value])

    def port(name):
        shape = b"".join(part(1, part(2, dim)) for dim in dims)
        kind = part(1, number(1, 9) + part(2, shape))
        return part(1, name) + part(2, kind)

    node = part(1, b"x") + part(2, b"y") + part(4, b"Not")
    graph = part(1, node) + part(2, b"g") + part(11, port(b"x")) + part(12, port(b"y"))
    return number(1, 8) + part(7, graph) + part(8, number(2, 17))


class Engine(unittest.TestCase):
    def test_sizes_are_those_of_the_model(self):
        model = dyno_rnn.Model("bilstm:4x8", threads=2)
        self.assertEqual((model.inputs, model.outputs, model.layers, model.states), (4, 16, 1, 32))
        self.assertEqual(repr(model), "dyno_rnn.Model('bilstm:4x8', inputs=4, outputs=16)")

    def test_a_row_is_the_same_alone_and_in_a_batch(self):
        model = dyno_rnn.Model("gru:4x8")
        batch = numbers(6, 3, 4)
        output = model.run(batch, [6, 2, 4])
        self.assertEqual(output.shape, (6, 3, 8))
        for row, length in enumerate([6, 2, 4]):
            alone = array.array("f", (batch[t, row, i] for t in range(length) for i in range(4)))
            single = model.run(memoryview(alone).cast("B").cast("f", (length, 1, 4)))
            for t in range(6):
                for unit in range(8):
                    expected = single[t, 0, unit] if t < length else 0.0
                    self.assertAlmostEqual(output[t, row, unit], expected, delta=1e-6)

    def test_states_go_on_where_they_were_left(self):
        model = dyno_rnn.Model("lstm:4x8")
        values = numbers(5 * 2 * 4)
        whole = model.run(values.cast("B").cast("f", (5, 2, 4))).tolist()
        first = values[: 3 * 8].cast("B").cast("f", (3, 2, 4))
        second = values[3 * 8 :].cast("B").cast("f", (2, 2, 4))
        one, states = model.run_on(first)
        self.assertEqual(states.shape, (2 * model.states,))
        two, states = model.run_on(second, states)
        flat = lambda nested: [x for step in nested for row in step for x in row]
        for found, right in zip(flat(one.tolist() + two.tolist()), flat(whole), strict=True):
            self.assertAlmostEqual(found, right, delta=1e-6)
        self.assertEqual(states.tolist()[:16], flat(two.tolist())[-16:])

    def test_rows_come_first_on_request(self):
        model = dyno_rnn.Model("lstm:4x8")
        batch = numbers(5, 3, 4)
        turned = array.array("f", (batch[t, row, i] for row in range(3) for t in range(5) for i in range(4)))
        turned = memoryview(turned).cast("B").cast("f", (3, 5, 4))
        output, states = model.run_on(batch, lengths=[5, 2, 4])
        found, of_found = model.run_on(turned, lengths=[5, 2, 4], batch_first=True)
        self.assertEqual((found.shape, of_found.tolist()), ((3, 5, 8), states.tolist()))
        self.assertEqual(model.run(turned, [5, 2, 4], batch_first=True).tolist(), found.tolist())
        for row in range(3):
            for t in range(5):
                for unit in range(8):
                    self.assertEqual(found[row, t, unit], output[t, row, unit])

    def test_outputs_go_where_they_are_wanted(self):
        model = dyno_rnn.Model("lstm:4x8")
        for batch_first, shape in [(False, (5, 2)), (True, (2, 5))]:
            values = numbers(*shape, 4)
            right = model.run(values, batch_first=batch_first)
            place = memoryview(array.array("f", [9.0] * 80)).cast("B").cast("f", (*shape, 8))
            found = model.run(values, out=place, batch_first=batch_first)
            self.assertIs(found, place)
            self.assertEqual(place.tolist(), right.tolist())
            found, _ = model.run_on(values, out=place, batch_first=batch_first)
            self.assertIs(found, place)

    def test_fewer_bits_answer_nearly_the_same(self):
        values = numbers(9, 1, 16)
        right = dyno_rnn.Model("lstm:16x32").run(values)
        for precision in ["bf16", "int8"]:
            found = dyno_rnn.Model("lstm:16x32", precision=precision).run(values)
            worst = max(abs(found[8, 0, u] - right[8, 0, u]) for u in range(32))
            self.assertLess(worst, 0.05, precision)

    def test_what_does_not_fit_is_told(self):
        model = dyno_rnn.Model("lstm:4x8")
        into = lambda out: lambda: model.run(numbers(2, 1, 4), out=out)
        refused = [
            (ValueError, "`none.onnx` is not a file", lambda: dyno_rnn.Model("none.onnx")),
            (ValueError, "'f32', 'bf16' or 'int8'", lambda: dyno_rnn.Model("lstm:4x8", precision="f16")),
            (ValueError, "threads: expected 1 to", lambda: dyno_rnn.Model("lstm:4x8", threads=0)),
            (ValueError, "threads: expected 1 to 1024, found -1", lambda: dyno_rnn.Model("lstm:4x8", threads=-1)),
            (ValueError, "steps: expected 1 to", lambda: dyno_rnn.Model("lstm:4x8", steps=-5)),
            (ValueError, "expected (steps, rows, 4), found", lambda: model.run(numbers(2, 2, 5))),
            (ValueError, "expected (steps, rows, 4), found", lambda: model.run(numbers(16))),
            (TypeError, "a buffer of float32", lambda: model.run([[[0.0] * 4]])),
            (TypeError, "a buffer of float32", lambda: model.run(array.array("d", [0.0] * 4))),
            (ValueError, "lengths: expected 2, found 1", lambda: model.run(numbers(2, 2, 4), [1])),
            (ValueError, "none above the input's steps", lambda: model.run(numbers(2, 2, 4), [1, 3])),
            (ValueError, "lengths: expected numbers from 0", lambda: model.run(numbers(2, 1, 4), [-1])),
            (ValueError, "numbers of states, found 3", lambda: model.run_on(numbers(2, 1, 4), numbers(3))),
            (ValueError, "numbers of states, found 0", lambda: model.run_on(numbers(2, 1, 4), numbers(4)[:0])),
            (ValueError, "(rows, steps, 4)", lambda: model.run(numbers(2, 2, 5), batch_first=True)),
            (ValueError, "out: expected (2, 1, 8), found [2, 1, 4]", into(numbers(2, 1, 4))),
            (ValueError, "can be written to", into(numbers(2, 1, 8).toreadonly())),
            (TypeError, "out: expected a buffer of float32", into([])),
        ]
        for kind, words, call in refused:
            with self.assertRaises(kind) as raised:
                call()
            self.assertIn(words, str(raised.exception))
        self.assertEqual(model.run(numbers(1, 1, 4)).shape, (1, 1, 8))

    def test_arrays_are_read_by_index_whatever_their_layout(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        model = dyno_rnn.Model("lstm:4x8")
        x = numpy.asarray(numbers(5, 3, 4))
        right = model.run(x).tolist()
        backward = numpy.ascontiguousarray(x[::-1])[::-1]
        for other in [numpy.asfortranarray(x), numpy.repeat(x, 2, axis=2)[:, :, ::2], backward]:
            self.assertFalse(other.flags.c_contiguous)
            self.assertEqual(model.run(other).tolist(), right)
        turned = x.transpose(1, 0, 2)
        self.assertEqual(
            numpy.asarray(model.run(turned, batch_first=True)).transpose(1, 0, 2).tolist(), right
        )
        out = numpy.zeros((8, 3, 5), "float32").transpose(2, 1, 0)
        self.assertIs(model.run(x, out=out), out)
        self.assertEqual(out.tolist(), right)
        for shape in [(0, 3, 4), (5, 0, 4)]:
            with self.assertRaises(ValueError):
                model.run(numpy.zeros(shape, "float32"))

    def test_a_file_that_is_no_model_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "broken.onnx")
            with open(path, "w", encoding="utf-8") as file:
                file.write("no graph")
            with self.assertRaises((ValueError, OSError)) as raised:
                dyno_rnn.Model(path)
            self.assertIn("broken.onnx", str(raised.exception))

    def test_threads_share_a_model(self):
        model = dyno_rnn.Model("gru:4x8", threads=2)
        values = numbers(20, 2, 4)
        right, found = model.run(values).tolist(), []
        threads = [threading.Thread(target=lambda: found.append(model.run(values).tolist())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [right] * 4)

    def test_threads_beyond_the_cores_are_reduced_with_a_warning(self):
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        if cores is None:
            self.skipTest("this system does not report the cores of a process")
        values = numbers(5, 2, 4)
        right = dyno_rnn.Model("gru:4x8").run(values).tolist()
        with self.assertWarnsRegex(UserWarning, f"{cores + 1} threads exceed the {cores} core"):
            model = dyno_rnn.Model("gru:4x8", threads=cores + 1)
        self.assertEqual(model.run(values).tolist(), right)

    def test_a_child_process_runs_the_model_of_its_parent(self):
        if not hasattr(os, "fork"):
            self.skipTest("this system has no fork")
        model = dyno_rnn.Model("lstm:64x64", threads=2)
        values = numbers(100, 1, 64)
        right = model.run(values).tolist()
        child = os.fork()
        if child == 0:
            same = model.run(values).tolist() == right
            del model
            os._exit(0 if same else 1)
        end = time.monotonic() + 60
        while not (state := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
            time.sleep(0.01)
        if not state[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self.assertEqual(state, (child, 0), "the child hangs or differs")
        self.assertEqual(model.run(values).tolist(), right)

    def test_a_module_of_torch_is_a_model(self):
        torch = torch_or_skip(self)
        torch.manual_seed(1)
        for make in [
            lambda: torch.nn.LSTM(4, 8, num_layers=2, bidirectional=True),
            lambda: torch.nn.GRU(4, 8, batch_first=True),
            lambda: torch.nn.RNN(4, 8, nonlinearity="relu"),
        ]:
            module = make()
            x = torch.rand(5, 2, 4)
            given = x.transpose(0, 1) if module.batch_first else x
            with torch.no_grad():
                right = module(given)[0]
            right = right.transpose(0, 1) if module.batch_first else right
            found = torch.tensor(dyno_rnn.Model.from_torch(module).run(x.numpy()).tolist())
            self.assertLess((found - right).abs().max().item(), 1e-5, module)

        class Doubled(torch.nn.LSTM):
            def forward(self, x):
                return super().forward(2 * x)

        for other in [torch.nn.Linear(2, 2), Doubled(2, 2)]:
            with self.assertRaisesRegex(TypeError, "Graph.from_torch"):
                dyno_rnn.Model.from_torch(other)


class WholeModels(unittest.TestCase):
    """Files of the golden tests of dyno-rnn."""

    def open(self, name, **options):
        return dyno_rnn.Graph(pathlib.Path(os.environ["GOLDEN"]) / name, **options)

    def inputs(self, graph):
        """Arrays for the inputs; dimensions without a size are 2."""
        made = {}
        for name, kind, dims in graph.inputs:
            dims = [size if isinstance(size, int) else 2 for size in dims]
            if kind == "float32":
                made[name] = numbers(*dims)
            else:
                code = {"int32": "i", "int64": "q"}[kind]
                made[name] = memoryview(array.array(code, [1] * math.prod(dims))).cast("B").cast(code, dims)
        return made

    def test_names_types_and_dimensions_are_those_of_the_file(self):
        graph = self.open("gru_no_bias.onnx", threads=2)
        [(name, kind, dims)] = graph.inputs
        self.assertEqual((kind, len(dims)), ("float32", 3))
        found = graph.run(self.inputs(graph))
        self.assertEqual(list(found), [name for name, _, _ in graph.outputs])
        for name, view in found.items():
            self.assertIsInstance(view, memoryview, name)
        self.assertEqual(graph.run(types.MappingProxyType(self.inputs(graph))), found)

    def test_outputs_are_those_of_an_independent_evaluator(self):
        for name in ["gru_no_bias.onnx", "lstm_forward_lengths_initial.onnx", "lstm_in_a_branch.onnx"]:
            graph = self.open(name)
            self.assertLess(graph.verify(self.inputs(graph)), 1e-5, name)

    def test_views_that_do_not_fit_in_memory_are_an_error(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        # More than any address space: Linux may promise memory that it does not have.
        view = numpy.broadcast_to(numpy.float32(0), (2**57, 1, 4))
        with self.assertRaisesRegex(MemoryError, "an array of 576460752303423488 numbers"):
            dyno_rnn.Model("lstm:4x8").run(view)

    def test_numbers_that_are_not_compared_are_a_warning(self):
        graph = self.open("rnn_relu_defaults.onnx")
        inputs = self.inputs(graph)
        [(name, _, (steps, rows, width))] = graph.inputs
        for step in range(steps):
            for at in range(width):
                inputs[name][step, 0, at] = 3e38
        with self.assertWarnsRegex(UserWarning, "[0-9]+ numbers outside the range of float32"):
            self.assertLess(graph.verify(inputs), 1e-5)

    def test_what_does_not_fit_is_told(self):
        graph = self.open("gru_no_bias.onnx")
        [(name, _, dims)] = graph.inputs
        good = self.inputs(graph)[name]
        refused = [
            (ValueError, "the model has no input 'other'", {"other": good}),
            (ValueError, f"input '{name}' is missing", {}),
            (TypeError, "expected an array of float32, found array", {name: array.array("d", [0.0])}),
            (ValueError, f"input '{name}': expected", {name: numbers(3)}),
        ]
        for kind, words, inputs in refused:
            with self.assertRaises(kind) as raised:
                graph.run(inputs)
            self.assertIn(words, str(raised.exception))
        with self.assertRaises(OSError):
            self.open("none.onnx")

    def test_arrays_of_another_byte_order_are_told(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        graph = self.open("gru_no_bias.onnx")
        [(name, _, dims)] = graph.inputs
        with self.assertRaisesRegex(TypeError, "expected an array of float32, found >f4"):
            graph.run({name: numpy.ones(dims, ">f4")})
        with self.assertRaisesRegex(TypeError, "found an array of >f4"):
            dyno_rnn.Model("lstm:4x8").run(numpy.ones((2, 1, 4), ">f4"))

    def test_booleans_are_no_bytes_of_wider_numbers(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "not.onnx"
            path.write_bytes(negation(b"N"))
            graph = dyno_rnn.Graph(path)
        # Every second element, which is not contiguous.
        x = numpy.array([True, True, False, True])[::2]
        self.assertEqual(graph.run({"x": x})["y"].tolist(), [False, True])
        self.assertEqual(graph.run({"x": x.astype("uint8")})["y"].tolist(), [False, True])
        for kind in ["int32", "float32", "int8", "float64"]:
            with self.assertRaisesRegex(TypeError, f"expected an array of bool, found {kind}"):
                graph.run({"x": x.astype(kind)})

    def test_arrays_without_elements_keep_their_dimensions(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "not.onnx"
            path.write_bytes(negation(b"N", b"M"))
            graph = dyno_rnn.Graph(path)
        row = memoryview(bytes(3)).cast("B", (1, 3))
        for x, dims in [(row, (1, 3)), (row[:0], (0, 3))]:
            y = graph.run({"x": x})["y"]
            self.assertEqual((y.shape, y.format), (dims, "?"))
        self.assertEqual(y.tolist(), [])

    def test_a_classifier_of_torch_is_a_graph_with_its_own_names(self):
        torch = torch_or_skip(self)
        torch.manual_seed(2)

        class Classifier(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = torch.nn.Embedding(50, 8)
                self.lstm = torch.nn.LSTM(8, 16, batch_first=True, bidirectional=True)
                self.head = torch.nn.Linear(32, 3)

            def forward(self, ids):
                return self.head(self.lstm(self.embedding(ids))[0].amax(1))

        module, ids = Classifier().eval(), torch.randint(0, 50, (2, 7))
        dynamic = {"ids": {0: "batch", 1: "steps"}}
        graph = dyno_rnn.Graph.from_torch(module, {"ids": ids}, dynamic=dynamic)
        self.assertEqual(graph.inputs, [("ids", "int64", ("batch", "steps"))])
        self.assertLess(graph.verify({"ids": ids.numpy()}), 1e-5)
        for rows, steps in [(2, 7), (3, 5)]:
            ids = torch.randint(0, 50, (rows, steps))
            [scores] = graph.run({"ids": ids.numpy()}).values()
            with torch.no_grad():
                right = module(ids)
            self.assertLess((torch.tensor(scores.tolist()) - right).abs().max().item(), 1e-5)

    def test_an_export_leaves_each_part_of_a_module_in_its_mode(self):
        torch = torch_or_skip(self)
        module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
        module[0].eval()
        dyno_rnn.Graph.from_torch(module, {"x": torch.randn(3, 4)})
        self.assertEqual([part.training for part in module.modules()], [True, False, True])


def torch_or_skip(test):
    try:
        import torch
    except ImportError:
        test.skipTest("PyTorch is not installed")
    return torch


if __name__ == "__main__":
    unittest.main()
