"""What the reference's module does, asserted of whichever mlperf_loadgen is imported.

    python compatibility.py        in an environment that has either distribution

Behaviour that crashes the reference or cannot be used there is not asserted here.
"""

import array
import collections
import copy
import json
import os
import pathlib
import pickle
import tempfile
import threading
import unittest

import mlperf_loadgen as lg

ENUMS = {
    "TestScenario": ["SingleStream", "MultiStream", "Server", "Offline"],
    "TestMode": ["SubmissionRun", "AccuracyOnly", "PerformanceOnly", "FindPeakPerformance"],
    "LoggingMode": ["AsyncPoll", "EndOfTestOnly", "Synchronous"],
}

# Field: default. The type of the default is the type of the field.
SETTINGS = {
    "accuracy_log_probability": 0.0,
    "accuracy_log_rng_seed": 0,
    "accuracy_log_sampling_target": 0,
    "accuracy_sample_count_override": 0,
    "infer_token_latencies": False,
    "max_duration_ms": 0,
    "max_query_count": 0,
    "min_duration_ms": 10000,
    "min_query_count": 100,
    "mode": lg.TestMode.PerformanceOnly,
    "multi_stream_expected_latency_ns": 8e6,
    "multi_stream_samples_per_query": 8,
    "multi_stream_target_latency_percentile": 0.99,
    "offline_expected_qps": 1.0,
    "performance_issue_same": False,
    "performance_issue_same_index": 0,
    "performance_issue_unique": False,
    "performance_sample_count_override": 0,
    "print_timestamps": False,
    "qsl_rng_seed": 0,
    "sample_concatenate_permutation": False,
    "sample_index_rng_seed": 0,
    "scenario": lg.TestScenario.SingleStream,
    "schedule_rng_seed": 0,
    "server_coalesce_queries": False,
    "server_find_peak_qps_boundary_step_size": 1.0,
    "server_find_peak_qps_decimals_of_precision": 1,
    "server_max_async_queries": 0,
    "server_num_issue_query_threads": 0,
    "server_target_latency_ns": 100000000,
    "server_target_latency_percentile": 0.99,
    "server_target_qps": 1.0,
    "single_stream_expected_latency_ns": 1e6,
    "single_stream_target_latency_percentile": 0.9,
    "test05": False,
    "test05_qsl_rng_seed": 0,
    "test05_sample_index_rng_seed": 0,
    "test05_schedule_rng_seed": 0,
    "token_latency_scaling_factor": 0,
    "tpot_latency": 100000000,
    "ttft_latency": 100000000,
    "use_token_latencies": False,
}
# The one integer that may be negative, and has 32 bits.
SIGNED = "server_find_peak_qps_decimals_of_precision"

LOG_OUTPUT = {
    "outdir": ".",
    "prefix": "mlperf_log_",
    "suffix": "",
    "prefix_with_datetime": False,
    "copy_detail_to_stdout": False,
    "copy_summary_to_stdout": False,
}


class HasIndex:
    def __index__(self):
        return 5


class HasInt:
    def __int__(self):
        return 6


class HasIntOnly(HasInt):
    """Like an array of NumPy that holds one float."""

    def __index__(self):
        raise TypeError("only integer scalar arrays can be converted to a scalar index")


class HasFloat:
    def __float__(self):
        return 1.5


class HasBool:
    def __bool__(self):
        return True


class Number(str, HasInt, HasFloat, HasBool):
    """Text with the methods of numbers."""


try:
    import numpy

    # They have such methods, too, but are no numbers.
    NUMPY = [numpy.str_("1"), numpy.bytes_(b"1")]
except ImportError:
    NUMPY = []


