"""What a played case left behind, as named parts: each a list of items (key, value)."""

import decimal
import json
import pathlib
import re
from collections import Counter

from arithmetic import arithmetic_items
from item import Item

DATETIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
ENTRY = re.compile(r':::MLLOG \{"key": "([^"]*)", (.*)\}')
EVENT = re.compile(r'\{"name":"([^"]*)",(?:"cat":"default",)?"ph": ?"(.)",')
# How ours says that a line stands for many.
TIMES = re.compile(r' \((\d+) times\)(?=")')
TRAILER = re.compile(r"(?:No|\d+) (warning|error)s? encountered( during test)?\..*", re.IGNORECASE)


def parts_of(folder, exit_code):
    """The parts of a case that was played in `folder`."""
    folder = pathlib.Path(folder)
    here = folder / "here"
    names = sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file())
    parts = {
        "exit": [Item("code", str(exit_code))],
        "files": [Item("name", name) for name in names],
        **stdout_parts(lines_of(folder / "stdout.txt")),
        "stderr": [line_item(line) for line in lines_of(folder / "stderr.txt")],
    }
    seen = folder / "observed.json"
    observed = json.loads(seen.read_text()) if seen.exists() else {}
    parts |= {f"system: {key}": observed_items(value) for key, value in observed.items()}
    traces = [name for name in names if name.endswith(".json") and "trace" in name]
    # A later test may have written over the logs of an earlier one.
    tests = samples_of_runs(observed.get("calls", []))[-len(traces) :] if traces else []
    for name in names:
        samples = tests[traces.index(name)] if name in traces else []
        for part, items in log_parts(here, name, samples):
            file = re.sub(DATETIME, "<datetime>", name)
            parts[f"{part}: {file}"] = list(items)
    return parts


def log_parts(here, name, samples):
    """The parts of one file; none if it is no log."""
    text = (here / name).read_text(errors="backslashreplace")
    kind = re.search("(detail|summary|accuracy|trace)[^/]*\\.(txt|json)$", name)
    kind = kind.group(1) if kind else None
    if kind == "detail":
        yield kind, map(line_item, text.splitlines())
    elif kind == "accuracy":
        yield kind, accuracy_items(text)
    elif kind:
        detail = (here / name.replace(kind, "detail").replace(".json", ".txt")).read_text()
        if kind == "summary":
            yield kind, summary_items(text, grave_entries(detail))
        else:
            events = sample_events(text)
            yield kind, trace_items(text, events, samples)
            yield "arithmetic", arithmetic_items(detail, events.get("Sample b", {}), samples)


def stdout_parts(lines):
    """The copies of the two logs apart, and the order of their blocks."""
    kinds = ["detail" if line.startswith(":::MLLOG") else "text" for line in lines]
    blocks = [kind for i, kind in enumerate(kinds) if i == 0 or kinds[i - 1] != kind]
    parts = {f"stdout {kind}": [] for kind in ("detail", "text")}
    for kind, line in zip(kinds, lines):
        parts[f"stdout {kind}"].append(line_item(line))
    return parts | {"stdout order": [Item("blocks", ", ".join(blocks))]}


def lines_of(path):
    return path.read_text(errors="backslashreplace").splitlines() if path.exists() else []


def line_item(line):
    """An entry of the detail log, or a line of the summary."""
    entry = ENTRY.fullmatch(line)
    if entry:
        return Item(*entry.groups())
    label, sign, value = line.partition(":")
    return Item(label.strip(), line) if sign else Item("text", line)


def observed_items(value):
    if not isinstance(value, list):
        return [Item("is", json.dumps(value))]
    items = []
    for place, one in enumerate(value):
        if isinstance(one, dict):
            items += [Item(f"{place}.{name}", json.dumps(one[name])) for name in sorted(one)]
        elif isinstance(one, list):
            items.append(Item(one[0], json.dumps(one[1:])))
        else:
            items.append(Item(str(place), json.dumps(one)))
    return items


def samples_of_runs(calls):
    """Of each test, how many samples each run issued, by the flush that ends it."""
    tests = [[]]
    current = 0
    for name, *given in calls:
        if name == "start":
            tests.append([])
            current = 0
        elif name == "issue":
            current += len(given[0])
        elif name == "flush":
            tests[-1].append(current)
            current = 0
    return tests


