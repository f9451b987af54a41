//! Tests of the tables of results.

use dyno_rules::{Round, RuleScenario};
use dyno_submission::results::{
    Ids, Results, Sheet, SheetKind, Spread, five_digits, framework, grouped, processor_type,
};
use dyno_submission::table::{Column, Row};
use proptest::prelude::*;

/// Returns a result of a closed edge system.
fn row(submitter: &str, model: &str, scenario: &str, result: f64, units: &str) -> Row {
    let mut row = Row::default();
    row.value = result;
    let location = format!("closed/{submitter}/results/box/{model}/{scenario}");
    for (column, text) in [
        (Column::Organization, submitter),
        (Column::Availability, "available"),
        (Column::Division, "closed"),
        (Column::SystemType, "edge"),
        (Column::SystemName, "A box"),
        (Column::Platform, "box"),
        (Column::Model, model),
        (Column::MlperfModel, model),
        (Column::Scenario, scenario),
        (Column::Accuracy, "acc: 76.4525"),
        (Column::Nodes, "2"),
        (Column::Processor, "Some CPU"),
        (Column::Processors, "1"),
        (Column::Accelerator, "Some GPU"),
        (Column::Accelerators, "4"),
        (Column::Framework, "TensorRT 10.8, CUDA 12.9"),
        (Column::HasPower, "False"),
        (Column::Units, units),
        (Column::Location, &location),
    ] {
        row.set(column, text);
    }
    row
}

fn with(mut row: Row, cells: &[(Column, &str)]) -> Row {
    for (column, text) in cells {
        row.set(*column, *text);
    }
    row
}

fn results(rows: &[Row]) -> Results {
    Results::from_rows(rows, Round::named("v5.1").unwrap(), &mut Ids::new())
}

/// A submitter's name must not become a spreadsheet formula.
#[test]
fn cells_that_begin_as_formulas_are_text() {
    let row = row("=1+1", "resnet", "Offline", 1.0, "Samples/s");
    let csv = results(&[row]).sheets[0].csv();
    assert!(csv.contains(",'=1+1,"), "{csv}");
}

/// v0.5 had no suites, and its systems do not name one.
#[test]
fn results_of_a_round_without_suites_are_in_one_table() {
    let of = |submitter, scenario, result, units| {
        let row = row(submitter, "resnet", scenario, result, units);
        with(row, &[(Column::SystemType, ""), (Column::Availability, "on-premise")])
    };
    let rows = [
        of("Us", "Offline", 100.0, "Samples/s"),
        of("Them", "Offline", 400.0, "Samples/s"),
        of("Us", "MultiStream", 12.0, "Streams"),
        of("Us", "Interactive", 1.0, "Queries/s"),
    ];
    let found = Results::from_rows(&rows, Round::named("v0.5").unwrap(), &mut Ids::new());
    let [sheet] = &found.sheets[..] else { panic!("{:?}", found.sheets) };
    assert_eq!((sheet.name().as_str(), sheet.lines.len(), sheet.columns.len()), ("closed", 2, 2));
    assert_eq!(found.records[0].unique_id, "closed/Them/box");
    let spreads = &found.statistics.spreads;
    assert_eq!(spreads.iter().map(Spread::ratio).collect::<Vec<_>>(), [4.0]);
    let [told] = &found.notices[..] else { panic!("{:?}", found.notices) };
    assert!(told.contains("the round does not have resnet in Interactive"), "{told}");
}

#[test]
fn the_largest_number_of_a_system_does_not_overflow() {
    let mut ids = Ids::from([("x".into(), u64::MAX)]);
    let row = row("Us", "resnet", "Offline", 1.0, "Samples/s");
    let found = Results::from_rows(&[row], Round::named("v5.1").unwrap(), &mut ids);
    assert_eq!(found.records.len(), 1);
}

#[test]
fn accuracy_has_five_digits_half_to_even() {
    for (exact, rounded) in [
        ("76.4525", "76.452"),
        ("76.4535", "76.454"),
        ("76.45250000001", "76.453"),
        ("0.1234549", "0.12345"),
        ("0.0999995", "0.10000"),
        ("99.9995", "100.00"),
        ("3052101", "3052101"),
        ("8209319.0", "8209319"),
        ("123456.7", "123457"),
        ("999999.5", "1000000"),
        ("66.604", "66.604"),
        ("7", "7"),
        ("0", "0"),
        ("-1.234565", "-1.2346"),
        ("1.2.3", "1.2.3"),
        ("nan", "nan"),
        ("", ""),
    ] {
        assert_eq!(five_digits(exact), rounded, "{exact}");
    }
}

