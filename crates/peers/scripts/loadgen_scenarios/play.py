"""Plays cases with the module of this interpreter, each in a process of its own.

The module is imported once; every case is a fork of that, so that it finds
what a fresh process finds: `FromConfig` counts its calls in a process.
"""

import faulthandler
import importlib
import json
import os
import pathlib
import sys

from systems import Recorder

MODULE = "mlperf_loadgen"
# No case comes near it: one that hangs says where.
HANG_S = 40


def serve(cases):
    """Plays `NAME FOLDER` lines of stdin; answers each with how its process ended."""
    loadgen = importlib.import_module(MODULE)
    for line in sys.stdin:
        name, folder = line.rstrip("\n").split("\t")
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            # Leaves through the interpreter's own exit: what a module does there is compared, too.
            return play(loadgen, cases[name], pathlib.Path(folder))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return 0


def play(loadgen, case, folder):
    """Plays a case in `folder/here`; what was said and seen lies beside it."""
    here = folder / "here"
    here.mkdir(parents=True)
    for number, name in ((1, "stdout.txt"), (2, "stderr.txt")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    os.chdir(here)
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    for name, text in case.files.items():
        path = pathlib.Path(name)
        path.mkdir() if text is None else path.write_text(text)
    start(loadgen, case, folder / "observed.json")
    faulthandler.cancel_dump_traceback_later()
    return 0


def start(loadgen, case, result):
    """Takes the steps of a case and writes what was seen."""
    settings = loadgen.TestSettings()
    # The constructor of the reference leaves it uninitialised.
    settings.token_latency_scaling_factor = 0
    for name, value in case.settings.items():
        setattr(settings, name, value_of(loadgen, name, value))
    observed = {"config codes": [], "settings": [], "raised": []}
    recorder = Recorder(loadgen, case.system)
    sut = recorder.construct()
    qsl = loadgen.ConstructQSL(*case.library, recorder.load, recorder.unload)
    for step in case.steps:
        kind, *given = step
        if kind == "config":
            observed["config codes"].append(settings.FromConfig(*given))
            observed["settings"].append(fields(loadgen, settings))
        elif kind == "fresh":
            settings = loadgen.TestSettings()
            settings.token_latency_scaling_factor = 0
        elif kind == "set":
            for name, value in given[0].items():
                setattr(settings, name, value_of(loadgen, name, value))
        else:
            recorder.calls.append(["start"])
            observed["raised"].append(start_test(loadgen, sut, qsl, settings, *given))
    recorder.close()
    # Before anything is destroyed: after an exception in a callback the reference may crash there.
    result.write_text(json.dumps(observed | recorder.observed()))
    loadgen.DestroyQSL(qsl)
    recorder.destroy(sut)


def start_test(loadgen, sut, qsl, settings, logs=None, audit=None):
    """Runs a test; what it raised, or None."""
    audits = [audit] if audit else []
    try:
        if logs is None:
            loadgen.StartTest(sut, qsl, settings, *audits)
        else:
            log_settings = loadgen.LogSettings()
            for name, value in logs.items():
                top = name in ("enable_trace", "log_mode", "log_mode_async_poll_interval_ms")
                target = log_settings if top else log_settings.log_output
                setattr(target, name, value)
            loadgen.StartTestWithLogSettings(sut, qsl, settings, log_settings, *audits)
    except Exception as error:  # What it is, is what is compared.
        return f"{type(error).__name__}: {error}"
    return None


def value_of(loadgen, name, value):
    enums = {"scenario": "TestScenario", "mode": "TestMode"}
    return getattr(getattr(loadgen, enums[name]), value) if name in enums else value


def fields(loadgen, settings):
    """Every field of a settings object."""
    names = [
        name for name in dir(loadgen.TestSettings()) if name[0] != "_" and name != "FromConfig"
    ]
    values = {name: getattr(settings, name) for name in names}
    plain = (bool, int, float)
    return {name: v if isinstance(v, plain) else v.name for name, v in values.items()}
