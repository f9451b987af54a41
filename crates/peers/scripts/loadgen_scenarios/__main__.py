"""One scenario script, run through the reference's module and ours, and compared.

python loadgen_scenarios compare --theirs PYTHON --ours PYTHON --folder DIR [--quick] [--only REGEX]
python loadgen_scenarios serve     # the cases named on stdin, with the module of this interpreter
python loadgen_scenarios list
"""

import argparse
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
import threading

import cases_config
import cases_logs
import cases_random
import cases_runs
import differences
from compare import compare, report
from observation import parts_of
from play import serve

# More hardly help: most of a case is the computing of its two processes.
WORKERS = 3
# Again for a case that another load disturbed, or in which the reference crashed too soon.
ATTEMPTS = 5
# Cases between two lines that say how far it is.
PROGRESS = 100


def all_cases():
    modules = (cases_runs, cases_logs, cases_config, cases_random)
    cases = [case for module in modules for case in module.cases()]
    named = {case.name: case for case in cases}
    assert len(named) == len(cases), "every case has a name of its own"
    return named


class Server:
    """A process that plays cases with one interpreter's module."""

    def __init__(self, python):
        command = [python, "-B", str(pathlib.Path(__file__).parent), "serve"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def play(self, case, folder):
        shutil.rmtree(folder, ignore_errors=True)
        self.process.stdin.write(f"{case}\t{folder}\n")
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process that plays cases ended at {case}")
        return parts_of(folder, int(answer))


class Worker(threading.local):
    """The two servers of a thread."""

    def __init__(self, args):
        self.theirs, self.ours = Server(args.theirs), Server(args.ours)


class Comparison:
    """Plays cases with both interpreters and keeps what is found."""

    def __init__(self, args, cases):
        self.args, self.cases = args, cases
        self.worker = Worker(args)
        # Findings by case: of its last attempt, and of an attempt before the one that was equal.
        self.failed, self.disturbed = {}, {}

    def compare(self, name):
        findings = []
        for _ in range(ATTEMPTS):
            before, findings = findings, self.attempt(name)
            if not findings:
                if before:
                    self.disturbed[name] = before
                return
        self.failed[name] = findings

    def attempt(self, name):
        folder = self.args.folder.absolute() / name
        theirs = self.worker.theirs.play(name, folder / "theirs")
        ours = self.worker.ours.play(name, folder / "ours")
        wanted = re.compile(self.cases[name].parts)
        theirs, ours = ({p: of[p] for p in of if wanted.fullmatch(p)} for of in (theirs, ours))
        # Where the reference is compared with itself, both have what it alone has.
        extras = ("theirs", "theirs" if self.args.calibrate else "ours")
        findings = compare(name, theirs, ours, differences.LIST, extras)
        if not findings:
            shutil.rmtree(folder)
        return findings

    def tell(self):
        for name in sorted(self.failed):
            print(f"{name}:")
            for finding in report(self.failed[name]):
                print(f"    {finding}")
        for name in sorted(self.disturbed):
            print(f"{name}: equal at a further attempt; before: {self.disturbed[name][0]}")
        if self.failed:
            print(f"what these left lies in {self.args.folder.absolute()}")


def run_compare(args):
    cases = {
        name: case
        for name, case in all_cases().items()
        if (case.quick or not args.quick) and re.search(args.only, name)
    }
    comparison = Comparison(args, cases)
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for done, _ in enumerate(pool.map(comparison.compare, cases), start=1):
            if done % PROGRESS == 0:
                print(f"{done} of {len(cases)} cases", file=sys.stderr, flush=True)
    comparison.tell()
    # A part of the cases does not need every entry.
    is_part = args.quick or args.only or args.calibrate
    needless = [one for one in differences.LIST if not (one.hits or one.by_chance or is_part)]
    for entry in needless:
        print(f"out of date: {entry}")
    print(f"{len(cases) - len(comparison.failed)} of {len(cases)} cases equal")
    return 1 if comparison.failed or needless or not cases else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("serve")
    commands.add_parser("list")
    command = commands.add_parser("compare")
    command.add_argument("--theirs", required=True)
    command.add_argument("--ours", required=True)
    command.add_argument("--folder", type=pathlib.Path, required=True)
    command.add_argument("--quick", action="store_true")
    command.add_argument("--only", default="")
    command.add_argument("--calibrate", action="store_true", help="the same module on both sides")
    args = parser.parse_args()
    if args.command == "serve":
        return serve(all_cases())
    if args.command == "list":
        print("\n".join(all_cases()))
        return 0
    return run_compare(args)


if __name__ == "__main__":
    sys.exit(main())
