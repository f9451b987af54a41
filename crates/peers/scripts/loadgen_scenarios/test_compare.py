"""What the comparer finds, what it lets pass, and what it reads out of logs.

python -m unittest discover --pattern 'test_*.py'     # in this folder
"""

import copy
import pathlib
import re
import unittest

import cases_config
import cases_logs
import cases_random
import cases_runs
import differences
from compare import compare, report
from item import Item
from observation import (
    accuracy_items,
    parts_of,
    sample_events,
    stdout_parts,
    summary_items,
    trace_items,
)

DETAIL = "detail: mlperf_log_detail.txt"
SUMMARY = "summary: mlperf_log_summary.txt"
TRACE = "trace: mlperf_log_trace.json"
ACCURACY = "accuracy: mlperf_log_accuracy.json"


def entry(key, value, at="1.000000", error="false", file="loadgen.cc"):
    """An item of a detail log."""
    place = f'"file": "{file}", "line_no": 7, "pid": 5, "tid": 6'
    meta = f'"is_error": {error}, "is_warning": false, {place}'
    head = f'"value": {value}, "time_ms": {at}, "namespace": "mlperf::logging", '
    return Item(key, head + f'"event_type": "POINT_IN_TIME", "metadata": {{{meta}}}')


def found(part, theirs, ours, case="plain/Server/PerformanceOnly"):
    """What is found in one part, with a list of differences of its own."""
    return compare(case, {part: theirs}, {part: ours}, copy.deepcopy(differences.LIST))


class Detail(unittest.TestCase):
    theirs = [
        entry("effective_target_qps", "200"),
        entry("result_validity", '"VALID"'),
        entry("result_min_latency_ns", "123456"),
        entry("num_errors", "0"),
    ]

    def changed(self, index, item):
        ours = list(self.theirs)
        ours[index] = item
        return found(DETAIL, self.theirs, ours)

    def test_equal_logs_have_no_findings(self):
        self.assertEqual(found(DETAIL, self.theirs, list(self.theirs)), [])

    def test_times_places_and_latencies_may_differ(self):
        ours = [
            entry(i.key, re.match(r'"value": ([^,]*)', i.value)[1], "9.5", file="detail.rs")
            for i in self.theirs
        ]
        ours[2] = entry("result_min_latency_ns", "99", "9.5", file="detail.rs")
        self.assertEqual(found(DETAIL, self.theirs, ours), [])

    def test_a_value_is_found(self):
        self.assertIn(
            "effective_target_qps", self.changed(0, entry("effective_target_qps", "201"))[0]
        )
        self.assertIn("result_validity", self.changed(1, entry("result_validity", '"INVALID"'))[0])

    def test_the_form_of_a_latency_is_found(self):
        self.assertTrue(self.changed(2, entry("result_min_latency_ns", "12.5")))
        self.assertTrue(self.changed(2, entry("result_min_latency_ns", '"12"')))

    def test_an_error_flag_is_found(self):
        self.assertTrue(self.changed(3, entry("num_errors", "0", error="true")))

    def test_keys_of_one_side_are_found(self):
        more = entry("a_key", "1")
        self.assertIn("only ours has a_key", found(DETAIL, self.theirs, [*self.theirs, more])[0])
        self.assertIn(
            "only the reference has a_key", found(DETAIL, [more, *self.theirs], self.theirs)[0]
        )

    def test_order_is_found(self):
        self.assertTrue(found(DETAIL, self.theirs, self.theirs[::-1]))

    def test_keys_of_our_own_pass_on_our_side_only(self):
        own = entry("dyno_note", '"a"')
        self.assertEqual(found(DETAIL, self.theirs, [*self.theirs, own]), [])
        self.assertTrue(found(DETAIL, [*self.theirs, own], self.theirs))

    def test_a_line_that_stands_for_many_is_that_many(self):
        one = entry("error_runtime", '"twice"', error="true")
        many = entry("error_runtime", '"twice (3 times)"', error="true")
        self.assertEqual(found(DETAIL, [one] * 3, [many]), [])
        self.assertTrue(found(DETAIL, [one] * 4, [many]))

    def test_an_escaped_name_is_the_same_name(self):
        theirs = [entry("sut_name", r'"a "b" \ c"')]
        self.assertEqual(found(DETAIL, theirs, [entry("sut_name", r'"a \"b\" \\ c"')]), [])
        self.assertTrue(found(DETAIL, theirs, [entry("sut_name", r'"a \"b\" c"')]))


