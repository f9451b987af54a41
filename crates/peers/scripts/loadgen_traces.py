"""Writes what the reference LoadGen does with many settings, as trace cases.

Drives the wheel `mlcommons-loadgen` with a system under test that answers at
once, and writes one JSON file per case: the settings, the sets it loaded, the
samples it issued, the scheduled times, and the samples it chose for the
accuracy log. `crates/loadgen/tests/it/peers.rs` replays the cases.

    python loadgen_traces.py generate DIR --cases N [--seed S]
    python loadgen_traces.py check DIR     # the wheel still gives these cases
    python loadgen_traces.py one IN OUT    # one case, in a process of its own

Cases are a function of (seed, index) alone, and so is everything written: a
run that ended because its minimum duration was over is repeated, until it ends
because nothing is left to issue. A replay may compare every fact.
"""

import argparse
import decimal
import faulthandler
import hashlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile
from importlib import metadata

import mlperf_loadgen as loadgen

# Longer sets are written as their hash and this many first elements.
WHOLE_SET_MAX = 2000
SET_HEAD = 64
# No case comes near it: a run that hangs says where instead of hanging CI.
HANG_S = 300
# A closed loop takes a tenth of its minimum duration here, unless the machine stalls.
ATTEMPTS = 5

FIELDS = [name for name in dir(loadgen.TestSettings()) if name[0] != "_" and name != "FromConfig"]
SOURCE = f"mlcommons-loadgen {metadata.version('mlcommons-loadgen')}, Python {sys.version.split()[0]}"


# ---- driving the wheel ----------------------------------------------------


class NullSystem:
    """Answers every query at once and writes down what it was asked."""

    def __init__(self, tokens, first_token):
        self.tokens = tokens
        self.first_token = first_token
        self.loaded = []  # one list of sample indices per phase
        self.issued = []  # one list of queries per phase
        self.flushes = 0

    def load(self, samples):
        self.loaded.append(list(samples))
        self.issued.append([])

    def unload(self, samples):
        pass

    def flush(self):
        self.flushes += 1

    def issue(self, samples):
        self.issued[-1].append([sample.index for sample in samples])
        n_tokens = 4 if self.tokens else 0
        responses = [loadgen.QuerySampleResponse(s.id, 0, 0, n_tokens) for s in samples]
        if self.first_token:
            loadgen.FirstTokenComplete(responses)
        loadgen.QuerySamplesComplete(responses)


def settings_of(case, folder):
    """The settings object of a case, configuration text applied last."""
    settings = loadgen.TestSettings()
    # Not initialised by its constructor.
    settings.token_latency_scaling_factor = 0
    for name, value in case["settings"].items():
        if name == "scenario":
            value = getattr(loadgen.TestScenario, value)
        elif name == "mode":
            value = getattr(loadgen.TestMode, value)
        setattr(settings, name, value)
    config = case.get("from_config")
    if config:
        path = folder / "user.conf"
        path.write_text(config["text"])
        code = settings.FromConfig(str(path), config["model"], config["scenario"])
        if code != 0:
            raise RuntimeError(f"{case['name']}: FromConfig returned {code}")
    return settings


class DependsOnTime(Exception):
    """How many queries were issued depended on how fast this machine was."""


def run(case):
    """Runs one case and returns it with what was observed; None if that depended on time."""
    try:
        return run_once(case)
    except DependsOnTime:
        return None


def run_once(case):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        settings = settings_of(case, folder)
        server = settings.scenario == loadgen.TestScenario.Server
        offline = settings.scenario == loadgen.TestScenario.Offline
        system = NullSystem(
            settings.use_token_latencies, settings.use_token_latencies and not offline
        )
        log = loadgen.LogSettings()
        log.log_output.outdir = str(folder)
        log.enable_trace = server
        sut = loadgen.ConstructSUT(system.issue, system.flush)
        qsl = loadgen.ConstructQSL(
            case["qsl_total"], case["qsl_performance"], system.load, system.unload
        )
        # An audit file is looked up in the current directory: name one that is not there.
        audit = str(folder / "no-audit.config")
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        loadgen.StartTestWithLogSettings(sut, qsl, settings, log, audit)
        faulthandler.cancel_dump_traceback_later()
        loadgen.DestroyQSL(qsl)
        loadgen.DestroySUT(sut)
        return observed(case, settings, system, folder, server)


