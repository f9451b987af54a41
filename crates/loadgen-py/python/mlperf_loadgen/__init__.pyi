"""The load generator, with the names, meanings and defaults of the reference (LoadGen 6.0.17).

Functions that the reference's module does not have are marked.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, SupportsIndex, final, overload

from typing_extensions import Buffer, disjoint_base

__all__ = [
    "AbortTest",
    "ConstructBufferSUT",
    "ConstructFastSUT",
    "ConstructQDL",
    "ConstructQSL",
    "ConstructSUT",
    "DestroyBufferSUT",
    "DestroyFastSUT",
    "DestroyQDL",
    "DestroyQSL",
    "DestroySUT",
    "FirstTokenComplete",
    "FirstTokenCompleteBuffer",
    "LogOutputSettings",
    "LogSettings",
    "LoggingMode",
    "QuerySample",
    "QuerySampleResponse",
    "QuerySamplesComplete",
    "QuerySamplesCompleteBuffer",
    "RegisterIssueQueryThread",
    "StartTest",
    "StartTestWithLogSettings",
    "TestMode",
    "TestScenario",
    "TestSettings",
    "VectorQuerySample",
    "VectorQuerySampleResponse",
]

@final
class TestScenario:
    """Scenario: how queries reach the system under test."""

    __members__: ClassVar[dict[str, TestScenario]]
    SingleStream: ClassVar[TestScenario]
    MultiStream: ClassVar[TestScenario]
    Server: ClassVar[TestScenario]
    Offline: ClassVar[TestScenario]
    def __new__(cls, value: SupportsIndex) -> TestScenario: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __getstate__(self) -> int: ...

@final
class TestMode:
    """Mode of a test."""

    __members__: ClassVar[dict[str, TestMode]]
    SubmissionRun: ClassVar[TestMode]
    AccuracyOnly: ClassVar[TestMode]
    PerformanceOnly: ClassVar[TestMode]
    FindPeakPerformance: ClassVar[TestMode]
    def __new__(cls, value: SupportsIndex) -> TestMode: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __getstate__(self) -> int: ...

@final
class LoggingMode:
    """Accepted without effect, as in the reference."""

    __members__: ClassVar[dict[str, LoggingMode]]
    AsyncPoll: ClassVar[LoggingMode]
    EndOfTestOnly: ClassVar[LoggingMode]
    Synchronous: ClassVar[LoggingMode]
    def __new__(cls, value: SupportsIndex) -> LoggingMode: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __getstate__(self) -> int: ...

@disjoint_base
class TestSettings:
    """Settings of a test."""

    scenario: TestScenario
    mode: TestMode
    single_stream_expected_latency_ns: float
    single_stream_target_latency_percentile: float
    multi_stream_expected_latency_ns: float
    multi_stream_target_latency_percentile: float
    multi_stream_samples_per_query: int
    server_target_qps: float
    server_target_latency_ns: int
    server_target_latency_percentile: float
    server_coalesce_queries: bool
    server_find_peak_qps_decimals_of_precision: int
    server_find_peak_qps_boundary_step_size: float
    server_max_async_queries: int
    server_num_issue_query_threads: int
    offline_expected_qps: float
    sample_concatenate_permutation: bool
    min_duration_ms: int
    max_duration_ms: int
    min_query_count: int
    max_query_count: int
    qsl_rng_seed: int
    sample_index_rng_seed: int
    schedule_rng_seed: int
    accuracy_log_rng_seed: int
    accuracy_log_probability: float
    accuracy_log_sampling_target: int
    test05: bool
    test05_qsl_rng_seed: int
    test05_sample_index_rng_seed: int
    test05_schedule_rng_seed: int
    print_timestamps: bool
    performance_issue_unique: bool
    performance_issue_same: bool
    performance_issue_same_index: int
    performance_sample_count_override: int
    accuracy_sample_count_override: int
    use_token_latencies: bool
    ttft_latency: int
    tpot_latency: int
    infer_token_latencies: bool
    token_latency_scaling_factor: int
    def __init__(self) -> None: ...
    def FromConfig(self, path: str, model: str, scenario: str, conf_type: int = 1) -> int:
        """Applies a configuration file for a model and a scenario.

        Returns 0, -2 if the file cannot be read, or -22 if a line is invalid.
        """

@disjoint_base
class LogOutputSettings:
    """Folder and names of the logs. outdir must exist."""

    outdir: str
    prefix: str
    suffix: str
    prefix_with_datetime: bool
    copy_detail_to_stdout: bool
    copy_summary_to_stdout: bool
    def __init__(self) -> None: ...

@disjoint_base
class LogSettings:
    """Content and destination of the logs."""

    log_output: LogOutputSettings
    log_mode: LoggingMode
    log_mode_async_poll_interval_ms: int
    enable_trace: bool
    def __init__(self) -> None: ...

@disjoint_base
class QuerySample:
    """One sample of a query."""

    id: int
    index: int
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, id: SupportsIndex, index: SupportsIndex, /) -> None: ...
    def __getstate__(self) -> tuple[int, int]: ...
    def __setstate__(self, state: tuple[int, int], /) -> None: ...

@disjoint_base
class QuerySampleResponse:
    """Response to a sample. data is the address of size bytes, which are read before
    QuerySamplesComplete returns, and only if the response is logged."""

    id: int
    data: int
    size: int
    n_tokens: int
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, id: SupportsIndex, data: SupportsIndex, size: SupportsIndex, /) -> None: ...
    @overload
    def __init__(
        self, id: SupportsIndex, data: SupportsIndex, size: SupportsIndex, n_tokens: SupportsIndex, /
    ) -> None: ...
    def __getstate__(self) -> tuple[int, ...]: ...
    def __setstate__(self, state: tuple[int, ...], /) -> None: ...

@final
class VectorQuerySample:
    """A list of QuerySample."""

    def __new__(cls, *entries: Iterable[QuerySample]) -> VectorQuerySample: ...
    def append(self, x: QuerySample) -> None: ...
    def clear(self) -> None: ...
    def extend(self, L: Iterable[QuerySample]) -> None: ...
    def insert(self, i: int, x: QuerySample) -> None: ...
    def pop(self, i: int = -1) -> QuerySample: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[QuerySample]: ...
    @overload
    def __getitem__(self, at: SupportsIndex, /) -> QuerySample: ...
    @overload
    def __getitem__(self, at: slice, /) -> VectorQuerySample: ...
    @overload
    def __setitem__(self, at: SupportsIndex, value: QuerySample, /) -> None: ...
    @overload
    def __setitem__(self, at: slice, value: Iterable[QuerySample], /) -> None: ...
    def __delitem__(self, at: SupportsIndex | slice, /) -> None: ...

@final
class VectorQuerySampleResponse:
    """A list of QuerySampleResponse."""

    def __new__(cls, *entries: Iterable[QuerySampleResponse]) -> VectorQuerySampleResponse: ...
    def append(self, x: QuerySampleResponse) -> None: ...
    def clear(self) -> None: ...
    def extend(self, L: Iterable[QuerySampleResponse]) -> None: ...
    def insert(self, i: int, x: QuerySampleResponse) -> None: ...
    def pop(self, i: int = -1) -> QuerySampleResponse: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[QuerySampleResponse]: ...
    @overload
    def __getitem__(self, at: SupportsIndex, /) -> QuerySampleResponse: ...
    @overload
    def __getitem__(self, at: slice, /) -> VectorQuerySampleResponse: ...
    @overload
    def __setitem__(self, at: SupportsIndex, value: QuerySampleResponse, /) -> None: ...
    @overload
    def __setitem__(self, at: slice, value: Iterable[QuerySampleResponse], /) -> None: ...
    def __delitem__(self, at: SupportsIndex | slice, /) -> None: ...

def ConstructSUT(
    issue_cb: Callable[[list[QuerySample]], object] | None, flush_cb: Callable[[], object] | None, /
) -> int:
    """Creates a system under test."""

def DestroySUT(handle: int, /) -> None: ...
def ConstructFastSUT(
    issue_cb: Callable[[list[int], list[int]], object] | None,
    flush_cb: Callable[[], object] | None,
    /,
) -> int:
    """Creates a system under test whose issue_cb(ids, indices) receives numbers."""

def DestroyFastSUT(handle: int, /) -> None: ...
def ConstructBufferSUT(
    issue_cb: Callable[[memoryview, memoryview], object] | None,
    flush_cb: Callable[[], object] | None,
    /,
) -> int:
    """Creates a system under test whose issue_cb(ids, indices) receives buffers of unsigned 64-bit
    integers, which it may keep. Not in the reference."""

def DestroyBufferSUT(handle: int, /) -> None:
    """Not in the reference."""

def ConstructQDL(
    issue_cb: Callable[[list[QuerySample]], object] | None,
    flush_cb: Callable[[], object] | None,
    name_cb: Callable[[], str] | None,
    /,
) -> int:
    """Creates a system under test that is reached over a network."""

def DestroyQDL(handle: int, /) -> None: ...
def ConstructQSL(
    total: int,
    performance: int,
    load_cb: Callable[[list[int]], object] | None,
    unload_cb: Callable[[list[int]], object] | None,
    /,
) -> int:
    """Creates a query sample library of total samples, of which performance fit in memory at once."""

def DestroyQSL(handle: int, /) -> None: ...
def StartTest(
    sut: int, qsl: int, test_settings: TestSettings, audit_config_filename: str = "audit.config"
) -> None:
    """Runs a test and writes its logs to the current folder. Raises the exception of a callback."""

def StartTestWithLogSettings(
    sut: int,
    qsl: int,
    test_settings: TestSettings,
    log_settings: LogSettings,
    audit_config_filename: str = "audit.config",
) -> None:
    """Like StartTest, with settings for the logs."""

def AbortTest() -> bool:
    """Ends the running test; returns whether one was running. Not in the reference's module."""

