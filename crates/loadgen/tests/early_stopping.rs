//! Early stopping against the reference's tables, exact integer arithmetic, and
//! simulated runs of a system on the boundary.

use dyno_loadgen::early_stopping::{
    Estimate, Look, Params, false_pass_rate, largest_overlatency, look, minimum_queries,
    minimum_query_count, minimum_underlatency, query_count,
};
use proptest::prelude::*;

#[path = "../examples/repeated_looks.rs"]
#[expect(dead_code, reason = "an example has a main")]
mod repeated_looks;

/// `h_min(t)` for t = 0..=10, printed by the reference's own code.
const REFERENCE: [(f64, [u64; 11]); 5] = [
    (0.90, [44, 63, 79, 94, 109, 122, 136, 149, 162, 174, 187]),
    (0.95, [90, 129, 163, 195, 225, 254, 282, 309, 336, 362, 388]),
    (0.97, [152, 218, 275, 329, 379, 428, 476, 522, 568, 613, 657]),
    (0.99, [459, 661, 836, 998, 1153, 1302, 1447, 1589, 1728, 1865, 2000]),
    (0.999, [4603, 6635, 8401, 10039, 11597, 13100, 14561, 15989, 17390, 18770, 20130]),
];

/// Values for larger t: (percentile, t, `h_min`).
const REFERENCE_LARGE: [(f64, u64, u64); 15] = [
    (0.90, 20, 305),
    (0.90, 50, 631),
    (0.90, 100, 1146),
    (0.90, 200, 2137),
    (0.90, 500, 5018),
    (0.90, 1000, 9722),
    (0.97, 100, 4082),
    (0.97, 1000, 34831),
    (0.99, 20, 3284),
    (0.99, 50, 6848),
    (0.99, 100, 12471),
    (0.99, 200, 23327),
    (0.99, 500, 54927),
    (0.99, 1000, 106_569),
    (0.999, 100, 125_726),
];

#[test]
fn minima_equal_the_reference_tables() {
    for (percentile, row) in REFERENCE {
        let found =
            std::array::from_fn(|t| minimum_underlatency(t as u64, &Params::rules(percentile)));
        assert_eq!(row, found, "percentile {percentile}");
    }
    for (percentile, over, expected) in REFERENCE_LARGE {
        let found = minimum_underlatency(over, &Params::rules(percentile));
        assert_eq!(found, expected, "percentile {percentile}, {over} over");
    }
}

#[test]
fn the_documentation_counts_late_queries_among_those_that_are_needed() {
    let page = include_str!("../../../docs/concepts/early-stopping.md");
    let row = |name: &str| -> Vec<u64> {
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        let cells = line.expect("the table has the row").split('|');
        cells.filter_map(|cell| cell.trim().replace(',', "").parse().ok()).collect()
    };
    // `h_min` of the reference's tables, and the late queries.
    let expected: [u64; 8] =
        [459, 662, 838, 1302 + 5, 2000 + 10, 3284 + 20, 6848 + 50, 12471 + 100];
    assert_eq!(row("| late |"), [0, 1, 2, 5, 10, 20, 50, 100]);
    assert_eq!(row("| queries |"), expected);
}

/// A natural number in base 2^32, least digit first, for the exact check.
#[derive(Clone, PartialEq, Eq)]
struct Natural(Vec<u32>);

impl Natural {
    fn one() -> Self {
        Self(vec![1])
    }

