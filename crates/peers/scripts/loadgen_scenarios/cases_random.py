"""Cases of random settings: a function of (seed, index) alone, and independent of time."""

import random

from case import GENEROUS_NS, SCENARIOS, SEEDS, Case
from systems import System

SEED = 6017
CASES = 200
QUICK = 16

RATES = {
    "SingleStream": lambda rng: {"single_stream_expected_latency_ns": rng.uniform(4e5, 2e6)},
    "MultiStream": lambda rng: {
        "multi_stream_expected_latency_ns": rng.uniform(1e6, 4e6),
        "multi_stream_samples_per_query": rng.choice([1, 2, 3, 7, 8, rng.randint(2, 40)]),
    },
    "Server": lambda rng: {"server_target_qps": rng.uniform(3e3, 2e4)},
    "Offline": lambda rng: {"offline_expected_qps": rng.uniform(0.5, 8)},
}


def cases():
    for index in range(CASES):
        yield case_of(random.Random(f"{SEED}/{index}"), index)


def case_of(rng, index):
    scenario = SCENARIOS[index % 4]
    total = rng.choice([rng.randint(1, 12), rng.randint(13, 130), rng.randint(130, 500)])
    performance = rng.randint(max(1, total // 4), total)
    s = {
        "scenario": scenario,
        "mode": rng.choice(["PerformanceOnly"] * 3 + ["AccuracyOnly", "SubmissionRun"]),
    }
    s |= {name: rng.choice([0, rng.getrandbits(32), rng.getrandbits(64)]) for name in SEEDS}
    s["min_query_count"] = rng.choice([1, rng.randint(1, 60), rng.randint(60, 300)])
    # A closed loop that ends by its duration ends by the machine's speed; that of Offline is
    # never reached.
    s["min_duration_ms"] = rng.choice(
        {"Server": [0, 5, 20], "Offline": [0, 60_000]}.get(scenario, [0])
    )
    if rng.random() < 0.15:
        s["max_query_count"] = rng.randint(1, 200)
    if rng.random() < 0.2:
        s["performance_sample_count_override"] = rng.randint(max(1, performance // 2), total)
    if rng.random() < 0.2:
        s["accuracy_sample_count_override"] = rng.randint(max(1, total // 2), total + 20)
    s |= (
        RATES[scenario](rng)
        | order(rng, smallest_set(s, total, performance))
        | percentile(rng, scenario)
    )
    s |= sampling(rng)
    tokens = metrics(rng, s)
    name = f"random/{index:03}-{scenario}-{s['mode']}"
    return Case(
        name, s, library=(total, performance), system=system(rng, tokens), quick=index < QUICK
    )


def smallest_set(s, total, performance):
    """Samples of the smallest set of any phase.

    For a larger index the reference reads past the end of the set.
    """
    in_memory = s.get("performance_sample_count_override") or performance
    accuracy = min(s.get("accuracy_sample_count_override") or total, total)
    return min(in_memory, accuracy if accuracy <= in_memory else accuracy % in_memory or in_memory)


def order(rng, smallest):
    kind = rng.choice(["random", "random", "equal", "unique", "same"])
    if kind == "same":
        return {
            "performance_issue_same": True,
            "performance_issue_same_index": rng.randrange(smallest),
        }
    flag = {"equal": "sample_concatenate_permutation", "unique": "performance_issue_unique"}
    return {flag[kind]: True} if kind in flag else {}


def percentile(rng, scenario):
    name = {
        "SingleStream": "single_stream_target_latency_percentile",
        "MultiStream": "multi_stream_target_latency_percentile",
        "Server": "server_target_latency_percentile",
    }.get(scenario)
    s = (
        {name: rng.choice([0.5, 0.9, 0.95, 0.97, 0.99, 0.999, rng.uniform(0.4, 0.995)])}
        if name
        else {}
    )
    if scenario == "Server":
        s["server_target_latency_ns"] = rng.choice([GENEROUS_NS, GENEROUS_NS, 1])
    return s


def sampling(rng):
    kind = rng.choice(["none", "none", "share", "target", "test05"])
    if kind == "share":
        return {"accuracy_log_probability": rng.choice([rng.random(), 1.0])}
    if kind == "target":
        return {"accuracy_log_sampling_target": rng.randint(1, 200)}
    if kind == "test05":
        names = ("test05_qsl_rng_seed", "test05_sample_index_rng_seed", "test05_schedule_rng_seed")
        return {"test05": True} | {name: rng.getrandbits(64) for name in names}
    return {}


def metrics(rng, s):
    """Adds token metrics to some settings; whether the system has to tell of tokens."""
    kind = rng.choice(["none", "none", "measured", "inferred"])
    if kind == "measured":
        bounds = {
            name: rng.choice([GENEROUS_NS, GENEROUS_NS, 0])
            for name in ("ttft_latency", "tpot_latency")
        }
        s |= {"use_token_latencies": True} | bounds
    elif kind == "inferred":
        s |= {"infer_token_latencies": True, "token_latency_scaling_factor": rng.randint(1, 900)}
    return kind == "measured"


def system(rng, tokens):
    return System(
        kind=rng.choice(["sut", "sut", "fast"]),
        answer=rng.choice(["inline", "inline", "thread"]),
        one_by_one=rng.random() < 0.3,
        size=rng.choice([0, 1, 4, 40]),
        first_size=rng.choice([0, 5]),
        first_token=tokens,
        tokens=rng.randint(2, 50) if tokens else 0,
        tokens_of={i: rng.randint(2, 60) for i in range(20)} if tokens else {},
        fetches=rng.random() < 0.5,
    )
