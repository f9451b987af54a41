"""Leaves a model of the iris data set for MLServer, and its samples: folder, HTTP, gRPC and metrics port."""

import json
import pathlib
import sys

import joblib
import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

folder, http, grpc, metrics = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:])
iris = load_iris()
model = LogisticRegression(max_iter=1000, random_state=0).fit(iris.data, iris.target)
folder.mkdir(parents=True, exist_ok=True)
joblib.dump(model, folder / "model.joblib")
np.save(folder / "x.npy", iris.data.astype(np.float64))
# What is asked of the server is what the model says here, so that accuracy is 1.
np.save(folder / "labels.npy", model.predict(iris.data).astype(np.int64))
settings = {
    "host": "127.0.0.1",
    "http_port": http,
    "grpc_port": grpc,
    "metrics_port": metrics,
    "parallel_workers": 0,
    "debug": False,
}
(folder / "settings.json").write_text(json.dumps(settings))
of_model = {
    "name": "iris",
    "implementation": "mlserver_sklearn.SKLearnModel",
    "parameters": {"uri": "./model.joblib", "version": "v1"},
    # MLServer tells of a model what stands here, and nothing else.
    "inputs": [{"name": "x", "datatype": "FP64", "shape": [-1, 4]}],
    "outputs": [{"name": "predict", "datatype": "INT64", "shape": [-1, 1]}],
}
(folder / "model-settings.json").write_text(json.dumps(of_model))
