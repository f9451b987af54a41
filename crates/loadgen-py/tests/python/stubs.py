"""The type stub and the module name the same things.

    python stubs.py        with our mlperf_loadgen on the path

mypy's stubtest finds more; this needs nothing but Python.
"""

import ast
import inspect
import pathlib
import unittest

import mlperf_loadgen as lg

STUB = pathlib.Path(lg.__file__).with_name("__init__.pyi")


def public(names):
    return {name for name in names if not name.startswith("_")}


def parameters(function):
    """Names of the parameters of a function of the stub, positional ones with a slash."""
    named = [arg.arg for arg in function.args.args + function.args.kwonlyargs]
    return [f"{arg.arg}/" for arg in function.args.posonlyargs] + named


def found_parameters(function):
    kinds = inspect.Parameter
    of = inspect.signature(function).parameters.values()
    return [f"{p.name}/" if p.kind is kinds.POSITIONAL_ONLY else p.name for p in of]


class Stub(unittest.TestCase):
    def setUp(self):
        body = ast.parse(STUB.read_text()).body
        self.classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
        self.functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}

    def test_names(self):
        named = {*self.classes, *self.functions}
        self.assertEqual(public(dir(lg)), named)
        self.assertEqual(set(lg.__all__), named)
        self.assertIn(f"__all__ = {sorted(named)}".replace("'", '"'), " ".join(STUB.read_text().split())
            .replace("[ ", "[").replace(", ]", "]"))

    def test_functions(self):
        for name, node in self.functions.items():
            self.assertEqual(parameters(node), found_parameters(getattr(lg, name)), name)
            self.assertTrue(getattr(lg, name).__doc__, name)

    def test_classes(self):
        for name, node in self.classes.items():
            found = getattr(lg, name)
            self.assertTrue(found.__doc__, name)
            fields = {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
            methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
            self.assertEqual(public(dir(found)), public({*fields, *methods}), name)
            for method in fields | set(methods):
                self.assertTrue(hasattr(found, method), f"{name}.{method}")
            for method, item in methods.items():
                if method in public(methods) and not item.decorator_list:
                    signature = [p.rstrip("/") for p in found_parameters(getattr(found, method))]
                    self.assertEqual(parameters(item), signature, f"{name}.{method}")


if __name__ == "__main__":
    unittest.main()
