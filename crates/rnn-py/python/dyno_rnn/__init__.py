"""Dyno's engine of recurrent networks (LSTM, GRU, RNN) and of whole ONNX models on CPUs."""

from ._native import Graph, Model, __version__

__all__ = ["Graph", "Model", "__version__"]
