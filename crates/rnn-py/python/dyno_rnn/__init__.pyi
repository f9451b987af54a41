"""Dyno's engine of recurrent networks (LSTM, GRU, RNN) on CPUs.

Input arrays are any buffers of float32, such as NumPy arrays; output arrays are memoryviews:
`numpy.asarray(model.run(x))` makes no copy.
"""

from collections.abc import Buffer, Sequence
from typing import Literal, final

__all__ = ["Model"]

@final
class Model:
    """A model with its threads. Concurrent calls wait for each other."""

    def __init__(
        self,
        model: str,
        *,
        threads: int = 1,
        precision: Literal["f32", "bf16", "int8"] = "f32",
        steps: int = 100,
    ) -> None:
        """Loads a file .onnx or .safetensors, one of its layers as FILE#LAYER, or a layer with random
        weights by its shape, such as "lstm:256x256".

        `threads` is the number of threads per call including the caller, reduced with a UserWarning
        to the cores that the process may use; plans are made for sequences of `steps` steps. Raises ValueError for an unknown model or invalid option, OSError
        if the file cannot be read.
        """

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> int:
        """Numbers in the input of one step."""
    @property
    def outputs(self) -> int:
        """Numbers in the output of one step."""
    @property
    def layers(self) -> int: ...
    @property
    def states(self) -> int:
        """Numbers in the states of one row, all layers together."""

    def run(self, input: Buffer, lengths: Sequence[int] | None = None) -> memoryview:
        """Runs (steps, rows, inputs) from zero states, or the constant ones of the file, and returns
        (steps, rows, outputs).

        `lengths` are the steps of each row; outputs after them are zeros. Raises TypeError or
        ValueError if an argument does not fit.
        """

    def run_on(
        self,
        input: Buffer,
        states: Buffer | None = None,
        lengths: Sequence[int] | None = None,
    ) -> tuple[memoryview, memoryview]:
        """Runs like `run`, but from the states that the last call returned.

        Returns outputs and states. Per layer, states are hidden states (directions, rows, units),
        then for an LSTM cell states (directions, rows, units)."""
