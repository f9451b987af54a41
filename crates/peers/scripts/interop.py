"""Reads what `dyno export` writes with the libraries that its users have.

Usage: interop.py DYNO REPOSITORY FOLDER [--quick], which prints one line a check that holds
and stops with a traceback at the first that does not. --quick: DYNO is built without parquet.
"""

import csv
import io
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml

import jsonschema
import pyarrow
import pyarrow.parquet
from prometheus_client.parser import text_string_to_metric_families

DYNO, REPOSITORY, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
QUICK = "--quick" in sys.argv
SYSTEM = "model:exponential=2ms,servers=2,tokens=4-9,per-token=100us,failed=0.05,seed=3"
TEXTS = {"test", "failure"}
REQUIRED = {"test", "row", "sample", "scheduled_ns", "issued_ns"}


def dyno(*arguments, codes=(0,)):
    ran = subprocess.run([DYNO, *arguments], cwd=FOLDER, capture_output=True)
    assert ran.returncode in codes, (arguments, ran.returncode, ran.stderr)
    return ran.stdout.decode()


def run(out, *arguments):
    if not (FOLDER / out).exists():
        fixed = ["--quiet", "--mode", "performance", "--out", out]
        dyno("run", *fixed, *arguments, codes=(0, 1, 4))


def same_table(out, rows):
    """Parquet says the same as JSONL, and has the types it should have."""
    dyno("export", out, "--out", f"{out}.parquet")
    table = pyarrow.parquet.read_table(FOLDER / f"{out}.parquet")
    assert table.to_pylist() == rows, "parquet and JSONL differ"
    for field in table.schema:
        expected = pyarrow.string() if field.name in TEXTS else pyarrow.int64()
        assert field.type == expected, field
        assert field.nullable == (field.name not in REQUIRED), field
    return table


def same_rows(out):
    """CSV and JSONL say the same, and parquet, where it is built in."""
    rows = [json.loads(line) for line in dyno("export", out, "--format", "jsonl").splitlines()]
    text = io.StringIO(dyno("export", out), newline="")
    cells = list(csv.DictReader(text, strict=True))
    expected = [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]
    assert cells == expected, "CSV and JSONL differ"
    return None if QUICK else same_table(out, rows), rows


def parquet_and_csv():
    run("tokens", "--system", SYSTEM, "--scenario", "server", "--qps", "200", "--duration", "2s",
        "--set", "min_query_count=100", "--set", "use_token_latencies=true")
    table, rows = same_rows("tokens")
    if not QUICK:
        about = table.schema.metadata
        assert about[b"dyno.run"] == b"model" and about[b"dyno.time"] == b"virtual", about
        [test] = json.loads(about[b"dyno.tests"])
        assert test["scenario"] == "Server" and test["stride"] == 1, test
        assert test["rows"] == test["total"] == len(rows) > 300, test
    assert any(row["failure"] for row in rows)

    # Queries that never come back: null, not -1.
    run("gone", "--system", f"{SYSTEM},unanswered=0.05", "--scenario", "server", "--qps", "200",
        "--duration", "2s", "--deadline", "10s", "--set", "min_query_count=100")
    table, rows = same_rows("gone")
    assert any(row["latency_ns"] is None and row["completed_ns"] is None for row in rows)
    assert QUICK or table["latency_ns"].null_count == table["completed_ns"].null_count > 0

    # More rows than a row group has, and a column of another test that is not there.
    run("long", "--system", "model:fixed=1us", "--scenario", "server,offline", "--qps", "100000",
        "--duration", "12s", "--set", "offline_expected_qps=1000", "--records", "all")
    table, _ = same_rows("long")
    if not QUICK:
        file = pyarrow.parquet.ParquetFile(FOLDER / "long.parquet")
        assert table.num_rows > 1 << 20 and file.num_row_groups >= 3, file.metadata
    print("CSV and JSONL hold the same rows" if QUICK else "parquet, CSV and JSONL hold the same rows")


def prometheus():
    text = dyno("export", "tokens", "--format", "prometheus")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    latency = families["dyno_latency_seconds"]
    assert latency.type == "histogram"
    count = [s.value for s in latency.samples if s.name.endswith("_count")]
    summary = json.loads((FOLDER / "tokens/summary.json").read_text())
    metrics = summary["tests"][0]["metrics"]
    assert count == [metrics["latency_ns"]["count"]]
    assert families["dyno_run_info"].samples[0].labels["system"] == SYSTEM
    # Each HELP and TYPE is one of its own, and no sample is outside of them.
    assert all(family.type in ("gauge", "histogram") for family in families.values())
    print("Prometheus' parser reads the snapshot")


def schemas():
    for name in ("summary", "series"):
        schema = json.loads((REPOSITORY / f"docs/schema/{name}.schema.json").read_text())
        validator = jsonschema.validators.validator_for(schema)
        assert validator is jsonschema.Draft202012Validator
        validator.check_schema(schema)
        for out in ("tokens", "gone", "long"):
            value = json.loads((FOLDER / out / f"{name}.json").read_text())
            validator(schema).validate(value)
    print("Python's jsonschema takes the schemas and what runs leave")


def junit():
    root = xml.fromstring(dyno("export", "gone", "--format", "junit"))
    assert root.tag == "testsuites" and root.get("errors") == "1", root.attrib
    [case] = root.iter("testcase")
    assert case.find("error").get("type") == "ABORTED"
    print("the JUnit document is XML")


parquet_and_csv()
prometheus()
schemas()
junit()
