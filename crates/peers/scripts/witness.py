"""Disturbs runs of dyno against a server that keeps its own times, and judges the verdicts by those.

usage: witness.py DYNO SERVER FOLDER RUNS [SEED]

DYNO is the program, SERVER is witness/server.c, compiled. Half a minute for ten runs. A line for each run on stderr; at the
end one JSON line a figure:
  truth.wrong_valid            runs that count although p50, p90 or p99 of the latency, the time to first token or the
                               time per output token is not the server's, by more than 5 % and 200 us; or although the client was stopped for more than
                               6 % of the run and 60 ms, so that the rate is not the server's
  truth.wrong_invalid_percent  of all runs, those that are INVALID because of the client although all is the server's and
                               the client was stopped for less than 4 % of the run (dyno's limit is 5 %)
  truth.open_percent           of all runs, those that are UNDECIDED because of the client; no verdict on them is wrong

The server's latency of a request is from when the kernel had the whole request to just before the last part with text is
written. A query of MultiStream is as slow as its slowest request. Offline has no latencies to compare: a request is due
when the run begins.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

DYNO, SERVER, FOLDER, RUNS = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4])
SEED = int(sys.argv[5]) if len(sys.argv) > 5 else 1
STREAMS = 4
SECONDS = 2
SCENARIOS = {
    "SingleStream": [],
    "MultiStream": ["--set", f"multi_stream_samples_per_query={STREAMS}"],
    "Server": ["--qps", "50", "--set", "server_ttft_latency=10000000000", "--set", "server_tpot_latency=10000000000"],
    "Offline": ["--set", "offline_expected_qps=10000"],
}
DISTURBANCES = ["none", "stop", "stops", "neighbors", "quota"]


def group():
    """A control group of our own with a CPU quota: how to set it, and the file that takes a process; None without rights."""
    for root, version in (("/sys/fs/cgroup/cpu", 1), ("/sys/fs/cgroup", 2)):
        folder = pathlib.Path(root, f"dyno-witness-{os.getpid()}")
        try:
            folder.mkdir()
            file = folder / ("cpu.cfs_quota_us" if version == 1 else "cpu.max")
            file.write_text("50000" if version == 1 else "50000 100000")
            return folder, file, version
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            if folder.is_dir():
                folder.rmdir()
    return None


def favored():
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        pass


def at(values, quantile):
    return values[min(int(len(values) * quantile), len(values) - 1)]


def differs(measured, known):
    return abs(measured - known) > max(0.05 * known, 200e3)


class Disturbed:
    """A run of dyno that is disturbed while it is on."""

    def __init__(self, kind, group, chance):
        self.kind, self.group, self.chance, self.stopped, self.others = kind, group, chance, [], []
        self.strength = ""

    def start(self, command):
        enter = None
        if self.kind == "quota":
            folder, file, version = self.group
            percent = self.chance.choice([5, 10, 20, 40, 80])
            self.strength = f"{percent} %"
            file.write_text(f"{percent * 1000}" if version == 1 else f"{percent * 1000} 100000")

            def enter():
                (folder / "cgroup.procs").write_text(str(os.getpid()))

        if self.kind == "neighbors":
            many = self.chance.choice([1, 2, 4]) * os.cpu_count()
            self.strength = f"{many}"
            self.others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(many)]
        return subprocess.Popen(command, preexec_fn=enter, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def stop(self, process, seconds):
        if process.poll() is None:
            begun = time.time_ns()
            process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            process.send_signal(signal.SIGCONT)
            self.stopped.append((begun, time.time_ns()))

    def disturb(self, process):
        if self.kind == "stop":
            seconds = self.chance.choice([0.01, 0.03, 0.1, 0.5, 1.5])
            self.strength = f"{seconds} s"
            time.sleep(self.chance.uniform(0.2, 1.5))
            self.stop(process, seconds)
        if self.kind == "stops":
            seconds = self.chance.choice([0.002, 0.005, 0.02, 0.1])
            pause = self.chance.choice([0.05, 0.2, 0.5])
            self.strength = f"{seconds} s, each {pause} s"
            while process.poll() is None:
                time.sleep(pause)
                self.stop(process, seconds)

    def end(self):
        for other in self.others:
            other.kill()
            other.wait()


def played(number, scenario, kind, group, chance):
    out, times = FOLDER / f"run-{number}", FOLDER / "times"
    server = subprocess.Popen([SERVER, str(SEED * 1000 + number), str(times)], stdout=subprocess.PIPE, text=True, preexec_fn=favored)
    port = server.stdout.readline().strip()
    shutil.rmtree(out, ignore_errors=True)
    command = [DYNO, "run", "--system", f"openai:http://127.0.0.1:{port},model=m", "--data", str(FOLDER / "prompts.jsonl"), "--mode",
               "performance", "--scenario", scenario, "--duration", f"{SECONDS}s", "--out", str(out), "--no-progress", *SCENARIOS[scenario]]
    disturbed = Disturbed(kind, group, chance)
    process = disturbed.start(command)
    disturbed.disturb(process)
    said = process.communicate(timeout=120)[1]
    disturbed.end()
    server.terminate()
    server.wait()
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} exits with {process.returncode}: {said}")
    summary = json.loads((out / "summary.json").read_text())
    shutil.rmtree(out)
    requests = [tuple(map(int, line.split())) for line in times.read_text().splitlines()]
    figures = [figure for observer in summary["observers"] for figure in observer["figures"]]
    return summary["tests"][0], sorted(requests), disturbed, figures


def known(scenario, requests, samples):
    """The server's latencies, times to first token and per further token, of the run alone: a probe came before it."""
    requests = requests[-samples:]
    first = sorted(first - arrived for arrived, first, _ in requests)
    # Each answer has two tokens.
    further = sorted(last - first for _, first, last in requests)
    if scenario != "MultiStream":
        return sorted(last - arrived for arrived, _, last in requests), first, further
    queries = [requests[at : at + STREAMS] for at in range(0, len(requests), STREAMS)]
    return sorted(max(last for *_, last in query) - query[0][0] for query in queries), first, further


