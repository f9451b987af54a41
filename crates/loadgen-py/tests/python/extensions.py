"""What our module does beyond the reference's, and where that one crashes.

    python extensions.py        with our mlperf_loadgen on the path
"""

import array
import contextlib
import ctypes
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import unittest
import unittest.mock
import warnings
import weakref

import mlperf_loadgen as lg


def complete(samples):
    lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, 0, 0) for s in samples])


def nothing(*_):
    pass


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def settings(self, **fields):
        settings = lg.TestSettings()
        settings.min_duration_ms = 0
        settings.min_query_count = 10
        for field, value in fields.items():
            setattr(settings, field, value)
        return settings

    def start(self, sut, qsl=None, **fields):
        logs = lg.LogSettings()
        logs.log_output.outdir = self.folder
        logs.enable_trace = False
        qsl = lg.ConstructQSL(10, 10, nothing, nothing) if qsl is None else qsl
        lg.StartTestWithLogSettings(sut, qsl, self.settings(**fields), logs, "none.config")

    def log(self, kind):
        with open(os.path.join(self.folder, f"mlperf_log_{kind}")) as log:
            return log.read()

    def assert_healthy(self):
        """A whole test can be run after what happened."""
        self.start(lg.ConstructSUT(complete, nothing))
        self.assertIn('"result_query_count", "value": 10', self.log("detail.txt"))

    def python(self, code, *options):
        """Runs code in a process of its own."""
        prologue = (
            "import mlperf_loadgen as lg, os, sys, threading, signal, time\n"
            f"os.chdir({self.folder!r})\n"
            "def nothing(*_): pass\n"
            "def complete(qs): lg.QuerySamplesComplete([lg.QuerySampleResponse(q.id, 0, 0) for q in qs])\n"
            "qsl = lg.ConstructQSL(10, 10, nothing, nothing)\n"
            "settings = lg.TestSettings(); settings.min_duration_ms = 0; settings.min_query_count = 10\n"
        )
        command = [sys.executable, *options, "-c", prologue + code]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr


class Exceptions(Case):
    def test_they_come_out_of_start_test(self):
        class Mine(Exception):
            pass

        def raiser(exception):
            def raises(*_):
                raise exception

            return raises

        def name_is_no_text():
            return 3

        construct = {
            "issue": lambda r: (lg.ConstructSUT(r, nothing), None),
            "issue of a fast system": lambda r: (lg.ConstructFastSUT(r, nothing), None),
            "issue of a buffer system": lambda r: (lg.ConstructBufferSUT(r, nothing), None),
            "flush": lambda r: (lg.ConstructSUT(complete, r), None),
            "name": lambda r: (lg.ConstructQDL(complete, nothing, r), None),
            "load": lambda r: (lg.ConstructSUT(complete, nothing), lg.ConstructQSL(10, 10, r, nothing)),
            "unload": lambda r: (lg.ConstructSUT(complete, nothing), lg.ConstructQSL(10, 10, nothing, r)),
        }
        for what, make in construct.items():
            for exception in (Mine(what), KeyboardInterrupt(), SystemExit(3)):
                for mode in lg.TestMode.__members__.values():
                    with self.subTest(what=what, exception=exception, mode=mode):
                        scenario = lg.TestScenario.Server
                        fields = {"mode": mode, "scenario": scenario, "server_target_qps": 1e5}
                        caught = None
                        try:
                            self.start(*make(raiser(exception)), **fields)
                        except BaseException as error:
                            caught = error
                        self.assertIs(caught, exception)
                        frames = traceback.extract_tb(caught.__traceback__)
                        self.assertEqual([f.name for f in frames[-2:]], ["start", "raises"])
                        exception.__traceback__ = None
        with self.assertRaisesRegex(TypeError, "name_cb to return a str, not 3"):
            self.start(lg.ConstructQDL(complete, nothing, name_is_no_text))
        self.assert_healthy()

    def test_no_callback_follows_a_failed_one(self):
        calls = []

        def issue(samples):
            calls.append("issue")
            if len(calls) == 3:
                raise ValueError("third")
            complete(samples)

        qsl = lg.ConstructQSL(10, 10, nothing, lambda _: calls.append("unload"))
        with self.assertRaisesRegex(ValueError, "third"):
            self.start(lg.ConstructSUT(issue, lambda: calls.append("flush")), qsl)
        self.assertEqual(calls, ["issue"] * 3)
        self.assert_healthy()

    def test_response_cb_raises_out_of_the_completion(self):
        calls = []

        def issue(samples):
            def fetch(response):
                calls.append(response.id)
                raise LookupError("no data")

            with self.assertRaisesRegex(LookupError, "no data"):
                responses = [lg.QuerySampleResponse(s.id, 0, 0) for s in samples]
                lg.QuerySamplesComplete(responses, fetch)

        fields = {"mode": lg.TestMode.AccuracyOnly, "scenario": lg.TestScenario.Offline}
        self.start(lg.ConstructSUT(issue, nothing), **fields)
        self.assertEqual(len(calls), 1, "and is not called again")
        self.assertEqual(self.log("accuracy.json").count("seq_id"), 10, "all are complete")

    def test_an_exception_on_a_registered_thread(self):
        def issue(samples):
            raise ValueError(threading.current_thread().name)

        threads = [threading.Thread(target=lg.RegisterIssueQueryThread, name="issuer") for _ in range(2)]
        for thread in threads:
            thread.start()
        fields = {"scenario": lg.TestScenario.Server, "server_num_issue_query_threads": 2}
        with self.assertRaisesRegex(ValueError, "issuer"):
            self.start(lg.ConstructSUT(issue, nothing), server_target_qps=1e4, **fields)
        for thread in threads:
            thread.join(10)
            self.assertFalse(thread.is_alive())
        self.assert_healthy()


