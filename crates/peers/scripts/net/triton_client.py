"""Asks `dyno serve` with NVIDIA's clients of the Open Inference Protocol: root, HTTP and gRPC address."""

import sys

import numpy as np
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http

import digits

root, http, grpc = sys.argv[1:]
ink, labels, expected = digits.load(root)


def refused(call, words):
    """Fails unless the call is refused with these words."""
    try:
        call()
    except Exception as error:
        if words not in str(error):
            sys.exit(f"refused with '{error}'; expected '{words}'")
    else:
        sys.exit(f"not refused: {words}")


def ask(module, client, what):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("digits")
    metadata = client.get_server_metadata()
    name = metadata["name"] if isinstance(metadata, dict) else metadata.name
    assert "Network SUT" in name, name
    metadata = client.get_model_metadata("digits")
    inputs = metadata["inputs"] if isinstance(metadata, dict) else metadata.inputs
    shape = inputs[0]["shape"] if isinstance(inputs[0], dict) else list(inputs[0].shape)
    assert shape == [-1, 64], shape
    values = module.InferInput("ink", list(ink.shape), "FP32")
    values.set_data_from_numpy(ink)
    found = client.infer("digits", [values], outputs=[module.InferRequestedOutput("scores")], request_id="7")
    digits.check(found.as_numpy("scores"), expected, what)
    accuracy = (found.as_numpy("scores").argmax(axis=1) == labels).mean()
    assert accuracy == 519 / 540, accuracy
    wrong = module.InferInput("pixels", list(ink.shape), "FP32")
    wrong.set_data_from_numpy(ink)
    refused(lambda: client.infer("digits", [wrong]), "its inputs are ink")
    refused(lambda: client.infer("iris", [values]), "unknown model 'iris'")


with over_http.InferenceServerClient(http) as client:
    ask(over_http, client, "tritonclient over HTTP, bytes")
    values = over_http.InferInput("ink", list(ink.shape), "FP32")
    values.set_data_from_numpy(ink, binary_data=False)
    output = over_http.InferRequestedOutput("scores", binary_data=False)
    found = client.infer("digits", [values], outputs=[output])
    digits.check(found.as_numpy("scores"), expected, "tritonclient over HTTP, JSON")
    for how in ["gzip", "deflate"]:
        found = client.infer("digits", [values], request_compression_algorithm=how)
        digits.check(found.as_numpy("scores"), expected, f"tritonclient over HTTP, {how}")

with over_grpc.InferenceServerClient(grpc) as client:
    ask(over_grpc, client, "tritonclient over gRPC")
    values = over_grpc.InferInput("ink", list(ink.shape), "FP32")
    values.set_data_from_numpy(ink)
    found = client.infer("digits", [values], compression_algorithm="gzip")
    digits.check(found.as_numpy("scores"), expected, "tritonclient over gRPC, gzip")
    answers = []
    client.start_stream(lambda result, error: answers.append((result, error)))
    for _ in range(3):
        client.async_stream_infer("digits", [values])
    client.stop_stream()
    assert len(answers) == 3, answers
    for result, error in answers:
        assert error is None, error
        digits.check(result.as_numpy("scores"), expected, "tritonclient over gRPC, streaming")