def RegisterIssueQueryThread() -> None:
    """Registers the calling thread to issue Server queries of the running test, or of the next one.
    Returns when that test is over; Ctrl-C ends the wait. Not in the reference's module."""

def QuerySamplesComplete(
    responses: Sequence[QuerySampleResponse] | VectorQuerySampleResponse,
    response_cb: Callable[[QuerySampleResponse], object] | None = None,
) -> None:
    """Completes samples; the clock is read once. response_cb is called for each response that is
    logged, and may set its data and size."""

def FirstTokenComplete(
    responses: Sequence[QuerySampleResponse] | VectorQuerySampleResponse,
    response_cb: Callable[[QuerySampleResponse], object] | None = None,
) -> None:
    """Reports first tokens. response_cb is never called."""

def QuerySamplesCompleteBuffer(
    ids: Buffer,
    data: Buffer | None = None,
    n_tokens: Buffer | None = None,
    offsets: Buffer | None = None,
) -> None:
    """Completes the samples whose ids are in a contiguous buffer of 64-bit integers.

    Row i of data is the answer to id i; data of another shape is split into equal parts. With offsets
    (n + 1 positions in bytes), answer i is data[offsets[i]:offsets[i + 1]]. n_tokens holds one token
    count per id. Not in the reference.
    """

def FirstTokenCompleteBuffer(
    ids: Buffer, data: Buffer | None = None, offsets: Buffer | None = None
) -> None:
    """Reports the first tokens of the samples whose ids are in a buffer. Not in the reference."""
