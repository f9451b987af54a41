"""Dyno's engine of recurrent networks (LSTM, GRU, RNN) and of whole ONNX models on CPUs.

Input arrays are any buffers of float32, such as NumPy arrays; output arrays are memoryviews:
`numpy.asarray(model.run(x))` makes no copy.
"""

from collections.abc import Buffer, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeVar, final, overload

__all__ = ["Graph", "Model", "__version__"]

__version__: str

_Out = TypeVar("_Out", bound=Buffer)

@final
class Model:
    """A model with its threads. Concurrent calls wait for each other."""

    def __init__(
        self,
        model: str | PathLike[str],
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

    @staticmethod
    def from_torch(
        module: Any,
        *,
        threads: int = 1,
        precision: Literal["f32", "bf16", "int8"] = "f32",
        steps: int = 100,
    ) -> Model:
        """Loads the weights of a torch.nn.LSTM, GRU or RNN. Arrays are (steps, rows, inputs), whatever
        `batch_first` of the module is; `run(x, batch_first=True)` takes (rows, steps, inputs). Raises
        TypeError for another module, also a subclass, which may compute anything.
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

    @overload
    def run(
        self,
        input: Buffer,
        lengths: Sequence[int] | None = None,
        *,
        out: None = None,
        batch_first: bool = False,
    ) -> memoryview:
        """Runs (steps, rows, inputs) from zero states, or the constant ones of the file, and returns
        (steps, rows, outputs). With `batch_first`, both are (rows, steps, ...).

        `lengths` are the steps of each row; outputs after them are zeros. `out`, a float32 array of the
        outputs' shape, receives them and is returned. Raises TypeError or ValueError if an argument
        does not fit.
        """

    @overload
    def run(
        self,
        input: Buffer,
        lengths: Sequence[int] | None = None,
        *,
        out: _Out,
        batch_first: bool = False,
    ) -> _Out: ...
    @overload
    def run_on(
        self,
        input: Buffer,
        states: Buffer | None = None,
        lengths: Sequence[int] | None = None,
        *,
        out: None = None,
        batch_first: bool = False,
    ) -> tuple[memoryview, memoryview]:
        """Runs like `run`, but from the states that the last call returned.

        Returns outputs and states. Per layer, states are hidden states (directions, rows, units),
        then for an LSTM cell states (directions, rows, units), whatever `batch_first` is."""

    @overload
    def run_on(
        self,
        input: Buffer,
        states: Buffer | None = None,
        lengths: Sequence[int] | None = None,
        *,
        out: _Out,
        batch_first: bool = False,
    ) -> tuple[_Out, memoryview]: ...

@final
class Graph:
    """A whole ONNX model with its threads. Concurrent calls wait for each other."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        threads: int = 1,
        precision: Literal["f32", "bf16", "int8"] = "f32",
    ) -> None:
        """Loads a file .onnx. `precision` is that of products in recurrent nodes.

        Raises OSError if the file cannot be read, ValueError with the name of a node that is not
        supported.
        """

    @staticmethod
    def from_torch(
        module: Any,
        examples: Mapping[str, Any],
        *,
        dynamic: Mapping[str, Mapping[int, str]] | None = None,
        threads: int = 1,
        precision: Literal["f32", "bf16", "int8"] = "f32",
    ) -> Graph:
        """Exports a module of PyTorch and loads it. `examples` are its inputs by name, in the order of
        `forward`. `dynamic` names the dimensions that calls may change, {"ids": {0: "batch"}}; all
        others are those of the examples.
        """

    @property
    def inputs(self) -> list[tuple[str, str | None, tuple[int | str | None, ...] | None]]:
        """Name, type and dimensions of each input. A dimension without a size is its name or None."""
    @property
    def outputs(self) -> list[tuple[str, str | None, tuple[int | str | None, ...] | None]]:
        """Name, type and dimensions of each output."""

    def run(self, inputs: Mapping[str, Buffer]) -> dict[str, memoryview]:
        """Computes all outputs from all inputs, each by its name. `inputs` has arrays of the model's
        types; float32 arrays are passed to inputs of float16 and bfloat16, and rounded.

        Raises TypeError for an array of another type, ValueError if the model cannot compute the inputs.
        """

    def verify(self, inputs: Mapping[str, Buffer]) -> float:
        """Compares the outputs with those of an independent evaluator in double precision, which reads
        the file by itself. Returns the largest difference relative to the largest magnitude of its
        output. Numbers that are outside the range of float32 are not compared, with a UserWarning.
        Raises ValueError if the evaluator does not know a node, or contradicts a shape.
        """