COUNT = 2**64 - 1
# Type of a field: what it takes and becomes, and what it refuses.
CONVERSIONS = {
    int: (
        [(0, 0), (COUNT, COUNT), (True, 1), (HasIndex(), 5), (HasInt(), 6), (HasIntOnly(), 6)]
        + [(lg.TestScenario.Server, 2), (Number(), 6)],
        [-1, 2**64, 1.0, 1.5, "1", b"1", None, [], 1j, HasFloat(), HasBool(), *NUMPY],
    ),
    "signed": (
        [(-1, -1), (2**31 - 1, 2**31 - 1), (-(2**31), -(2**31)), (HasIndex(), 5), (HasInt(), 6)],
        [2**31, -(2**31) - 1, 1.0, "1", None],
    ),
    float: (
        [(1, 1.0), (-1.5, -1.5), (True, 1.0), (2**64, 2.0**64), (HasFloat(), 1.5)]
        + [(HasIndex(), 5.0), (lg.TestMode.PerformanceOnly, 2.0), (Number(), 1.5)],
        ["1", b"1", None, [], 1j, 10**400, HasInt(), HasBool(), *NUMPY],
    ),
    bool: (
        [(0, False), (2, True), (-1, True), (0.0, False), (1.5, True), (None, False), (1j, True)]
        + [(HasBool(), True), (Number(), True)],
        ["1", "", b"1", [], [1], HasIndex(), HasInt(), HasFloat(), lg.TestScenario.Server, *NUMPY],
    ),
    str: (
        [("", ""), ("a\0b", "a\0b"), (b"x", "x"), ("\N{SNOWMAN}", "\N{SNOWMAN}")],
        [None, 1, True, [], "\udc80", pathlib.Path("x")],
    ),
    lg.TestScenario: (
        [(lg.TestScenario(3), lg.TestScenario.Offline)],
        [3, True, None, "Offline", lg.TestMode.PerformanceOnly],
    ),
    lg.TestMode: (
        [(lg.TestMode(1), lg.TestMode.AccuracyOnly)],
        [1, True, None, "AccuracyOnly", lg.TestScenario.Offline],
    ),
    lg.LoggingMode: ([(lg.LoggingMode(2), lg.LoggingMode.Synchronous)], [2, None, "Synchronous"]),
}


class Case(unittest.TestCase):
    def check_fields(self, make, defaults, signed=None):
        """Defaults, types and conversions of the fields of a class without arguments."""
        self.assertEqual(sorted(n for n in dir(make) if n[0] != "_" and n != "FromConfig"), sorted(defaults))
        for field, default in defaults.items():
            with self.subTest(field=field):
                found = getattr(make(), field)
                self.assertEqual(found, default)
                self.assertIs(type(found), type(default))
                taken, refused = CONVERSIONS["signed" if field == signed else type(default)]
                for given, becomes in taken:
                    settings = make()
                    setattr(settings, field, given)
                    self.assertEqual(getattr(settings, field), becomes, given)
                    self.assertIs(type(getattr(settings, field)), type(becomes), given)
                for given in refused:
                    settings = make()
                    with self.assertRaises(TypeError, msg=repr(given)):
                        setattr(settings, field, given)
                    self.assertEqual(getattr(settings, field), default, "refused and yet set")
                with self.assertRaises(AttributeError):
                    delattr(make(), field)

    def check_class(self, make):
        self.assertEqual(make.__module__, "mlperf_loadgen")
        self.assertTrue(repr(make()).startswith(f"<mlperf_loadgen.{make.__name__} object at 0x"))
        self.assertFalse(make() == make())
        hash(make())
        with self.assertRaises(AttributeError):
            make().no_such_field
        with self.assertRaises(AttributeError):
            make().no_such_field = 1
        with self.assertRaises(TypeError):
            make(1)

        class Derived(make):
            pass

        Derived().more = 1


class Names(Case):
    def test_all_are_there(self):
        functions = """ConstructFastSUT ConstructQDL ConstructQSL ConstructSUT DestroyFastSUT
            DestroyQDL DestroyQSL DestroySUT FirstTokenComplete QuerySamplesComplete StartTest
            StartTestWithLogSettings""".split()
        classes = """LogOutputSettings LogSettings QuerySample QuerySampleResponse TestSettings
            VectorQuerySample VectorQuerySampleResponse""".split() + list(ENUMS)
        for name in functions:
            self.assertTrue(callable(getattr(lg, name)), name)
            self.assertTrue(getattr(lg, name).__doc__, name)
        for name in classes:
            self.assertIsInstance(getattr(lg, name), type, name)
        self.assertTrue(lg.__doc__.startswith("MLPerf Inference load generator"))


