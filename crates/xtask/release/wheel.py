"""Seals and checks wheels. Needs nothing but Python.

seal WHEEL FOLDER EPOCH [licenses/FILE=PATH | sboms/FILE=PATH]...
    writes the wheel into FOLDER with these files among its metadata, its entries sorted and all
    of one time, so that its bytes depend on nothing but its contents; prints the new path

check WHEEL
    compares every file with the hashes that the wheel records; prints a line of JSON with the
    wheel's tags, its files and the SHA-256 of its programs
"""

import base64
import csv
import hashlib
import io
import json
import pathlib
import sys
import time
import zipfile


def record_hash(data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return "sha256=" + digest.decode().rstrip("=")


def metadata_folder(names):
    folders = {name.split("/")[0] for name in names if name.split("/")[0].endswith(".dist-info")}
    (folder,) = folders
    return folder


def seal(wheel, folder, epoch, *additions):
    wheel = pathlib.Path(wheel)
    with zipfile.ZipFile(wheel) as archive:
        modes = {info.filename: info.external_attr for info in archive.infolist()}
        files = {name: archive.read(name) for name in modes if not name.endswith("/")}
    info = metadata_folder(files)
    # The builder's own bill tells of folders of the machine and of the time of day.
    files = {name: data for name, data in files.items() if not name.startswith(f"{info}/sboms/")}
    licences = []
    for addition in additions:
        name, path = addition.split("=", 1)
        files[f"{info}/{name}"] = pathlib.Path(path).read_bytes()
        if name.startswith("licenses/"):
            licences.append(name.removeprefix("licenses/"))
    metadata = files[f"{info}/METADATA"].decode()
    head, _, body = metadata.partition("\n\n")
    known = head.splitlines()
    fields = [f"License-File: {name}" for name in licences]
    head = "\n".join(known + [field for field in fields if field not in known])
    files[f"{info}/METADATA"] = f"{head}\n\n{body}".encode()

    # The record comes last, as the format asks, and has no hash of itself.
    record = f"{info}/RECORD"
    files.pop(record)
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    for name in sorted(files):
        writer.writerow([name, record_hash(files[name]), len(files[name])])
    writer.writerow([record, "", ""])
    ordered = [(name, files[name]) for name in sorted(files)] + [(record, rows.getvalue().encode())]

    date = time.gmtime(int(epoch))[:6]
    sealed = pathlib.Path(folder) / wheel.name
    with zipfile.ZipFile(sealed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in ordered:
            entry = zipfile.ZipInfo(name, date)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix: its modes count.
            entry.external_attr = modes.get(name, 0o100644 << 16)
            archive.writestr(entry, data)
    print(sealed)


def check(wheel):
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    info = metadata_folder(files)
    record = {row[0]: row[1:] for row in csv.reader(io.StringIO(files[f"{info}/RECORD"].decode()))}
    for name in sorted(set(files) | set(record)):
        if name not in files or name not in record:
            sys.exit(f"{wheel}: {name} is in the wheel or in its record, and not in both")
        stated = record[name]
        if name != f"{info}/RECORD" and stated != [record_hash(files[name]), str(len(files[name]))]:
            sys.exit(f"{wheel}: {name} is not what the record says")
    tags = [line[5:] for line in files[f"{info}/WHEEL"].decode().splitlines() if line.startswith("Tag: ")]
    programs = {
        name: hashlib.sha256(data).hexdigest()
        for name, data in files.items()
        if ".data/scripts/" in name or name.endswith(".so")
    }
    print(json.dumps({"tags": tags, "files": sorted(files), "programs": programs}))


if __name__ == "__main__":
    {"seal": seal, "check": check}[sys.argv[1]](*sys.argv[2:])
