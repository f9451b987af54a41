//! Readings: their names, and what each rule picks.

use super::*;
use crate::hardware::Npu;
use crate::lowering::LoweringOptions;
use crate::setting::Setting;

fn problem(spec: &str) -> String {
    spec.parse::<SchedulerSpec>().unwrap_err().to_string()
}

#[test]
fn an_unknown_option_or_value_names_those_that_there_are() {
    let options = "ties, fetch, failsafe, inherent, relief, memory-idle, starvation, potential";
    assert_eq!(
        problem("layerweaver:tie=oldest"),
        format!(
            "scheduler `layerweaver` has no option `tie`; the nearest is `ties`; options are {options}"
        )
    );
    assert_eq!(
        problem("layerweaver:ties=oldest,fetch=half"),
        "scheduler `layerweaver`: `fetch` must be one of whole, partial, found `half`"
    );
    assert_eq!(
        problem("layerweaver:ties"),
        format!("scheduler `layerweaver`: expected KEY=VALUE, found `ties`; options are {options}")
    );
    assert_eq!(problem("fair:fetch=whole,fetch=partial"), "scheduler `fair`: `fetch` is set twice");
    assert!(problem("ai-mt:failsafe=on").contains("merge, prefetch, priority, ties, fetch"));
    assert!(problem("layerwaever:ties=oldest").contains("the nearest is `layerweaver`"));
}

#[test]
fn every_reading_reads_its_own_name() {
    let mut names = std::collections::BTreeSet::new();
    for spec in super::invariants::readings() {
        let name = spec.to_string();
        assert_eq!(name.parse::<SchedulerSpec>().map(|read| read.to_string()), Ok(name.clone()));
        assert!(names.insert(name));
    }
    for named in SCHEDULERS {
        for option in named.options {
            assert!(option.values.len() > 1, "{}: {}", named.name, option.key);
            // Options of schedulers stand beside other keys on the command line and must not contain separators.
            let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            assert!(is_plain(option.key) && option.values.iter().all(|one| is_plain(one.name)));
        }
    }
}

/// Returns the pick among a compute-bound job and a memory-bound one that arrived at these times, both without idle
/// time, because the array has work for long.
fn pick_of_equals(ties: TieRule, arrived: [Picos; 2]) -> usize {
    let mut machine = Machine::new(limits(1_000));
    machine.place(&Block { compute: 990, fetch: 10, bytes: 10 }, 0, 0);
    let passes = passes(&[profile(&[(50, 10)]), profile(&[(10, 20)])], 1_000);
    let new = |(at, pass): (usize, &Arc<Pass>)| {
        PassJob::new(at, Arc::clone(pass), arrived[at], Picos::MAX)
    };
    let jobs: Vec<PassJob> = passes.iter().enumerate().map(new).collect();
    let view = SchedulerView { machine: &machine, jobs: &jobs, queues: &[], now: 0 };
    Layerweaver::new(LayerweaverRules { ties, ..LayerweaverRules::default() }).pick(&view)
}

#[test]
fn each_rule_breaks_a_tie_in_its_own_way() {
    // The memory-bound job came first.
    assert_eq!(pick_of_equals(TieRule::MemoryFirst, [9, 5]), 1);
    assert_eq!(pick_of_equals(TieRule::Oldest, [9, 5]), 1);
    assert_eq!(pick_of_equals(TieRule::Printed, [9, 5]), 0, "it queues most work");
    assert_eq!(pick_of_equals(TieRule::MemoryIdle, [9, 5]), 0, "it began first");
    // The compute-bound job came first.
    assert_eq!(pick_of_equals(TieRule::MemoryFirst, [5, 9]), 1);
    assert_eq!(pick_of_equals(TieRule::Oldest, [5, 9]), 0);
}

#[test]
fn ties_by_idle_memory_prefer_idle_time_of_the_array() {
    let mut machine = Machine::new(limits(100));
    machine.place(&Block { compute: 100, fetch: 90, bytes: 90 }, 0, 0);
    // The first waits 100 for room, and the array then 20 for it; the second makes the array wait 120.
    let blocks = [
        Block { compute: 1_000, fetch: 20, bytes: 20 },
        Block { compute: 1, fetch: 220, bytes: 10 },
    ];
    let job = |(at, block): (usize, &Block)| {
        let profile = NetworkProfile { blocks: vec![*block], ..NetworkProfile::default() };
        let pass = Pass::new(&profile, limits(100)).map(Arc::new).expect("it takes time");
        PassJob::new(at, pass, 0, Picos::MAX)
    };
    let jobs: Vec<PassJob> = blocks.iter().enumerate().map(job).collect();
    let view = SchedulerView { machine: &machine, jobs: &jobs, queues: &[], now: 0 };
    assert_eq!([0, 1].map(|at| idle_time(&view, at).total()), [120, 120]);
    let pick = |ties| {
        let rules = LayerweaverRules { ties, starvation: false, ..LayerweaverRules::default() };
        Layerweaver::new(rules).pick(&view)
    };
    assert_eq!((pick(TieRule::MemoryFirst), pick(TieRule::MemoryIdle)), (0, 1));
}

/// Returns the turnaround (ANTT) of streams of these networks on the memory-centric NPU.
fn antt(codes: &[&str], spec: &str) -> f64 {
    let setting = Setting {
        npu: Npu::preset("memory-centric").expect("it is one"),
        mapping: "kcpx+1:128".parse().expect("it is one"),
        seq: 16,
        options: LoweringOptions::default(),
    };
    let spec: SchedulerSpec = spec.parse().expect("it is one");
    setting.simulate(codes, spec, 50).expect("they fit").antt()
}

#[test]
fn the_failsafe_keeps_networks_of_one_kind_from_starving_each_other() {
    for codes in [["IC", "RN"], ["BB", "BL"]] {
        assert!(antt(&codes, "layerweaver:failsafe=off") > 100.0, "{codes:?}");
        for name in ["layerweaver", "layerweaver+"] {
            let turns = antt(&codes, name);
            assert!(
                turns < 2.2,
                "{name} {codes:?}: two streams in turn take twice the time: {turns}"
            );
        }
    }
    // Networks of both kinds do not need it.
    assert_eq!(antt(&["RN", "BB"], "layerweaver"), antt(&["RN", "BB"], "layerweaver:failsafe=off"));
}

#[test]
fn mechanisms_of_ai_mt_are_switched_off_alone() {
    let default = antt(&["RN", "BB"], "ai-mt");
    for off in ["merge=off", "prefetch=off", "priority=off", "ties=random"] {
        let other = antt(&["RN", "BB"], &format!("ai-mt:{off}"));
        assert!((other - default).abs() > 1e-6, "{off}: {other}");
    }
    let limits =
        |spec: &str| spec.parse::<SchedulerSpec>().expect("it is one").limits(super::limits(100));
    assert_eq!(limits("ai-mt:prefetch=off").depth, 2);
    assert_eq!(limits("ai-mt:merge=off").depth, usize::MAX);
    assert_eq!(limits("fair:fetch=partial").fetch, FetchStart::Partial);
}

#[test]
fn the_inherent_wait_is_that_of_the_block_placed_last() {
    let mut machine = Machine::new(limits(100));
    machine.place(&Block { compute: 150, fetch: 40, bytes: 40 }, 0, 0);
    // Filling the other 60 bytes takes 60 of the 150.
    assert_eq!(machine.inherent_wait(), 90);
    machine.place(&Block { compute: 10, fetch: 40, bytes: 40 }, 0, 0);
    assert_eq!(machine.inherent_wait(), 0);
}