class Interrupts(Case):
    def interrupted(self, code):
        returncode, stdout, stderr = self.python(
            # A test that runs in the background inherits a SIGINT that is ignored.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "main = threading.get_ident()\n"
            "kill = lambda: signal.pthread_kill(main, signal.SIGINT)\n" + code
        )
        self.assertEqual((returncode, stdout), (0, "interrupted\nwhole\n"), stderr)

    EPILOGUE = (
        "try: lg.StartTest(sut, qsl, settings)\n"
        "except KeyboardInterrupt: print('interrupted')\n"
        "settings = lg.TestSettings(); settings.min_duration_ms = 0; settings.min_query_count = 10\n"
        "lg.StartTest(lg.ConstructSUT(complete, nothing), qsl, settings)\n"
        "assert signal.set_wakeup_fd(-1) == -1\n"
        "print('whole')\n"
    )

    def test_while_nothing_is_completed(self):
        # No Python code runs in the main thread until the answer that never comes.
        code = "sut = lg.ConstructSUT(lambda _: threading.Timer(0.1, kill).start(), nothing)\n"
        self.interrupted(code + self.EPILOGUE)

    def test_between_queries(self):
        code = (
            "settings.scenario = lg.TestScenario.Server; settings.server_target_qps = 0.01\n"
            "def issue(qs):\n    complete(qs); threading.Timer(0.1, kill).start()\n"
            "sut = lg.ConstructSUT(issue, nothing)\n"
        )
        self.interrupted(code + self.EPILOGUE)

    def test_in_a_callback(self):
        code = "def issue(_):\n    kill()\n    while True: pass\nsut = lg.ConstructSUT(issue, nothing)\n"
        self.interrupted(code + self.EPILOGUE)

    def test_swallowed_by_a_callback(self):
        code = (
            "def issue(_):\n"
            "    try:\n        kill()\n        while True: pass\n"
            "    except KeyboardInterrupt: pass\n"
            "sut = lg.ConstructSUT(issue, nothing)\n"
        )
        self.interrupted(code + self.EPILOGUE)

    def test_while_the_thread_waits_for_a_test(self):
        start = "lg.StartTest(sut, qsl, settings)"
        epilogue = self.EPILOGUE.replace(start, "lg.RegisterIssueQueryThread()", 1)
        self.interrupted("threading.Timer(0.1, kill).start()\n" + epilogue)

    def test_a_handler_that_does_not_raise_ends_nothing(self):
        code = (
            "signal.signal(signal.SIGINT, lambda *_: print('handled'))\n"
            "kill = lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)\n"
            "def issue(qs):\n    kill()\n    complete(qs)\n"
            "settings.min_query_count = 2\n"
            "lg.StartTest(lg.ConstructSUT(issue, nothing), qsl, settings)\n"
        )
        self.assertEqual(self.python(code), (0, "handled\nhandled\n", ""))


