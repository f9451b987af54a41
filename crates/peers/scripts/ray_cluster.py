"""Starts a Ray cluster of three nodes on this machine and has `dyno launch --on ray` use it.

Checked: workers on three distinct nodes share a load, whose trace is that of one process; the
points of a sweep run as tasks of the cluster and come to what a sweep in one process comes to;
the trials of a tuner do, too; one whose process dies is told, one whose worker of Ray dies is placed
again, and Ctrl-C ends what they run.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ray.cluster_utils import Cluster

RUN = [
    "run", "--system", "null", "--scenario", "server", "--mode", "performance",
    "--qps", "500", "--duration", "3s", "--seed", "11", "--trace-log", "--no-progress",
    "--set", "server_target_latency_ns=10000000000",
]  # fmt: skip
SWEEP = [
    "sweep", "--system", "model:exponential=2ms", "--scenario", "server", "--mode",
    "performance", "--qps", "100", "--duration", "20s", "--over", "seed=1,2,3,4",
    "--no-progress",
]  # fmt: skip


NETWORK = r'''
BEGIN { need["conv1.weight"] = 3; need["conv2.weight"] = 5; need["conv1.input"] = 4; need["conv2.input"] = 4 }
/^#/ || $2 == "FLOAT" { next }
$3 < need[$1] { lost += 0.02 * (need[$1] - $3) }
$2 == "EXP" || $4 > 1 { lost += 0.05 }
END { printf "accuracy = %.5f\n", 0.98 - lost }
'''
DESCRIPTOR = '''
name = "toy"
layer_name = ["conv1", "conv2"]
wgt_size = [500, 25_000]
act_size = [784, 2_880]
wgt_max_abs = [0.9, 0.9]
act_max_abs = [0.9, 3.9]
err_margin = 0.01
cmd_fullset = "COMMANDawk -f net.awk {config}"
get_result_regex = 'accuracy = ([0-9.]+)'
'''


def dyno(program, arguments, folder):
    print("$ dyno " + " ".join(arguments), flush=True)
    ended = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True)
    print(ended.stdout + ended.stderr, flush=True)
    return ended


def trace(folder):
    """Number and index of each sample, in order."""
    log = json.loads((folder / "Server/performance/mlperf_log_trace.json").read_text())
    samples = set()
    for event in log["traceEvents"]:
        args = event.get("args", {})
        if "sample_seq" in args and "sample_idx" in args:
            samples.add((args["sample_seq"], args["sample_idx"]))
    assert samples, "the trace log shows no samples"
    return sorted(samples)


def check_load(program, runs, cluster):
    alone = dyno(program, [*RUN, "--out", "alone"], runs)
    assert alone.returncode in (0, 1), alone.returncode
    launched = ["launch", "--on", "ray", "--workers", "3", "--python", sys.executable]
    launched += ["--address", cluster]
    spread = dyno(program, [*launched, "--", *RUN, "--out", "spread"], runs)
    assert spread.returncode in (0, 1), spread.returncode
    nodes = {line.split(" on node ")[1].split()[0] for line in spread.stderr.splitlines() if " on node " in line}
    assert len(nodes) == 3, nodes
    summary = json.loads((runs / "spread/summary.json").read_text())
    assert any("3 workers shared the load" in remark for remark in summary["remarks"]), summary["remarks"]
    assert summary["tests"][0]["metrics"]["missing"] == 0
    assert trace(runs / "spread") == trace(runs / "alone"), "the trace is another one"
    print(f"load: {len(trace(runs / 'spread'))} samples by 3 workers on 3 nodes, the trace of one process")


def check_sweep(program, runs, cluster):
    dyno(program, [*SWEEP, "--out", "one-process"], runs)
    launched = ["launch", "--on", "ray", "--python", sys.executable, "--address", cluster]
    spread = dyno(program, [*launched, "--", *SWEEP, "--out", "tasks"], runs)
    ran = [line for line in spread.stderr.splitlines() if "exit code" in line and "on node" in line]
    assert len(ran) == 4, ran
    of = lambda name: json.loads((runs / name / "sweep.json").read_text())
    results = lambda sweep: [point["results"] for point in sweep["points"]]
    assert of("tasks")["state"] == "complete"
    assert results(of("tasks")) == results(of("one-process")), "results differ"
    nodes = {line.rsplit(" ", 1)[1] for line in ran}
    print(f"sweep: 4 points as tasks on {len(nodes)} nodes, with the results of one process")


def journal(folder):
    """Its evaluations, without how long they took."""
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    for line in lines[1:]:
        del line["result"]["seconds"]
    return lines


def check_tune(program, runs, cluster):
    (runs / "net.awk").write_text(NETWORK)
    (runs / "toy.toml").write_text(DESCRIPTOR.replace("COMMAND", ""))
    alone = dyno(program, ["tune", "run", "toy.toml", "--out", "tuned-alone"], runs)
    launched = ["launch", "--on", "ray", "--workers", "4", "--python", sys.executable, "--address", cluster, "--"]
    spread = dyno(program, [*launched, "tune", "run", "toy.toml", "--out", "tuned"], runs)
    assert (alone.returncode, spread.returncode) == (0, 0)
    for name in ["opt_conf.txt", "tune.json"]:
        assert (runs / "tuned" / name).read_text() == (runs / "tuned-alone" / name).read_text(), name
    assert journal(runs / "tuned") == journal(runs / "tuned-alone"), "other evaluations"
    told = next(line for line in spread.stderr.splitlines() if line.startswith("trials: "))
    counts = [int(part.split()[0]) for part in told.removeprefix("trials: ").split(", ")]
    assert len(counts) == 3 and sum(counts) == len(journal(runs / "tuned")) - 1, told
    print(f"tune: {sum(counts)} trials as tasks on 3 nodes, with the journal of one process")

    # Its parent is the process of the trial.
    dies = "grep -q EXP {config} && ! test -e go && kill -KILL $PPID; "
    (runs / "dies.toml").write_text(DESCRIPTOR.replace("COMMAND", dies))
    tune = [*launched, "tune", "run", "dies.toml", "--out", "tuned-dies"]
    died = dyno(program, tune, runs)
    assert died.returncode == 4 and "its job died (signal: 9)" in died.stderr, died.returncode
    kept = len(journal(runs / "tuned-dies"))
    (runs / "go").touch()
    rest = dyno(program, [*tune, "--resume"], runs)
    assert rest.returncode == 0, rest.returncode
    assert journal(runs / "tuned-dies")[1:] == journal(runs / "tuned-alone")[1:], "other evaluations"
    print(f"tune: a process that died ended the search after {kept - 1} evaluations, and it went on from there")


def waiting(program, runs, cluster, name):
    """A tuner of which a trial waits until a file is there; its arguments, and the process it waits in."""
    waits = f"if grep -q EXP {{config}} && ! test -e {name}-goes; then echo $$ > {name}-here; sleep 300; fi; "
    (runs / f"{name}.toml").write_text(DESCRIPTOR.replace("COMMAND", waits))
    launched = ["launch", "--on", "ray", "--workers", "4", "--python", sys.executable, "--address", cluster, "--"]
    tune = [*launched, "tune", "run", f"{name}.toml", "--out", f"tuned-{name}"]
    process = subprocess.Popen([program, *tune], cwd=runs)
    here = runs / f"{name}-here"
    wait_until(lambda: here.exists() and here.read_text().strip())
    (runs / f"{name}-goes").touch()
    return tune, process, int(here.read_text())


def parent(process):
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("PPid:")).split()[1])


def check_lost_worker(program, runs, cluster):
    _, process, waits_in = waiting(program, runs, cluster, "lost")
    os.kill(parent(parent(waits_in)), signal.SIGKILL)
    assert process.wait(timeout=100) == 0, process.returncode
    wait_until(lambda: not os.path.exists(f"/proc/{waits_in}"))
    assert journal(runs / "tuned-lost")[1:] == journal(runs / "tuned-alone")[1:], "other evaluations"
    print("tune: a trial whose worker of Ray died was placed again, and nothing of it was left")


def check_interrupt(program, runs, cluster):
    tune, process, waits_in = waiting(program, runs, cluster, "waits")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130, process.returncode
    wait_until(lambda: not os.path.exists(f"/proc/{waits_in}"))
    kept = len(journal(runs / "tuned-waits"))
    rest = dyno(program, [*tune, "--resume"], runs)
    assert rest.returncode == 0, rest.returncode
    assert journal(runs / "tuned-waits")[1:] == journal(runs / "tuned-alone")[1:], "other evaluations"
    print(f"tune: Ctrl-C after {kept - 1} evaluations ended what the tasks ran, and the search went on from there")


def wait_until(is_so):
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError("nothing happened for a minute")


def main():
    program, runs = sys.argv[1], Path(sys.argv[2])
    # A driver that is told of a loopback address looks at the interface that leads outside
    # (Ray 2.60), so that the nodes are there, too.
    node = {"num_cpus": 2, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        for _ in range(2):
            cluster.add_node(**node)
        cluster.wait_for_nodes()
        print(f"cluster of {len(cluster.list_all_nodes())} nodes at {cluster.address}", flush=True)
        check_load(program, runs, cluster.address)
        check_sweep(program, runs, cluster.address)
        check_tune(program, runs, cluster.address)
        check_lost_worker(program, runs, cluster.address)
        check_interrupt(program, runs, cluster.address)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