def wrong_figures(scenario, test, requests):
    metrics = test["metrics"]
    timed = metrics.get("query_latency_ns") or metrics["latency_ns"]
    measurements = (timed, metrics["first_token_ns"], metrics["time_per_output_token_ns"])
    shown, wrong = [], []
    truths = known(scenario, requests, metrics["sample_count"])
    for name, measured, truth in zip(("latency", "TTFT", "TPOT"), measurements, truths):
        for label, quantile in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            found, right = measured[label], at(truth, quantile)
            if name == "latency":
                shown.append(f"{found / 1e6:.2f}/{right / 1e6:.2f}")
            if differs(found, right):
                wrong.append(f"{name} {label} {found / 1e6:.2f} ms, server {right / 1e6:.2f} ms")
    return shown, wrong


def judged(scenario, test, requests, disturbed):
    """What is wrong with the figures by the server, and what dyno says."""
    by_client = [reason for reason in test["causes"] if reason["cause"] == "client"]
    is_open = any(reason["undecided"] for reason in by_client)
    # Too few queries for the percentile are no statement on the client.
    counts = test["verdict"] in ("VALID", "UNDECIDED") and not is_open
    # Requests of a probe come before; the run is what lasted as long as it says.
    end = max(last for *_, last in requests)
    begin = end - test["metrics"]["lasted_ns"]
    lost = sum(max(0, min(end, to) - max(begin, since)) for since, to in disturbed.stopped)
    shown, wrong = ([], []) if scenario == "Offline" else wrong_figures(scenario, test, requests)
    is_stopped = lost > 40e6 and lost > 0.04 * (end - begin)
    if lost > 60e6 and lost > 0.06 * (end - begin):
        wrong.append(f"stopped for {lost / 1e6:.0f} of {(end - begin) / 1e6:.0f} ms")
    # What a quota or neighbors do to the rate of Offline, the server cannot tell.
    is_known = scenario != "Offline" or disturbed.kind in ("none", "stop", "stops")
    return shown, wrong, counts and bool(wrong), any(not reason["undecided"] for reason in by_client) and not wrong and not is_stopped and is_known, is_open


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "prompts.jsonl").write_text('{"prompt": "a", "max_tokens": 2}\n{"prompt": "b", "max_tokens": 2}\n')
    own = group()
    kinds = [kind for kind in DISTURBANCES if kind != "quota" or own]
    if not own:
        print("no CPU quota: this user cannot make a control group", file=sys.stderr)
    chance, wrong_valid, wrong_invalid, undecided = random.Random(SEED), 0, 0, 0
    try:
        for number in range(RUNS):
            kind, scenario = kinds[number % len(kinds)], list(SCENARIOS)[number // len(kinds) % len(SCENARIOS)]
            test, requests, disturbed, figures = played(number, scenario, kind, own, chance)
            shown, wrong, is_wrong_valid, is_wrong_invalid, is_open = judged(scenario, test, requests, disturbed)
            wrong_valid += is_wrong_valid
            wrong_invalid += is_wrong_invalid
            undecided += is_open
            word = "WRONG VALID" if is_wrong_valid else "WRONG INVALID" if is_wrong_invalid else "right"
            causes = ",".join(sorted({reason["cause"] or reason["kind"] for reason in test["causes"]}))
            print(f"{number}: {scenario}, {kind} {disturbed.strength}: {test['verdict']} {causes} {' '.join(shown)} {'; '.join(wrong[:2])}: {word}", file=sys.stderr)
            if word == "WRONG VALID":
                print("   dyno:", *(f"{of['name']} {of['measured_ns'] / 1e6:.2f}-{of['without_client_ns'] / 1e6:.2f}" for of in figures), file=sys.stderr)
            if word == "WRONG INVALID":
                print(*("   " + reason["text"] for reason in test["causes"] if reason["cause"] == "client"), sep="\n", file=sys.stderr)
    finally:
        if own:
            own[0].rmdir()
    unit = f"of {RUNS} disturbed runs, by a server's own clock; the peer is the limit"
    shares = [round(100 * many / RUNS, 2) for many in (wrong_invalid, undecided)]
    for name, value, limit in (("truth.wrong_valid", wrong_valid, 0), ("truth.wrong_invalid_percent", shares[0], 1), ("truth.open_percent", shares[1], 5)):
        ratio = 1.0 if value <= limit else limit / value
        print(json.dumps({"name": name, "ours": value, "peer": limit, "ratio": ratio, "unit": unit}), flush=True)


main()
