"""Cases that score answers: `make CASE FOLDER SIZE SEED` writes an accuracy log and
references into a folder, `peer CASE FOLDER` scores them with the library that the
accuracy script of the benchmark uses, `list` names the cases.

A case is a module of this package with

    METHOD     how dyno names it
    QUICK      samples of a small case
    FULL       samples of a case that is timed
    make(folder, size, rng) -> {"with": {name: file}, "element": name or None}, and perhaps
        "choose": {name: value}
    peer(folder) -> {metric: the figure as the script prints it}
"""

import importlib
import json
import pathlib
import pkgutil
import sys
import time

import numpy

HERE = pathlib.Path(__file__).parent
# What cases share is no case.
SHARED = {"__main__", "logs", "texts"}


def cases():
    names = (module.name for module in pkgutil.iter_modules([str(HERE)]))
    return sorted(name for name in names if name not in SHARED)


def main(command, *args):
    if command == "list":
        found = [(name, importlib.import_module(f"metrics.{name}")) for name in cases()]
        print(json.dumps([{"case": name, "quick": case.QUICK, "full": case.FULL}
                          for name, case in found]))
        return
    case, folder = importlib.import_module(f"metrics.{args[0]}"), pathlib.Path(args[1])
    if command == "make":
        folder.mkdir(parents=True, exist_ok=True)
        made = case.make(folder, int(args[2]), numpy.random.default_rng(int(args[3])))
        (folder / "case.json").write_text(json.dumps({"method": case.METHOD, **made}))
    else:
        started = time.perf_counter()
        figures = case.peer(folder)
        seconds = time.perf_counter() - started
        print(json.dumps({"figures": figures, "seconds": seconds}))


main(*sys.argv[1:])
