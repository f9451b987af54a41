//! Cases computed by hand.
use super::*;
fn settings(scenario: Scenario) -> Settings {
    Settings {
        scenario,
        target_qps: 10.0,
        target_latency_ns: 100,
        target_percentile: if scenario == Scenario::SingleStream { 0.9 } else { 0.99 },
        samples_per_query: 2,
        min_query_count: 1,
        max_query_count: 0,
        min_duration_ns: 0,
        max_duration_ns: 0,
        performance_sample_count: 0,
        max_async_queries: 0,
        is_closed_loop: false,
        continues_trace: false,
        coalesce_queries: false,
        equal_issue: false,
        issue_unique: false,
    }
}
fn fields(f: &[Finding]) -> Vec<&'static str> {
    f.iter().map(|f| f.field).collect()
}
fn done(sample_id: u64, at_ns: u64) -> Completion {
    Completion { sample_id, at_ns, failed: false }
}
/// Back-to-back queries with these latencies (SingleStream), or one every `gap` ns (Server).
fn run(latencies: &[u64], gap: Option<u64>) -> Observation {
    let (mut queries, mut completions, mut now) = (vec![], vec![], 0);
    for (i, &x) in latencies.iter().enumerate() {
        queries.push(Query { scheduled_ns: now, issued_ns: now, samples: vec![(i as u64, 0)] });
        completions.push(done(i as u64, now + x));
        now += gap.unwrap_or(x);
    }
    completions.sort_by_key(|c| c.at_ns);
    Observation { queries, completions, ended_ns: None, continued_ns: None }
}
fn quantiles(values: [u64; 6]) -> Vec<(f64, u64)> {
    [0.5, 0.9, 0.95, 0.97, 0.99, 0.999].into_iter().zip(values).collect()
}
fn met(query_count: u64, sample_count: u64) -> RunReport {
    RunReport {
        is_valid: true,
        min_duration_met: true,
        min_queries_met: true,
        performance_constraints_met: true,
        early_stopping_met: Some(true),
        query_count,
        sample_count,
        completed_samples: sample_count,
        ..Default::default()
    }
}
/// SingleStream, latencies 1..=100: index 50 -> 51 etc.; t = 3 at n = 100, p = 0.9 -> sorted[97] = 98; mean 50.5 -> 50.
fn single() -> (Settings, Observation, RunReport) {
    let r = RunReport {
        percentiles_ns: quantiles([51, 91, 96, 98, 100, 100]),
        min_latency_ns: 1,
        max_latency_ns: 100,
        mean_latency_ns: 50,
        result: Some(98.0),
        ..met(100, 100)
    };
    (settings(Scenario::SingleStream), run(&(1..=100).collect::<Vec<_>>(), None), r)
}
/// Server, 661 of 662 queries at 10 ns, the first at 200 (over 100): h_min(1) = 661 at 0.99, so just successful.
fn server() -> (Settings, Observation, RunReport) {
    let mut l = vec![10; 662];
    l[0] = 200;
    let r = RunReport {
        percentiles_ns: quantiles([10, 10, 10, 10, 10, 200]), // 662 * 0.999 = 661.3
        min_latency_ns: 10,
        max_latency_ns: 200,
        mean_latency_ns: 10, // (6610 + 200) / 662 = 10.3
        result: Some(661.0 / 661010e-9),
        scheduled_rate: Some(661.0 / 661000e-9),
        ..met(662, 662)
    };
    (settings(Scenario::Server), run(&l, Some(1000)), r)
}

