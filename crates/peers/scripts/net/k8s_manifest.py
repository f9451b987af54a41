"""Holds a manifest against the schemas that Kubernetes publishes: file."""

import copy
import json
import sys

import kubernetes_validate
from kubernetes_validate import ValidationError

version = kubernetes_validate.latest_version()
with open(sys.argv[1], encoding="utf-8") as file:
    items = json.load(file)["items"]
assert [item["kind"] for item in items] == ["Service", "Job"], items
for item in items:
    kubernetes_validate.validate(item, version, strict=True)
    # That a schema can say no is seen by one.
    wrong = copy.deepcopy(item)
    wrong["spec"]["parralelism"] = 1
    try:
        kubernetes_validate.validate(wrong, version, strict=True)
    except ValidationError:
        continue
    sys.exit(f"{item['kind']}: a misspelt key is taken")
print(f"Kubernetes {version} takes the manifest of dyno launch")