    fn times(mut self, factor: u32) -> Self {
        let mut carry = 0;
        for digit in &mut self.0 {
            carry += u64::from(*digit) * u64::from(factor);
            *digit = (carry & 0xffff_ffff) as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
        self
    }

    fn divided_by(mut self, divisor: u32) -> Self {
        let mut rest = 0;
        for digit in self.0.iter_mut().rev() {
            rest = rest << 32 | u64::from(*digit);
            *digit = (rest / u64::from(divisor)) as u32;
            rest %= u64::from(divisor);
        }
        assert_eq!(rest, 0, "only exact divisions");
        self.trimmed()
    }

    fn plus(mut self, other: &Self) -> Self {
        self.0.resize(self.0.len().max(other.0.len()) + 1, 0);
        let mut carry = 0;
        for (at, digit) in self.0.iter_mut().enumerate() {
            carry += u64::from(*digit) + u64::from(other.0.get(at).copied().unwrap_or(0));
            *digit = (carry & 0xffff_ffff) as u32;
            carry >>= 32;
        }
        self.trimmed()
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    fn is_less_than(&self, other: &Self) -> bool {
        (self.0.len(), self.0.iter().rev().collect::<Vec<_>>())
            < (other.0.len(), other.0.iter().rev().collect::<Vec<_>>())
    }

    fn power(base: u32, exponent: u32) -> Self {
        (0..exponent).fold(Self::one(), |power, _| power.times(base))
    }
}

/// Whether at most `over` of `trials` has a probability below 1/100 when one in
/// `parts` is over: the sum over k of C(trials, k) (parts - 1)^(trials - k),
/// times 100, against parts^trials.
fn passes_exactly(trials: u32, over: u32, parts: u32) -> bool {
    let mut term = Natural::power(parts - 1, trials);
    let mut sum = term.clone();
    for k in 1..=over {
        term = term.times(trials - k + 1).divided_by(k).divided_by(parts - 1);
        sum = sum.plus(&term);
    }
    sum.times(100).is_less_than(&Natural::power(parts, trials))
}

#[test]
fn minima_are_exact_in_integer_arithmetic() {
    for (percentile, parts, most) in [(0.9, 10, 25), (0.95, 20, 12), (0.99, 100, 3)] {
        for over in 0..=most {
            let params = Params::rules(percentile);
            let under = minimum_underlatency(u64::from(over), &params) as u32;
            assert!(passes_exactly(under + over, over, parts), "{percentile}, {over} over");
            assert!(!passes_exactly(under + over - 1, over, parts), "{percentile}, {over} over");
        }
    }
}

#[test]
fn estimates_discard_as_many_as_the_reference() {
    for (percentile, processed, rank) in [
        (0.90, 63, None),
        (0.90, 64, Some(1)),
        (0.90, 100, Some(3)),
        (0.90, 700, Some(51)),
        (0.90, 1024, Some(80)),
        (0.90, 24_576, Some(2348)),
        (0.99, 661, None),
        (0.99, 662, Some(1)),
        (0.99, 1000, Some(2)),
        (0.99, 10_000, Some(77)),
        (0.99, 24_576, Some(209)),
        (0.99, 270_336, Some(2583)),
    ] {
        let estimate = Estimate::for_count(processed, &Params::rules(percentile));
        assert_eq!(estimate.rank, rank, "percentile {percentile}, {processed} processed");
        assert_eq!(estimate.needed, if percentile == 0.9 { 64 } else { 662 });
        assert_eq!(estimate.position(), rank.map(|rank| processed - rank));
    }
}

#[test]
fn a_look_says_how_many_queries_are_lacking() {
    // From the reference's log of a run of 40 queries, all over their bound.
    let params = Params::rules(0.99);
    assert_eq!(look(40, 40, &params), Look::Further(5687));
    assert_eq!(look(40 + 5687, 40, &params), Look::Met);
    assert_eq!(look(458, 0, &params), Look::Further(1));
    assert_eq!(look(459, 0, &params), Look::Met);
}

#[test]
fn tolerance_lowers_the_boundary() {
    let with_tolerance = Params { percentile: 0.95, confidence: 0.99, tolerance: 0.05 };
    for over in 0..20 {
        assert_eq!(
            minimum_underlatency(over, &with_tolerance),
            minimum_underlatency(over, &Params::rules(0.90))
        );
    }
}

#[test]
fn impossible_criteria_end() {
    let never = Params { percentile: 1.0, confidence: 0.99, tolerance: 0.0 };
    assert_eq!(minimum_underlatency(0, &never), u64::MAX);
    assert_eq!(look(10, 0, &never), Look::Further(u64::MAX - 10));
    let certain = Params { percentile: 0.9, confidence: 1.0, tolerance: 0.0 };
    assert_eq!(minimum_underlatency(3, &certain), u64::MAX);
    let always = Params { percentile: 0.0, confidence: 0.99, tolerance: 0.0 };
    assert_eq!(minimum_underlatency(3, &always), 1);
}

#[test]
fn query_counts_are_those_of_the_rules() {
    for (percentile, exact, rounded) in [
        (0.90, 23_886, 24_576),
        (0.95, 50_425, 57_344),
        (0.97, 85_811, 90_112),
        (0.99, 262_742, 270_336),
    ] {
        assert_eq!((query_count(percentile), minimum_query_count(percentile)), (exact, rounded));
    }
}

#[test]
fn one_look_passes_the_boundary_in_less_than_one_percent() {
    for percentile in [0.5, 0.9, 0.95, 0.97, 0.99, 0.999] {
        let params = Params::rules(percentile);
        let mut highest: f64 = 0.0;
        for queries in (1..2000).chain([24_576, 57_344, 90_112, 270_336, 1 << 20, 10_000_000]) {
            let rate = false_pass_rate(queries, &params);
            assert!(rate < 0.01, "percentile {percentile}, {queries} queries: {rate}");
            highest = highest.max(rate);
        }
        // The criterion is not merely strict: it uses up what is allowed.
        assert!(highest > 0.0098, "percentile {percentile}: {highest}");
    }
}

#[test]
fn ten_thousand_boundary_runs_agree_with_the_exact_rate() {
    const RUNS: usize = 10_000;
    for (percentile, queries, seed) in [(0.90, 1024, 1), (0.99, 5000, 2), (0.99, 662, 3)] {
        let params = Params::rules(percentile);
        let exact = false_pass_rate(queries, &params);
        let simulated =
            repeated_looks::BoundaryRuns::play(&params, queries, 1, RUNS, seed).pass_rate(1);
        let sigma = (exact * (1.0 - exact) / RUNS as f64).sqrt();
        assert!((simulated - exact).abs() < 3.0 * sigma, "{percentile}: {simulated} vs {exact}");
    }
}

#[test]
fn repeated_looks_inflate_the_false_pass_rate() {
    let params = Params::rules(0.90);
    let minimum = minimum_queries(100, &params);
    let runs = repeated_looks::BoundaryRuns::play(&params, minimum, 10, 2_000, 7);
    let [once, four, ten] = [1, 4, 10].map(|cap| 100.0 * runs.pass_rate(cap));
    println!("minimum {minimum}: one look {once:.2} %, cap 4x {four:.1} %, cap 10x {ten:.1} %");
    assert!((0.3..2.0).contains(&once), "one look: {once} %");
    assert!((4.0..7.5).contains(&four), "cap 4x: {four} %");
    assert!((6.0..10.0).contains(&ten), "cap 10x: {ten} %");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn more_misses_take_more_queries(
        percentile in 0.5..0.999_f64,
        confidence in 0.6..0.999_f64,
        over in 0_u64..500,
    ) {
        let params = Params { percentile, confidence, tolerance: 0.0 };
        let minimum = minimum_queries(over, &params);
        prop_assert!(minimum_queries(over + 1, &params) > minimum);
        let stricter = Params { confidence: confidence + 0.0005, ..params };
        prop_assert!(minimum_queries(over, &stricter) >= minimum);
    }

    #[test]
    fn the_largest_count_that_passes_inverts_the_minimum(
        percentile in 0.5..0.999_f64,
        queries in 1_u64..100_000,
    ) {
        let params = Params::rules(percentile);
        match largest_overlatency(queries, &params) {
            None => prop_assert!(minimum_queries(0, &params) > queries),
            Some(most) => {
                prop_assert!(minimum_queries(most, &params) <= queries);
                prop_assert!(minimum_queries(most + 1, &params) > queries);
            }
        }
    }
}