class Misuse(Case):
    def test_unknown_handles(self):
        sut, qsl = lg.ConstructSUT(complete, nothing), lg.ConstructQSL(10, 10, nothing, nothing)
        gone = lg.ConstructSUT(complete, nothing)
        lg.DestroySUT(gone)
        for wrong in ((gone, qsl), (qsl, sut), (sut, sut), (qsl, qsl), (12345678, qsl), (0, qsl), (sut, 0)):
            with self.assertRaisesRegex(ValueError, "is not the handle of a"):
                self.start(*wrong)
        for destroy in (lg.DestroySUT, lg.DestroyFastSUT, lg.DestroyQDL, lg.DestroyQSL):
            with self.assertRaisesRegex(ValueError, f"{gone} is not the handle"):
                destroy(gone)
        with self.assertRaises(ValueError):
            lg.DestroyQSL(sut)
        self.start(sut, qsl)

    def test_a_system_destroyed_by_its_callback_lives_on(self):
        def issue(samples):
            with contextlib.suppress(ValueError):
                lg.DestroySUT(sut)
            complete(samples)

        sut = lg.ConstructSUT(issue, nothing)
        self.start(sut)
        with self.assertRaises(ValueError):
            self.start(sut)

    def test_callbacks_are_let_go(self):
        class Target:
            def issue(self, samples):
                complete(samples)

            def __del__(self):
                lg.DestroySUT(lg.ConstructSUT(nothing, nothing))  # Python code under our feet.

        target = Target()
        gone = weakref.ref(target)
        sut = lg.ConstructSUT(target.issue, nothing)
        self.start(sut)
        del target
        gc.collect()
        self.assertIsNotNone(gone())
        lg.DestroySUT(sut)
        self.assertIsNone(gone())

    def test_logs_that_cannot_be_opened(self):
        path = os.path.join(self.folder, "no", "such")
        logs = lg.LogSettings()
        logs.log_output.outdir = path
        qsl = lg.ConstructQSL(10, 10, nothing, nothing)
        sut = lg.ConstructSUT(complete, nothing)
        with self.assertRaises(FileNotFoundError) as caught:
            lg.StartTestWithLogSettings(sut, qsl, self.settings(), logs)
        self.assertTrue(caught.exception.filename.startswith(path))
        self.assertIn("create the folder, or choose another one", str(caught.exception))
        self.assert_healthy()

    def test_two_tests_at_once(self):
        def issue(samples):
            with self.assertRaisesRegex(RuntimeError, "another test is running"):
                self.start(lg.ConstructSUT(complete, nothing))
            complete(samples)

        self.start(lg.ConstructSUT(issue, nothing))
        self.assertFalse(lg.AbortTest())

    def test_settings_that_make_no_sense(self):
        sut = lg.ConstructSUT(complete, nothing)
        with self.assertRaisesRegex(ValueError, "(?i)sample"):
            self.start(sut, lg.ConstructQSL(0, 0, nothing, nothing))
        with self.assertRaisesRegex(ValueError, r"TestScenario\(9\) has no meaning; use one of: Single"):
            self.start(sut, scenario=lg.TestScenario(9))
        with self.assertRaisesRegex(TypeError, "no issue_cb"):
            self.start(lg.ConstructSUT(None, None))
        self.start(lg.ConstructSUT(complete, None), lg.ConstructQSL(10, 10, None, None))

    def test_completion_after_the_end_is_told(self):
        code = (
            "late = []\n"
            "def issue(qs): late.extend(qs); complete(qs)\n"
            "lg.StartTest(lg.ConstructSUT(issue, nothing), qsl, settings)\n"
            "complete(late); complete(late)\n"
            "lg.StartTest(lg.ConstructSUT(complete, nothing), qsl, settings)\n"
            "print(open('mlperf_log_detail.txt').read().count('were completed while no test'))\n"
        )
        returncode, stdout, stderr = self.python(code)
        self.assertEqual((returncode, stdout), (0, "1\n"))
        self.assertEqual(stderr.count("while no test is running"), 1)

    def test_double_completion_is_told(self):
        def issue(samples):
            complete(samples)
            complete(samples)

        self.start(lg.ConstructSUT(issue, nothing))
        self.assertIn("Attempted to complete a sample twice.", self.log("detail.txt"))

    def test_no_response_counts_if_one_is_none(self):
        def issue(samples):
            response = lg.QuerySampleResponse(samples[0].id, 0, 0)
            with self.assertRaisesRegex(TypeError, "expected a QuerySampleResponse, not 'x' .str."):
                lg.QuerySamplesComplete([response, "x"])
            lg.QuerySamplesComplete([response])

        self.start(lg.ConstructSUT(issue, nothing))
        self.assertNotIn("twice", self.log("detail.txt"))

    def test_what_only_claims_to_be_a_response_is_none(self):
        response = unittest.mock.Mock(spec=lg.QuerySampleResponse)
        self.assertIsInstance(response, lg.QuerySampleResponse)
        for call in (
            lambda: lg.QuerySamplesComplete([response]),
            lambda: lg.FirstTokenComplete([response, response]),
            lambda: lg.VectorQuerySampleResponse([response]),
        ):
            with self.assertRaisesRegex(TypeError, "expected a QuerySampleResponse, not <Mock"):
                call()

    def test_messages_name_what_was_expected(self):
        for code, text in (
            (lambda: setattr(lg.TestSettings(), "min_query_count", -3), "whole number from 0 .* not -3 .int."),
            (lambda: setattr(lg.TestSettings(), "min_query_count", 1.5), "not 1.5 .float."),
            (lambda: setattr(lg.TestSettings(), "server_target_qps", "x"), "expected a number, not 'x'"),
            (lambda: lg.QuerySampleResponse(1, 2, "3"), "not '3' .str."),
            (lambda: lg.QuerySampleResponse(1), "by position: id, data, size, n_tokens"),
        ):
            with self.assertRaisesRegex(TypeError, text):
                code()


