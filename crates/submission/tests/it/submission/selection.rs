//! Tests of the selection for an audit by a third party. Expected standings follow from the text of
//! section 2.8 of the rules.

use std::collections::BTreeMap;

use dyno_submission::selection::{
    EFFICIENCY, EQUIVALENT, NEW_RESULT, SIMILAR, Selection, Standing, SystemResult, SystemResults,
};
use serde_json::{Map, Value, json};

/// Returns an available closed system with eight accelerators and two results.
fn system(submitter: &str, system: &str) -> SystemResults {
    let description = json!({
        "host_processor_model_name": "Some CPU",
        "host_processors_per_node": "2",
        "host_network_card_count": "1",
        "host_networking": "Ethernet",
        "accelerator_model_name": "Some GPU",
        "accelerators_per_node": "8",
        "number_of_nodes": "1",
        "operating_system": "Some Linux",
    });
    let Value::Object(description) = description else { unreachable!() };
    SystemResults {
        submitter: submitter.to_owned(),
        system: system.to_owned(),
        division: "closed".to_owned(),
        availability: "available".to_owned(),
        description,
        results: vec![
            result("resnet", "Offline", "Samples/s", 1000.0),
            result("resnet", "SingleStream", "Latency (ms)", 2.0),
        ],
    }
}

fn result(model: &str, scenario: &str, units: &str, value: f64) -> SystemResult {
    SystemResult {
        model: model.to_owned(),
        scenario: scenario.to_owned(),
        units: units.to_owned(),
        value,
        power: None,
        is_inferred: false,
    }
}

fn set(fields: &mut Map<String, Value>, field: &str, value: Value) {
    fields.insert(field.to_owned(), value);
}

/// Returns the sentence that decides on a system if `audited` was audited: whether it exempts the
/// system, and the sentence.
fn decision(system: &SystemResults, audited: &SystemResults) -> (bool, &'static str) {
    let previous = [audited.clone()];
    let selection = Selection::draw(std::slice::from_ref(system), &previous, &[audited.name()], 1);
    match &selection.submissions[0].standing {
        Standing::Exempt(reason) => (true, reason.sentence),
        Standing::Candidate { reasons } => (false, reasons[0].sentence),
        Standing::NotAuditable { why } => panic!("{why}"),
    }
}

#[test]
fn an_equivalent_system_is_no_candidate() {
    let audited = system("acme", "old");
    let mut new = system("zenith", "new");
    // Only CPU, NIC and accelerator matter, and not the performance.
    set(&mut new.description, "operating_system", json!("Another"));
    set(&mut new.description, "accelerators_per_node", json!(8));
    new.results[0].value = 5000.0;
    assert_eq!(decision(&new, &audited), (true, EQUIVALENT));
    for field in ["host_processors_per_node", "host_network_card_count", "accelerators_per_node"] {
        let mut other = new.clone();
        set(&mut other.description, field, json!("4"));
        assert!(!decision(&other, &audited).0, "{field}");
    }
    // Without a description nothing shows that systems are equivalent.
    let bare = |name| SystemResults { description: Map::new(), ..system("acme", name) };
    assert!(!decision(&bare("new"), &bare("old")).0);
}

#[test]
fn the_same_accelerator_within_ten_percent_is_excluded() {
    let audited = system("acme", "old");
    let mut new = system("acme", "new");
    set(&mut new.description, "host_processor_model_name", json!("Another CPU"));
    assert_eq!(decision(&new, &audited), (true, SIMILAR));
    for (value, is_exempt) in [(1100.0, true), (900.0, true), (1101.0, false), (899.0, false)] {
        new.results[0].value = value;
        assert_eq!(decision(&new, &audited), (is_exempt, SIMILAR), "{value}");
    }
    // A latency of 2.0 ms is a performance of 500 a second; 1.7 ms are 17.6 % more.
    new.results[0].value = 1000.0;
    new.results[1].value = 1.7;
    assert_eq!(decision(&new, &audited), (false, SIMILAR));
    // Four accelerators of the same speed together are twice as fast each.
    new.results[1].value = 2.0;
    set(&mut new.description, "accelerators_per_node", json!(4));
    assert_eq!(decision(&new, &audited), (false, SIMILAR));
}

#[test]
fn a_new_result_ends_the_exclusion() {
    let audited = system("acme", "old");
    let mut new = system("acme", "new");
    set(&mut new.description, "host_processor_model_name", json!("Another CPU"));
    let mut more = new.clone();
    more.results.push(result("resnet", "Server", "Queries/s", 900.0));
    assert_eq!(decision(&more, &audited), (false, NEW_RESULT));
    more.results[2].is_inferred = true;
    assert_eq!(decision(&more, &audited), (true, SIMILAR));
    more.results[2].model = "bert-99".to_owned();
    assert_eq!(decision(&more, &audited), (false, NEW_RESULT));
    new.results[0].power = Some(500.0);
    assert_eq!(decision(&new, &audited), (false, NEW_RESULT));
}

#[test]
fn power_efficiency_is_within_ten_percent_too() {
    let mut audited = system("acme", "old");
    let mut new = system("acme", "new");
    set(&mut new.description, "host_processor_model_name", json!("Another CPU"));
    audited.results[0].power = Some(500.0);
    for (watts, decided) in [(520.0, (true, SIMILAR)), (600.0, (false, EFFICIENCY))] {
        new.results[0].power = Some(watts);
        assert_eq!(decision(&new, &audited), decided, "{watts}");
    }
}

#[test]
fn only_available_closed_submissions_are_auditable() {
    let preview = SystemResults { availability: "preview".to_owned(), ..system("acme", "a") };
    let open = SystemResults { division: "open".to_owned(), ..system("acme", "b") };
    let selection = Selection::draw(&[preview, open, system("acme", "c")], &[], &[], 3);
    assert_eq!(selection.drawn, Some(("acme".to_owned(), "c".to_owned())));
    assert_eq!(Selection::draw(&[], &[], &[], 3).drawn, None);
}

/// Without audited systems, the list states who would be exempt.
#[test]
fn systems_that_may_have_been_audited_are_named() {
    let selection = Selection::draw(&[system("acme", "new")], &[system("zenith", "old")], &[], 3);
    assert_eq!(selection.submissions[0].exempting, ["zenith/old"]);
    assert!(selection.drawn.is_some());
}

/// A submitter with one system is drawn as often as one with nine.
#[test]
fn the_draw_has_two_stages() {
    let mut systems = vec![system("small", "only")];
    systems.extend((0..9).map(|index| system("large", &format!("s{index}"))));
    let mut drawn = BTreeMap::new();
    for seed in 0..2000 {
        let selection = Selection::draw(&systems, &[], &[], seed);
        assert_eq!(selection, Selection::draw(&systems, &[], &[], seed));
        *drawn.entry(selection.drawn.unwrap()).or_insert(0) += 1;
    }
    // 1000 expected, with a standard deviation of 22; then 111, with 10.
    let small = drawn[&("small".to_owned(), "only".to_owned())];
    assert!((880..1120).contains(&small), "{small}");
    assert_eq!(drawn.len(), 10);
    for (name, count) in drawn.iter().filter(|((submitter, _), _)| submitter == "large") {
        assert!((60..165).contains(count), "{name:?} {count}");
    }
}
