//! Searches for peaks that are known, and whether their oracle can fail.

use dyno_hardening::oracle::Finding;
use dyno_hardening::rng::Stream;
use dyno_hardening::searches::oracle::{
    PeakReport, PeakRun, PeakSettings, Purpose, SearchReport, SearchRun, SearchSettings,
    judge_peak, judge_search,
};
use dyno_hardening::searches::{SearchEnd, check, limits, peak};

#[test]
fn known_peaks_are_found_as_documented() {
    let mut found = 0;
    for index in 0..400 {
        let (ended, findings) = check(20_261_129, index);
        assert_eq!(findings, [], "dyno-hardening searches --seed 20261129 --only {index}");
        found += u32::from(ended == SearchEnd::Found);
    }
    assert!(found > 200, "{found} searches found a peak");
}

/// A search by `FindPeakPerformance`.
struct PeakSearch(PeakSettings, Vec<PeakRun>, PeakReport);

type PeakMutation = (&'static str, fn(&mut PeakSearch) -> Option<()>);

const OF_PEAKS: [PeakMutation; 4] = [
    ("the rate found is lower", |search| {
        search.2.found = Some(search.2.found? * 0.9);
        Some(())
    }),
    ("a run misses the bound unnoticed", |search| {
        let (bound, percentile) = (search.0.bound_ns, search.0.percentile);
        let run = search.1.last_mut().filter(|_| search.2.found.is_some())?;
        let within = run.latencies.iter().filter(|latency| **latency <= bound).count();
        let is_kept = within > (run.latencies.len() as f64 * percentile) as usize;
        run.latencies.fill(if is_kept { bound + 1 } else { 0 });
        Some(())
    }),
    ("the result is that of another run", |search| {
        search.2.result = Some(search.2.found? * 2.0);
        Some(())
    }),
    ("a run is left out", |search| search.1.pop().filter(|_| !search.1.is_empty()).map(|_| ())),
];

/// A search of `dyno search`.
struct LimitSearch(SearchSettings, Vec<SearchRun>, SearchReport);

type LimitMutation = (&'static str, fn(&mut LimitSearch) -> Option<()>);

const OF_LIMITS: [LimitMutation; 7] = [
    ("the first load is another one", |search| {
        search.1.first_mut()?.load *= 2.0;
        Some(())
    }),
    ("a run is above the highest load", |search| {
        search.0.to = Some(search.1.iter().map(|run| run.load).reduce(f64::max)? * 0.99);
        Some(())
    }),
    ("the runs take longer than allowed", |search| {
        search.1.last_mut()?.took_ns += search.0.max_time_ns;
        Some(())
    }),
    ("a full run is too short", |search| {
        let full = search.1.iter_mut().find(|run| run.purpose == Purpose::Confirm)?;
        full.duration_ns = search.0.full_ns / 2;
        Some(())
    }),
    ("a full run that missed its limit confirms the peak", |search| {
        let is_full = |run: &&mut SearchRun| run.purpose == Purpose::Confirm && run.passed;
        search.1.last_mut().filter(is_full).filter(|_| search.2.confirmed.is_some())?.passed =
            false;
        Some(())
    }),
    ("the peak is off", |search| {
        let is_settled = matches!(search.2.state, "confirmed" | "estimated");
        let peak = search.2.peak.as_mut().filter(|_| is_settled && !search.0.is_whole)?;
        *peak = peak.map(|load| load * 1.5);
        Some(())
    }),
    ("the peak is not stated", |search| {
        search.2.peak.take().filter(|_| search.2.state != "unclear").map(|_| ())
    }),
];

#[test]
fn every_altered_search_is_noticed() {
    let mut applied = [0; OF_PEAKS.len() + OF_LIMITS.len()];
    let mut missed = Vec::new();
    let mut count = |number: usize, name: &str, findings: &[Finding]| {
        applied[number] += 1;
        if findings.is_empty() {
            missed.push(name.to_owned());
        }
    };
    for index in 0..150 {
        let settings = peak::draw(&mut Stream::new(79, index, 500));
        let Some((runs, report)) = peak::play(&settings) else { continue };
        for (number, (name, mutation)) in OF_PEAKS.iter().enumerate() {
            let mut search = PeakSearch(settings, runs.clone(), report.clone());
            if mutation(&mut search).is_some() {
                count(number, name, &judge_peak(&search.0, &search.1, &search.2));
            }
        }
        let mut draw = Stream::new(80, index, 500);
        let case = limits::draw(&mut draw);
        let (runs, report) = limits::play(&case, &mut draw);
        for (number, (name, mutation)) in OF_LIMITS.iter().enumerate() {
            let mut search = LimitSearch(case.settings, runs.clone(), report.clone());
            if mutation(&mut search).is_some() {
                let findings = judge_search(&search.0, &search.1, &search.2);
                count(OF_PEAKS.len() + number, name, &findings);
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new());
    assert!(applied.iter().all(|times| *times >= 20), "{applied:?}");
}
