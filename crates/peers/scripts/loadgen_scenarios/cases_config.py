"""Cases of configuration and audit files."""

from case import GENEROUS_NS, SCENARIOS, Case, settings
from systems import System

MODELS = (
    "resnet50",
    "retinanet",
    "bert",
    "gptj",
    "llama2-70b",
    "llama3_1-8b",
    "llama3_1-8b-edge",
    "wan-2.2-t2v-a14b",
    "3d-unet",
    "deepseek-r1",
    "qwen3-vl-235b-a22b",
    "gpt-oss-120b",
    "pointpainting",
    "dlrm-v2",
    "a-model-it-does-not-know",
)

USER = """# a comment on a line of its own
*.*.min_duration = 0
*.*.min_query_count = 40
*.*.performance_sample_count_override = 0
*.*.accuracy_sample_count_override = 0
*.SingleStream.target_latency = 0.5
*.MultiStream.target_latency = 2.5
*.Server.target_qps = 4000
*.Server.target_latency = 20000
*.Offline.target_qps = 300
"""

EVERY_KEY = """
*.*.mode = 2
*.*.min_duration = 0x0
*.*.max_duration = 600000
*.*.min_query_count = 0x28
*.*.max_query_count = 4000
*.*.performance_issue_unique = 0
*.*.performance_issue_same = 1
*.*.performance_issue_same_index = 3
*.*.performance_sample_count_override = 40
*.*.accuracy_sample_count_override = 50
*.*.sample_concatenate_permutation = 0
*.*.accuracy_log_rng_seed = 720381539243781796
*.*.accuracy_log_sampling_target = 12
*.*.accuracy_log_probability = 50
*.*.qsl_rng_seed = 1
*.*.sample_index_rng_seed = 2
*.*.schedule_rng_seed = 3
*.*.test05 = 1
*.*.print_timestamps = 1
*.*.use_token_latencies = 0
*.*.infer_token_latencies = 1
*.*.token_latency_scaling_factor = 69
*.SingleStream.target_latency = 0.5
*.SingleStream.target_latency_percentile = 91.5
*.MultiStream.target_latency = 2.5
*.MultiStream.target_latency_percentile = 92
*.MultiStream.samples_per_query = 5
*.Server.target_latency = 20000
*.Server.target_latency_percentile = 93
*.Server.coalesce_queries = 0
*.Server.max_async_queries = 0
*.Server.target_qps = 3999.5
*.Offline.target_qps = 333.25
*.Server.ttft_latency = 7
*.Server.tpot_latency = 8
"""

# A file that is refused leaves what the built-in table says: runs of ten minutes.
SHORT = (
    "set",
    {
        "min_duration_ms": 0,
        "min_query_count": 40,
        "server_target_qps": 4000.0,
        "server_target_latency_ns": GENEROUS_NS,
        "performance_sample_count_override": 0,
    },
)

# Files by what is odd about them; what FromConfig returns and sets is compared.
ODD_FILES = {
    "empty": "",
    "no newline at the end": "*.*.min_query_count = 41",
    "no spaces around the sign": "*.*.min_query_count=41\n",
    "no space after the sign": "*.*.min_query_count =41\n",
    "no space before the sign": "*.*.min_query_count= 41\n",
    "no sign": "*.*.min_query_count 41\n",
    "no value": "*.*.min_query_count =\n",
    "a comment behind": "*.*.min_query_count = 41 # why\n",
    "a comment without a space": "#why not\n*.*.min_query_count = 41\n",
    "a comment word": "#\n#why\n*.*.min_query_count = 41\n",
    "a word": "*.*.min_query_count = many\n",
    "half a number": "*.*.min_query_count = 41x\n",
    "exponents": "*.*.min_query_count = 6e1\n*.Server.target_qps = 4e3\n",
    "octal": "*.*.min_query_count = 0100\n",
    "fractions of integers": "*.*.min_query_count = 41.9\n",
    "signs": "*.*.min_query_count = +41\n*.*.max_query_count = -0\n",
    "wraps": "*.*.accuracy_log_rng_seed = -1\n*.*.accuracy_log_sampling_target = 0\n",
    "too large": "*.*.accuracy_log_rng_seed = 99999999999999999999999\n",
    "several values": "*.*.min_query_count = 41 42 43\n",
    "later lines win": "*.*.min_query_count = 41\n*.*.min_query_count = 42\n",
    "scenario before model": "m.*.min_query_count = 41\n*.Server.min_query_count = 42\n",
    "both before one": "m.Server.min_query_count = 41\n*.Server.min_query_count = 42\n",
    "another model": "other.*.min_query_count = 41\n",
    "another scenario": "*.Offline.min_query_count = 41\n",
    "unknown keys": "*.*.min_query_cout = 41\nServer.min_query_count = 42\n",
    "white space": "\t *.*.min_query_count \t=\t 41 \r\n\r\n",
    "a bad line among good ones": "*.*.min_query_count = 41\nbad line here\n"
    "*.*.max_query_count = x\n",
    "a bad mode": "*.*.mode = 7\n*.*.min_query_count = 41\n",
    "flags": "*.*.performance_issue_same = 2\n*.*.sample_concatenate_permutation = 2\n"
    "*.*.use_token_latencies = 2\n*.*.infer_token_latencies = 2\n",
    "every key": EVERY_KEY,
}


