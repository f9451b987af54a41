//! Query traces with known fingerprints. Equal fingerprints show that this build draws the same
//! samples at the same times as the reference.

use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::settings::{FIELDS, TestSettings};
use dyno_loadgen::trace::{Trace, loadable_sets};

/// A trace drawn by LoadGen 6.0.17.
struct Case {
    name: &'static str,
    /// Number of samples in the library and in its performance set.
    library: Library,
    /// Settings other than the defaults and the seeds.
    settings: &'static [(&'static str, &'static str)],
    /// Number of queries to compare, from the first.
    queries: usize,
    /// [`Fingerprint`] of the queries' samples in the reference's logs.
    samples: u64,
    /// [`Fingerprint`] of the scheduled times; only for Server.
    schedule: Option<u64>,
}

/// Official seeds of the round.
const SEEDS: [(&str, &str); 3] = [
    ("qsl_rng_seed", "2085463073848966840"),
    ("sample_index_rng_seed", "2747215439041700203"),
    ("schedule_rng_seed", "16159082839903944936"),
];

/// Constants from the golden cases of `dyno-loadgen`; a test compares them.
const CASES: [Case; 3] = [
    Case {
        name: "ss-perf",
        library: Library { total: 5_000, performance: 1_024 },
        settings: &[
            ("scenario", "SingleStream"),
            ("min_duration_ms", "0"),
            ("min_query_count", "300"),
        ],
        queries: 300,
        samples: 0xc6fa_8adf_c2ef_34e3,
        schedule: None,
    },
    Case {
        name: "server-perf-duration",
        library: Library { total: 64, performance: 64 },
        settings: &[
            ("scenario", "Server"),
            ("server_target_qps", "1000"),
            ("min_duration_ms", "400"),
            ("min_query_count", "10"),
        ],
        queries: 384,
        samples: 0x367e_86aa_ed32_eef9,
        schedule: Some(0xfa74_e4ae_92fb_bf89),
    },
    Case {
        name: "ms-perf",
        library: Library { total: 100, performance: 20 },
        settings: &[
            ("scenario", "MultiStream"),
            ("min_duration_ms", "0"),
            ("min_query_count", "60"),
        ],
        queries: 60,
        samples: 0x4c21_6088_1cc9_bad1,
        schedule: None,
    },
];

/// Returns each case and whether it equals the reference.
pub fn check() -> Vec<(&'static str, bool)> {
    CASES.iter().map(|case| (case.name, case.drawn() == (case.samples, case.schedule))).collect()
}

impl Case {
    fn drawn(&self) -> (u64, Option<u64>) {
        let mut settings = TestSettings::default();
        for (name, value) in SEEDS.iter().chain(self.settings) {
            let field = FIELDS.iter().find(|field| field.name == *name);
            let field = field.expect("the cases name fields of the settings");
            (field.set)(&mut settings, value).expect("the values of the cases read");
        }
        let plan = Plan::resolve(&settings, self.library).expect("the cases make sense");
        let total = usize::try_from(self.library.total).expect("the libraries are small");
        let set = loadable_sets(&plan, false, total).swap_remove(0);
        let mut trace = Trace::new(&plan, &set, false);
        let (mut samples, mut schedule) = (Fingerprint::new(), Fingerprint::new());
        for _ in 0..self.queries {
            let mut indices = Vec::new();
            let Some(due) = trace.next_query(&mut indices) else { break };
            indices.iter().for_each(|&index| samples.add(index.into()));
            schedule.add(due);
        }
        (samples.0, self.schedule.map(|_| schedule.0))
    }
}

/// FNV-1a over 64-bit little-endian numbers. Not cryptographic: two traces collide by accident
/// with a probability of 2^-64.
struct Fingerprint(u64);

impl Fingerprint {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn constants_are_those_of_the_golden_cases() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../loadgen/testdata/traces");
        for case in CASES {
            let text = std::fs::read_to_string(format!("{folder}/{}.json", case.name)).unwrap();
            let golden: Value = serde_json::from_str(&text).unwrap();
            for (name, value) in SEEDS.iter().chain(case.settings) {
                let given = &golden["settings"][*name];
                let is_equal = given.as_str().is_some_and(|text| text == *value)
                    || given.as_f64().is_some_and(|number| value.parse() == Ok(number));
                assert!(is_equal, "{}: {name} is {given}, not {value}", case.name);
            }
            assert_eq!(golden["qsl_total"], case.library.total, "{}", case.name);
            assert_eq!(golden["qsl_performance"], case.library.performance, "{}", case.name);
            let phase = &golden["phases"][0];
            let queries = phase["issued"].as_array().unwrap();
            assert!(queries.len() >= case.queries, "{}: {}", case.name, queries.len());
            let mut samples = Fingerprint::new();
            for index in queries[..case.queries].iter().flat_map(|q| q.as_array().unwrap()) {
                samples.add(index.as_u64().unwrap());
            }
            assert_eq!(samples.0, case.samples, "{}: samples {:#018x}", case.name, samples.0);
            if let Some(expected) = case.schedule {
                let mut schedule = Fingerprint::new();
                let due = phase["scheduled_delta_ns"].as_array().unwrap();
                due[..case.queries].iter().for_each(|at| schedule.add(at.as_u64().unwrap()));
                assert_eq!(schedule.0, expected, "{}: {:#018x}", case.name, schedule.0);
            }
        }
    }

    #[test]
    fn this_build_draws_the_traces_of_the_reference() {
        assert_eq!(check(), CASES.map(|case| (case.name, true)));
    }
}
