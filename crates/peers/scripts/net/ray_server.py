"""Ray Serve with a replica that doubles a number: port."""

import os
import sys

os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "120")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray import serve

import lifeline

port = int(sys.argv[1])
ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)


@serve.deployment(ray_actor_options={"num_cpus": 0.1})
class Doubler:
    async def __call__(self, request):
        # The proxy is healthy before there is somebody behind it.
        if request.method == "GET":
            return {"ready": True}
        return {"twice": 2 * (await request.json())["number"]}


serve.start(http_options={"host": "127.0.0.1", "port": port})
serve.run(Doubler.bind(), route_prefix="/double")
lifeline.wait()
serve.shutdown()
ray.shutdown()