class OtherParts(unittest.TestCase):
    def test_a_part_of_one_side_is_found(self):
        findings = compare("a case", {TRACE: []}, {}, [])
        self.assertEqual(findings, [f"{TRACE}: only the reference has it"])

    def test_rates_of_the_summary_may_differ_in_value_and_not_in_form(self):
        def line(value):
            return list(summary_items(f"Scheduled samples per second : {value}\n", {}))

        self.assertEqual(found(SUMMARY, line("12.34"), line("99.00")), [])
        self.assertTrue(found(SUMMARY, line("12.34"), line("12.3")))

    def test_the_end_of_the_summary_must_agree_with_the_detail_log(self):
        text = (
            "1 warning encountered. See detailed log.\n\n2 ERRORS encountered. See detailed log.\n"
        )
        agrees = [
            item.value
            for item in summary_items(text, {"warning": 1, "error": 2})
            if item.key != "text"
        ]
        self.assertEqual(agrees, ["as the detail log"] * 2)
        counts = [
            item.value
            for item in summary_items(text, {"warning": 0, "error": 2})
            if item.key != "text"
        ]
        self.assertEqual(
            counts[0], "'1 warning encountered. See detailed log.', the detail log has 0"
        )

    def test_entries_of_the_accuracy_log_have_no_order_and_must_be_equal(self):
        entries = [f'{{ "seq_id" : {i}, "qsl_idx" : {i}, "data" : "0{i}" }}' for i in range(3)]
        log = "[\n" + ",\n".join(entries) + "\n]\n"
        swapped = "[\n" + ",\n".join(entries[::-1]) + "\n]\n"
        self.assertEqual(found(ACCURACY, accuracy_items(log), accuracy_items(swapped)), [])
        self.assertTrue(
            found(ACCURACY, accuracy_items(log), accuracy_items(log.replace('"02"', '"03"')))
        )
        self.assertTrue(
            found(ACCURACY, accuracy_items(log), accuracy_items(log.replace(",\n", "\n", 1)))
        )

    def test_a_schedule_is_compared_to_the_nanosecond(self):
        def trace(second):
            begin = '{"name":"Sample","cat":"default","ph":"b","pid":1,"id":%d,"ts":%s,'
            begin += '"args":{"sample_seq":%d}},'
            lines = ['{"name":"Latency","ph": "C","pid":1,"ts":1.0,"args":{}},']
            lines += [begin % (0, "100.001", 0), begin % (1, second, 1)]
            text = "\n".join(lines)
            return list(trace_items(text, sample_events(text), [2]))

        self.assertIn(Item("schedule", "[0, 500]"), trace("100.501"))
        self.assertEqual(found(TRACE, trace("100.501"), trace("100.501")), [])
        self.assertTrue(found(TRACE, trace("100.501"), trace("100.502")))

    def test_the_order_of_both_copies_on_stdout_is_told(self):
        parts = stdout_parts([":::MLLOG a", ":::MLLOG b", "x", ":::MLLOG c"])
        self.assertEqual(parts["stdout order"], [Item("blocks", "detail, text, detail")])

    def test_a_process_that_left_nothing_is_told_by_its_exit(self):
        self.assertEqual(parts_of("no-such-folder-here", -11)["exit"], [Item("code", "-11")])


class List(unittest.TestCase):
    def test_every_entry_has_a_reason_and_a_known_kind(self):
        for one in differences.LIST:
            self.assertTrue(one.reason, one)
            self.assertIn(one.kind, ("value", "rule", "times", "theirs", "ours"))
            self.assertEqual(one.hits, 0, one)

    def test_every_reason_stands_on_the_page_of_differences(self):
        page = pathlib.Path(__file__).resolve().parents[4] / "docs" / "fidelity.md"
        page = page.read_text()
        for one in differences.LIST:
            self.assertIn(one.reason, page, one)

    def test_an_entry_of_some_cases_allows_nothing_elsewhere(self):
        theirs, ours = [Item("Sample b", "72 events")], [Item("Sample b", "70 events")]
        twice = "misuse/Server/completed twice/PerformanceOnly"
        self.assertEqual(found(TRACE, theirs, ours, case=twice), [])
        self.assertTrue(found(TRACE, theirs, ours))

    def test_entries_that_were_needed_are_known(self):
        entries = copy.deepcopy(differences.LIST)
        a, b = [entry("num_errors", "0", "1.0")], [entry("num_errors", "0", "2.0")]
        compare("a case", {DETAIL: a}, {DETAIL: b}, entries)
        self.assertEqual([one.pattern for one in entries if one.hits], [r'"time_ms": [\d.]+'])

    def test_many_findings_are_cut_short(self):
        self.assertEqual(report(list("abcdefgh")), [*"abcdef", "... and 2 more"])


class Cases(unittest.TestCase):
    def test_names_are_distinct_and_folders(self):
        modules = (cases_runs, cases_logs, cases_config, cases_random)
        names = [case.name for module in modules for case in module.cases()]
        self.assertEqual(len(names), len(set(names)))
        for name in names:
            self.assertFalse(any(other.startswith(f"{name}/") for other in names), name)

    def test_random_cases_are_a_function_of_their_number(self):
        self.assertEqual(list(cases_random.cases()), list(cases_random.cases()))


if __name__ == "__main__":
    unittest.main()
