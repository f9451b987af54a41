"""What may differ between the reference and ours: everything else is a failure.

An entry that nothing needs in a full run is out of date, and fails it.
"""

import dataclasses
import json
import re
from collections.abc import Callable

from compare import masked
from observation import DATETIME


@dataclasses.dataclass
class Difference:
    """One way in which the two may differ, and why."""

    # Regular expressions of the part and of the key that it is about.
    part: str
    key: str
    # "value": what the pattern finds in the value may differ; "rule": `same` judges the values;
    # "times": one item of ours stands for as many as the pattern says;
    # "theirs", "ours": items whose value has the pattern are on that side alone.
    kind: str
    reason: str
    pattern: str = ""
    same: Callable = None
    case: str = ".*"
    # Whether a run may do without it: what it allows is up to the load of the machine.
    by_chance: bool = False
    hits: int = 0

    def is_about(self, case, part):
        return bool(re.fullmatch(self.case, case) and re.fullmatch(self.part, part))

    def matches(self, item):
        return bool(re.fullmatch(self.key, item.key) and re.search(self.pattern, item.value))

    def applied(self, a, b):
        """Both values without what may differ."""
        if self.kind == "rule":
            return ("#", "#") if self.same(a, b) else (a, b)
        return masked(self.pattern, a)[0], masked(self.pattern, b)[0]

    def explains(self, a, b):
        """Whether this is needed for the values to be equal."""
        if self.kind == "rule":
            return self.same(a, b)
        return masked(self.pattern, a)[1] != masked(self.pattern, b)[1]

    def __str__(self):
        return f"{self.kind} of {self.part!r}, {self.key!r}: {self.reason}"


DETAIL = r"detail: .*|stdout detail"
SUMMARY = r"summary: .*|stdout text"
TRACE = r"trace: .*"

TIMES_SAID = r' \((\d+) times\)(?=")'
WHOLE = r'(?<="value": )-?\d+(?=, )'
REAL = r'(?<="value": )(-?[\d.]+(e[-+]\d+)?|-?inf|-?nan|null)(?=, )'
TEXT = r'(?<="value": )".*?"(?=, )'
ANY = r'(?<="value": ).*?(?=, ["#])'


def value(part, key, pattern, reason, **more):
    return Difference(part, key, "value", reason, pattern, **more)


def rule(part, key, same, reason, **more):
    return Difference(part, key, "rule", reason, same=same, **more)


def within(a, b):
    """Whether one list is another from which some elements were left out."""
    remaining = iter(json.loads(b))
    return all(element in remaining for element in json.loads(a))


def escaped(a, b):
    """Whether ours is the same text with quotes and backslashes escaped."""
    return re.sub(r'\\(["\\])', r"\1", b) == a


def theirs(part, key, reason, pattern="", **more):
    return Difference(part, key, "theirs", reason, pattern, **more)


def ours(part, key, reason, pattern="", **more):
    return Difference(part, key, "ours", reason, pattern, **more)