def cases():
    yield from models()
    yield from user_files()
    yield from several_calls()
    yield from audits()


def models():
    """What the built-in table sets, with nothing beside it."""
    for model in MODELS:
        for scenario in SCENARIOS:
            steps = (("config", "user.conf", model, scenario),)
            yield Case(
                f"config/model/{model}/{scenario}",
                {},
                files={"user.conf": ""},
                steps=steps,
                quick=model in ("gptj", "llama2-70b"),
            )


def user_files():
    server = settings("Server")
    for name, text in ODD_FILES.items():
        files = {"user.conf": f"{USER}{text}"}
        steps = (("config", "user.conf", "m", "Server"), SHORT, ("start",))
        yield Case(
            f"config/file/{name}",
            server,
            files=files,
            steps=steps,
            quick=name in ("a bad line among good ones", "every key"),
        )
    # What coalesces depends on the machine, so this one is not run.
    coalescing = {"user.conf": "*.Server.coalesce_queries = 2\n*.Server.max_async_queries = -1\n"}
    read = (("config", "user.conf", "m", "Server"),)
    yield Case("config/file/flags of Server", server, files=coalescing, steps=read)
    for scenario in SCENARIOS:
        for model in ("resnet50", "a-model-it-does-not-know"):
            steps = (("config", "user.conf", model, scenario), ("start",))
            small = settings(scenario, "SubmissionRun")
            yield Case(
                f"config/run/{model}/{scenario}", small, files={"user.conf": USER}, steps=steps
            )
        steps = (("config", "user.conf", "m", scenario), ("start",))
        yield Case(
            f"config/every key/{scenario}",
            settings(scenario),
            steps=steps,
            files={"user.conf": EVERY_KEY},
        )
    tokens = System(first_token=True, tokens=4)
    for scenario in SCENARIOS:
        bounds = "*.Server.ttft_latency = 20000\n*.Server.tpot_latency = 20000\n"
        text = f"{USER}*.*.use_token_latencies = 1\n{bounds}"
        steps = (("config", "user.conf", "m", scenario), ("start",))
        yield Case(
            f"config/tokens/{scenario}",
            settings(scenario),
            files={"user.conf": text},
            steps=steps,
            system=tokens,
        )


def several_calls():
    base = settings("Server")
    files = {
        "user.conf": USER,
        "bad.conf": "*.*.min_query_count = 41\nbad line here\n",
        "more.conf": "*.*.min_query_count = 33\n*.*.qsl_rng_seed = 5\n",
        "folder": None,
    }

    def called(name, *steps, quick=False):
        return Case(f"config/calls/{name}", base, files=files, steps=steps, quick=quick)

    user = ("config", "user.conf", "resnet50", "Server")
    yield called(
        "missing file", ("config", "none.conf", "resnet50", "Server"), SHORT, ("start",), quick=True
    )
    yield called("a folder", ("config", "folder", "resnet50", "Server"), SHORT, ("start",))
    yield called("empty path", ("config", "", "resnet50", "Server"), SHORT, ("start",))
    yield called("bad file", ("config", "bad.conf", "resnet50", "Server"), SHORT, ("start",))
    yield called("twice", user, user, ("start",), quick=True)
    yield called("three times", user, user, user, ("start",))
    yield called("twice for fresh settings", user, ("fresh",), user)
    yield called(
        "between tests", user, ("start", {"suffix": "-1"}), user, ("start", {"suffix": "-2"})
    )
    yield called(
        "missing, then good", ("config", "none.conf", "resnet50", "Server"), user, ("start",)
    )
    for kind in (0, 1, 2, 3, -1):
        more = ("config", "more.conf", "resnet50", "Server", kind)
        yield called(f"type {kind}", more, SHORT, ("start",), quick=kind == 0)
        yield called(f"type {kind} and again", more, more)
        yield called(f"type {kind} between", user, more, user)
    yield called(
        "type 0 of no file", ("config", "none.conf", "resnet50", "Server", 0), SHORT, ("start",)
    )
    yield called(
        "type 2 of no file", ("config", "none.conf", "resnet50", "Server", 2), SHORT, ("start",)
    )
    for word in ("Server", "server", "*", "", "Offline"):
        yield called(f"scenario {word!r}", ("config", "user.conf", "resnet50", word))
    for model in ("*", "", "resnet50.Server", "RESNET50"):
        yield called(f"model {model!r}", ("config", "user.conf", model, "Server"))