proptest! {
    #[test]
    fn a_rounded_accuracy_is_near_and_stays(whole in 0_u32..100_000, fraction in "[0-9]{0,12}") {
        let exact = format!("{whole}.{fraction}");
        let rounded = five_digits(&exact);
        let (a, b): (f64, f64) = (exact.parse().unwrap(), rounded.parse().unwrap());
        prop_assert!((a - b).abs() <= a.abs() * 5.0001e-5, "{exact} {rounded}");
        prop_assert_eq!(five_digits(&rounded), rounded.clone());
    }

    #[test]
    fn any_text_is_rounded_without_a_panic(text in ".*") {
        prop_assert!(five_digits(&text).len() <= text.len() + 1);
        prop_assert!(!framework(&text).is_empty());
    }
}

#[test]
fn a_system_has_a_line_and_a_result_its_column() {
    let results = results(&[
        row("B", "resnet", "Offline", 1234.5, "Samples/s"),
        row("B", "resnet", "SingleStream", 0.5, "Latency (ms)"),
        row("A", "retinanet", "Offline", 10.0, "Samples/s"),
    ]);
    let [sheet] = &results.sheets[..] else { panic!("{:?}", results.sheets) };
    assert_eq!(sheet.name(), "edge - closed");
    let columns: Vec<_> =
        sheet.columns.iter().map(|key| (key.model.as_str(), key.scenario)).collect();
    let expected = [
        ("resnet", RuleScenario::SingleStream),
        ("resnet", RuleScenario::Offline),
        ("retinanet", RuleScenario::Offline),
    ];
    assert_eq!(columns, expected);
    let values: Vec<_> = sheet.lines.iter().map(|line| line.values.clone()).collect();
    assert_eq!(values, [vec![None, None, Some(10.0)], vec![Some(0.5), Some(1234.5), None]]);
    let cell = |name: &str| {
        let at = sheet.index.iter().position(|known| *known == name).unwrap();
        sheet.lines[1].index[at].as_str()
    };
    assert_eq!(cell("ID"), "5.1-0002");
    assert_eq!(cell("Unique ID (e.g. for Audit)"), "edge/closed/B/box");
    assert_eq!((cell("a#"), cell("Total Accelerators")), ("4", "8"));
    let csv = sheet.csv();
    let mut lines = csv.lines();
    let head = lines.next().unwrap();
    assert!(head.ends_with("resnet Offline [Samples/s],retinanet Offline [Samples/s]"), "{head}");
    assert!(csv.contains("\"TensorRT 10.8, CUDA 12.9\""), "{csv}");
    assert!(csv.ends_with(",0.5,1234.5,\n"), "{csv}");
}

#[test]
fn a_second_result_of_a_kind_is_shown_and_told() {
    let first = row("A", "resnet", "Offline", 10.0, "Samples/s");
    let second = with(
        row("A", "resnet", "Offline", 30.0, "Samples/s"),
        &[(Column::Model, "resnet50"), (Column::Location, "closed/A/results/box/resnet50/Offline")],
    );
    let results = results(&[first, second]);
    let values: Vec<_> =
        results.sheets[0].lines.iter().flat_map(|line| line.values.clone()).collect();
    assert_eq!(values, [Some(10.0), Some(30.0)]);
    assert_eq!(results.notices.len(), 1);
    assert!(results.notices[0].contains("resnet50/Offline"), "{:?}", results.notices);
}

#[test]
fn a_system_of_both_suites_is_in_the_sheets_that_have_the_model() {
    let both = &[(Column::SystemType, "datacenter,edge")];
    let results = results(&[
        with(row("A", "retinanet", "Offline", 10.0, "Samples/s"), both),
        with(row("A", "resnet", "Offline", 10.0, "Samples/s"), both),
        row("A", "rgat", "Offline", 10.0, "Samples/s"),
    ]);
    let names: Vec<_> = results.sheets.iter().map(Sheet::name).collect();
    assert_eq!(names, ["datacenter - closed", "edge - closed"]);
    let columns: Vec<_> = results.sheets.iter().map(|sheet| sheet.columns.len()).collect();
    // In v5.1 resnet is an edge model.
    assert_eq!(columns, [1, 2]);
    assert_eq!(results.notices.len(), 1, "rgat is no edge model: {:?}", results.notices);
    assert_eq!(results.statistics.scenarios.total(), 2);
}

