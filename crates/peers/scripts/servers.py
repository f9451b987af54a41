"""Figures of `bench/net` on servers, with the program as users have it.

usage: servers.py DYNO WITNESS AIPERF FOLDER SIZE [PART OF A NAME ...]

DYNO is the program, WITNESS is witness/server.c, compiled, or `-`, AIPERF is the program aiperf, or `-`, SIZE is `quick` or
`full`. One JSON line a figure on stdout, progress on stderr:
  net.llm.first_result_seconds         from the URL of a server to the box with its figures
  net.wire_modes_right                 faults of `dyno serve --faults` that are judged as the table MODES has it
  net.against_aiperf.ttft_error_ms     difference of the p50 of the time to first token from that of the server's own log
"""

import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

DYNO, WITNESS, AIPERF, FOLDER, SIZE, *PARTS = sys.argv[1:]
FOLDER = pathlib.Path(FOLDER).resolve()
IS_QUICK = SIZE == "quick"
# Seconds that a run may take.
LIMIT = 300
PROMPTS = "".join(json.dumps({"prompt": f"row {row}", "max_tokens": 16}) + "\n" for row in range(64))


def wants(name):
    return not PARTS or any(part in name for part in PARTS)


def figure(name, ours, peer, ratio, unit):
    print(json.dumps({"name": name, "ours": round(ours, 4), "peer": round(peer, 4), "ratio": round(ratio, 4), "unit": unit}), flush=True)


def fresh(name):
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    return folder


class Served:
    """A server of dyno, which is stopped at the end."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([DYNO, "serve", "--http", "127.0.0.1:0", *arguments], stdout=subprocess.PIPE, text=True)
        self.url = None
        for line in self.process.stdout:
            words = line.split()
            if words[:1] == ["http"]:
                self.url = words[1]
            if line.strip() == "ready":
                return
        sys.exit(f"dyno serve {' '.join(arguments)} is not ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def first_result():
    """Seconds from a URL to figures. A quick run has 2 s of load instead of the 30 s of the default."""
    length = 2 if IS_QUICK else 30
    with Served("--system", "tokens:first=50ms,each=5ms,tokens=64,slots=16") as server:
        command = [DYNO, "run", server.url, "--out", str(fresh("first")), "--no-progress"]
        begun = time.monotonic()
        done = subprocess.run(command + (["--duration", "2s"] if IS_QUICK else []), capture_output=True, text=True)
        took = time.monotonic() - begun
    # A busy machine may make the run INVALID; its figures come as soon.
    if done.returncode not in (0, 1) or "TTFT" not in done.stdout:
        sys.exit(f"dyno run {server.url} exits with {done.returncode}: {done.stderr}")
    goal = 15 + length
    return took, goal, f"s from the URL of a server to the box, of which {length} s are load; the peer is the goal"


# What a mode of the server must become: `whole` answers; `odd`, whole answers with a deviation or a contradiction in the record;
# `some`, both successes and failures, and `failed`, no success: the run is INVALID.
MODES = {
    "whole": "ok single slow_done reasoning reasoning_only rolefirst usage_null usage_each hugeline u2028 utf8split half_event crlf "
    "nospace spec spec_nousage toolcall azure keepalive tgi http10 conn_close nomax redirect noopts n2",
    "odd": "usage_lies usage_zero_last usage_partial usage_float usage_neg content_list plain_sse json_sse octet_sse noct_sse done_space "
    "nodone late_usage ignores_stream hugebody",
    "some": "half_empty cut_half close_after",
    "failed": "empty empty_nousage nothing abort finish_error n2cut allnull event_error event_error_json old_error midstream_error cut "
    "cut_clean html err200 errdetail ndjson huge70 hangall auth e500 notfound",
}
# Words of the server that the report of these failures has.
REPORTED_WORDS = {"event_error": "overloaded", "auth": "Incorrect API key", "notfound": "does not exist", "e500": "500"}


def is_right(url, mode, kind):
    out = fresh("wire")
    more = {"n2": ",n:=2", "n2cut": ",n:=2", "hangall": ",timeout=300ms"}.get(mode, "")
    system = f"openai:{url}/{mode},model=m{more}"
    command = [DYNO, "run", "--system", system, "--data", str(FOLDER / "prompts.jsonl"), "--scenario", "single-stream", "--mode",
               "performance", "--num-prompts", "8", "--out", str(out), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    try:
        test = json.loads((out / "summary.json").read_text())["tests"][0]
    except FileNotFoundError:
        return False, f"exit {done.returncode}: {done.stderr[-300:]}"
    metrics = test["metrics"] or {}
    answers = metrics.get("answers") or {}
    whole = answers.get("whole", 0)
    is_odd = bool(answers.get("oddities")) or bool((metrics.get("tokens") or {}).get("contradictions"))
    found = f"{test['verdict']}, {whole} whole of 8, deviations: {is_odd}, {test['reasons']}"
    if kind == "failed":
        has_words = REPORTED_WORDS.get(mode, "") in " ".join(test["reasons"])
        return whole == 0 and test["verdict"] == "INVALID" and has_words, found
    if kind == "some":
        return 0 < whole < 8 and test["verdict"] == "INVALID", found
    return whole == 8 and is_odd == (kind == "odd"), found


def wire_modes():
    (FOLDER / "prompts.jsonl").write_text(PROMPTS)
    modes = [(mode, kind) for kind, names in MODES.items() for mode in names.split()]
    if IS_QUICK:
        modes = modes[::4]
    right = 0
    with Served("--faults", "path") as server:
        for mode, kind in modes:
            is_good, found = is_right(server.url, mode, kind)
            right += is_good
            if not is_good:
                print(f"{mode}: expected {kind}, found {found}", file=sys.stderr)
    return right, len(modes), f"of {len(modes)} faults of a server that are judged right; the peer is all of them"


def log_of(server, times, requests):
    """p50 of the time to first token of the last requests in the server's own log, in ms."""
    server.terminate()
    server.wait()
    rows = sorted(tuple(map(int, line.split())) for line in times.read_text().splitlines())
    return statistics.median(first - arrived for arrived, first, _ in rows[-requests:]) / 1e6


