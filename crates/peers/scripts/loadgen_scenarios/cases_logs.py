"""Cases of tokens, the accuracy log, log settings, misuse, and settings that make no sense."""

from case import GENEROUS_NS, SCENARIOS, Case, settings, token_settings
from systems import System


def cases():
    yield from tokens()
    yield from token_misuse()
    yield from sampling()
    yield from log_settings()
    yield from misuse()
    yield from senseless()
    yield from repeated()


SAYS_TOKENS = System(first_token=True, tokens=5, tokens_of={0: 2, 1: 9, 3: 60})


def tokens():
    for scenario in SCENARIOS:
        for mode in ("PerformanceOnly", "AccuracyOnly", "SubmissionRun"):
            measured = token_settings(scenario, mode)
            yield Case(f"tokens/{scenario}/{mode}", measured, system=SAYS_TOKENS, quick=True)
        threaded = System(first_token=True, tokens=4, answer="thread")
        yield Case(f"tokens/{scenario}/thread", token_settings(scenario), system=threaded)
        bound = {"ttft_latency": 1, "tpot_latency": GENEROUS_NS}
        yield Case(
            f"tokens/{scenario}/first token late",
            token_settings(scenario, **bound),
            system=SAYS_TOKENS,
        )
        bound = {"ttft_latency": GENEROUS_NS, "tpot_latency": 0}
        yield Case(
            f"tokens/{scenario}/tokens slow", token_settings(scenario, **bound), system=SAYS_TOKENS
        )
        bound = {"ttft_latency": 1, "tpot_latency": 0}
        yield Case(
            f"tokens/{scenario}/both over", token_settings(scenario, **bound), system=SAYS_TOKENS
        )
        inferred = {"infer_token_latencies": True, "token_latency_scaling_factor": 21}
        yield Case(f"tokens/{scenario}/inferred", settings(scenario, **inferred), quick=True)
        yield Case(
            f"tokens/{scenario}/inferred accuracy", settings(scenario, "AccuracyOnly", **inferred)
        )
        both = token_settings(scenario, **inferred)
        yield Case(f"tokens/{scenario}/measured and inferred", both, system=SAYS_TOKENS)
        none = System(first_token=True, tokens=5, first_size=0, size=0)
        yield Case(
            f"tokens/{scenario}/no data", token_settings(scenario, "AccuracyOnly"), system=none
        )
        # Tokens that nobody asked for.
        yield Case(
            f"tokens/{scenario}/unasked counts",
            settings(scenario, "SubmissionRun"),
            system=System(tokens=5),
        )
    offline = System(tokens=6)
    for mode in ("PerformanceOnly", "AccuracyOnly"):
        yield Case(
            f"tokens/Offline/no first token/{mode}", token_settings("Offline", mode), system=offline
        )
    enough = token_settings("Server", min_query_count=200, server_target_latency_percentile=0.99)
    yield Case("tokens/Server/early stopping not met", enough, system=SAYS_TOKENS)
    plenty = token_settings("SingleStream", min_query_count=700)
    yield Case("tokens/SingleStream/700 queries", plenty, system=SAYS_TOKENS)
    sampled = token_settings("Server", accuracy_log_probability=0.4)
    yield Case("tokens/Server/sampled", sampled, system=SAYS_TOKENS)


def token_misuse():
    wrong = {
        "no first token": {"first_token_missing": (3, 11)},
        "first token after the end": {"first_token_late": (4,)},
        "first token twice": {"first_token_twice": (2, 9)},
        "no count": {"tokens_of": {2: 0, 5: 0}},
        "one token": {"tokens_of": {2: 1}},
        "negative": {"tokens_of": {2: -5}},
    }
    for scenario in SCENARIOS:
        for name, what in wrong.items():
            system = System(first_token=True, tokens=4, **what)
            for mode in ("PerformanceOnly", "AccuracyOnly"):
                if (
                    name in ("no first token", "first token after the end")
                    and mode == "AccuracyOnly"
                    and scenario != "Offline"
                ):
                    continue  # The reference logs a payload that is not there, and crashes.
                # Enough that a few more over the bound change no verdict.
                run = token_settings(scenario, mode, min_query_count=200)
                yield Case(
                    f"token misuse/{scenario}/{name}/{mode}",
                    run,
                    system=system,
                    quick=scenario == "Server" and mode == "PerformanceOnly",
                )
    unasked = System(first_token=True, tokens=4)
    for scenario in SCENARIOS:
        yield Case(
            f"token misuse/{scenario}/unasked first token", settings(scenario), system=unasked
        )


def sampling():
    """Responses that a performance run logs, and the callback that fetches them."""
    fetching = System(fetches=True)
    for scenario in SCENARIOS:
        for mode in ("PerformanceOnly", "SubmissionRun"):
            for name, share in (
                ("a third", {"accuracy_log_probability": 0.333}),
                ("all", {"accuracy_log_probability": 1.0}),
                ("twenty", {"accuracy_log_sampling_target": 20}),
                ("more than there are", {"accuracy_log_sampling_target": 20_000}),
                ("both", {"accuracy_log_sampling_target": 9, "accuracy_log_probability": 0.9}),
            ):
                run = settings(scenario, mode, **share)
                yield Case(
                    f"sampling/{scenario}/{mode}/{name}",
                    run,
                    system=fetching,
                    quick=name == "twenty" and mode == "PerformanceOnly",
                )
        yield Case(
            f"sampling/{scenario}/accuracy fetches all",
            settings(scenario, "AccuracyOnly"),
            system=fetching,
        )
        yield Case(f"sampling/{scenario}/none is fetched", settings(scenario), system=fetching)
    timed = settings(
        "Server", min_duration_ms=40, min_query_count=10, accuracy_log_sampling_target=30
    )
    yield Case("sampling/Server/by duration", timed, system=fetching)
    tokens = token_settings("Server", "AccuracyOnly")
    both = System(fetches=True, first_token=True, tokens=3)
    yield Case("sampling/Server/with tokens", tokens, system=both)
    threaded = System(fetches=True, answer="thread")
    yield Case("sampling/Server/thread", settings("Server", "AccuracyOnly"), system=threaded)


