"""Dyno's engine of recurrent networks (LSTM, GRU, RNN) on CPUs.

Arrays go in as anything with a buffer of float32, such as NumPy's, and come out as memoryviews:
`numpy.asarray(model.run(x))` copies nothing.
"""

from collections.abc import Buffer, Sequence
from typing import Literal, final

__all__ = ["Model"]

@final
class Model:
    """A model with its threads. Calls from several threads wait for each other."""

    def __init__(
        self,
        model: str,
        *,
        threads: int = 1,
        precision: Literal["f32", "bf16", "int8"] = "f32",
        steps: int = 100,
    ) -> None:
        """Loads a file .onnx or .safetensors, one of its layers as FILE#LAYER, or a layer of made-up
        weights by its shape, such as "lstm:256x256".

        `threads` work on a call, the caller's among them; plans are made for sequences of `steps`.
        ValueError: no such model or option; OSError: the file cannot be read.
        """

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> int:
        """Numbers of a step's input."""
    @property
    def outputs(self) -> int:
        """Numbers of a step's output."""
    @property
    def layers(self) -> int: ...
    @property
    def states(self) -> int:
        """Numbers of the states of a row, all layers together."""

    def run(self, input: Buffer, lengths: Sequence[int] | None = None) -> memoryview:
        """Runs (steps, rows, inputs) from states of zeros to (steps, rows, outputs).

        A row has as many steps as its length says; outputs behind them are zeros. TypeError and
        ValueError tell what does not fit.
        """

    def run_on(
        self,
        input: Buffer,
        states: Buffer | None = None,
        lengths: Sequence[int] | None = None,
    ) -> tuple[memoryview, memoryview]:
        """As run, from the states that the last call returned; returns outputs and states: layer
        after layer (directions, rows, units) of hidden states, and of an LSTM of its cells."""
