"""What may differ between the reference and ours: everything else is a failure.

An entry that nothing needs in a full run is out of date, and fails it.
"""

import dataclasses
import json
import re
from collections.abc import Callable

from compare import masked


@dataclasses.dataclass
class Difference:
    """One way in which the two may differ, and why."""

    # Regular expressions of the part and of the key that it is about.
    part: str
    key: str
    # "value": what the pattern finds in the value may differ; "rule": `same` judges the values;
    # "theirs", "ours": items whose value has the pattern are on that side alone.
    kind: str
    reason: str
    pattern: str = ""
    same: Callable = None
    case: str = ".*"
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


DETAIL = r"detail: .*|stdout"
SUMMARY = r"summary: .*|stdout"
TRACE = r"trace: .*"

WHOLE = r'(?<="value": )-?\d+(?=, )'
REAL = r'(?<="value": )(-?[\d.]+(e[-+]\d+)?|-?inf|-?nan|null)(?=, )'
TEXT = r'(?<="value": ").*?(?=", )'
ANY = r'(?<="value": ).*?(?=, ["#])'


def value(part, key, pattern, reason, **more):
    return Difference(part, key, "value", reason, pattern, **more)


def theirs(part, key, reason, pattern="", **more):
    return Difference(part, key, "theirs", reason, pattern, **more)


def ours(part, key, reason, pattern="", **more):
    return Difference(part, key, "ours", reason, pattern, **more)


TIMES = [
    value(DETAIL, ".*", r'"time_ms": [\d.]+', "time"),
    value(DETAIL, ".*", r'"(pid|tid)": \d+', "ids of the process and its threads"),
    value(DETAIL, "test_datetime", TEXT, "time"),
    value(DETAIL, "power_(begin|end)", r"\d\d-\d\d-\d{4} \d\d:\d\d:\d\d\.\d{3}", "time"),
    value(DETAIL, "get_sut_name_duration_ns", WHOLE, "time"),
    value(DETAIL, r"result_.*(latency_ns|percentile_ns|output_token_(min|max|mean))", WHOLE, "latency"),
    value(DETAIL, r"early_stopping_latency_(ss|ms)", WHOLE, "latency"),
    value(DETAIL, r"early_stopping_.*result", r"(?<=estimate: )-?\d+", "latency"),
    value(DETAIL, r"result_.*(per_sec|per_second|_overhead|throughput)", REAL, "rate"),
    value(DETAIL, "error_runtime", r"(?<=duration_ns )\d+", "time"),
    value(SUMMARY, r".* latency \(ns\)|.*Output Token \(ns\)|.*output token \(ns\)", r"(?<=: )-?\d+", "latency"),
    value(SUMMARY, r".*Early stopping .* estimate", r"(?<=: )-?\d+", "latency"),
    value(SUMMARY, r"((QPS|TPS) w/.*|(Completed|Scheduled) .* per second.*)", r"(?<=: )(-?\d+\.\d\d|inf|nan)", "rate"),
    value(SUMMARY, r"(Samples|Tokens) per second.*", r"(?<=: )[-+.\de]+", "rate"),
    value(TRACE, "line", r'(?<="ts":)[\d.]+', "time"),
    value("stdout", "Loadgen", r"(?<= = )[\d.]+", "time"),
]
# What its own machinery adds.
MACHINERY = [
    theirs(DETAIL, "warning_generic_message", "the buffers of its logger grew", "Logging allocation detected: "),
]
# Threads, clocks and buffers of a logger that ours does not have.
IO = "FlushAll|Gather|IOThreadLoop|Process|Thread|Wait|LogDetail|LogSummary|Abandoning Orphans"
MACHINERY.append(theirs(TRACE, f"({IO}|TlsLogger:ContentionCounters|FirstAllocation) .", "what its logger does"))
LIST = TIMES + MACHINERY
