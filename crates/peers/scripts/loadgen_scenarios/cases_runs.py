"""Cases of scenarios, modes, ends, orders of samples, systems, and the search for the peak."""

from case import GENEROUS_NS, SCENARIOS, Case, settings
from systems import System

MODES = ("PerformanceOnly", "AccuracyOnly", "SubmissionRun")


def cases():
    yield from plain()
    yield from ends()
    yield from orders()
    yield from counts()
    yield from validity()
    yield from server_only()
    yield from peak()
    yield from systems()


def plain():
    for scenario in SCENARIOS:
        for mode in MODES:
            yield Case(f"plain/{scenario}/{mode}", settings(scenario, mode), quick=True)
        yield Case(
            f"plain/{scenario}/by duration",
            settings(scenario, min_duration_ms=40, min_query_count=1),
            # Longer than the run may last: it ends by the list in Server, by the time elsewhere.
            system=System(sleep_first_s=0.5),
        )
    defaults = {"min_duration_ms": 0}
    yield Case("plain/defaults", defaults, quick=True)
    yield Case("plain/defaults with accuracy", defaults | {"mode": "AccuracyOnly"})
    yield Case("plain/one sample", settings("SingleStream", "SubmissionRun"), library=(1, 1))
    large = settings("Server", server_target_qps=1e5, min_query_count=300)
    yield Case("plain/beyond 65535 samples", large, library=(70_001, 65_536))


def ends():
    """The ways in which a run ends before its time."""
    for scenario in SCENARIOS:
        spared = {"max_query_count": 5, "min_query_count": 40}
        yield Case(f"ends/{scenario}/max_query_count", settings(scenario, **spared), quick=True)
        late = {"min_duration_ms": 5000, "max_duration_ms": 60, "min_query_count": 30}
        if scenario == "Server":
            late |= {"server_target_qps": 100.0, "min_duration_ms": 300}
        elif scenario == "Offline":
            late |= {"offline_expected_qps": 10.0}
        system = System(sleep_first_s=0.4)
        yield Case(f"ends/{scenario}/max_duration", settings(scenario, **late), system=system)
    for scenario, expected in (("SingleStream", "single"), ("MultiStream", "multi")):
        # Twenty queries are generated for a second, and are over at once.
        slow = {f"{expected}_stream_expected_latency_ns": 1e8, "min_duration_ms": 1000}
        yield Case(
            f"ends/{scenario}/ran out", settings(scenario, **slow, min_query_count=1), quick=True
        )
    many = settings("Server", server_max_async_queries=10)
    yield Case("ends/Server/max_async", many, system=System(answer="flush"), quick=True)
    yield Case("ends/Server/max_async kept", many | {"server_max_async_queries": 1000})
    both = settings("Server", "SubmissionRun", max_query_count=9)
    yield Case("ends/Server/accuracy is not cut short", both)


def orders():
    """Which samples a performance run issues."""
    same = {"performance_issue_same": True, "performance_issue_same_index": 17}
    choices = {
        "unique": {"performance_issue_unique": True},
        "same": same,
        "unique and same": same | {"performance_issue_unique": True},
        "whole permutations": {"sample_concatenate_permutation": True},
    }
    for scenario in SCENARIOS:
        for name, choice in choices.items():
            # The multiple of the set and what is left of one.
            for count in (70, 128):
                few = settings(scenario, min_query_count=count, **choice)
                yield Case(f"orders/{scenario}/{name}/{count}", few, quick=count == 70)
        if scenario != "Offline":
            # Offline would use the index, and read past the set.
            beyond = choices["unique and same"] | {"performance_issue_same_index": 64}
            unused = settings(scenario, **beyond)
            yield Case(f"orders/{scenario}/unique and same beyond the set", unused)
        accuracy = settings(scenario, "SubmissionRun", sample_concatenate_permutation=True)
        yield Case(f"orders/{scenario}/whole permutations/submission", accuracy)
    for mode in ("AccuracyOnly", "SubmissionRun"):
        yield Case(
            f"orders/Server/unique/{mode}", settings("Server", mode, performance_issue_unique=True)
        )
    timed = {"min_duration_ms": 50, "sample_concatenate_permutation": True, "min_query_count": 1}
    for scenario in ("Server", "Offline"):
        yield Case(f"orders/{scenario}/whole permutations/by duration", settings(scenario, **timed))


def counts():
    """Sizes of sets and queries."""
    for scenario in SCENARIOS:
        for key, value in (
            ("performance", 20),
            ("performance", 80),
            ("performance", 130),
            ("accuracy", 30),
            ("accuracy", 90),
            ("accuracy", 130),
        ):
            override = {f"{key}_sample_count_override": value}
            mode = "AccuracyOnly" if key == "accuracy" else "SubmissionRun"
            yield Case(f"counts/{scenario}/{key} {value}", settings(scenario, mode, **override))
    for size in (1, 8, 63, 64, 100):
        multi = settings("MultiStream", "SubmissionRun", multi_stream_samples_per_query=size)
        yield Case(f"counts/MultiStream/{size} samples a query", multi, library=(96, 33))
    for rate, duration in ((100.0, 1000), (3000.0, 2500), (0.5, 10_000)):
        offline = settings("Offline", offline_expected_qps=rate, min_duration_ms=duration)
        yield Case(f"counts/Offline/{rate} for {duration} ms", offline)


