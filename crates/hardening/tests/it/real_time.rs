//! Runs through the driver in real time. No bound of time is asserted: the stamps must lie between the
//! times that the system wrote down.

use dyno_hardening::real::{Case, check, play};

#[test]
fn five_hundred_runs_are_recorded_as_they_happened() {
    let mut played = 0;
    for index in 0..500 {
        let case = Case::draw(31, index);
        let Some(run) = play(&case) else { continue };
        played += 1;
        assert_eq!(check(&case, &run), [], "run {index}");
    }
    assert!(played > 400, "{played} settings are accepted");
}

#[test]
fn altered_stamps_are_noticed() {
    let (mut altered, mut noticed) = (0, 0);
    for index in 0..100 {
        let case = Case::draw(32, index);
        let Some(mut run) = play(&case) else { continue };
        let record = &mut run.run.record;
        let Some(stamp) = record.completed_at.iter_mut().find(|at| **at != 0) else { continue };
        *stamp += 1_000_000_000;
        altered += 1;
        noticed += u64::from(!check(&case, &run).is_empty());
    }
    assert!(altered > 50 && noticed == altered, "{noticed} of {altered}");
}