TIMES = [
    value("files", "name", DATETIME, "time", by_chance=True),
    value(DETAIL, ".*", r'"time_ms": [\d.]+', "time"),
    value(DETAIL, ".*", r'"(pid|tid)": \d+', "ids of the process and its threads"),
    value(DETAIL, "test_datetime", TEXT, "time"),
    value(DETAIL, "power_(begin|end)", r"\d\d-\d\d-\d{4} \d\d:\d\d:\d\d\.\d{3}", "time"),
    value(DETAIL, "get_sut_name_duration_ns", WHOLE, "time"),
    value(
        DETAIL, r"result_.*(latency_ns|percentile_ns|output_token_(min|max|mean))", WHOLE, "latency"
    ),
    value(DETAIL, r"early_stopping_latency_(ss|ms)", WHOLE, "latency"),
    value(DETAIL, r"early_stopping_.*result", r"(?<=estimate: )-?\d+", "latency"),
    value(DETAIL, r"result_.*(per_sec|per_second|_overhead|throughput)", REAL, "rate"),
    value(DETAIL, "error_runtime", r"(?<=duration_ns )\d+", "time"),
    value(
        SUMMARY,
        r".* latency \(ns\)|.*Output Token \(ns\)|.*output token \(ns\)",
        r"(?<=: )-?\d+",
        "latency",
    ),
    value(SUMMARY, r".*Early stopping .* estimate", r"(?<=: )-?\d+", "latency"),
    value(
        SUMMARY,
        r"((QPS|TPS) w/.*|(Completed|Scheduled) .* per second.*)",
        r"(?<=: )(-?\d+\.\d\d|inf|-?nan)",
        "rate",
    ),
    value(SUMMARY, r"(Samples|Tokens) per second.*", r"(?<=: )[-+.\de]+", "rate"),
    value(TRACE, "line", r'(?<="ts":)[\d.]+', "time"),
    value("stdout text", "Loadgen", r"(?<= = )[\d.]+", "time"),
]
NAMES = [
    value(
        DETAIL,
        ".*",
        r'"file": "[^"]*", "line_no": \d+',
        "where the line is written in the program's own source",
    ),
    value(DETAIL, "loadgen_version", r"(?<=6\.0\.17 ).*?(?=\")", "each names itself"),
    value(
        DETAIL,
        "loadgen_(build_date|git)_.*",
        TEXT,
        "of each program's own build, where NA is not known",
    ),
    value(DETAIL, "loadgen_file_sha1", r"\{.*\}(?=, )", "of each program's own sources"),
]
OURS = [
    rule(
        TRACE,
        "LoadSamples|UnloadSampes",
        within,
        "the reference shows the sets of accuracy runs only",
    ),
    value(
        "stdout order",
        "blocks",
        ".+",
        "ours copies the logs when they are whole, the detail log first",
    ),
    value("system: name calls", "is", r"\d+", "ours asks once: over a network it is a round trip"),
    Difference(DETAIL, "error_runtime", "times", "a flood of one error is one line", TIMES_SAID),
    rule(DETAIL, "sut_name", escaped, "the reference does not escape strings"),
    value(
        DETAIL, "effective_target_qps", r'(?<="value": )(inf|null)(?=, )', "JSON has no infinity"
    ),
    ours(DETAIL, "dyno_.*", "what the reference does not record; its readers skip these keys"),
]
# Threads, clocks and buffers of a logger that ours does not have.
IO = "FlushAll|Gather|IOThreadLoop|Process|Thread|Wait|LogDetail|LogSummary|Abandoning Orphans"
CALLS = "Scheduling|Waiting|SampleLoop|QuerySamplesComplete|FirstTokenComplete"
THEIRS = [
    theirs(
        TRACE,
        "GenerateLoadableSets X",
        "ours traces nothing while it runs, and derives the trace from what it recorded",
    ),
    theirs(
        DETAIL,
        "warning_generic_message",
        "the buffers of its logger grew",
        "Logging allocation detected: ",
        by_chance=True,
    ),
    theirs(
        DETAIL,
        "warning_generic_message",
        "contention of its logger",
        '"CAS failed."',
        by_chance=True,
    ),
    theirs(TRACE, f"({IO}|TlsLogger:ContentionCounters|FirstAllocation) .", "what its logger does"),
    theirs(
        TRACE,
        f"({CALLS}) X",
        "ours traces nothing while it runs, and derives the trace from what it recorded",
    ),
    value(
        DETAIL,
        "logger_.*",
        WHOLE,
        "contention of its logger, where ours has none and reports 0",
        by_chance=True,
    ),
]
# Misuse and senseless settings. Each is of the cases that show it.
TWICE = "a second completion counts as an error and as nothing else"
FIRST_TOKEN = "ours traces the first tokens that count"
NO_FIRST_TOKEN = (
    "no first token in time is no latency and over any bound; the reference reads another sample's"
)
BOTH = "measured tokens are those that count"
FOLDER = "a folder is no configuration; the reference reads nothing and is content"
MISUSE = [
    value(
        DETAIL,
        "early_stopping_(ttft|tpot)_result",
        r"queries \(\d+\)",
        NO_FIRST_TOKEN,
        case="token misuse/.*first token.*",
    ),
    value(SUMMARY, "text", r"queries \(\d+\)", NO_FIRST_TOKEN, case="token misuse/.*first token.*"),
    value("system: config codes", "0", ".+", FOLDER, case="config/calls/a folder"),
    ours(DETAIL, "error_invalid_config", FOLDER, "can't open file", case=".*/a folder"),
    value(DETAIL, "num_errors", WHOLE, FOLDER, case=".*/a folder"),
    value(TRACE, "(Sample [be]|Latency C)", r"\d+(?= events)", TWICE, case="misuse/.*twice.*"),
    theirs("accuracy: .*", "entry", TWICE, case="misuse/.*twice/AccuracyOnly"),
    value("accuracy: .*", "separators", ".+", TWICE, case="misuse/.*twice/AccuracyOnly"),
    theirs(TRACE, "Token.* of a sample", FIRST_TOKEN, case="token misuse/.*first token.*"),
    value(
        TRACE,
        "(Token [be]|Token_Latency C)",
        r"\d+(?= events)",
        FIRST_TOKEN,
        case="token misuse/.*first token.*",
    ),
    theirs(
        TRACE, "Token [be]|Token_Latency C", FIRST_TOKEN, case="token misuse/.*unasked first token"
    ),
    value(
        DETAIL,
        "generated_query_duration",
        WHOLE,
        "its trace is infinitely long, and overflows another way",
        case="senseless/Offline/no throughput",
    ),
    theirs(DETAIL, "result_inferred_.*", BOTH, case="tokens/.*/measured and inferred"),
    theirs(SUMMARY, ".*okens per second .inferred.", BOTH, case="tokens/.*/measured and inferred"),
]
LIST = TIMES + NAMES + OURS + THEIRS + MISUSE
