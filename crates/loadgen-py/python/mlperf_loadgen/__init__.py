"""MLPerf Inference load generator: Dyno's, with the interface of the reference's module."""


def _load():
    """Loads the extension for all libraries: one of the harness may complete samples in C++."""
    import os
    import sys

    if not hasattr(sys, "setdlopenflags"):
        return
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | os.RTLD_GLOBAL)
    try:
        from . import _native  # noqa: F401
    finally:
        sys.setdlopenflags(flags)


_load()
del _load

from ._native import (  # noqa: E402
    AbortTest,
    ConstructBufferSUT,
    ConstructFastSUT,
    ConstructQDL,
    ConstructQSL,
    ConstructSUT,
    DestroyBufferSUT,
    DestroyFastSUT,
    DestroyQDL,
    DestroyQSL,
    DestroySUT,
    FirstTokenComplete,
    FirstTokenCompleteBuffer,
    LoggingMode,
    LogOutputSettings,
    LogSettings,
    QuerySample,
    QuerySampleResponse,
    QuerySamplesComplete,
    QuerySamplesCompleteBuffer,
    RegisterIssueQueryThread,
    StartTest,
    StartTestWithLogSettings,
    TestMode,
    TestScenario,
    TestSettings,
    VectorQuerySample,
    VectorQuerySampleResponse,
)

__all__ = [name for name in dir() if not name.startswith("_")]


def _warn_of_the_reference():
    """Two distributions have a module of this name; which one is imported is a matter of luck."""
    import os
    import sys
    import warnings

    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.startswith("mlcommons_loadgen-") and name.endswith((".dist-info", ".egg-info")):
                warnings.warn(
                    f"both dyno-loadgen and the reference ({name}, in {folder or '.'}) are "
                    f"installed; this is dyno-loadgen's mlperf_loadgen, which hides the "
                    f"reference's; uninstall both, which share files, and install the one you want: "
                    f"pip uninstall mlcommons-loadgen dyno-loadgen",
                    stacklevel=3,
                )
                return


_warn_of_the_reference()
del _warn_of_the_reference
