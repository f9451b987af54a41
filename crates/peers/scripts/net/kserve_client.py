"""Asks `dyno serve` with KServe's clients: root, HTTP and gRPC address."""

import asyncio
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig

import digits

root, http, grpc = sys.argv[1:]
ink, labels, expected = digits.load(root)


def request(is_binary):
    values = InferInput(name="ink", shape=list(ink.shape), datatype="FP32")
    values.set_data_from_numpy(ink, binary_data=is_binary)
    return InferRequest(model_name="digits", infer_inputs=[values])


async def main():
    client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0, timeout=60))
    base = f"http://{http}"
    assert await client.is_server_live(base) and await client.is_server_ready(base)
    assert await client.is_model_ready(base, "digits")
    for is_binary in [False, True]:
        found = await client.infer(base, request(is_binary), model_name="digits")
        scores = found.outputs[0].as_numpy()
        digits.check(scores, expected, f"KServe over HTTP, {'bytes' if is_binary else 'JSON'}")
        assert (scores.argmax(axis=1) == labels).mean() == 519 / 540

    client = InferenceGRPCClient(grpc, timeout=60)
    assert await client.is_server_live() and await client.is_server_ready()
    assert await client.is_model_ready("digits")
    for is_binary in [False, True]:
        found = await client.infer(request(is_binary))
        digits.check(found.outputs[0].as_numpy(), expected, f"KServe over gRPC, {'raw' if is_binary else 'typed'}")
    await client.close()


asyncio.run(main())
