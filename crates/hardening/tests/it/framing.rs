//! Answers cut at any byte, and results through files.

use std::path::Path;

use dyno_hardening::{files, framing};

#[test]
fn a_thousand_connections_are_parsed_as_the_standards_demand() {
    let mut injected = [0; framing::Fault::ALL.len()];
    for index in 0..1_000 {
        assert_eq!(framing::check(31, index, &mut injected), [], "connection {index}");
    }
    assert!(injected.iter().all(|count| *count > 20), "{injected:?}");
}

#[test]
fn results_on_disk_are_what_was_measured_or_are_not_there() {
    let program = Path::new(env!("CARGO_BIN_EXE_dyno-hardening"));
    for index in 0..60 {
        let (fault, findings) = files::check(program, 31, index).unwrap();
        assert_eq!(findings, [], "run {index}, {}", fault.name());
    }
}
