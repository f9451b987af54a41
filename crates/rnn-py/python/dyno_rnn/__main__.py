"""`python -m dyno_rnn export MODEL.pt MODEL.onnx --input NAME:TYPE:DIMS ...`"""

import argparse
import sys

from . import Graph, _torch


def _example(text):
    """Parses `ids:int64:batch=1xsteps=12` into a name, an example and its named dimensions."""
    import torch

    try:
        name, kind, dims = text.split(":")
        sizes, named = [], {}
        for axis, part in enumerate(dims.split("x")):
            label, _, size = part.rpartition("=")
            sizes.append(int(size))
            if label:
                named[axis] = label
        element = getattr(torch, kind)
        if not isinstance(element, torch.dtype):
            raise ValueError
    except (ValueError, AttributeError):
        raise SystemExit(
            f"--input {text}: expected NAME:TYPE:DIMS such as ids:int64:batch=1xsteps=12"
        ) from None
    # Zeros are valid positions in any embedding.
    make = torch.rand if element.is_floating_point else torch.zeros
    return name, make(sizes, dtype=element), named


def main():
    parser = argparse.ArgumentParser(prog="python -m dyno_rnn")
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", help="write a module of PyTorch as an ONNX file")
    export.add_argument("module", help="a .pt file")
    export.add_argument("onnx", help="the file to write")
    export.add_argument(
        "--input",
        action="append",
        required=True,
        metavar="NAME:TYPE:DIMS",
        help="an input of forward, in order; dimensions with names stay open: ids:int64:batch=1xsteps=12",
    )
    export.add_argument(
        "--trusted", action="store_true", help="read a pickled module, which may run any code"
    )
    given = parser.parse_args()
    found = [_example(text) for text in given.input]
    examples = {name: tensor for name, tensor, _ in found}
    dynamic = {name: named for name, _, named in found if named}
    try:
        module = _torch.load(given.module, given.trusted)
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    _torch.export(module, examples, given.onnx, dynamic)
    graph = Graph(given.onnx)
    values = {name: tensor.numpy() for name, tensor in examples.items()}
    print(graph)
    print(f"largest difference from an independent evaluation: {graph.verify(values):.1e}")


main()
