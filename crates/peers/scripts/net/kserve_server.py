"""KServe's server of the digits: root, folder for the samples, HTTP and gRPC port."""

import pathlib
import sys

import numpy as np
from kserve import InferOutput, InferResponse, Model, ModelServer

import digits
import lifeline

root, folder, http, grpc = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
ink, labels, expected = digits.load(root)
folder.mkdir(parents=True, exist_ok=True)
np.save(folder / "x.npy", ink)
np.save(folder / "labels.npy", labels)
hidden, hidden_bias, output, output_bias = digits.weights(root)


class Digits(Model):
    def __init__(self):
        super().__init__("digits")
        self.ready = True

    async def get_input_types(self):
        return [{"name": "ink", "datatype": "FP32", "shape": [-1, 64]}]

    async def get_output_types(self):
        return [{"name": "scores", "datatype": "FP32", "shape": [-1, 10]}]

    def predict(self, payload, headers=None, response_headers=None):
        ink = payload.inputs[0].as_numpy().reshape(-1, 64)
        scores = (np.maximum(ink @ hidden + hidden_bias, 0) @ output + output_bias).astype(np.float32)
        answer = InferOutput(name="scores", shape=list(scores.shape), datatype="FP32")
        answer.set_data_from_numpy(scores, binary_data=False)
        # KServe answers 500 where a response has no id, and a request need not have one.
        return InferResponse(response_id=payload.id or "none", model_name=self.name, infer_outputs=[answer])


lifeline.hold()
ModelServer(http_port=http, grpc_port=grpc, workers=1, enable_grpc=True).start([Digits()])
