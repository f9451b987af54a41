//! Runs with workers that lag, lie or die. No bound of time is asserted but that they end.

use dyno_hardening::workers::{Case, Trouble, check, play};

#[test]
fn workers_that_lag_lie_or_die_neither_spoil_a_run_nor_end_the_process() {
    let findings = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for part in 0..4 {
            let findings = &findings;
            scope.spawn(move || {
                for index in (part..140).step_by(4) {
                    let case = Case::draw(20_261_129, index);
                    let found = check(&case);
                    if !found.is_empty() {
                        let text = format!("{index} ({}): {found:?}", case.trouble.name());
                        findings.lock().expect("no holder panics").push(text);
                    }
                }
            });
        }
    });
    assert_eq!(findings.into_inner().expect("no holder panics"), Vec::<String>::new());
}

/// The troubles happen: workers lie, and connections end.
#[test]
fn troubles_happen() {
    let (mut lied, mut died) = (0, 0);
    for index in 0..56 {
        let case = Case::draw(7, index);
        let played = play(&case).expect("loopback works");
        lied += u32::from(played.lied);
        died += u32::from(played.died);
        assert!(!played.lied || case.trouble.is_lie());
        let can_die = matches!(case.trouble, Trouble::Cut | Trouble::Silent | Trouble::Leaving);
        assert!(!played.died || can_die, "{:?}", case.trouble);
    }
    assert!(lied > 20 && died > 4, "{lied} lied, {died} died");
}