def observed(case, settings, system, folder, server):
    generated = phases_of_detail_log(folder / "mlperf_log_detail.txt")
    if len(generated) != len(system.loaded):
        raise RuntimeError(f"{case['name']}: {len(system.loaded)} sets, {len(generated)} in the log")
    fewer = len(system.issued[-1]) < generated[-1]["generated_query_count"]
    if fewer and generated[-1]["ended_naturally"] and settings.min_duration_ms > 0:
        raise DependsOnTime
    scheduled = scheduled_ns(folder / "mlperf_log_trace.json") if server else []
    phases, first_id = [], 0
    for facts, loaded, issued in zip(generated, system.loaded, system.issued):
        phase = {
            "mode": facts["mode"],
            "loaded_set_len": len(loaded),
            "loaded_set_sha256": hashlib.sha256(",".join(map(str, loaded)).encode()).hexdigest(),
            "loaded_set_first": loaded if len(loaded) <= WHOLE_SET_MAX else loaded[:SET_HEAD],
            "generated_query_count": facts["generated_query_count"],
            "generated_samples_per_query": facts["generated_samples_per_query"],
            "generated_query_duration_ns": facts["generated_query_duration"],
            "queries_issued": len(issued),
            "issued": issued,
        }
        if server:
            # One sample a query, so sequence ids count queries.
            at = [scheduled[first_id + i] for i in range(len(issued))]
            phase["scheduled_delta_ns"] = [t - at[0] for t in at]
        phase["first_sample_seq_id"] = first_id
        # Every phase but the last issues all it generates.
        first_id += sum(map(len, issued))
        phases.append(phase)
    accuracy = json.loads((folder / "mlperf_log_accuracy.json").read_text())
    result = {
        "name": case["name"],
        "source": SOURCE,
        "qsl_total": case["qsl_total"],
        "qsl_performance": case["qsl_performance"],
        "settings": {name: plain(getattr(settings, name)) for name in FIELDS},
        "phases": phases,
        "accuracy_log_seq_ids": sorted(entry["seq_id"] for entry in accuracy),
        "flushes": system.flushes,
    }
    if "from_config" in case:
        result["from_config"] = case["from_config"]
    return result


def plain(value):
    return value if isinstance(value, (bool, int, float)) else value.name


def phases_of_detail_log(path):
    """The mode, the generated_* facts, and the kind of end of each phase, in order."""
    modes = {"Starting accuracy mode": "AccuracyOnly", "Starting performance mode": "PerformanceOnly"}
    mode, phases = None, []
    for line in path.read_text().splitlines():
        # Values are not escaped, so a line need not be JSON: cut out the two fields.
        key = between(line, '"key": "', '"')
        value = between(line, '"value": ', ', "time_ms"').strip('"')
        if key == "generic_message":
            mode = modes.get(value, mode)
            if value.startswith("Ending naturally"):
                phases[-1]["ended_naturally"] = True
        elif key == "loaded_qsl_set":
            phases.append({"mode": mode, "ended_naturally": False})
        elif key.startswith("generated_"):
            phases[-1][key] = int(value)
    return phases


def between(line, begin, end):
    _, found, rest = line.partition(begin)
    return rest.partition(end)[0] if found else ""


def scheduled_ns(path):
    """Scheduled time of each sample by its sequence id, ns since the trace's origin."""
    times = {}
    for line in path.read_text().splitlines():
        # The file as a whole is not valid JSON; the lines of samples are.
        if line.startswith('{"name":"Sample"') and '"ph":"b"' in line:
            event = json.loads(line.rstrip(","), parse_float=decimal.Decimal)
            times[event["args"]["sample_seq"]] = int(decimal.Decimal(event["ts"]) * 1000)
    return times


# ---- choosing cases -------------------------------------------------------

MODELS = [  # model, performance_sample_count_override
    ("resnet50", 1024),
    ("ssd-mobilenet", 256),
    ("retinanet", 64),
    ("bert", 10833),
    ("rnnt", 2513),
    ("gptj", 13368),
    ("llama2-70b", 24576),
    ("llama3_1-8b-edge", 5000),
    ("wan-2.2-t2v-a14b", 248),
    ("pointpainting", 1024),
    ("deepseek-r1", 4388),
    ("whisper", 1633),
    ("3d-unet", 0),
    ("a-model-it-does-not-know", 0),
]
# Of every so many cases one goes through a configuration file, and one through
# sets beyond 65535, where the shuffle takes its other branch.
CONFIG_EVERY = 15
LARGE_EVERY = 30


