"""Asks `dyno serve` with what MLServer gives to clients, its codecs and its gRPC stubs: root, HTTP and gRPC address."""

import sys
import urllib.request

import grpc as channels
from mlserver.codecs import NumpyCodec
from mlserver.grpc import converters
from mlserver.grpc.dataplane_pb2_grpc import GRPCInferenceServiceStub
from mlserver.types import InferenceRequest, InferenceResponse

import digits

root, http, grpc = sys.argv[1:]
ink, labels, expected = digits.load(root)
request = InferenceRequest(id="7", inputs=[NumpyCodec.encode_input(name="ink", payload=ink)])

body = request.model_dump_json(exclude_none=True)
headers = {"content-type": "application/json"}
post = urllib.request.Request(f"http://{http}/v2/models/digits/infer", body.encode(), headers)
with urllib.request.urlopen(post, timeout=60) as answer:
    found = InferenceResponse.model_validate_json(answer.read())
assert (found.id, found.model_name) == ("7", "digits")
digits.check(NumpyCodec.decode_output(found.outputs[0]), expected, "MLServer's codecs over HTTP")

with channels.insecure_channel(grpc) as channel:
    stub = GRPCInferenceServiceStub(channel)
    for use_raw in [False, True]:
        message = converters.ModelInferRequestConverter.from_types(
            request, model_name="digits", use_raw=use_raw
        )
        answer = stub.ModelInfer(message, timeout=60)
        found = converters.ModelInferResponseConverter.to_types(answer)
        scores = NumpyCodec.decode_output(found.outputs[0])
        digits.check(scores, expected, f"MLServer's stubs over gRPC, {'raw' if use_raw else 'typed'}")