class Enums(Case):
    def test_members(self):
        for name, members in ENUMS.items():
            enum = getattr(lg, name)
            self.assertEqual((enum.__name__, enum.__module__), (name, "mlperf_loadgen"))
            self.assertIs(type(enum.__members__), dict)
            self.assertEqual(list(enum.__members__), members)
            for value, member in enumerate(members):
                one = getattr(enum, member)
                self.assertIs(one, getattr(enum, member))
                self.assertEqual(enum.__members__[member], one)
                self.assertEqual(one.__members__, enum.__members__)
                self.assertEqual((one.name, one.value, int(one)), (member, value, value))
                self.assertEqual((str(one), repr(one)), (f"{name}.{member}", f"<{name}.{member}: {value}>"))
                self.assertEqual((hash(one), one.__index__(), float(one)), (hash(value), value, value))
                self.assertIs(type(one.value), int)
                self.assertFalse(hasattr(lg, member), "not exported to the module")

    def test_equality_is_with_the_same_class_only(self):
        self.assertEqual(lg.TestScenario.Server, lg.TestScenario(2))
        self.assertFalse(lg.TestScenario.Server != lg.TestScenario(2))
        for other in (2, None, "Server", lg.TestMode.PerformanceOnly, lg.TestScenario.Offline):
            self.assertFalse(lg.TestScenario.Server == other, other)
            self.assertTrue(lg.TestScenario.Server != other, other)
        self.assertNotIn(2, {lg.TestScenario.Server: 1})
        self.assertIn(lg.TestScenario(2), {lg.TestScenario.Server: 1})

    def test_they_are_no_numbers(self):
        server = lg.TestScenario.Server
        self.assertNotIsInstance(server, int)
        self.assertTrue(bool(lg.TestScenario.SingleStream), "not by its value")
        for operation in (lambda: server < lg.TestScenario.Offline, lambda: server + 1, lambda: server | 1):
            with self.assertRaises(TypeError):
                operation()
        self.assertEqual([10, 20, 30][server], 30)

    def test_construction(self):
        self.assertEqual(lg.TestScenario(value=3), lg.TestScenario.Offline)
        self.assertEqual(lg.TestScenario(True), lg.TestScenario.MultiStream)
        self.assertEqual(lg.TestScenario(lg.TestMode.PerformanceOnly), lg.TestScenario.Server)
        self.assertEqual((int(lg.TestScenario(HasIndex())), int(lg.TestScenario(HasInt()))), (5, 6))
        for value in (7, -1, 2**31 - 1):
            nameless = lg.TestScenario(value)
            self.assertEqual((int(nameless), nameless.name), (value, "???"))
            self.assertEqual(repr(nameless), f"<TestScenario.???: {value}>")
        for arguments in ((), ("Server",), (2.0,), (None,), (2**31,), (1, 2)):
            with self.assertRaises(TypeError):
                lg.TestScenario(*arguments)

    def test_attributes_are_read_only(self):
        for attribute in ("name", "value", "no_such"):
            with self.assertRaises(AttributeError):
                setattr(lg.TestScenario.Server, attribute, 1)

    def test_copies_and_pickles(self):
        for one in (lg.TestScenario.Offline, lg.TestMode.AccuracyOnly, lg.LoggingMode(7)):
            for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
                self.assertEqual(one, other)
            self.assertEqual(one.__getstate__(), int(one))