class Processes(Case):
    def test_a_forked_child_is_told(self):
        code = (
            "def issue(qs):\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        for call in (lambda: complete(qs), lambda: lg.StartTest(sut, qsl, settings)):\n"
            "            try: call()\n"
            "            except RuntimeError as error: assert 'forked' in str(error)\n"
            "            else: os._exit(1)\n"
            "        os._exit(0)\n"
            "    assert os.waitpid(child, 0)[1] == 0\n"
            "    complete(qs)\n"
            "sut = lg.ConstructSUT(issue, nothing)\n"
            "settings.min_query_count = 2\n"
            "lg.StartTest(sut, qsl, settings)\n"
            "if os.fork() == 0:\n"
            "    lg.StartTest(lg.ConstructSUT(complete, nothing), qsl, settings); os._exit(7)\n"
            "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        )
        # Python 3.12 and later warn of forks while there are threads.
        self.assertEqual(self.python(code, "-W", "ignore"), (0, "7\n", ""))

    def test_children_forked_in_a_test_outlive_it_and_keep_their_signals(self):
        code = (
            "here, there = os.pipe()\n"
            "def load(_):\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        os.close(there)\n"
            "        try: os.kill(os.getpid(), signal.SIGINT); time.sleep(9)\n"
            "        except KeyboardInterrupt: pass\n"
            "        os.read(here, 1); os._exit(5)\n"
            "    time.sleep(0.3)\n"
            "qsl = lg.ConstructQSL(10, 10, load, nothing)\n"
            "lg.StartTest(lg.ConstructSUT(complete, nothing), qsl, settings)\n"
            "os.close(there)\n"
            "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        )
        self.assertEqual(self.python(code, "-W", "ignore"), (0, "5\n", ""))

    def test_shutdown_while_a_daemon_thread_runs_a_test(self):
        for issue in ("complete", "nothing", "forever", "lambda _: time.sleep(9)"):
            code = (
                "def forever(_):\n    while True: pass\n"
                "settings.min_duration_ms = 60000; settings.scenario = lg.TestScenario.Server\n"
                "settings.server_target_qps = 3000\n"
                f"sut = lg.ConstructSUT({issue}, nothing)\n"
                "threading.Thread(target=lg.StartTest, args=(sut, qsl, settings), daemon=True).start()\n"
                "time.sleep(0.2)\n"
                "print('end')\n"
            )
            for _ in range(3):
                returncode, stdout, stderr = self.python(code)
                self.assertEqual((returncode, stdout), (0, "end\n"), stderr)

    def test_shutdown_while_daemon_threads_complete(self):
        code = (
            "def forever():\n    while True: lg.QuerySamplesComplete([lg.QuerySampleResponse(1, 0, 0)])\n"
            "def issue(qs): complete(qs); time.sleep(0.001)\n"
            "for _ in range(4): threading.Thread(target=forever, daemon=True).start()\n"
            "lg.StartTest(lg.ConstructSUT(issue, nothing), qsl, settings)\n"
            "threading.Thread(target=lg.RegisterIssueQueryThread, daemon=True).start()\n"
            "print('end')\n"
        )
        for _ in range(3):
            returncode, stdout, stderr = self.python(code)
            self.assertEqual((returncode, stdout), (0, "end\n"), stderr)

    def test_exit_in_a_callback(self):
        code = "lg.StartTest(lg.ConstructSUT(lambda _: sys.exit(5), nothing), qsl, settings)\n"
        self.assertEqual(self.python(code)[0], 5)

    def test_collections_while_a_test_runs(self):
        garbage = []

        def issue(samples):
            garbage.append([samples, garbage])
            gc.collect(0)
            complete(samples)

        threshold = gc.get_threshold()
        gc.set_threshold(1)
        try:
            self.start(lg.ConstructSUT(issue, nothing), min_query_count=200)
        finally:
            gc.set_threshold(*threshold)
        self.assertEqual(len(garbage), 200)


class Threads(Case):
    def test_registered_threads_issue(self):
        for _ in range(2):  # A second time in the same process, too.
            names = set()

            def issue(samples):
                names.add(threading.current_thread().name)
                complete(samples)

            threads = [
                threading.Thread(target=lg.RegisterIssueQueryThread, name=f"issuer {i}") for i in range(2)
            ]
            for thread in threads:
                thread.start()
            fields = {"scenario": lg.TestScenario.Server, "server_num_issue_query_threads": 2}
            self.start(lg.ConstructSUT(issue, nothing), server_target_qps=1e4, **fields)
            for thread in threads:
                thread.join(10)
                self.assertFalse(thread.is_alive())
            self.assertEqual(names, {"issuer 0", "issuer 1"})

    def test_abort(self):
        def issue(samples):
            threading.Thread(target=lambda: aborted.append(lg.AbortTest())).start()

        aborted = []
        self.start(lg.ConstructSUT(issue, nothing))
        self.assertEqual(aborted, [True])
        self.assertFalse(lg.AbortTest())
        self.assert_healthy()

    def test_many_threads_complete(self):
        def issue(samples):
            parts = [samples[i::8] for i in range(8)]
            for part in parts:
                threading.Thread(target=complete, args=(part,)).start()

        self.start(lg.ConstructSUT(issue, nothing), scenario=lg.TestScenario.Offline, min_query_count=20000)
        self.assertIn("Result is : VALID", self.log("summary.txt"))


class Response(ctypes.Structure):
    """mlperf::QuerySampleResponse."""

    _fields_ = [
        ("id", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("n_tokens", ctypes.c_int64),
    ]


@unittest.skipUnless(sys.platform == "linux", "symbols of all libraries are looked up on Linux")
class LibrariesOfTheHarness(Case):
    """A C++ library that is linked with its own copy of the load generator completes samples."""

    def exported(self, name):
        function = getattr(ctypes.CDLL(None), name)
        function.restype = ctypes.c_bool
        return function

    def test_it_completes_the_samples_of_a_test_in_python(self):
        complete_there = self.exported("dyno_module_complete")
        first_token_there = self.exported("dyno_module_first_token")
        data = ctypes.create_string_buffer(bytes([0xAB, 1]), 2)

        def issue(samples):
            address = ctypes.addressof(data)
            rows = (Response(s.id, address, 2, 7) for s in samples)
            responses = (Response * len(samples))(*rows)
            count = ctypes.c_size_t(len(samples))
            self.assertTrue(first_token_there(responses, count))
            self.assertTrue(complete_there(responses, count, None, None))

        mode = lg.TestMode.AccuracyOnly
        sut = lg.ConstructSUT(issue, nothing)
        self.start(sut, scenario=lg.TestScenario.Server, mode=mode, use_token_latencies=True)
        log = self.log("accuracy.json")
        self.assertEqual(log.count('"data" : "AB01", "token_data" : "AB01", "token_count" : 7'), 10)

    def test_it_fetches_what_is_logged(self):
        complete_there = self.exported("dyno_module_complete")
        data = ctypes.create_string_buffer(bytes([0xCD]), 1)

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Response))
        def fetch(context, response):
            response[0].data, response[0].size = ctypes.addressof(data), context

        def issue(samples):
            responses = (Response * len(samples))(*(Response(s.id, None, 0, 0) for s in samples))
            count = ctypes.c_size_t(len(samples))
            self.assertTrue(complete_there(responses, count, fetch, ctypes.c_void_p(1)))

        sut = lg.ConstructSUT(issue, nothing)
        self.start(sut, scenario=lg.TestScenario.Offline, mode=lg.TestMode.AccuracyOnly)
        self.assertEqual(self.log("accuracy.json").count('"data" : "CD"'), 10)

    def test_without_a_test_it_learns_that(self):
        responses = (Response * 1)()
        self.assertFalse(self.exported("dyno_module_complete")(responses, ctypes.c_size_t(1), None, None))
        self.assertFalse(self.exported("dyno_module_first_token")(responses, ctypes.c_size_t(1)))


class Buffers(Case):
    ACCURACY = {"mode": lg.TestMode.AccuracyOnly, "scenario": lg.TestScenario.Offline}

    def answers(self, respond, **fields):
        """What the accuracy log says of the answers of respond(ids, indices)."""
        self.start(lg.ConstructBufferSUT(respond, nothing), **(fields or self.ACCURACY))
        lines = self.log("accuracy.json").splitlines()
        return [line.rstrip(",") for line in lines if line.startswith("{")]

    def test_issue_gets_memoryviews(self):
        kept = []

        def respond(ids, indices):
            for view in (ids, indices):
                self.assertIs(type(view), memoryview)
                self.assertEqual((view.format, view.itemsize, view.shape), ("Q", 8, (10,)))
            self.assertEqual(sorted(indices), list(range(10)))
            self.assertEqual(len(set(ids)), 10)
            lg.QuerySamplesCompleteBuffer(ids)
            kept.append((ids, ids.tolist()))

        self.assertEqual(len(self.answers(respond)), 10)
        gc.collect()
        self.assertEqual(kept[0][0].tolist(), kept[0][1], "theirs to keep")
        self.assertIn('"value": "PyBufferSUT"', self.log("detail.txt"))

    def test_all_buffers_of_64_bit_integers(self):
        make = [
            lambda ids: array.array("Q", ids),
            lambda ids: array.array("q", ids),
            lambda ids: memoryview(array.array("Q", ids)),
            lambda ids: memoryview(array.array("Q", ids)).cast("B").cast("Q", [2, 5]),
            lambda ids: memoryview(array.array("Q", ids)).cast("B").cast("l"),
        ]
        for buffer in make:
            self.start(lg.ConstructBufferSUT(lambda ids, _: lg.QuerySamplesCompleteBuffer(buffer(ids)), nothing), **self.ACCURACY)
            self.assertEqual(self.log("accuracy.json").count("seq_id"), 10)

    def test_wrong_buffers(self):
        ids = array.array("Q", [1, 2, 3])
        data = array.array("B", range(6))
        tokens = array.array("q", [1, 2, 3])
        for kind, arguments, text in (
            (TypeError, (5,), "ids: expected a buffer"),
            (TypeError, ([1, 2],), "ids: expected a buffer"),
            (TypeError, (array.array("I", [1]),), "ids: expected a buffer of 64-bit integers, not"),
            (TypeError, (array.array("d", [1]),), "ids: .* format 'd'"),
            (TypeError, (b"12345678",), "ids: .* format 'B'"),
            (ValueError, (memoryview(ids)[::2],), "ids: .* C-contiguous"),
            (TypeError, (ids, "text"), "data: expected a buffer"),
            (ValueError, (ids, data[:5]), "data: expected 3 rows or equal parts for 3 ids, not 5 rows"),
            (ValueError, (ids, data, tokens[:2]), "n_tokens: expected a count for each of 3 ids"),
            (ValueError, (ids, data, tokens[:0]), "n_tokens: expected a count for each of 3 ids"),
            (TypeError, (ids, data, data), "n_tokens: expected a buffer of 64-bit integers"),
            (ValueError, (ids, None, None, ids), "offsets: they say nothing without data"),
            (ValueError, (ids, data, None, array.array("q", [0, 2, 4])), "offsets: expected 4 ascending"),
            (ValueError, (ids, data, None, array.array("q", [0, 4, 2, 6])), "offsets: expected 4 ascend"),
            (ValueError, (ids, data, None, array.array("q", [0, 2, 4, 7])), "within the 6 bytes"),
            (ValueError, (ids, data, None, array.array("q", [-1, 2, 4, 6])), "within the 6 bytes"),
        ):
            with self.assertRaisesRegex(kind, text):
                lg.QuerySamplesCompleteBuffer(*arguments)
        self.assertIsNone(lg.QuerySamplesCompleteBuffer(array.array("Q")))
        self.assertIsNone(lg.FirstTokenCompleteBuffer(array.array("Q"), None, None))

    def test_objects_are_no_data(self):
        ids = array.array("Q", [1, 2])
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        for kind in (object, [("answer", object), ("score", "f8")]):
            with self.assertRaisesRegex(TypeError, "data: expected numbers or bytes"):
                lg.QuerySamplesCompleteBuffer(ids, numpy.zeros(2, dtype=kind))

    def test_rows_parts_and_offsets_of_data(self):
        def hex_of(line):
            return line.split('"data" : "')[1].split('"')[0]

        bytes_ = array.array("B", range(40))
        for data in (bytes_, memoryview(bytes_).cast("B", [10, 4]), array.array("I", bytes_.tobytes())):
            log = self.answers(lambda ids, _: lg.QuerySamplesCompleteBuffer(ids, data))
            expected = [bytes(bytes_[4 * i : 4 * i + 4]).hex().upper() for i in range(10)]
            self.assertEqual([hex_of(line) for line in log], expected)
        offsets = array.array("q", [0, 0, 1, 3, 6, 10, 15, 21, 28, 36, 40])
        log = self.answers(lambda ids, _: lg.QuerySamplesCompleteBuffer(ids, bytes_, offsets=offsets))
        expected = [bytes(bytes_[offsets[i] : offsets[i + 1]]).hex().upper() for i in range(10)]
        self.assertEqual([hex_of(line) for line in log], expected)

    def test_tokens(self):
        def respond(ids, indices):
            lg.FirstTokenCompleteBuffer(ids, indices)
            lg.QuerySamplesCompleteBuffer(ids, n_tokens=array.array("q", range(2, 2 + len(ids))))

        fields = dict(use_token_latencies=True, **self.ACCURACY)
        fields["scenario"] = lg.TestScenario.Server
        fields["server_target_qps"] = 1e5
        log = self.answers(respond, **fields)
        self.assertEqual(len(log), 10)
        for line in log:
            index = int(line.split('"qsl_idx" : ')[1].split(",")[0])
            self.assertIn(f'"token_data" : "{index:02X}00000000000000", "token_count" : 2', line)

    def test_sizes_that_no_memory_has(self):
        letters = array.array("B", b"abc")
        address, _ = letters.buffer_info()

        def respond(ids, _):
            lg.QuerySamplesComplete([lg.QuerySampleResponse(one, address, 2**63) for one in ids])

        log = self.answers(respond)
        self.assertEqual(len(log), 10)
        for line in log:
            self.assertIn('"data" : ""', line)

    def test_large_batches(self):
        def respond(ids, indices):
            lg.QuerySamplesCompleteBuffer(ids, indices, array.array("q", bytes(8 * len(ids))))

        self.start(lg.ConstructBufferSUT(respond, nothing), scenario=lg.TestScenario.Offline, min_query_count=100000)
        self.assertIn("Result is : VALID", self.log("summary.txt"))


class Vectors(Case):
    def test_they_are_lists_of_one_class(self):
        samples = [lg.QuerySample(i, 10 * i) for i in range(5)]
        vector = lg.VectorQuerySample(samples)
        ids = lambda: [sample.id for sample in vector]
        self.assertEqual((len(vector), bool(vector), bool(lg.VectorQuerySample())), (5, True, False))
        self.assertEqual((vector[0].index, vector[-1].index), (0, 40))
        self.assertIs(type(vector[1:3]), lg.VectorQuerySample)
        self.assertEqual([sample.id for sample in vector[::-2]], [4, 2, 0])
        vector[0].id = 9
        self.assertEqual(ids()[0], 9, "a reference")
        vector[0] = lg.QuerySample(7, 7)
        vector[1:3] = [lg.QuerySample(8, 8)]
        del vector[-1]
        self.assertEqual(ids(), [7, 8, 3])
        vector.append(lg.QuerySample(1, 1))
        vector.insert(0, lg.QuerySample(0, 0))
        vector.extend(L=lg.VectorQuerySample(samples[:1]))
        self.assertEqual(ids(), [0, 7, 8, 3, 1, 9])
        self.assertEqual((vector.pop().id, vector.pop(0).id, ids()), (9, 0, [7, 8, 3, 1]))
        for wrong in (
            lambda: vector.append(1),
            lambda: vector.insert(0, None),
            lambda: vector.extend([lg.QuerySample(), 1]),
            lambda: vector.__setitem__(0, lg.QuerySampleResponse()),
            lambda: vector.__setitem__(slice(0, 1), [1]),
            lambda: lg.VectorQuerySample([1]),
        ):
            with self.assertRaises(TypeError):
                wrong()
        for wrong in (lambda: vector[4], lambda: lg.VectorQuerySample().pop(), lambda: vector.pop(4)):
            with self.assertRaises(IndexError):
                wrong()
        self.assertEqual(ids(), [7, 8, 3, 1])
        vector.clear()
        self.assertEqual(len(vector), 0)

    def test_a_vector_of_responses_can_be_completed(self):
        def issue(samples):
            responses = [lg.QuerySampleResponse(s.id, 0, 0) for s in samples]
            lg.QuerySamplesComplete(lg.VectorQuerySampleResponse(responses))

        self.start(lg.ConstructSUT(issue, nothing))
        self.assertIn('"result_query_count", "value": 10', self.log("detail.txt"))


class Rest(Case):
    def test_responses_can_be_pickled(self):
        for state in ((1, 2, 3), (1, 2, 3, -4)):
            one = lg.QuerySampleResponse(*state)
            for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
                other = pickle.loads(pickle.dumps(one, protocol))
                self.assertEqual(other.__getstate__(), state)
        for wrong in ((), (1,), (1, 2), ("a", 2, 3), [1, 2, 3], None):
            with self.assertRaisesRegex(RuntimeError, "not the state"):
                lg.QuerySampleResponse().__setstate__(wrong)

    def test_instances_are_let_go(self):
        before = sys.getallocatedblocks()
        for _ in range(20000):
            lg.QuerySampleResponse(2**40, 2**40, 3).id
            lg.QuerySample(2**40, 3).__getstate__()
        self.assertLess(sys.getallocatedblocks() - before, 1000)

        class Derived(lg.QuerySample):
            pass

        gone = weakref.ref(Derived(1, 2))
        self.assertIsNone(gone())
        self.assertEqual(sys.getrefcount(lg.QuerySample), sys.getrefcount(lg.QuerySample))

    def test_the_other_name_in_either_order(self):
        for code in (
            "import mlcommons_loadgen as a, mlperf_loadgen as b",
            "import mlperf_loadgen as b, mlcommons_loadgen as a",
        ):
            code += "\nassert a.TestSettings is b.TestSettings and b is sys.modules['mlperf_loadgen']"
            code += "\nassert set(b.__all__) <= set(dir(a)) and b.__doc__ == a.__doc__"
            done = subprocess.run([sys.executable, "-W", "error", "-c", "import sys\n" + code])
            self.assertEqual(done.returncode, 0)

    def test_a_warning_if_the_reference_is_installed_too(self):
        os.mkdir(os.path.join(self.folder, "mlcommons_loadgen-6.0.17.dist-info"))
        code = f"import sys; sys.path.append({self.folder!r}); import mlperf_loadgen"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("pip uninstall mlcommons-loadgen dyno-loadgen", done.stderr)
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    warnings.simplefilter("error")
    unittest.main()
