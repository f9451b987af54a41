from mlperf_loadgen import *
from mlperf_loadgen import __all__ as __all__