class Settings(Case):
    def test_test_settings(self):
        self.assertEqual(len(SETTINGS), 42)
        self.check_class(lg.TestSettings)
        self.check_fields(lg.TestSettings, SETTINGS, SIGNED)
        for refused in (copy.copy, pickle.dumps):
            with self.assertRaises(TypeError):
                refused(lg.TestSettings())

    def test_log_output_settings(self):
        self.check_class(lg.LogOutputSettings)
        self.check_fields(lg.LogOutputSettings, LOG_OUTPUT)

    def test_log_settings(self):
        self.check_class(lg.LogSettings)
        defaults = {
            "log_mode": lg.LoggingMode.AsyncPoll,
            "log_mode_async_poll_interval_ms": 1000,
            "enable_trace": True,
        }

        class WithoutOutput(lg.LogSettings):
            def __dir__():
                return defaults

        self.assertEqual({n for n in dir(lg.LogSettings) if n[0] != "_"}, {*defaults, "log_output"})
        for field, default in defaults.items():
            self.assertEqual(getattr(lg.LogSettings(), field), default)
            taken, refused = CONVERSIONS[type(default)]
            for given, becomes in taken:
                settings = lg.LogSettings()
                setattr(settings, field, given)
                self.assertEqual(getattr(settings, field), becomes)
            for given in refused:
                with self.assertRaises(TypeError, msg=repr(given)):
                    setattr(lg.LogSettings(), field, given)

    def test_log_output_is_a_live_reference(self):
        settings = lg.LogSettings()
        output = settings.log_output
        self.assertIs(output, settings.log_output)
        output.outdir = "elsewhere"
        self.assertEqual(settings.log_output.outdir, "elsewhere")
        other = lg.LogOutputSettings()
        other.outdir = "there"
        settings.log_output = other
        other.outdir = "too late"
        self.assertEqual((settings.log_output.outdir, output.outdir), ("there", "there"))
        del settings
        self.assertEqual(output.outdir, "there")
        for refused in (None, 1, "x"):
            with self.assertRaises(TypeError):
                lg.LogSettings().log_output = refused


class Records(Case):
    def check_record(self, make, fields, short):
        self.check_class(make)
        self.assertEqual(sorted(n for n in dir(make) if n[0] != "_"), sorted(fields))
        read = lambda record: tuple(getattr(record, field) for field in fields)
        zeros = (0,) * len(fields)
        self.assertEqual(read(make()), zeros)
        for n in range(len(fields) + 2):
            given = tuple(range(1, n + 1))
            if n in (0, short, len(fields)):
                self.assertEqual(read(make(*given)), given + zeros[n:])
            else:
                with self.assertRaises(TypeError):
                    make(*given)
        with self.assertRaises(TypeError):
            make(**dict(zip(fields, range(len(fields)))))
        for at, field in enumerate(fields):
            taken, refused = CONVERSIONS[int]
            if field == "n_tokens":
                taken = [(-(2**63), -(2**63)), (2**63 - 1, 2**63 - 1), (HasIndex(), 5), (HasInt(), 6)]
                taken.append((HasIntOnly(), 6))
                refused = [2**63, -(2**63) - 1, 1.0, "1", None]
            for given, becomes in taken:
                record = make()
                setattr(record, field, given)
                self.assertEqual(getattr(record, field), becomes)
                arguments = zeros[:at] + (given,) + zeros[at + 1 :]
                self.assertEqual(getattr(make(*arguments), field), becomes)
            for given in refused:
                record = make(*range(1, len(fields) + 1))
                with self.assertRaises(TypeError, msg=repr(given)):
                    setattr(record, field, given)
                self.assertEqual(getattr(record, field), at + 1)
                with self.assertRaises(TypeError, msg=repr(given)):
                    make(*(zeros[:at] + (given,) + zeros[at + 1 :]))
            with self.assertRaises(AttributeError):
                delattr(make(), field)

        class Derived(make):
            def __init__(self, more):
                super().__init__(*range(1, short + 1))
                self.more = more

        self.assertEqual((Derived("x").more, Derived("x").id), ("x", 1))

    def test_query_sample(self):
        self.check_record(lg.QuerySample, ["id", "index"], 2)
        one = lg.QuerySample(2**64 - 1, 2)
        self.assertEqual(one.__getstate__(), (2**64 - 1, 2))
        for other in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
            self.assertEqual((other.id, other.index), (2**64 - 1, 2))

    def test_query_sample_response(self):
        self.check_record(lg.QuerySampleResponse, ["id", "data", "size", "n_tokens"], 3)
        self.assertEqual(lg.QuerySampleResponse(1, 2, 3).__getstate__(), (1, 2, 3))

    def test_vectors(self):
        for vector, entry in (
            (lg.VectorQuerySample, lg.QuerySample),
            (lg.VectorQuerySampleResponse, lg.QuerySampleResponse),
        ):
            vector(), vector([entry()]), vector(iter([entry(), entry()]))
            for refused in (5, None):
                with self.assertRaises(TypeError):
                    vector(refused)
            with self.assertRaises((TypeError, RuntimeError)):
                vector([1])
            methods = ["append", "clear", "extend", "insert", "pop"]
            self.assertEqual(sorted(n for n in dir(vector) if n[0] != "_"), methods)
            with self.assertRaises(AttributeError):
                vector().no_such_field = 1


