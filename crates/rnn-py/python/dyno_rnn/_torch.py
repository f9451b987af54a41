"""Modules of PyTorch as models. PyTorch is imported only when it is used."""

import json
import os
import tempfile
import warnings

from ._native import Graph, Model


def model(module, **options):
    """Returns the Model of a torch.nn.LSTM, GRU or RNN."""
    import torch

    # A subclass may compute anything.
    if type(module) not in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        raise TypeError(
            f"from_torch: expected torch.nn.LSTM, GRU or RNN, found {type(module).__name__}; "
            "Graph.from_torch(module, examples) takes any module"
        )
    if getattr(module, "proj_size", 0):
        raise ValueError("from_torch: proj_size is not supported; Graph.from_torch takes any module")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, type(module).__name__ + ".safetensors")
        _save_layers(module, path)
        return Model(path, **options)


def graph(module, examples, dynamic=None, **options):
    """Returns the Graph of a module."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, type(module).__name__ + ".onnx")
        export(module, examples, path, dynamic)
        loaded = Graph(path, **options)
        loaded._read_oracle()
        return loaded


def export(module, examples, path, dynamic=None):
    """Writes a module as an ONNX file.

    `examples` are the inputs by name, in the order of `forward`. `dynamic` names the dimensions that
    calls may change: {"ids": {0: "batch", 1: "steps"}}.
    """
    import torch

    parts = module.modules() if isinstance(module, torch.nn.Module) else []
    training = [part for part in parts if getattr(part, "training", False)]
    if training:
        module.eval()
    try:
        _export(module, examples, path, dynamic)
    finally:
        # Only these: other parts may be frozen in evaluation mode.
        for part in training:
            part.training = True


def _export(module, examples, path, dynamic):
    import torch

    with torch.no_grad():
        found = list(_tensors(module(*examples.values())))
    outputs = [f"output_{at}" for at in range(len(found))] if len(found) > 1 else ["output"]
    options = {"input_names": list(examples), "output_names": outputs, "dynamic_axes": dynamic or {}}
    with warnings.catch_warnings():
        # The exporter warns of its own age, and of fixed states that it does not write.
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(examples.values()), path, dynamo=False, **options)


def _tensors(found):
    """The tensors of an answer, in the order of the exporter."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, (tuple, list)):
        for part in found:
            yield from _tensors(part)
    elif found is not None:
        yield found


def load(path, trusted=False):
    """Reads a .pt file: a TorchScript program, or a pickled module if the file is trusted."""
    import torch

    try:
        with warnings.catch_warnings():
            # PyTorch advises another format to those who write files.
            warnings.simplefilter("ignore")
            return torch.jit.load(path, map_location="cpu")
    except RuntimeError:
        pass
    if not trusted:
        raise ValueError(
            f"{path}: expected a TorchScript program (torch.jit.save); a pickled module may run any "
            "code when it is read: add --trusted if you made the file, or trust who did"
        )
    found = torch.load(path, map_location="cpu", weights_only=False)
    if not isinstance(found, torch.nn.Module):
        raise ValueError(
            f"{path}: expected a module, found {type(found).__name__}; save the module, not its state_dict"
        )
    return found


def _save_layers(module, path):
    """Writes the weights of a recurrent module in the format of safetensors."""
    import torch

    metadata = {}
    if isinstance(module, torch.nn.RNN):
        metadata["nonlinearity"] = module.nonlinearity
    header, parts, offset = {"__metadata__": metadata}, [], 0
    for name, tensor in module.state_dict().items():
        bytes_ = tensor.detach().to(torch.float32).contiguous().cpu().numpy().tobytes()
        shape = list(tensor.shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + len(bytes_)]}
        parts.append(bytes_)
        offset += len(bytes_)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(parts)
