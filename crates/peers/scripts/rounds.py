"""Compares `dyno check` with the checker of each published round.

usage: rounds.py TREES DYNO OUT [ROUND ...]

TREES has a folder vX.Y per round (a checkout of the results) and official/TAG/tools/submission per
tag of the rules' repository. Nothing below TREES changes; what the programs write goes to OUT, where
the tables of an official program are used again in later runs.

Prints one line per round and mode: results that the round's program accepts, how many of these Dyno
rejects, how many of these without an error that cites a source, and how many verdicts and fields are
equal. Lists of the differences are in OUT. Ends with 1 if a share is below its limit.
"""

import collections
import csv
import json
import pathlib
import re
import subprocess
import sys

# Least share of results with the verdict of the round's own program, with the mode of that program.
LEAST = {"v5.1": 1.0, "v4.1": 0.995, "v3.0": 0.995}
LEAST_OTHERS = 0.99
FIELDS = ["Result", "Accuracy", "Units", "has_power", "inferred", "infered", "power"]
NUMBERS = ["Result", "inferred", "infered", "power"]
ROOT = "--skip-extra-files-in-root-check"


def official_program(trees, version):
    """Returns the newest checker of a round, such as that of tag v5.1.1 for v5.1."""
    tags = [tag for tag in (trees / "official").iterdir() if re.fullmatch(version + r"(\.\d+)?", tag.name)]
    names = ["submission?checker.py", "submission_checker/main.py"]
    found = [path for tag in sorted(tags) for name in names for path in tag.glob(f"tools/submission/{name}")]
    return found[-1] if found else None


def official(trees, out, version):
    """Returns the verdicts and the table of a round's own program, or None without it."""
    log, table = out / f"{version}.official.log", out / f"{version}.official.csv"
    if not log.exists():
        program = official_program(trees, version)
        if program is None:
            return None
        flags = [ROOT] if ROOT in program.read_text() else []
        started = out / f"{version}.official.running"
        with open(started, "w") as file:
            # The programs in one file change to the tree; that in modules needs a relative path.
            command = [sys.executable, program, "--input", ".", "--version", version, "--csv", table]
            output = {"stdout": file, "stderr": subprocess.STDOUT}
            subprocess.run([*command, *flags], cwd=trees / version, check=False, **output)
        started.rename(log)
    text = log.read_text(errors="replace")
    verdicts = {}
    for line in re.split(r"\n(?=\[|INFO:|ERROR:)", text):
        if found := re.search(r"(?:INFO\]|INFO:main:) ?Results (\S.*?) \S+(?: with power_metric .*)?$", line.strip()):
            verdicts[folder(found[1])] = True
        elif found := re.search(r"(?:ERROR\]|ERROR:main:) ?NoResults (\S.*)$", line.strip()):
            verdicts[folder(found[1])] = False
    return verdicts, rows(table), text.splitlines()[-1:]


def folder(path):
    """Returns the folder of a result; the program in modules names its run or the log of the run."""
    return path.removeprefix("./").removesuffix("/mlperf_log_detail.txt").removesuffix("/performance/run_1")


def rows(table):
    """Returns the rows of a table by result and unit."""
    found = {}
    with open(table, newline="") as file:
        for row in csv.DictReader(file):
            location = row.get("Location") or ""
            found[folder(location), "Watts" in (row.get("Units") or "") or "oule" in (row.get("Units") or "")] = row
    return found


def ours(trees, out, version, dyno, mode):
    """Returns the document and the table of Dyno."""
    base = out / f"{version}.{mode}"
    document, table = base.with_suffix(base.suffix + ".json"), base.with_suffix(base.suffix + ".csv")
    command = [dyno, "check", trees / version, "--round", version, "--quiet", ROOT]
    command += {"rules": [], "forensic": ["--forensic"]}.get(mode, ["--compat", mode])
    done = subprocess.run([*command, "--json", document, "--csv", table], check=False)
    if done.returncode > 1:
        sys.exit(f"dyno check of {version} ends with {done.returncode}")
    return json.loads(document.read_text()), rows(table)


