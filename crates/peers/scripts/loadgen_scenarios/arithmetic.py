"""Results recomputed from the trace of the same run.

Times differ from run to run, so the two modules cannot be compared by them. What can is whether
the results in a detail log are what the samples in its trace come to.
"""

import re

from item import Item

PERCENTILES = (0.5, 0.9, 0.95, 0.97, 0.99, 0.999)
# Both print six significant digits.
DIGITS = 2e-5

RESULT = re.compile(r'"key": "([^"]*)", "value": "?(.*?)"?, "time_ms"')


def arithmetic_items(detail, begins, samples):
    """Of each result that the samples determine, whether it is what they give."""
    logged = dict(RESULT.findall(detail))
    if (
        "result_validity" not in logged
        or logged.get("effective_test_mode") == "FindPeakPerformance"
    ):
        return
    last = sorted(begins)[-samples[-1] :] if samples and samples[-1] else []
    events = [begins[one] for one in last]
    if not events or any("complete_ns" not in event["args"] for event in events):
        return
    for key, expected in expected_results(logged["effective_scenario"], events, logged):
        if key in logged:
            agrees = is_close(logged[key], expected)
            yield Item(key, "as the trace" if agrees else "not as the trace")


def expected_results(scenario, events, logged):
    latencies = [event["args"]["complete_ns"] for event in events]
    yield from distribution(
        "result_{}_latency_ns", "result_{:.2f}_percentile_latency_ns", latencies
    )
    if scenario == "MultiStream":
        latencies = query_latencies(events)
        names = "result_{}_query_latency_ns", "result_{:.2f}_percentile_per_query_latency_ns"
        yield from distribution(*names, latencies)
    if scenario == "SingleStream":
        yield "result_qps_without_loadgen_overhead", 1e9 / (sum(latencies) // len(latencies))
    if scenario == "Offline":
        yield "result_samples_per_second", len(events) * 1e9 / max(latencies)
    if scenario == "Server" and len(events) > 1:
        spans = [int((event["ts"] - events[0]["ts"]) * 1000) for event in events]
        yield "result_scheduled_samples_per_sec", (len(events) - 1) * 1e9 / spans[-1]
        done = spans[-1] + latencies[-1]
        yield "result_completed_samples_per_sec", (len(events) - 1) * 1e9 / done
        over = sum(latency > int(logged["effective_target_latency_ns"]) for latency in latencies)
        yield "result_overlatency_query_count", over
    discarded = re.search(r"discard (\d+) highest", logged.get("early_stopping_result", ""))
    if discarded:
        estimate = sorted(latencies)[len(latencies) - int(discarded.group(1)) - 1]
        key = {"SingleStream": "early_stopping_latency_ss"}.get(
            scenario, "early_stopping_latency_ms"
        )
        yield key, estimate


def query_latencies(events):
    """Of each query, the latency of its last sample."""
    of_query = {}
    for event in events:
        args = event["args"]
        of_query[args["query_seq"]] = max(of_query.get(args["query_seq"], 0), args["complete_ns"])
    return list(of_query.values())


def distribution(name, percentile_name, latencies):
    latencies = sorted(latencies)
    yield name.format("min"), latencies[0]
    yield name.format("max"), latencies[-1]
    yield name.format("mean"), sum(latencies) // len(latencies)
    for percentile in PERCENTILES:
        at = int(len(latencies) * percentile)
        yield percentile_name.format(100 * percentile), latencies[at]


def is_close(logged, expected):
    if isinstance(expected, int):
        return logged == str(expected)
    try:
        return abs(float(logged) - expected) <= DIGITS * expected
    except ValueError:
        return False
