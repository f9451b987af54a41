"""Quantizes a model with ONNX Runtime and Intel Neural Compressor, and measures models in ONNX Runtime.

usage: compare.py MODEL CALIBRATION.npy FOLDER [EXPORTED]

Prints one JSON object a line: name, path, seconds of quantization, latency_ns of one sample on one thread, error.
"""

import importlib.util
import json
import os
import sys
import time

MODEL, CALIBRATION, FOLDER = sys.argv[1:4]
EXPORTED = sys.argv[4:]


def say(**row):
    print(json.dumps(row), flush=True)


try:
    import numpy
    import onnx  # noqa: F401
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
except ImportError as error:
    say(name="ONNX Runtime", error=f"{error}; pip install numpy onnx onnxruntime")
    sys.exit()

INPUT = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"]).get_inputs()[0]
NAME = INPUT.name
TYPE = INPUT.type.removeprefix("tensor(").removesuffix(")")
# The file has float32, whatever the model reads.
SAMPLES = numpy.load(CALIBRATION).astype({"float": "float32", "double": "float64"}.get(TYPE, TYPE))


class Samples(CalibrationDataReader):
    def __init__(self):
        self.rest = iter(SAMPLES)

    def get_next(self):
        one = next(self.rest, None)
        return None if one is None else {NAME: one[None]}


def latency(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    shortest = None
    for run in range(108):
        start = time.perf_counter_ns()
        session.run(None, {NAME: SAMPLES[:1]})
        spent = time.perf_counter_ns() - start
        if run >= 8:
            shortest = spent if shortest is None else min(shortest, spent)
    return shortest


def measured(name, make):
    path = os.path.join(FOLDER, name.replace(" ", "-").replace(",", "") + ".onnx")
    start = time.perf_counter()
    try:
        path = make(path) or path
        seconds = time.perf_counter() - start
        say(name=name, path=path, seconds=seconds, latency_ns=latency(path))
    except Exception as error:  # What a quantizer cannot do is a row of the table.
        say(name=name, error=(str(error).strip().splitlines() or [type(error).__name__])[-1])


def static(each):
    def make(path):
        quantize_static(MODEL, path, Samples(), quant_format=QuantFormat.QDQ, per_channel=each,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    return make


def with_neural_compressor(path):
    try:
        from neural_compressor import PostTrainingQuantConfig, quantization
    except ImportError as error:
        # Version 3 does not quantize ONNX models.
        raise RuntimeError(f"{error}; version 2 quantizes ONNX models: pip install neural-compressor==2.6") from error
    loader = [({NAME: one[None]}, 0) for one in SAMPLES]

    class Loader:
        batch_size = 1

        def __iter__(self):
            return iter(loader)

    quantization.fit(MODEL, PostTrainingQuantConfig(), calib_dataloader=Loader()).save(path)


measured("FLOAT 32", lambda path: MODEL)
for exported in EXPORTED:
    measured("Dyno", lambda path: exported)
measured("ORT static", static(False))
measured("ORT channels", static(True))
measured("ORT dynamic", lambda path: quantize_dynamic(MODEL, path))
if importlib.util.find_spec("neural_compressor"):
    measured("Intel Neural Compressor", with_neural_compressor)
