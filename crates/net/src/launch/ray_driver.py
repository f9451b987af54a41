"""Places workers of Dyno, points of a sweep or trials of a tuner on the nodes of a Ray cluster.

`dyno launch --on ray` writes this file out and runs it with the user's Python, which has Ray.
It reads a line of JSON on standard input, which says what is to be done. No traffic goes through
Ray: an actor starts `dyno worker`, which talks to its coordinator by itself; a task runs one point
of a sweep and brings its folder back, or evaluates one trial. Trials are asked for as the search
goes on: each is a further line on standard input, and what came of it one on standard output.
"""

import collections
import contextlib

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import threading

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


def say(text):
    print(text, file=sys.stderr, flush=True)


def placements(count):
    """One node for each of `count`, in turn."""
    nodes = sorted((n for n in ray.nodes() if n["Alive"]), key=lambda n: n["NodeID"])
    return [nodes[i % len(nodes)] for i in range(count)]


@ray.remote(num_cpus=1)
class Place:
    """A worker on the node of this actor."""

    def start(self, program, arguments, token):
        # If this actor ends, its pipe closes, and the worker ends too: one that stays may wait for hours.
        environment = dict(os.environ, DYNO_WORKER_TOKEN=token, DYNO_END_WITH_STDIN="1")
        self.process = subprocess.Popen(
            [program, "worker", *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self.process.pid

    def wait(self):
        said = self.process.stderr.read()
        return self.process.wait(), said


@ray.remote(num_cpus=1)
def point(program, arguments):
    """Runs one point; returns its exit code, what it said, and its folder as a tar file."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "point")
        ended = subprocess.run(
            [program, *arguments, f"--out={out}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            if os.path.isdir(out):
                tar.add(out, arcname=".")
        node = ray.get_runtime_context().get_node_id()
        return ended.returncode, ended.stderr, packed.getvalue(), node


@ray.remote(num_cpus=1)
def trial(program, arguments, line):
    """Evaluates one trial; returns how its process ended, and what it said."""
    taken, lifeline = os.pipe()
    environment = dict(os.environ, DYNO_END_WITH_STDIN="1")
    node = ray.get_runtime_context().get_node_id()
    try:
        process = subprocess.Popen(
            [program, *arguments],
            env=environment,
            stdin=taken,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ray ends the group of a worker that dies; this one notices by itself, and ends in order.
            start_new_session=True,
        )
    except OSError as error:
        os.close(lifeline)
        return {"code": 3, "stderr": f"cannot start {program}: {error}", "node": node}
    finally:
        os.close(taken)
    try:
        with contextlib.suppress(BrokenPipeError):
            # One that ended early says why.
            os.write(lifeline, line.encode())
        stdout = None
        while stdout is None:
            # In pieces: no cancellation reaches a thread that waits.
            with contextlib.suppress(subprocess.TimeoutExpired):
                stdout, stderr = process.communicate(timeout=0.5)
    finally:
        # If this task is cancelled, the process notices that, and ends what it started.
        os.close(lifeline)
        process.wait()
    code = process.returncode
    ended = {"stdout": stdout, "stderr": stderr, "node": node}
    return ended | ({"code": code} if code >= 0 else {"died": f"signal: {-code}"})


def run_workers(task):
    host = task["host"] or ray.util.get_node_ip_address()
    places = []
    for seat, node in enumerate(placements(task["workers"]), start=1):
        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        place = Place.options(scheduling_strategy=strategy).remote()
        arguments = ["--join", f"{host}:{task['port']}", "--seat", str(seat)]
        # The coordinator is the command of the same user, and only both know the token.
        arguments += ["--allow", "all", *task["flags"]]
        pid = ray.get(place.start.remote(task["program"], arguments, task["token"]))
        say(f"worker {seat} on node {node['NodeID'][:8]} ({node['NodeManagerAddress']}), process {pid}")
        places.append(place)
    failed = 0
    for seat, (code, said) in enumerate(ray.get([p.wait.remote() for p in places]), start=1):
        if code != 0:
            failed += 1
            say(f"worker {seat} ended with {code}: {said.strip()}")
    return 1 if failed else 0


def run_points(task):
    points = task["points"]
    pending = {}
    for of, node in zip(points, placements(len(points))):
        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)
        options = point.options(scheduling_strategy=strategy)
        pending[options.remote(task["program"], of["arguments"])] = of
    failed = 0
    while pending:
        done, _ = ray.wait(list(pending), num_returns=1)
        of = pending.pop(done[0])
        try:
            code, said, packed, node = ray.get(done[0])
        except ray.exceptions.RayError as error:
            failed += 1
            say(f"{of['name']}: {error}")
            continue
        is_whole = code in (0, 1)
        if not (task["quiet"] and is_whole):
            say(f"{of['name']}: exit code {code}, on node {node[:8]}")
        if not is_whole:
            failed += 1
            say(said.strip())
            continue
        os.makedirs(of["folder"], exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extractall(of["folder"], filter="data")
    return 1 if failed else 0


def run_trials(task):
    nodes = collections.Counter()
    lock = threading.Lock()
    on_ray = {}

    def answer(number, asked):
        try:
            ended = ray.get(asked)
        except ray.exceptions.RayError as error:
            ended = {"died": str(error).strip()}
        with lock:
            del on_ray[asked]
            if "node" in ended:
                nodes[ended["node"][:8]] += 1
            print(json.dumps({"number": number, **ended}), flush=True)

    for line in sys.stdin:
        options = trial.options(scheduling_strategy="SPREAD")
        asked = options.remote(task["program"], task["trials"], line)
        arguments = (json.loads(line)["number"], asked)
        with lock:
            on_ray[asked] = threading.Thread(target=answer, args=arguments, daemon=True)
            on_ray[asked].start()
    # Nobody waits for what is still on: it gets time to end by itself.
    with lock:
        left = list(on_ray.items())
    for asked, _ in left:
        ray.cancel(asked)
    for _, thread in left:
        thread.join(15)
    say("trials: " + ", ".join(f"{count} on node {node}" for node, count in nodes.items()))
    return 0


def main():
    task = json.loads(sys.stdin.readline())
    # "auto" looks for processes of any cluster on this machine before it looks at the variable.
    address = task["address"] or os.environ.get("RAY_ADDRESS") or "auto"
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    if not task.get("quiet"):
        say(f"Ray {ray.__version__}: {len([n for n in ray.nodes() if n['Alive']])} nodes")
    if "trials" in task:
        return run_trials(task)
    return run_points(task) if "points" in task else run_workers(task)


if __name__ == "__main__":
    sys.exit(main())