AUDITS = {
    "TEST01": "*.*.mode = 2\n*.*.accuracy_log_rng_seed = 720381539243781796\n"
    "*.*.accuracy_log_sampling_target = 32\n",
    "TEST04": "".join(
        f"*.{s}.performance_issue_same = 1\n*.{s}.performance_issue_same_index = 3\n"
        for s in SCENARIOS
    ),
    "TEST06": "*.*.mode = 2\n*.*.accuracy_log_rng_seed = 720381539243781796\n"
    "*.*.accuracy_log_sampling_target = 100\n*.*.min_query_count = 100\n"
    "*.*.min_duration = 0\n*.*.sample_concatenate_permutation = 0\n",
    "TEST07": "*.*.mode = 2\n*.*.accuracy_log_rng_seed = 720381539243781796\n"
    "*.*.accuracy_log_sampling_target = 50\n*.*.min_query_count = 50\n*.*.min_duration = 0\n"
    "*.*.performance_issue_unique = 1\n*.*.sample_concatenate_permutation = 0\n",
    "TEST08": "*.*.mode = 2\n*.*.accuracy_log_sampling_target = 4096\n",
    "accuracy": "*.*.mode = 1\n",
    "nothing": "",
    "a bad line": "*.*.mode = 1\nbad line here\n",
    "seeds": "*.*.qsl_rng_seed = 1\n*.*.sample_index_rng_seed = 2\n*.*.test05 = 1\n*.*.mode = 2\n",
    "a model's line": "m.*.mode = 1\nm.*.min_query_count = 33\n*.Server.min_query_count = 34\n",
}


def audits():
    for name, text in AUDITS.items():
        for scenario in SCENARIOS if name.startswith("TEST") else ("Server",):
            run = settings(scenario, "SubmissionRun")
            yield Case(
                f"audit/{name}/{scenario}",
                run,
                files={"audit.config": text},
                quick=name in ("TEST01", "TEST04") and scenario in ("Server", "Offline"),
            )
    seeds = {
        "test05_qsl_rng_seed": 7975553102935885558,
        "test05_sample_index_rng_seed": 11403566307062068064,
        "test05_schedule_rng_seed": 15816800565822761601,
        "test05": True,
    }
    for scenario in SCENARIOS:
        run = settings(scenario, "SubmissionRun", **seeds)
        yield Case(f"audit/TEST05/{scenario}", run, quick=scenario == "Server")
    both = settings("Server", "AccuracyOnly", **seeds)
    yield Case("audit/TEST05 and a file", both, files={"audit.config": AUDITS["TEST01"]})
    own = (("start", None, "my-audit.config"),)
    text = AUDITS["TEST01"]
    yield Case("audit/named", settings("Server"), files={"my-audit.config": text}, steps=own)
    yield Case(
        "audit/named with logs",
        settings("Server"),
        files={"my-audit.config": text},
        steps=(("start", {"suffix": "-a"}, "my-audit.config"),),
    )
    yield Case(
        "audit/named and missing", settings("Server"), files={"audit.config": text}, steps=own
    )
    yield Case("audit/a folder", settings("Server"), files={"audit.config": None})
    after = (("config", "user.conf", "m", "Server"), ("start",))
    yield Case(
        "audit/after a configuration",
        settings("Server"),
        steps=after,
        files={"audit.config": text, "user.conf": USER},
    )