def log_settings():
    run = settings("Server", "SubmissionRun", min_query_count=20)

    def logged(name, quick=False, files=None, run=run, **logs):
        steps = (("start", logs),)
        return Case(f"logs/{name}", run, files=files or {}, steps=steps, quick=quick)

    yield logged("defaults", quick=True)
    yield logged("prefix and suffix", quick=True, prefix="my-", suffix="-old")
    yield logged("empty prefix", prefix="")
    yield logged("a folder", files={"inside": None}, outdir="inside")
    yield logged("a folder with a slash", files={"inside": None}, outdir="inside/")
    yield logged("a prefix with a slash", files={"inside": None}, outdir="inside", prefix="/my-")
    yield logged("datetime", prefix_with_datetime=True, quick=True)
    yield logged("no trace", enable_trace=False, quick=True)
    yield logged("detail on stdout", copy_detail_to_stdout=True)
    yield logged("summary on stdout", copy_summary_to_stdout=True)
    yield logged(
        "both on stdout", copy_detail_to_stdout=True, copy_summary_to_stdout=True, quick=True
    )
    single = settings("SingleStream", "SubmissionRun")
    yield logged(
        "stdout of SingleStream",
        run=single,
        copy_detail_to_stdout=True,
        copy_summary_to_stdout=True,
    )
    yield logged("ignored settings", log_mode_async_poll_interval_ms=5)
    yield logged(
        "a longer log was there",
        files={"mlperf_log_detail.txt": "x" * 200_000, "mlperf_log_trace.json": "y" * 200_000},
    )
    for scenario in SCENARIOS:
        printed = settings(scenario, print_timestamps=True)
        yield Case(f"logs/print_timestamps/{scenario}", printed, quick=scenario == "Server")
    yield Case(
        "logs/print_timestamps/accuracy", settings("Server", "SubmissionRun", print_timestamps=True)
    )


def misuse():
    """What the reference survives."""
    twice = System(completed_twice=(0, 3))
    for scenario in SCENARIOS:
        for mode in ("PerformanceOnly", "AccuracyOnly"):
            yield Case(
                f"misuse/{scenario}/completed twice/{mode}",
                settings(scenario, mode),
                system=twice,
                quick=mode == "PerformanceOnly",
            )
        # The exception comes out of StartTest; when it exits, the reference's process crashes.
        raising = System(raises_at=0 if scenario == "Offline" else 3)
        yield Case(
            f"misuse/{scenario}/raises",
            settings(scenario),
            system=raising,
            parts="system: (raised|calls|from another thread)",
            quick=scenario == "Server",
        )
    often = System(completed_twice=tuple(range(12)))
    yield Case("misuse/Server/twelve completed twice", settings("Server"), system=often)


def senseless():
    """Settings that make no sense and are run."""
    for name, scenario, more in (
        ("negative rate", "Offline", {"offline_expected_qps": -3.0}),
        ("no throughput", "Offline", {"offline_expected_qps": 0.0}),
        ("negative rate", "Server", {"server_target_qps": -1.0, "min_query_count": 2}),
        ("no bound", "Server", {"server_target_latency_ns": 0}),
        ("no latency", "SingleStream", {"single_stream_expected_latency_ns": 0.0}),
        ("share above 1", "SingleStream", {"accuracy_log_probability": 2.0}),
        ("negative share", "SingleStream", {"accuracy_log_probability": -1.0}),
        ("same beyond the set, unused", "Offline", {"performance_issue_same_index": 1000}),
        ("no factor", "Server", {"infer_token_latencies": True}),
        ("no first-token bound", "Server", {"use_token_latencies": True, "ttft_latency": 0}),
    ):
        system = SAYS_TOKENS if "use_token_latencies" in more else System()
        yield Case(
            f"senseless/{scenario}/{name}",
            settings(scenario, **more),
            system=system,
            quick=name == "negative rate",
        )
    for scenario in ("SingleStream", "Server"):
        none = settings(scenario, min_query_count=0, min_duration_ms=20)
        long = System(sleep_first_s=0.3)
        yield Case(f"senseless/{scenario}/no minimum count", none, system=long)
    yield Case(
        "senseless/performance beyond the library", settings("SingleStream"), library=(50, 80)
    )


def repeated():
    """Several tests in a process."""
    logs = [{"suffix": f"-{i}"} for i in range(3)]
    change = {"min_query_count": 30, "mode": "AccuracyOnly"}
    steps = (("start", logs[0]), ("start", logs[1]), ("set", change), ("start", logs[2]))
    for scenario in SCENARIOS:
        yield Case(
            f"repeated/{scenario}", settings(scenario), steps=steps, quick=scenario == "Offline"
        )
    again = (("start",), ("set", change), ("start",))
    yield Case("repeated/over the same logs", settings("Server"), steps=again)