def nothing(*_):
    pass


class Handles(Case):
    def test_they_are_integers(self):
        handles = [
            lg.ConstructSUT(nothing, nothing),
            lg.ConstructFastSUT(nothing, nothing),
            lg.ConstructQDL(nothing, nothing, nothing),
            lg.ConstructQSL(10, 5, nothing, nothing),
        ]
        self.assertTrue(all(type(handle) is int and handle != 0 for handle in handles))
        self.assertEqual(len(set(handles)), 4)
        destroy = [lg.DestroySUT, lg.DestroyFastSUT, lg.DestroyQDL, lg.DestroyQSL]
        for destroy, handle in zip(destroy, handles):
            self.assertIsNone(destroy(0))
            self.assertIsNone(destroy(handle))
            for refused in ((), (-1,), (1.0,), ("1",), (None,), (1, 2)):
                with self.assertRaises(TypeError):
                    destroy(*refused)

    def test_arguments_are_positional(self):
        for call in (
            lambda: lg.ConstructSUT(issue_cb=nothing, flush_cb=nothing),
            lambda: lg.ConstructSUT(nothing),
            lambda: lg.ConstructSUT(nothing, nothing, nothing),
            lambda: lg.ConstructSUT(1, nothing),
            lambda: lg.ConstructSUT(nothing, "flush"),
            lambda: lg.ConstructFastSUT(nothing),
            lambda: lg.ConstructQDL(nothing, nothing),
            lambda: lg.ConstructQDL(nothing, nothing, "name"),
            lambda: lg.ConstructQSL(total=1, performance=1, load_cb=nothing, unload_cb=nothing),
            lambda: lg.ConstructQSL(-1, 1, nothing, nothing),
            lambda: lg.ConstructQSL(1.0, 1, nothing, nothing),
            lambda: lg.ConstructQSL(1, 1, nothing, 1),
        ):
            with self.assertRaises(TypeError):
                call()
        # Odd, and taken all the same.
        lg.ConstructSUT(None, None)
        lg.ConstructQSL(10, 20, nothing, None)
        lg.ConstructQSL(0, 0, nothing, nothing)
        lg.ConstructQSL(True, HasIndex(), nothing, nothing)


class Complete(Case):
    def test_what_is_a_list(self):
        for complete in (lg.QuerySamplesComplete, lg.FirstTokenComplete):
            for empty in ([], (), collections.deque(), collections.UserList(), range(0), bytearray()):
                self.assertIsNone(complete(empty))
            self.assertIsNone(complete(array.array("L")))
            self.assertIsNone(complete([], None))
            self.assertIsNone(complete([], nothing))
            self.assertIsNone(complete(responses=[], response_cb=nothing))
            response = lg.QuerySampleResponse()
            for refused in ({}, set(), "", b"", "a", None, 1, iter([]), response, [1], [None]):
                with self.assertRaises(TypeError, msg=repr(refused)):
                    complete(refused)
            with self.assertRaises(TypeError):
                complete([lg.QuerySample(1, 2)])
            for arguments in ((), ([], 1), ([], nothing, nothing)):
                with self.assertRaises(TypeError):
                    complete(*arguments)
            with self.assertRaises(TypeError):
                complete([], cb=nothing)