def concerns(parts):
    """Returns the result that a path is about, as parts: division, submitter, system, model, scenario."""
    parts = [part.lower() for part in parts]
    if len(parts) > 2 and parts[2] in ("results", "measurements", "compliance", "audit"):
        return parts[:2] + parts[3:6]
    if len(parts) > 2 and parts[2] == "systems":
        return parts[:2] + [parts[3].removesuffix(".json")] if len(parts) > 3 else parts[:2]
    return parts[:2] if len(parts) > 1 and parts[1] else parts[:1] if parts[:1] != [""] else []


class Errors:
    """Errors of Dyno, by the result or the part of the tree that they are about."""

    def __init__(self, document):
        self.by_subject = collections.defaultdict(list)
        for finding in document["findings"]:
            if finding["severity"] == "error":
                self.by_subject[tuple(concerns(finding["path"].split("/")))].append(finding)

    def of(self, path):
        subject = concerns(path.split("/"))
        return [finding for size in range(len(subject) + 1) for finding in self.by_subject.get(tuple(subject[:size]), [])]


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


def field_differences(theirs, mine):
    """Returns the fields that differ in rows that both tables have."""
    differing = []
    for key in sorted(theirs.keys() & mine.keys()):
        for field in FIELDS:
            if field not in theirs[key] or field not in mine[key]:
                continue
            their, my = theirs[key][field], mine[key][field]
            if their != my and (field not in NUMBERS or number(their) != number(my)):
                differing.append((key[0], field, their, my))
    return differing


def compare(version, mode, theirs, mine, out):
    verdicts, table, _ = theirs
    document, own_table = mine
    errors = Errors(document)
    judged = {entry["path"]: entry["valid"] for entry in document["results"]}
    valid = [path for path, is_valid in verdicts.items() if is_valid]
    refused = [path for path in valid if not judged.get(path, False)]
    kinds, submitters, unsourced = collections.Counter(), collections.Counter(), []
    for path in refused:
        found = errors.of(path)
        for check in {finding["check"] for finding in found} or {"(none)"}:
            kinds[check] += 1
        submitters["/".join(path.split("/")[:2])] += 1
        if not any(finding.get("source") for finding in found):
            unsourced.append(path)
    # What one side alone lists, such as a system that it gave up, is a difference if the other accepts it.
    names = verdicts.keys() | judged.keys()
    unequal = [path for path in sorted(names) if verdicts.get(path, False) != judged.get(path, False)]
    fields = field_differences(table, own_table)
    accepted = [key for key in table if verdicts.get(key[0]) and judged.get(key[0])]
    fields += [(key[0], "row", "present", "missing") for key in accepted if key not in own_table]
    print(
        f"{version} {mode:8} valid {len(valid)}, refused {len(refused)}, without a source {len(unsourced)};"
        f" verdicts equal {len(names) - len(unequal)} of {len(names)};"
        f" rows with equal fields {len(accepted) - len({path for path, *_ in fields})} of {len(accepted)}"
    )
    is_fine = True
    if mode == "rules":
        is_fine = not unsourced
    elif mode == version:
        is_fine = len(names) - len(unequal) >= LEAST.get(version, LEAST_OTHERS) * len(names) and not fields
    with open(out / f"{version}.{mode}.differences", "w") as file:
        for kind, count in kinds.most_common():
            print(f"kind\t{count}\t{kind}", file=file)
        for submitter, count in submitters.most_common():
            print(f"submitter\t{count}\t{submitter}", file=file)
        for path in unequal:
            why = "; ".join(sorted({f"{f['check']} {f['path']}: {f['message']}" for f in errors.of(path)}))
            print(f"verdict\t{path}\t{verdicts.get(path)}\t{judged.get(path)}\t{why}", file=file)
        for difference in fields:
            print("field", *difference, sep="\t", file=file)
        for path in unsourced:
            print("unsourced", path, sep="\t", file=file)
    return is_fine


def main():
    trees, dyno, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    rounds = sys.argv[4:] or sorted(path.name for path in trees.glob("v*.*") if path.is_dir())
    failed = []
    for version in rounds:
        theirs = official(trees.absolute(), out.absolute(), version)
        if theirs is None:
            print(f"{version} skipped: there is no {trees}/official/{version}/tools/submission")
            continue
        for mode in ["rules", "forensic", version]:
            if not compare(version, mode, theirs, ours(trees, out, version, dyno, mode), out):
                failed.append(f"{version} {mode}")
    if failed:
        sys.exit(f"below the limit: {', '.join(failed)}; the differences are in {out}")


main()
