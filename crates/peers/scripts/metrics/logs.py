"""Accuracy logs as LoadGen writes them, and read as accuracy scripts do."""

import json

LOG = "mlperf_log_accuracy.json"


def write(folder, answers):
    """Writes (sample, bytes) pairs."""
    with open(folder / LOG, "w") as out:
        out.write("[\n")
        for at, (index, answer) in enumerate(answers):
            comma = ",\n" if at else ""
            data = bytes(answer).hex().upper()
            out.write(f'{comma}{{ "seq_id" : {at}, "qsl_idx" : {index}, "data" : "{data}" }}')
        out.write("\n]\n")


def read(folder):
    """(sample, bytes) pairs, in the order of the log."""
    with open(folder / LOG) as log:
        entries = json.load(log)
    return [(entry["qsl_idx"], bytes.fromhex(entry["data"])) for entry in entries]


def first_of_each(pairs):
    """The first answer to each sample."""
    seen = {}
    for index, answer in pairs:
        seen.setdefault(index, answer)
    return seen