class Run(Case):
    """Short tests; the logs go to a folder of each case."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.events = []
        self.kept = []
        self.qsl = lg.ConstructQSL(3, 3, self.load, lambda x: self.events.append(("unload", x)))
        self.addCleanup(lg.DestroyQSL, self.qsl)

    def load(self, samples):
        self.assertTrue(all(type(sample) is int for sample in samples))
        self.events.append(("load", list(samples)))
        samples.append(5)  # A list of its own.

    def flush(self):
        self.events.append(("flush",))
        return "ignored"

    def settings(self, **fields):
        settings = lg.TestSettings()
        settings.min_duration_ms = 0
        settings.min_query_count = 3
        settings.mode = lg.TestMode.AccuracyOnly
        for field, value in fields.items():
            setattr(settings, field, value)
        return settings

    def run_test(self, sut, **fields):
        logs = lg.LogSettings()
        logs.log_output.outdir = self.folder
        logs.enable_trace = False
        settings = self.settings(**fields)
        self.assertIsNone(lg.StartTestWithLogSettings(sut, self.qsl, settings, logs, "none.config"))
        with open(os.path.join(self.folder, "mlperf_log_accuracy.json")) as log:
            return [line for line in log.read().splitlines() if line.startswith("{")]

    def detail(self):
        with open(os.path.join(self.folder, "mlperf_log_detail.txt")) as log:
            return log.read()

    def test_issue_gets_a_list_of_samples(self):
        thread = threading.get_ident()

        def issue(samples):
            self.assertIs(type(samples), list)
            self.assertIs(type(samples[0]), lg.QuerySample)
            self.assertEqual(threading.get_ident(), thread, "on the thread of StartTest")
            self.events.append(("issue", [sample.index for sample in samples]))
            lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, 0, 0) for s in samples])
            samples.clear()  # A list of its own.
            return "ignored"

        log = self.run_test(lg.ConstructSUT(issue, self.flush))
        self.assertEqual(self.events[0], ("load", [2, 1, 0]))
        self.assertEqual(sorted(self.events[1:4]), [("issue", [0]), ("issue", [1]), ("issue", [2])])
        self.assertEqual(self.events[4:], [("flush",), ("unload", [2, 1, 0])])
        self.assertEqual(log[0], '{ "seq_id" : 0, "qsl_idx" : 0, "data" : "" },')
        self.assertIn('"value": "PySUT"', self.detail())
        self.assertIn('"value": "PyQSL"', self.detail())

    def test_issue_of_a_fast_sut_gets_two_lists(self):
        def issue(ids, indices):
            self.assertTrue(type(ids) is list and type(indices) is list and ids is not indices)
            self.assertTrue(type(ids[0]) is int and ids[0] > 0)
            self.events.append(("issue", indices))
            lg.QuerySamplesComplete([lg.QuerySampleResponse(i, 0, 0) for i in ids])

        log = self.run_test(lg.ConstructFastSUT(issue, self.flush), scenario=lg.TestScenario.Offline)
        self.assertEqual(self.events[1], ("issue", [2, 1, 0]))
        self.assertEqual(len(log), 3)
        self.assertIn('"value": "PyFastSUT"', self.detail())

    def test_a_qdl_has_a_name(self):
        def issue(samples):
            lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, 0, 0) for s in samples])

        for name in ("a system elsewhere", b"a system elsewhere", bytearray(b"a system elsewhere")):
            self.run_test(lg.ConstructQDL(issue, self.flush, lambda: name))
            self.assertIn('"value": "a system elsewhere"', self.detail())

    def test_answers_are_logged(self):
        def issue(samples):
            data = array.array("B", [0x24, 0, 0, 0xAB])
            address = data.buffer_info()[0]
            responses = [lg.QuerySampleResponse(s.id, address, 4) for s in samples]
            lg.QuerySamplesComplete(tuple(responses))

        log = self.run_test(lg.ConstructSUT(issue, self.flush))
        self.assertEqual(log[2], '{ "seq_id" : 2, "qsl_idx" : 2, "data" : "240000AB" }')

    def test_response_cb_brings_the_data(self):
        def issue(samples):
            data = array.array("B", [1, 2, 3])
            address = data.buffer_info()[0]
            response = lg.QuerySampleResponse(samples[0].id, address, 3)

            def fetch(given):
                self.assertIs(type(given), lg.QuerySampleResponse)
                self.assertIsNot(given, response)
                self.assertEqual((given.id, given.data, given.size), (response.id, address, 3))
                given.data, given.size, given.id = address + 1, 2, 0
                self.events.append(("fetch",))
                return "ignored"

            lg.QuerySamplesComplete([response], fetch)
            self.assertEqual((response.id, response.size), (samples[0].id, 3), "a copy was changed")

        log = self.run_test(lg.ConstructSUT(issue, self.flush))
        self.assertEqual(self.events.count(("fetch",)), 3)
        self.assertEqual(log[0], '{ "seq_id" : 0, "qsl_idx" : 0, "data" : "0203" },')

    def test_response_cb_may_reuse_one_buffer(self):
        buffer = array.array("Q", [0])
        address = buffer.buffer_info()[0]

        def fetch(response):
            buffer[0] = indices[response.id]
            response.data, response.size = address, 1
            response.id = 0

        def issue(samples):
            indices.update((s.id, s.index) for s in samples)
            lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, 0, 0) for s in samples], fetch)

        indices = {}
        scenario, mode = lg.TestScenario.Offline, lg.TestMode.AccuracyOnly
        log = self.run_test(lg.ConstructSUT(issue, self.flush), scenario=scenario, mode=mode)
        entries = json.loads("[" + "".join(log).rstrip(",") + "]")
        self.assertGreater(len(entries), 1)
        self.assertEqual([e["data"] for e in entries], ["%02X" % e["qsl_idx"] for e in entries])

    def test_response_cb_is_called_for_what_is_logged_only(self):
        def issue(samples):
            responses = [lg.QuerySampleResponse(s.id, 0, 0) for s in samples]
            lg.QuerySamplesComplete(responses, lambda _: self.events.append(("fetch",)))

        self.run_test(lg.ConstructSUT(issue, self.flush), mode=lg.TestMode.PerformanceOnly)
        self.assertNotIn(("fetch",), self.events)

    def test_tokens(self):
        def issue(samples):
            data = array.array("B", [7])
            address = data.buffer_info()[0]
            first = [lg.QuerySampleResponse(s.id, address, 1) for s in samples]
            lg.FirstTokenComplete(first, lambda _: self.events.append(("never",)))
            lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, 0, 0, 5) for s in samples])

        log = self.run_test(lg.ConstructSUT(issue, self.flush), use_token_latencies=True)
        expected = '{ "seq_id" : 0, "qsl_idx" : 0, "data" : "", "token_data" : "07", "token_count" : 5 },'
        self.assertEqual(log[0], expected)
        self.assertNotIn(("never",), self.events)

    def test_derived_responses_and_other_sequences(self):
        class Derived(lg.QuerySampleResponse):
            pass

        for sequence in (tuple, collections.deque, collections.UserList):

            def issue(samples):
                lg.QuerySamplesComplete(sequence([Derived(s.id, 0, 0) for s in samples]))

            self.assertEqual(len(self.run_test(lg.ConstructSUT(issue, self.flush))), 3)

    def test_completion_from_other_threads(self):
        def issue(samples):
            responses = [lg.QuerySampleResponse(s.id, 0, 0) for s in samples]
            threading.Thread(target=lg.QuerySamplesComplete, args=(responses,)).start()

        for scenario in lg.TestScenario.__members__.values():
            fields = {"scenario": scenario, "server_target_qps": 1000, "multi_stream_samples_per_query": 1}
            self.assertEqual(len(self.run_test(lg.ConstructSUT(issue, self.flush), **fields)), 3)

    def test_start_test_logs_to_the_current_folder(self):
        def issue(samples):
            lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, 0, 0) for s in samples])

        before = os.getcwd()
        os.chdir(self.folder)
        try:
            lg.StartTest(
                sut=lg.ConstructSUT(issue, self.flush),
                qsl=self.qsl,
                test_settings=self.settings(),
                audit_config_filename="none.config",
            )
        finally:
            os.chdir(before)
        kinds = ["accuracy.json", "detail.txt", "summary.txt", "trace.json"]
        self.assertEqual(sorted(os.listdir(self.folder)), [f"mlperf_log_{kind}" for kind in kinds])
        self.assertGreater(os.path.getsize(os.path.join(self.folder, "mlperf_log_trace.json")), 0)

    def test_log_output_names_the_files(self):
        def issue(samples):
            lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, 0, 0) for s in samples])

        logs = lg.LogSettings()
        logs.enable_trace = False
        output = logs.log_output
        output.outdir, output.prefix, output.suffix = self.folder, "a_", "_b"
        lg.StartTestWithLogSettings(
            sut=lg.ConstructSUT(issue, self.flush),
            qsl=self.qsl,
            test_settings=self.settings(),
            log_settings=logs,
            audit_config_filename="none.config",
        )
        self.assertIn("a_summary_b.txt", os.listdir(self.folder))
        self.assertEqual(os.path.getsize(os.path.join(self.folder, "a_trace_b.json")), 0)

    def test_wrong_arguments_of_start_test(self):
        settings, logs = lg.TestSettings(), lg.LogSettings()
        for start, wrong in (
            (lg.StartTest, [(), (1,), (1, 2), (1, 2, 3), (1, 2, None), (1, 2, settings, None)]),
            (lg.StartTest, [("a", 2, settings), (None, 2, settings), (1, 2, settings, "a", "b")]),
            (lg.StartTestWithLogSettings, [(1, 2, settings), (1, 2, settings, None), (1, 2, logs, settings)]),
        ):
            for arguments in wrong:
                with self.assertRaises(TypeError, msg=repr(arguments)):
                    start(*arguments)


class FromConfig(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "user.conf")

    def write(self, *lines):
        with open(self.path, "w") as file:
            file.write("\n".join(lines))
        return self.path

    def test_return_codes(self):
        settings = lg.TestSettings()
        path = self.write("*.Offline.target_qps = 123.5", "*.*.min_query_count = 7")
        self.assertEqual(settings.FromConfig(path, "m", "Offline", 2), 0)
        self.assertEqual((settings.offline_expected_qps, settings.min_query_count), (123.5, 7))
        self.assertEqual(settings.scenario, lg.TestScenario.SingleStream, "a word to look up")
        self.assertEqual(settings.FromConfig(path + "x", "m", "Offline", 2), -2)
        path = self.write("*.*.min_query_count = 9", "*.*.max_query_count : 9")
        self.assertEqual(settings.FromConfig(path, "m", "Offline", 2), -22)
        self.assertEqual(settings.min_query_count, 7, "none of the file's keys applies")

    def test_the_built_in_table(self):
        settings = lg.TestSettings()
        code = settings.FromConfig(path="", model="resnet50", scenario="Offline", conf_type=0)
        self.assertEqual((code, settings.performance_sample_count_override), (0, 1024))
        self.assertEqual(settings.min_query_count, 24576)
        self.assertEqual(settings.qsl_rng_seed, 2085463073848966840)

    def test_arguments(self):
        path = self.write("")
        self.assertEqual(lg.TestSettings().FromConfig(path.encode(), b"m", "Offline", HasIndex()), 0)
        wrong = [(), (path, "m"), (path, "m", lg.TestScenario.Offline), (path, "m", "Offline", 1.0)]
        wrong += [(path, "m", "Offline", 2**31), (path, "m", "Offline", None), (1, "m", "Offline")]
        wrong += [(pathlib.Path(path), "m", "Offline"), (None, "m", "Offline")]
        for arguments in wrong:
            with self.assertRaises(TypeError, msg=repr(arguments)):
                lg.TestSettings().FromConfig(*arguments)


if __name__ == "__main__":
    unittest.main()