#[test]
fn power_has_a_sheet_of_its_own_and_one_entry_with_the_result() {
    let powered = &[(Column::HasPower, "True")];
    let results = results(&[
        with(row("A", "resnet", "Offline", 10.0, "Samples/s"), powered),
        with(row("A", "resnet", "Offline", 75.5, "Watts"), powered),
    ]);
    let names: Vec<_> = results.sheets.iter().map(|sheet| (sheet.name(), sheet.kind)).collect();
    let expected = [
        ("edge - closed".to_owned(), SheetKind::Performance),
        ("edge - closed - power".to_owned(), SheetKind::Power),
    ];
    assert_eq!(names, expected);
    let json = results.json();
    let [entry] = &json["results"].as_array().unwrap()[..] else { panic!("{json}") };
    assert_eq!(
        (&entry["Performance_Result"], &entry["Power_Result"]),
        (&10.0.into(), &75.5.into())
    );
    assert_eq!(entry["Power_Units"], "Watts");
    assert_eq!(entry["Accuracy"], "acc: 76.452");
}

#[test]
fn numbers_of_systems_stay_over_the_drafts_of_a_round() {
    let round = Round::named("v5.1").unwrap();
    let mut ids = Ids::new();
    let _ = Results::from_rows(&[row("B", "resnet", "Offline", 1.0, "Samples/s")], round, &mut ids);
    let rows = [
        row("A", "resnet", "Offline", 1.0, "Samples/s"),
        row("B", "resnet", "Offline", 1.0, "Samples/s"),
    ];
    let results = Results::from_rows(&rows, round, &mut ids);
    let numbers: Vec<_> =
        results.records.iter().map(|r| (r.submitter.as_str(), r.id.as_str())).collect();
    assert_eq!(numbers, [("A", "5.1-0002"), ("B", "5.1-0001")]);
}

#[test]
fn spreads_are_over_the_slowest_also_for_latencies() {
    let latency = |who, ms| row(who, "resnet", "SingleStream", ms, "Latency (ms)");
    let results = results(&[
        latency("A", 8.0),
        latency("B", 4.0),
        latency("C", 1.0),
        row("A", "resnet", "Offline", 5.0, "Samples/s"),
    ]);
    let [spread] = &results.statistics.spreads[..] else { panic!("one has nothing to compare") };
    assert_eq!((spread.slowest, spread.fastest, spread.ratio()), (8.0, 1.0, 8.0));
    assert!(spread.leader.starts_with("C"), "{}", spread.leader);
    let speeds = spread.speeds;
    assert_eq!((speeds.least, speeds.first, speeds.median, speeds.third), (1.0, 1.5, 2.0, 5.0));
}

#[test]
fn frameworks_and_processors_are_known_by_their_names() {
    for (software, name) in [
        ("TensorRT 10.8, CUDA 12.9", "TensorRT"),
        ("vLLM v0.6.5", "vLLM"),
        ("tflite vmaster", "TensorFlow Lite"),
        ("TF at an internal revision", "TensorFlow"),
        ("TensorFlow commit f5ce1c00", "TensorFlow"),
        ("Synapse-V0.2.0", "Synapse"),
        ("JetPack 4.3 DP, TensorRT 6.0", "TensorRT"),
        ("PyTorch", "PyTorch"),
        ("Deep Sparse v1", "Deep Sparse"),
        ("", "not stated"),
        ("10.2", "not stated"),
        ("N/A", "not stated"),
        ("TODO", "not stated"),
        ("PyTorch: rgat: 2.7.0+cpu, whisper: 2.7.0+cpu", "PyTorch"),
    ] {
        assert_eq!(framework(software), name, "{software}");
    }
    let with_accelerator = |model: &str, count: &str| {
        let cells = [(Column::Accelerator, model), (Column::Accelerators, count)];
        let row = with(row("A", "resnet", "Offline", 1.0, "Samples/s"), &cells);
        processor_type(&results(&[row]).records[0])
    };
    assert_eq!(with_accelerator("N/A", "0"), "CPU");
    assert_eq!(with_accelerator("NVIDIA H100", "8"), "GPU");
    assert_eq!(with_accelerator("Some Alveo card", "1"), "FPGA");
    assert_eq!(with_accelerator("TPU v5e", "4"), "ASIC");
    assert_eq!(with_accelerator("Some Hexagon", "1"), "DSP");
    assert_eq!(with_accelerator("None", "None"), "CPU");
    assert_eq!(with_accelerator("Something new", "1"), "other accelerator");
}

#[test]
fn values_have_three_decimals_and_thousands_apart() {
    assert_eq!(grouped(1234567.5), "1,234,567.500");
    assert_eq!(grouped(0.12345), "0.123");
    assert_eq!(grouped(f64::NAN), "");
}