def witnessed(seed, requests, client):
    """Error of a client's p50 of the time to first token, in ms."""
    times = FOLDER / "times"
    server = subprocess.Popen([WITNESS, str(seed), str(times)], stdout=subprocess.PIPE, text=True)
    try:
        found = client(f"http://127.0.0.1:{server.stdout.readline().strip()}", requests)
        return abs(found - log_of(server, times, requests))
    finally:
        server.kill()


def by_dyno(url, requests):
    out = fresh("dyno")
    command = [DYNO, "run", "--system", f"openai:{url},model=m", "--data", str(FOLDER / "prompts.jsonl"), "--num-prompts", str(requests),
               "--max-concurrency", "8", "--mode", "performance", "--out", str(out), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode not in (0, 1):
        sys.exit(f"dyno exits with {done.returncode}: {done.stderr}")
    return json.loads((out / "summary.json").read_text())["tests"][0]["metrics"]["first_token_ns"]["p50"] / 1e6


# A tokenizer of one word: aiperf loads one, and nothing is to be fetched.
TOKENIZER = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
         "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
         "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}}


def by_aiperf(url, requests):
    out = fresh("aiperf")
    tokenizer = FOLDER / "tokenizer"
    tokenizer.mkdir(exist_ok=True)
    (tokenizer / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (tokenizer / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}')
    prompts = FOLDER / "aiperf.jsonl"
    prompts.write_text("".join(json.dumps({"text": f"row {row}", "output_length": 16}) + "\n" for row in range(64)))
    command = [AIPERF, "profile", "--model", "m", "--url", url, "--endpoint-type", "completions", "--streaming", "--tokenizer", str(tokenizer),
               "--input-file", str(prompts), "--custom-dataset-type", "single_turn", "--concurrency", "8", "--request-count", str(requests),
               "--ui", "none", "--no-server-metrics", "--no-gpu-telemetry", "--artifact-dir", str(out)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
    if done.returncode:
        sys.exit(f"aiperf exits with {done.returncode}: {done.stdout[-2000:]}")
    return json.loads((out / "profile_export_aiperf.json").read_text())["time_to_first_token"]["p50"]


def ttft_errors():
    (FOLDER / "prompts.jsonl").write_text(PROMPTS)
    requests, rounds = (200, 1) if IS_QUICK else (1000, 5)
    errors = [[], []]
    for seed in range(rounds):
        for side, client in enumerate([by_dyno, by_aiperf]):
            errors[side].append(witnessed(seed + 1, requests, client))
    print(f"errors in ms: dyno {errors[0]}, aiperf {errors[1]}", file=sys.stderr)
    ours, theirs = (statistics.median(side) for side in errors)
    return ours, theirs, f"ms, median of {rounds} rounds of {requests} requests, 8 in flight: the p50 of the time to first token differs by " \
        "so much from that of the server's own log; the peer is aiperf"


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    name = "net.llm.first_result_seconds"
    if wants(name):
        took, goal, unit = first_result()
        figure(name, took, goal, goal / took, unit)
    name = "net.wire_modes_right"
    if wants(name):
        right, all_of_them, unit = wire_modes()
        figure(name, right, all_of_them, right / all_of_them, unit)
    name = "net.against_aiperf.ttft_error_ms"
    if wants(name) and "-" in (WITNESS, AIPERF):
        print(f"{name}: skipped: {'no C compiler' if WITNESS == '-' else 'aiperf is not installed'}", file=sys.stderr)
    elif wants(name):
        ours, theirs, unit = ttft_errors()
        figure(name, ours, theirs, theirs / max(ours, 1e-9), unit)


main()