def grave_entries(detail):
    """Warnings and errors of a detail log."""
    counts = Counter()
    for line in detail.splitlines():
        times = TIMES.search(line)
        for kind in ("warning", "error"):
            counts[kind] += (int(times.group(1)) if times else 1) * (f'"is_{kind}": true' in line)
    return counts


def summary_items(text, grave):
    """Lines; the counts at the end are compared with the file's own detail log."""
    for line in text.splitlines():
        kind = TRAILER.fullmatch(line)
        if not kind:
            yield line_item(line)
            continue
        kind = kind.group(1).lower()
        count = grave[kind]
        word = kind.upper() if kind == "error" else kind
        expected = {
            0: f"No {kind}s encountered during test.",
            1: f"1 {word} encountered. See detailed log.",
        }.get(
            count, f"{count} {word}{'S' if kind == 'error' else 's'} encountered. See detailed log."
        )
        agrees = line == expected
        yield Item(
            f"{kind}s", "as the detail log" if agrees else f"{line!r}, the detail log has {count}"
        )


def accuracy_items(text):
    """Lines as they are but for their order: the order of several threads is chance."""
    lines = text.splitlines(keepends=True)
    entries = [line for line in lines if line.startswith("{")]
    frame = [line for line in lines if not line.startswith("{")]
    entries = [entry.rstrip(",\n") for entry in entries]
    separators = [line[-2:] for line in lines if line.startswith("{")]
    entries.sort(key=lambda entry: int(re.search(r'"seq_id" : (\d+)', entry).group(1)))
    items = [Item("frame", repr(line)) for line in frame] + [
        Item("entry", entry) for entry in entries
    ]
    return items + [Item("separators", str(Counter(separators)))]


def sample_events(text):
    """The events of samples by their kind and their sample; of two, the first one counts."""
    events = {}
    for line in text.splitlines():
        event = EVENT.match(line) if line.endswith("},") else None
        if event and event.group(2) in "be":
            # These lines are JSON in the reference's file too, which as a whole is not.
            parsed = json.loads(line.rstrip(","), parse_float=decimal.Decimal)
            events.setdefault(" ".join(event.groups()), {}).setdefault(parsed["id"], parsed)
    return events


def trace_items(text, events, samples):
    """Events by kind and count, samples one by one, and what frames them."""
    kinds, sizes = Counter(), {"LoadSamples": [], "UnloadSampes": []}
    for line in text.splitlines():
        event = EVENT.match(line) if line.endswith(("}", "},")) else None
        if not event:
            yield Item("line", line)
            continue
        name, kind = event.group(1), " ".join(event.groups())
        if name in sizes:
            sizes[name].append(int(re.search(r'"count":(\d+)', line).group(1)))
            continue
        kinds[kind] += 1
    for kind in sorted(kinds):
        yield Item(kind, f"{kinds[kind]} events")
    for name, of_sets in sizes.items():
        yield Item(name, str(of_sets))
    for kind in sorted(events):
        for sample in sorted(events[kind]):
            yield Item(f"{kind} of a sample", sample_facts(events[kind][sample]))
    # Only Server has a schedule; a closed loop issues when it may.
    if "Latency C" in kinds:
        yield from schedule_items(events.get("Sample b", {}), samples)


def sample_facts(event):
    args = event.get("args", {})
    known = {name: args[name] for name in ("sample_seq", "query_seq", "sample_idx") if name in args}
    return json.dumps({"id": event["id"], "fields": sorted(event), "args": sorted(args)} | known)


def schedule_items(begins, samples):
    """When each sample of a run was due, in ns after the first of its run."""
    ids = sorted(begins)
    if sum(samples) != len(ids):
        yield Item("schedule", f"{len(ids)} samples in the trace, {sum(samples)} issued")
        return
    for count in samples:
        run, ids = ids[:count], ids[count:]
        due = [int(begins[one]["ts"] * 1000) for one in run]
        yield Item("schedule", str([at - due[0] for at in due]))