def case_of(seed, index):
    rng = random.Random(f"{seed}/{index}")
    if index % CONFIG_EVERY == CONFIG_EVERY - 1:
        return config_case(rng, index)
    return settings_case(rng, index, large=index % LARGE_EVERY == LARGE_EVERY // 2)


def seeds(rng, names):
    """64-bit seeds, so that what is done with the upper half shows."""
    return {name: rng.choice([0, rng.getrandbits(32), rng.getrandbits(64)]) for name in names}


def settings_case(rng, index, large):
    scenario = ["SingleStream", "MultiStream", "Server", "Offline"][index % 4]
    modes = ["PerformanceOnly"] * 3 + ["AccuracyOnly"] * 2 + ["SubmissionRun"]
    mode = "PerformanceOnly" if large else rng.choice(modes)
    total, performance = library(rng, large)
    s = {"scenario": scenario, "mode": mode}
    s |= seeds(rng, ["qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"])
    s["min_duration_ms"] = rng.choice([0, 0, 5, 20])
    s["min_query_count"] = rng.choice([1, rng.randint(1, 60), rng.randint(60, 400)])
    if rng.random() < 0.15:
        s["max_query_count"] = rng.randint(1, 300)
    if rng.random() < 0.2 and not large:
        s["performance_sample_count_override"] = rng.randint(max(1, performance // 2), total + 40)
    if rng.random() < 0.2 and not large:
        s["accuracy_sample_count_override"] = rng.randint(max(1, total // 2), total + 20)
    s |= order(rng, smallest_set(s, total, performance))
    if s.get("performance_issue_unique") and s.get("performance_sample_count_override", 0) > total:
        # Offline then asks for more samples than are loaded, generates no query, and the reference crashes.
        s["performance_sample_count_override"] = total
    s |= {
        "SingleStream": lambda: {"single_stream_expected_latency_ns": rng.uniform(4e5, 2e6)},
        "MultiStream": lambda: {
            "multi_stream_expected_latency_ns": rng.uniform(1e6, 4e6),
            "multi_stream_samples_per_query": rng.choice([1, 2, 3, 7, 8, rng.randint(2, 40)]),
        },
        "Server": lambda: {"server_target_qps": rng.uniform(4e3, 4e4)},
        "Offline": lambda: {"offline_expected_qps": rng.uniform(100, 1e5)},
    }[scenario]()
    s |= audits(rng)
    name = f"{index:04}-{scenario}-{mode}"
    return {"name": name, "qsl_total": total, "qsl_performance": performance, "settings": s}


def library(rng, large):
    """Total and performance sample counts; an accuracy run costs a phase per set, so at most about six."""
    if large:
        total = rng.randint(65536, 72000)
        return total, rng.choice([total, 65535, 65536])
    total = rng.choice([rng.randint(1, 12), rng.randint(13, 130), rng.randint(130, 1500)])
    return total, rng.randint(max(1, total // 5), total)


def smallest_set(s, total, performance):
    """Samples of the smallest set that any phase loads: beyond it, `performance_issue_same_index` reads stray memory."""
    in_memory = s.get("performance_sample_count_override") or performance
    wanted = min(s.get("accuracy_sample_count_override") or total, total)
    accuracy = wanted if wanted <= in_memory else wanted % in_memory or in_memory
    return min(accuracy, in_memory)


def order(rng, smallest):
    """At most one way of choosing samples.

    Unique together with whole permutations is left out: for MultiStream the
    reference then reads past the end of its list.
    """
    kind = rng.choice(["random", "random", "equal", "unique", "same"])
    if kind == "equal":
        return {"sample_concatenate_permutation": True}
    if kind == "unique":
        return {"performance_issue_unique": True}
    if kind == "same":
        return {
            "performance_issue_same": True,
            "performance_issue_same_index": rng.randrange(smallest),
        }
    return {}


def audits(rng):
    s = {}
    kind = rng.choice(["none", "none", "probability", "target", "test05"])
    if kind == "probability":
        s["accuracy_log_probability"] = rng.choice([rng.random(), 1.0])
    elif kind == "target":
        s["accuracy_log_sampling_target"] = rng.randint(1, 200)
    elif kind == "test05":
        s["test05"] = True
        s |= seeds(
            rng, ["test05_qsl_rng_seed", "test05_sample_index_rng_seed", "test05_schedule_rng_seed"]
        )
    if kind in ("probability", "target"):
        s |= seeds(rng, ["accuracy_log_rng_seed"])
    return s


def config_case(rng, index):
    model, override = rng.choice(MODELS)
    scenario = rng.choice(["SingleStream", "MultiStream", "Server", "Offline"])
    total = max(override, rng.randint(50, 400)) + rng.choice([0, 1, 100])
    performance = rng.randint(20, 400)
    one_of = lambda *prefixes: rng.choice(prefixes)
    lines = [
        "# a comment on a line of its own",
        f"{one_of('*', model)}.{one_of('*', scenario)}.min_duration = {rng.choice(['0', '5', '0xA', '20'])}",
        f"*.{scenario}.min_query_count = {rng.randint(1, 200)}",
        f"*.*.min_query_count = {rng.randint(1, 200)}",
        f"{model}.*.accuracy_log_rng_seed = {rng.getrandbits(40)}",
        f"*.*.accuracy_log_sampling_target = {rng.randint(0, 100)}",
        f"{model}.Server.target_qps = {rng.uniform(4e3, 2e4):.4f}",
        f"*.Offline.target_qps = {rng.randint(100, 5000)} {rng.randint(100, 20000)}",
        f"*.SingleStream.target_latency = {rng.uniform(0.4, 2):.5f}",
        f"*.MultiStream.target_latency = {rng.uniform(1, 4):.5f}",
        "another-model.*.min_query_count = 9999",
    ]
    if rng.random() < 0.3:
        lines.append(f"*.*.sample_concatenate_permutation = {rng.randint(0, 1)}")
    return {
        "name": f"{index:04}-config-{model}-{scenario}",
        "qsl_total": total,
        "qsl_performance": performance,
        "settings": {"scenario": scenario, "mode": "PerformanceOnly"},
        "from_config": {"model": model, "scenario": scenario, "text": "\n".join(lines) + "\n"},
    }


# ---- commands -------------------------------------------------------------


def run_apart(case):
    """Runs a case in a process of its own: only the first FromConfig of a process reads the built-in table."""
    with tempfile.TemporaryDirectory() as name:
        given, result = pathlib.Path(name, "in.json"), pathlib.Path(name, "out.json")
        given.write_text(json.dumps(case))
        subprocess.run([sys.executable, __file__, "one", given, result], check=True)
        return json.loads(result.read_text())


def run_where_it_must(case):
    """Runs a case until it comes out independent of time; None if it never does."""
    once = run_apart if "from_config" in case else run
    results = (once(case) for _ in range(ATTEMPTS))
    return next((result for result in results if result is not None), None)


def generate(folder, cases, seed):
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    left_out = 0
    for index in range(cases):
        result = run_where_it_must(case_of(seed, index))
        if result is None:
            left_out += 1
        else:
            text = json.dumps(result, separators=(",", ":"))
            (folder / f"{result['name']}.json").write_text(text)
        if (index + 1) % 60 == 0:
            print(f"{index + 1} of {cases} cases", file=sys.stderr, flush=True)
    print(f"wrote {cases - left_out} cases of {SOURCE}; left out {left_out} that depend on time")
    # A busy machine stalls some; many mean that the settings above are wrong.
    return 0 if left_out <= cases // 4 else 1


def check(folder):
    """Repeats recorded cases; a difference means that the wheel or this script is not what made them."""
    paths, bad = sorted(folder.glob("*.json")), 0
    for path in paths:
        recorded = json.loads(path.read_text())
        case = recorded
        if "from_config" in recorded:
            scenario, mode = (recorded["settings"][name] for name in ("scenario", "mode"))
            case = recorded | {"settings": {"scenario": scenario, "mode": mode}}
        where = difference(recorded, run_where_it_must(case))
        if where:
            bad += 1
            print(f"{path.name}: differs at {where}")
    print(f"{len(paths) - bad} of {len(paths)} recorded cases repeat exactly")
    return 0 if paths and not bad else 1


def difference(recorded, repeated, at=""):
    """Path of the first difference, or None; the source line may differ."""
    if isinstance(recorded, dict) and isinstance(repeated, dict):
        for key in sorted((recorded.keys() | repeated.keys()) - {"source"}):
            if key not in recorded or key not in repeated:
                return f"{at}.{key} (on one side only)"
            where = difference(recorded[key], repeated[key], f"{at}.{key}")
            if where:
                return where
        return None
    if isinstance(recorded, list) and isinstance(repeated, list) and len(recorded) == len(repeated):
        found = (difference(a, b, f"{at}[{i}]") for i, (a, b) in enumerate(zip(recorded, repeated)))
        return next((where for where in found if where), None)
    return None if recorded == repeated else at


def main():
    faulthandler.enable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("generate")
    command.add_argument("folder", type=pathlib.Path)
    command.add_argument("--cases", type=int, required=True)
    command.add_argument("--seed", type=int, default=6017)
    command = commands.add_parser("check")
    command.add_argument("folder", type=pathlib.Path)
    command = commands.add_parser("one")
    command.add_argument("given", type=pathlib.Path)
    command.add_argument("result", type=pathlib.Path)
    args = parser.parse_args()
    if args.command == "generate":
        return generate(args.folder, args.cases, args.seed)
    if args.command == "check":
        return check(args.folder)
    args.result.write_text(json.dumps(run(json.loads(args.given.read_text()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
