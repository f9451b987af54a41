"""What a case is, and the settings that most cases share."""

import dataclasses

from systems import System

SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")
START = (("start",),)

# 64 bits wide, so that what is done with the upper half shows.
SEEDS = {
    "qsl_rng_seed": 0x9E37_79B9_7F4A_7C15,
    "sample_index_rng_seed": 0xBF58_476D_1CE4_E5B9,
    "schedule_rng_seed": 0x94D0_49BB_1331_11EB,
    "accuracy_log_rng_seed": 0xD6E8_FEB8_6659_FD93,
}
# Far beyond what a busy machine adds to an answer that is given at once.
GENEROUS_NS = 20_000_000_000

# Runs that end by their count, however fast the machine is.
BASE = {
    "SingleStream": {"single_stream_expected_latency_ns": 1e6},
    "MultiStream": {"multi_stream_expected_latency_ns": 2e6, "multi_stream_samples_per_query": 7},
    "Server": {
        "server_target_qps": 4000.0,
        "server_target_latency_ns": GENEROUS_NS,
        "server_target_latency_percentile": 0.9,
    },
    "Offline": {"offline_expected_qps": 500.0},
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One process: what lies in its folder, what it sets, and what it does."""

    name: str
    settings: dict
    # Samples of the library, and samples that fit in memory.
    library: tuple = (100, 64)
    system: System = System()
    # Text files of the folder; None is a folder.
    files: dict = dataclasses.field(default_factory=dict)
    # ("config", path, model, scenario[, type]), ("fresh",) settings, ("set", {..}) or
    # ("start"[, logs[, audit file]]); logs of None is StartTest without log settings.
    steps: tuple = START
    # Regular expression of the parts that are compared; the others are what a process leaves
    # that crashes in the reference.
    parts: str = ".*"
    # Whether it belongs to the short run.
    quick: bool = False


def settings(scenario, mode="PerformanceOnly", **more):
    """Settings whose outcome does not depend on the machine."""
    shared = {"scenario": scenario, "mode": mode, "min_duration_ms": 0, "min_query_count": 70}
    return shared | SEEDS | BASE[scenario] | more


def token_settings(scenario, mode="PerformanceOnly", **more):
    """As `settings`, with measured tokens and bounds that hold on any machine."""
    bounds = {"ttft_latency": GENEROUS_NS, "tpot_latency": GENEROUS_NS}
    return settings(scenario, mode, use_token_latencies=True, **(bounds | more))
