"""The other name of mlperf_loadgen, for programs that import the reference's distribution by name."""

from mlperf_loadgen import *  # noqa: F403
from mlperf_loadgen import __all__, __doc__  # noqa: F401