#[test]
fn early_stopping_table() {
    // SPEC 6 (from the real module) and the reference logs (700 -> discards 50; 40 late of 40)
    for (p, n, t) in [
        (0.9, 63, 0),
        (0.9, 64, 1),
        (0.9, 80, 1),
        (0.9, 81, 2),
        (0.9, 100, 3),
        (0.9, 700, 51),
        (0.9, 1024, 80),
        (0.9, 24576, 2348),
        (0.99, 661, 0),
        (0.99, 662, 1),
        (0.99, 700, 1),
        (0.99, 1000, 2),
        (0.99, 10000, 77),
        (0.99, 24576, 209),
        (0.99, 270336, 2583),
    ] {
        assert_eq!(early_stopping_t(n, p, THRESHOLD), t, "{p} {n}");
    }
    for (p, t, h) in [
        (0.9, 0, 44),
        (0.95, 0, 90),
        (0.97, 10, 657),
        (0.99, 0, 459),
        (0.99, 1, 661),
        (0.99, 40, 5687),
        (0.9, 1000, 9722),
        (0.97, 1000, 34831),
        (0.99, 1000, 106569),
        (0.999, 0, 4603),
        (0.999, 10, 20130),
        (0.999, 100, 125726),
    ] {
        assert_eq!(server_early_stopping(h + t, t, p), Some(true), "{p} {t}");
        assert_eq!(server_early_stopping(h + t - 1, t, p), Some(false), "{p} {t}");
    }
}
#[test]
fn single_stream() {
    let (s, o, r) = single();
    assert_eq!(judge(&s, &o, &r), []);
    for (bad, field) in [
        (RunReport { result: Some(91.0), ..r.clone() }, "result"),
        (RunReport { is_valid: false, ..r.clone() }, "is_valid"),
        (RunReport { mean_latency_ns: 51, ..r.clone() }, "mean_latency_ns"),
        (RunReport { early_stopping_met: Some(false), ..r.clone() }, "early_stopping_met"),
        (
            RunReport { percentiles_ns: quantiles([50, 91, 96, 98, 100, 100]), ..r.clone() },
            "percentiles_ns",
        ),
        (RunReport { lost_samples: 1, ..r.clone() }, "lost_samples"),
        (
            RunReport { percentiles_ns: r.percentiles_ns[1..].to_vec(), ..r.clone() },
            "percentiles_ns",
        ),
    ] {
        assert_eq!(fields(&judge(&s, &o, &bad)), [field]);
    }
    // The last query is issued at 1 + ... + 99 = 4950: the duration is that, not 5050 when it completes.
    let long = |d| Settings { min_duration_ns: d, ..s.clone() };
    assert_eq!(judge(&long(4950), &o, &r), []);
    assert_eq!(fields(&judge(&long(4951), &o, &r)), ["min_duration_met", "is_valid"]);
    assert_eq!(
        fields(&judge(&Settings { min_query_count: 101, ..s.clone() }, &o, &r)),
        ["min_queries_met", "is_valid"]
    );
    assert_eq!(fields(&judge(&Settings { max_query_count: 99, ..s.clone() }, &o, &r)), ["issuing"]);
    assert_eq!(fields(&judge(&Settings { max_duration_ns: 4851, ..s.clone() }, &o, &r)), [""; 0]); // query 98 is at 4851, not beyond
    assert_eq!(
        fields(&judge(&Settings { max_duration_ns: 4850, ..s.clone() }, &o, &r)),
        ["issuing"]
    );
    let mut o2 = o.clone();
    o2.queries[50].issued_ns -= 1;
    assert_eq!(fields(&judge(&s, &o2, &r)), ["issuing"]);
}
#[test]
fn too_few_queries_is_the_plain_percentile() {
    // n = 20: 20 * 0.9 = 18 -> the 19th; 63 queries do not suffice
    let r = RunReport {
        is_valid: false,
        early_stopping_met: Some(false),
        percentiles_ns: quantiles([11, 19, 20, 20, 20, 20]),
        min_latency_ns: 1,
        max_latency_ns: 20,
        mean_latency_ns: 10,
        result: Some(19.0),
        ..met(20, 20)
    };
    let o = run(&(1..=20).collect::<Vec<_>>(), None);
    let s = settings(Scenario::SingleStream);
    assert_eq!(judge(&s, &o, &r), []);
    assert_eq!(fields(&judge(&s, &o, &RunReport { is_valid: true, ..r })), ["is_valid"]);
}
#[test]
fn duplicates_unknown_lost_failed() {
    let (s, mut o, mut r) = single();
    o.completions.insert(1, done(0, 1)); // again, while the run goes on
    o.completions.insert(1, done(777, 1));
    assert_eq!(fields(&judge(&s, &o, &r)), ["duplicate_completions", "unknown_completions"]);
    (r.duplicate_completions, r.unknown_completions) = (1, 1);
    o.completions.push(done(5, 6000)); // after the last: open without an end, and nothing after a stated end
    for end in [None, Some(5050)] {
        o.ended_ns = end;
        assert_eq!(judge(&s, &o, &r), []);
    }
    o.ended_ns = Some(6000);
    assert_eq!(fields(&judge(&s, &o, &r)), ["duplicate_completions"]);
    let (s, mut o, mut r) = single(); // the last never completes, or after the end: never VALID
    o.completions[99].at_ns = 9000;
    o.ended_ns = Some(8000);
    (r.completed_samples, r.lost_samples, r.max_latency_ns) = (99, 1, 99);
    r.percentiles_ns = quantiles([50, 90, 95, 97, 99, 99]); // of 1..=99: 49.5 -> index 49, 89.1 -> 89, 94.05, 96.03, 98.01
    assert_eq!(fields(&judge(&s, &o, &r)), ["is_valid"]);
    assert_eq!(judge(&s, &o, &RunReport { is_valid: false, ..r.clone() }), []);
    o.completions[99] = Completion { sample_id: 99, at_ns: 5050, failed: true };
    (r.lost_samples, r.failed_samples) = (0, 1);
    assert_eq!(judge(&s, &o, &RunReport { is_valid: false, ..r.clone() }), []);
    assert_eq!(fields(&judge(&s, &o, &r)), ["is_valid"]);
}
#[test]
fn server_run() {
    let (s, o, r) = server();
    assert_eq!(judge(&s, &o, &r), []);
    // Latency from the scheduled time: issued 95 late and done 10 after is 105.
    let mut late = o.clone();
    late.queries[5].issued_ns += 95;
    late.completions.iter_mut().filter(|c| c.sample_id == 5).for_each(|c| c.at_ns += 95);
    let f = judge(&s, &late, &r); // two over latency need 836 + 2 queries; the mean becomes 10.43 and stays 10
    assert_eq!(fields(&f), ["early_stopping_met", "is_valid"]);
    assert_eq!(judge(&Settings { target_latency_ns: 105, ..s.clone() }, &late, &r), []); // not over: "> target"
    // One failure besides: the same verdict, and it is no throughput.
    let mut fail = o.clone();
    fail.completions.iter_mut().find(|c| c.sample_id == 5).unwrap().failed = true;
    let f = judge(
        &s,
        &fail,
        &RunReport {
            completed_samples: 661,
            failed_samples: 1,
            result: Some(660.0 / 661010e-9),
            ..r.clone()
        },
    );
    assert_eq!(fields(&f), ["early_stopping_met", "is_valid"]);
    // Final query scheduled at 661000.
    assert_eq!(judge(&Settings { min_duration_ns: 661000, ..s.clone() }, &o, &r), []);
    assert_eq!(
        fields(&judge(&Settings { min_duration_ns: 661001, ..s.clone() }, &o, &r)),
        ["min_duration_met", "is_valid"]
    );
    // The constraint: index 662 * 0.99 = 655 of 656 + 6 is the first late one at 200.
    let mut l = vec![10; 662];
    l[..7].fill(200);
    let f = judge(
        &s,
        &run(&l, Some(1000)),
        &RunReport {
            percentiles_ns: quantiles([10, 10, 10, 10, 200, 200]),
            mean_latency_ns: 12,
            ..r.clone()
        },
    );
    assert_eq!(fields(&f), ["performance_constraints_met", "early_stopping_met", "is_valid"]);
    assert_eq!(
        fields(&judge(&s, &o, &RunReport { scheduled_rate: None, ..r.clone() })),
        ["scheduled_rate"]
    );
    assert_eq!(judge(&Settings { max_async_queries: 1, ..s.clone() }, &o, &r), []); // 200 < 1000: never two outstanding
    let (mut held, s) = (o.clone(), Settings { target_latency_ns: 3000, ..s }); // both outstanding when the third is issued at 2000
    for (id, at) in [(0, 2001), (1, 2002)] {
        held.completions.iter_mut().find(|c| c.sample_id == id).unwrap().at_ns = at;
    }
    let r = RunReport {
        percentiles_ns: quantiles([10, 10, 10, 10, 10, 2001]),
        max_latency_ns: 2001,
        mean_latency_ns: 14,
        ..r
    };
    assert_eq!(judge(&Settings { max_async_queries: 2, ..s.clone() }, &held, &r), []);
    assert_eq!(fields(&judge(&Settings { max_async_queries: 1, ..s }, &held, &r)), ["issuing"]);
}
#[test]
fn multi_stream() {
    // two queries of two samples: to the last sample, 30 and 50
    let q = |t, a| Query { scheduled_ns: t, issued_ns: t, samples: vec![(a, 0), (a + 1, 1)] };
    let o = Observation {
        queries: vec![q(0, 0), q(30, 2)],
        completions: vec![done(0, 10), done(1, 30), done(3, 60), done(2, 80)],
        ended_ns: Some(80),
        continued_ns: None,
    };
    let r = RunReport {
        is_valid: false,
        early_stopping_met: Some(false),
        percentiles_ns: quantiles([50; 6]),
        min_latency_ns: 30,
        max_latency_ns: 50,
        mean_latency_ns: 40,
        result: Some(50.0),
        ..met(2, 4)
    };
    let s = Settings { min_query_count: 2, ..settings(Scenario::MultiStream) };
    assert_eq!(judge(&s, &o, &r), []);
    assert_eq!(fields(&judge(&Settings { performance_sample_count: 1, ..s }, &o, &r)), ["issuing"]);
}
#[test]
fn offline() {
    // the reference run: 550 = 1.1 * 0.1 s * 5000 samples in 202318280 ns are 2718.49 samples/s
    let s = Settings {
        target_qps: 5000.0,
        min_query_count: 100,
        min_duration_ns: 100_000_000,
        ..settings(Scenario::Offline)
    };
    let ns = 202318280;
    let o = Observation {
        queries: vec![Query {
            scheduled_ns: 0,
            issued_ns: 0,
            samples: (0..550).map(|i| (i, i)).collect(),
        }],
        completions: (0..550).map(|i| done(i, ns)).collect(),
        ended_ns: Some(ns),
        continued_ns: None,
    };
    assert!((550.0 / 0.20231828f64 - 2718.49).abs() < 0.005);
    let r = RunReport {
        percentiles_ns: quantiles([ns; 6]),
        min_latency_ns: ns,
        max_latency_ns: ns,
        mean_latency_ns: ns,
        result: Some(550.0 / 0.20231828),
        ..met(1, 550)
    };
    assert_eq!(judge(&s, &o, &r), []);
    assert_eq!(
        fields(&judge(&s, &o, &RunReport { result: Some(2718.0), ..r.clone() })),
        ["result"]
    );
    let slow = Settings { min_duration_ns: 202_318_281, target_qps: 0.0, ..s.clone() };
    assert_eq!(fields(&judge(&slow, &o, &r)), ["min_duration_met", "is_valid"]);
    assert_eq!(
        fields(&judge(&Settings { target_qps: 5010.0, ..s }, &o, &r)),
        ["min_queries_met", "is_valid"]
    ); // 551 needed
}
#[test]
fn closed_loop() {
    // One query in flight: 10 queries of 100 ns, the last one at 900. The trace has one query each 100 ns.
    let s = Settings {
        is_closed_loop: true,
        target_qps: 1e7,
        target_percentile: 0.5,
        min_duration_ns: 950,
        ..settings(Scenario::Server)
    };
    let mut o = run(&[100; 10], None);
    o.continued_ns = Some(900);
    let is_met = |s: &Settings, o: &Observation| closed_loop::is_long_enough(s, o, 900);
    assert_eq!(is_met(&s, &o), Some(true));
    // It could have issued more, but had none, was not to issue more, or had not enough.
    let short = |s: Settings| assert_eq!(is_met(&s, &o), Some(false), "{s:?}");
    short(Settings { target_qps: 5e6, ..s.clone() }); // 0, 200, ..., 1000
    short(Settings { issue_unique: true, performance_sample_count: 10, ..s.clone() });
    short(Settings { max_query_count: 10, ..s.clone() });
    short(Settings { max_duration_ns: 899, ..s.clone() });
    short(Settings { min_query_count: 11, ..s.clone() });
    let continued = Settings { target_qps: 5e6, continues_trace: true, ..s.clone() };
    assert_eq!(is_met(&continued, &o), Some(true));
    // The client slept after the last query of the trace.
    let few = Settings { target_qps: 5e6, ..s.clone() };
    o.continued_ns = Some(950);
    assert_eq!(is_met(&few, &o), Some(true));
    // No query is issued after the duration, unless more are required.
    let late = |s: &Settings| {
        let mut out = Findings(Vec::new());
        closed_loop::check_issuing(s, &o, &mut out);
        fields(&out.0).len()
    };
    assert_eq!(late(&s), 0);
    assert_eq!(late(&Settings { min_duration_ns: 900, ..s.clone() }), 1);
    assert_eq!(late(&Settings { min_duration_ns: 900, min_query_count: 10, ..s }), 0);
}
