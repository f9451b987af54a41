"""How late dyno issues at rates up to a million queries a second, and what it takes from a system next to it.

usage: witness_load.py DYNO CLOCK FOLDER SECONDS

CLOCK is witness/clock.c, compiled. The peer is its bare loop that waits for the same times and does nothing else, played in
turn with dyno. dyno drives its system `null`, whose answers cost nothing, with Poisson arrivals. One JSON line a figure:
  truth.lag_p99_at_RATE    how late queries are issued, ns
  truth.next_to_it_at_RATE how fast a program on all processors runs while dyno issues at that rate, in percent of its speed alone
"""

import json
import pathlib
import shutil
import statistics
import subprocess
import sys

DYNO, CLOCK, FOLDER, SECONDS = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), float(sys.argv[4])
RATES = [1, 1_000, 100_000, 1_000_000]
TURNS = 3 if SECONDS >= 2 else 1


def command(rate, is_ours, seconds):
    if not is_ours:
        return [CLOCK, "timer", str(rate), str(seconds)]
    shutil.rmtree(FOLDER / "out", ignore_errors=True)
    return [DYNO, "run", "--system", "null", "--scenario", "Server", "--mode", "performance", "--qps", str(rate), "--duration",
            f"{seconds}s", "--set", "min_query_count=1", "--out", str(FOLDER / "out"), "--no-progress"]


def lag(rate, is_ours):
    # So many queries that p99 is one of them.
    seconds = max(SECONDS, 5 / rate)
    ran = subprocess.run(command(rate, is_ours, seconds), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if not is_ours:
        return int(ran.stdout.split()[1])
    summary = FOLDER / "out/summary.json"
    if not summary.exists():
        sys.exit(f"dyno at {rate}/s: {ran.stdout}")
    return json.loads(summary.read_text())["tests"][0]["metrics"]["client_lag_ns"]["p99"]


def speed():
    return float(subprocess.run([CLOCK, "spin", str(SECONDS)], stdout=subprocess.PIPE, text=True, check=True).stdout)


def speed_next_to(rate, is_ours):
    # It begins before and ends after.
    other = subprocess.Popen(command(rate, is_ours, SECONDS + 2), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        other.wait(timeout=1)
    except subprocess.TimeoutExpired:
        pass
    found = speed()
    other.wait()
    return found


def figure(name, ours, peer, ratio, unit):
    print(json.dumps({"name": name, "ours": ours, "peer": peer, "ratio": round(ratio, 3), "unit": unit}), flush=True)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for rate in RATES:
        pairs = [(lag(rate, True), lag(rate, False)) for _ in range(TURNS)]
        ours, peer = (statistics.median(side) for side in zip(*pairs))
        figure(f"truth.lag_p99_at_{rate}", ours, peer, peer / max(ours, 1), "ns; the peer is a bare loop in C")
    for rate in RATES:
        turns = [(speed(), speed_next_to(rate, True), speed_next_to(rate, False)) for _ in range(TURNS)]
        alone, ours, peer = (statistics.median(side) for side in zip(*turns))
        ours, peer = 100 * ours / alone, 100 * peer / alone
        figure(f"truth.next_to_it_at_{rate}", round(ours, 1), round(peer, 1), ours / peer, "% of its speed alone; the peer is a bare loop in C")


main()