def validity():
    """Verdicts and early stopping, with margins that no machine crosses."""
    for count in (2, 10, 63, 64, 65, 100, 700):
        single = settings("SingleStream", min_query_count=count)
        yield Case(f"validity/SingleStream/{count} queries", single, quick=count == 700)
    for percentile in (0.5, 0.95, 0.97, 0.99):
        single = settings("SingleStream", single_stream_target_latency_percentile=percentile)
        yield Case(f"validity/SingleStream/percentile {percentile}", single)
        multi = settings("MultiStream", multi_stream_target_latency_percentile=percentile)
        yield Case(f"validity/MultiStream/percentile {percentile}", multi)
    multi = settings("MultiStream", min_query_count=700, multi_stream_samples_per_query=2)
    yield Case("validity/MultiStream/700 queries", multi)
    for percentile, count in (
        (0.9, 63),
        (0.9, 64),
        (0.95, 90),
        (0.97, 200),
        (0.99, 459),
        (0.999, 500),
    ):
        server = settings(
            "Server", min_query_count=count, server_target_latency_percentile=percentile
        )
        yield Case(f"validity/Server/percentile {percentile} of {count}", server)
    # Every hold_every-th query waits for the flush and is over the bound; the others are far below.
    for every, percentile in ((10, 0.9), (50, 0.9), (4, 0.5), (3, 0.9)):
        bound = {
            "server_target_latency_ns": 150_000_000,
            "server_target_latency_percentile": percentile,
        }
        held = System(hold_every=every, sleep_flush_s=0.5)
        server = settings("Server", min_query_count=200, **bound)
        yield Case(f"validity/Server/one in {every} late at {percentile}", server, system=held)
    none = settings("Server", server_target_latency_ns=1)
    yield Case("validity/Server/all late", none, quick=True)
    yield Case(
        "validity/Server/too short", settings("Server", min_duration_ms=30, min_query_count=1)
    )
    brief = settings("Offline", min_duration_ms=60_000, offline_expected_qps=1.0)
    yield Case("validity/Offline/too short", brief, quick=True)


def server_only():
    """Coalescing: while the first query keeps the issuer, the others fall due."""
    due = settings(
        "Server", server_coalesce_queries=True, server_target_qps=200.0, min_query_count=20
    )
    due["schedule_rng_seed"] = 4
    busy = System(sleep_first_s=1.0)
    yield Case("server/coalesced", due, system=busy, quick=True)
    yield Case(
        "server/coalesced one by one", due, system=System(sleep_first_s=1.0, one_by_one=True)
    )
    yield Case("server/coalesced, max_query_count", due | {"max_query_count": 6}, system=busy)
    held = System(sleep_first_s=1.0, answer="flush")
    yield Case("server/coalesced, max_async", due | {"server_max_async_queries": 5}, system=held)
    yield Case(
        "server/late queries one by one", due | {"server_coalesce_queries": False}, system=busy
    )


def peak():
    """Searches whose slow runs are scripted by number: 0 is the base, bounds, bisection."""
    rate = {"server_target_latency_ns": 200_000_000, "server_target_latency_percentile": 0.5}
    base = settings("Server", "FindPeakPerformance", min_query_count=60, **rate)
    script = {
        "base fails": ((0,), 1.0, 1),
        "first bound fails": ((1, 3), 0.001, 0),
        "third bound fails": ((3, 4, 6), 0.0005, 1),
        "all of the bisection fails": ((2, 3, 4, 5, 6, 7, 8, 9), 0.001, 0),
    }
    for name, (slow, step, decimals) in script.items():
        search = base | {
            "server_find_peak_qps_boundary_step_size": step,
            "server_find_peak_qps_decimals_of_precision": decimals,
        }
        system = System(slow_runs=slow, sleep_flush_s=0.4)
        yield Case(f"peak/Server/{name}", search, system=system, quick=name == "first bound fails")
    tokens = base | {
        "use_token_latencies": True,
        "ttft_latency": 200_000_000,
        "tpot_latency": GENEROUS_NS,
        "server_find_peak_qps_boundary_step_size": 0.001,
        "server_find_peak_qps_decimals_of_precision": 0,
    }
    system = System(slow_runs=(1, 2), sleep_flush_s=0.4, first_token=True, tokens=3)
    yield Case("peak/Server/tokens", tokens, system=system)
    for scenario in ("SingleStream", "MultiStream", "Offline"):
        yield Case(f"peak/{scenario}", settings(scenario, "FindPeakPerformance"), quick=True)


def systems():
    """Kinds of systems, and threads that answer."""
    for scenario in SCENARIOS:
        for name, system in (
            ("thread", System(answer="thread")),
            ("one by one", System(one_by_one=True)),
            ("fast", System(kind="fast")),
            ("network", System(kind="qdl")),
            ("no data", System(size=0)),
            ("long data", System(size=300)),
        ):
            run = settings(scenario, "SubmissionRun")
            yield Case(f"systems/{scenario}/{name}", run, system=system, quick=name == "network")
    for scenario in ("Server", "Offline"):
        system = System(answer="flush", one_by_one=True)
        yield Case(f"systems/{scenario}/flush", settings(scenario, "SubmissionRun"), system=system)
    quoted = System(kind="qdl", name='a "quoted" \\ name')
    yield Case("systems/a name with quotes", settings("Offline"), system=quoted)
