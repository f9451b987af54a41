"""Plays one test against a null system and prints what it cost, as words "key=value":

    python harness.py scenario=offline interface=buffer queries=1000000 outdir=FOLDER

Runs with whichever module `mlperf_loadgen` the interpreter has.
"""

import sys
import time

import mlperf_loadgen as lg

SAMPLES = 1024

now = time.perf_counter


class NullSystem:
    """Answers each query at once, and notes the time from the first query to the last answer."""

    def __init__(self):
        self.begin = None
        self.end = None

    def issue_list(self, samples):
        if self.begin is None:
            self.begin = now()
        lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, 0, 0) for s in samples])
        self.end = now()

    def issue_fast(self, ids, indices):
        if self.begin is None:
            self.begin = now()
        lg.QuerySamplesComplete([lg.QuerySampleResponse(i, 0, 0) for i in ids])
        self.end = now()

    def issue_buffer(self, ids, indices):
        if self.begin is None:
            self.begin = now()
        lg.QuerySamplesCompleteBuffer(ids)
        self.end = now()

    def flush(self):
        pass

    def construct(self, interface):
        if interface == "list":
            return lg.ConstructSUT(self.issue_list, self.flush)
        if interface == "fast":
            return lg.ConstructFastSUT(self.issue_fast, self.flush)
        return lg.ConstructBufferSUT(self.issue_buffer, self.flush)


def main(options):
    settings = lg.TestSettings()
    settings.scenario = {
        "single": lg.TestScenario.SingleStream,
        "offline": lg.TestScenario.Offline,
    }[options["scenario"]]
    settings.mode = lg.TestMode.PerformanceOnly
    settings.min_duration_ms = 0
    settings.min_query_count = int(options["queries"])
    logs = lg.LogSettings()
    logs.log_output.outdir = options["outdir"]
    logs.enable_trace = False

    system = NullSystem()
    sut = system.construct(options["interface"])
    qsl = lg.ConstructQSL(SAMPLES, SAMPLES, lambda _: None, lambda _: None)
    begin = now()
    lg.StartTestWithLogSettings(sut, qsl, settings, logs, "no-such-audit.config")
    wall = now() - begin
    run = system.end - system.begin
    print(f"samples={settings.min_query_count} run_ns={run * 1e9} wall_ns={wall * 1e9}")


if __name__ == "__main__":
    main(dict(word.split("=", 1) for word in sys.argv[1:]))
