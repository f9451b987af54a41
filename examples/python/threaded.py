"""A harness with a queue and a thread pool, for the module `mlperf_loadgen`.

    python threaded.py --scenario Server --mode AccuracyOnly --log-dir logs

Samples are texts that are made from their index; the answer to one is its CRC-32. The load
generator's thread only puts samples into a queue; a thread takes batches from it and hands
them to a pool, whose threads compute and report the answers.
"""

import argparse
import array
import concurrent.futures
import os
import queue
import threading
import zlib

import mlperf_loadgen as lg

SCENARIOS = {
    "SingleStream": lg.TestScenario.SingleStream,
    "MultiStream": lg.TestScenario.MultiStream,
    "Server": lg.TestScenario.Server,
    "Offline": lg.TestScenario.Offline,
}
MODES = {
    "PerformanceOnly": lg.TestMode.PerformanceOnly,
    "AccuracyOnly": lg.TestMode.AccuracyOnly,
    "SubmissionRun": lg.TestMode.SubmissionRun,
}


class Texts:
    """The data set; a text can be read while it is loaded."""

    def __init__(self):
        self.loaded = {}

    def load(self, indices):
        for index in indices:
            self.loaded[index] = (f"text {index} " * 50).encode()

    def unload(self, indices):
        # MultiStream lists some samples of a set twice.
        for index in indices:
            self.loaded.pop(index, None)


class Checksums:
    """The system under test."""

    def __init__(self, texts, threads, max_batch):
        self.texts = texts
        self.max_batch = max_batch
        self.samples = queue.Queue()
        self.pool = concurrent.futures.ThreadPoolExecutor(max_workers=threads)
        self.batcher = threading.Thread(target=self.run_batcher)
        self.batcher.start()

    def issue(self, samples):
        for sample in samples:
            self.samples.put(sample)

    def flush(self):
        """Nothing is held back: a batch is whatever waits."""

    def close(self):
        self.samples.put(None)
        self.batcher.join()
        self.pool.shutdown()

    def run_batcher(self):
        answers = []
        while (first := self.samples.get()) is not None:
            batch = [first]
            while len(batch) < self.max_batch:
                try:
                    sample = self.samples.get_nowait()
                except queue.Empty:
                    break
                if sample is None:
                    # For the loop, once this batch is on its way.
                    self.samples.put(None)
                    break
                batch.append(sample)
            answers.append(self.pool.submit(self.answer, batch))
        for answer in answers:
            # Raises what went wrong in the pool.
            answer.result()

    def answer(self, batch):
        sums = array.array("I", (zlib.crc32(self.texts.loaded[s.index]) for s in batch))
        address, _ = sums.buffer_info()
        lg.QuerySamplesComplete(
            [
                lg.QuerySampleResponse(sample.id, address + i * sums.itemsize, sums.itemsize)
                for i, sample in enumerate(batch)
            ]
        )


def settings_of(options):
    settings = lg.TestSettings()
    settings.scenario = SCENARIOS[options.scenario]
    settings.mode = MODES[options.mode]
    if options.user_conf:
        code = settings.FromConfig(options.user_conf, "checksums", options.scenario)
        if code != 0:
            raise SystemExit(f"cannot use the configuration {options.user_conf}: {code}")
    return settings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", choices=SCENARIOS, default="SingleStream")
    parser.add_argument("--mode", choices=MODES, default="PerformanceOnly")
    parser.add_argument("--user-conf", help="configuration file of the load generator")
    parser.add_argument("--log-dir", default=".", help="where the logs go")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--max-batch", type=int, default=16)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--performance-samples", type=int, default=1024)
    options = parser.parse_args()
    os.makedirs(options.log_dir, exist_ok=True)

    texts = Texts()
    checksums = Checksums(texts, options.threads, options.max_batch)
    logs = lg.LogSettings()
    logs.log_output.outdir = options.log_dir
    logs.enable_trace = False
    sut = lg.ConstructSUT(checksums.issue, checksums.flush)
    qsl = lg.ConstructQSL(options.samples, options.performance_samples, texts.load, texts.unload)
    try:
        lg.StartTestWithLogSettings(sut, qsl, settings_of(options), logs)
    finally:
        lg.DestroyQSL(qsl)
        lg.DestroySUT(sut)
        checksums.close()


if __name__ == "__main__":
    main()
