//! Observed progress of a run agrees with its record.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dyno_loadgen::clock::{MILLISECOND, WallTime};
use dyno_loadgen::drive::real::{RealTime, Responder, RunObserver};
use dyno_loadgen::drive::sim::{View, VirtualTime};
use dyno_loadgen::drive::{AnsweredQuery, Glance};
use dyno_loadgen::record::{Failure, Record};
use dyno_loadgen::run::{RecordRetention, RunLog, run};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Scenario, TestSettings};
use dyno_loadgen::sut::{QuerySample, Response};

use crate::null::{Echo, NullLibrary, tenant};
use crate::real_time::{FunctionSystem, answer, play_with, settings};

/// Plays a run that is looked at after every so-manieth call of `issue`, and
/// returns it with all glances.
fn looked_at(
    settings: &TestSettings,
    every: usize,
    issue: impl Fn(&[QuerySample], &Responder) + Send + Sync + 'static,
) -> (RunLog, Vec<Glance>) {
    let seen: Arc<Mutex<(Option<RunObserver>, Vec<Glance>)>> = Arc::default();
    let (shared, calls) = (seen.clone(), AtomicUsize::new(0));
    let driver =
        RealTime::new(Arc::new(FunctionSystem(move |samples: &[QuerySample], to: &Responder| {
            issue(samples, to);
            if (calls.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every) {
                let (observer, glances) = &mut *shared.lock().unwrap();
                glances.extend(observer.as_mut().unwrap().glance());
            }
        })));
    seen.lock().unwrap().0 = Some(driver.monitor().observer());
    let log = play_with(settings, driver);
    let (observer, glances) = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(observer.unwrap().glance(), None, "nothing is seen of a run that is over");
    (log, glances)
}

fn answered(glances: &[Glance]) -> Vec<AnsweredQuery> {
    glances.iter().flat_map(|glance| glance.answered.iter().copied()).collect()
}

/// Each answered query is one of the record, with its latency.
fn assert_recorded(seen: &[AnsweredQuery], record: &Record) {
    let latency = |query: usize| {
        let samples = query * record.samples_per_query..(query + 1) * record.samples_per_query;
        record.completed_at[samples].iter().max().unwrap() - record.scheduled(query)
    };
    let mut recorded: HashMap<u64, Vec<u64>> = HashMap::new();
    for query in 0..record.query_count() {
        recorded.entry(record.scheduled(query)).or_default().push(latency(query));
    }
    for answered in seen {
        assert!(recorded[&answered.due].contains(&answered.latency), "{answered:?}");
    }
}

#[test]
fn every_query_of_a_short_run_is_seen() {
    for scenario in [Scenario::SingleStream, Scenario::MultiStream, Scenario::Server] {
        let (run, glances) = looked_at(&settings(scenario, 300), 1, answer);
        let seen = answered(&glances);
        // The last query is noted after the system has taken it, when the observer has ended.
        assert_eq!(seen.len(), 299, "{scenario}");
        assert!(seen.iter().all(|answered| answered.stands_for == 1));
        assert_recorded(&seen, &run.record);
        let lags: Vec<u64> = seen.iter().filter_map(|answered| answered.client_lag).collect();
        match scenario {
            Scenario::Server => {
                let recorded = run.record.client_lag[..299].iter().map(|&lag| lag.into());
                assert_eq!(lags, recorded.collect::<Vec<u64>>());
            }
            _ => assert!(lags.is_empty()),
        }
        let last = glances.last().unwrap();
        assert_eq!((last.issued_queries, last.in_flight()), (300, 0), "{scenario}");
    }
}

#[test]
fn a_long_run_is_seen_in_evenly_spread_parts() {
    let queries = 100_000;
    let (run, glances) = looked_at(&settings(Scenario::SingleStream, queries), 5_000, answer);
    let seen = answered(&glances);
    assert_recorded(&seen, &run.record);
    let stand_for: u64 = seen.iter().map(|answered| answered.stands_for).sum();
    assert!((queries * 8 / 10..=queries * 11 / 10).contains(&stand_for), "{stand_for}");
    // The number of queries before the first glance is unknown; from then on
    // the pace of the part before is what the next one is noted by.
    let parts: Vec<usize> = glances.iter().map(|glance| glance.answered.len()).collect();
    assert_eq!(parts[0], 2_500, "one of two of 5,000: a run of 100,000 may have 64 glances");
    assert!(parts[1..].iter().all(|part| (600..=1_024).contains(part)), "{parts:?} of 5,000 each");
}

#[test]
fn slow_queries_are_followed_until_they_are_answered() {
    let held: Mutex<Vec<Response<'static>>> = Mutex::default();
    let (run, glances) = looked_at(&settings(Scenario::Server, 200), 1, move |samples, to| {
        let number = samples[0].id.sequence();
        match number {
            10 => held.lock().unwrap().push(Response::empty(samples[0].id)),
            11 => to.fail(&[samples[0].id], Failure::Rejected),
            _ => answer(samples, to),
        }
        if number == 150 {
            to.complete(&held.lock().unwrap());
        }
    });
    let due = run.record.scheduled(10);
    let waits = glances.iter().filter(|g| g.waiting.iter().any(|w| w.due == due)).count();
    // Noted after the call in which it was issued, answered in the 151st.
    assert_eq!(waits, 150 - 11);
    assert!(answered(&glances).iter().any(|answered| answered.due == due));
    assert_recorded(&answered(&glances), &run.record);
    assert_eq!(glances.last().unwrap().failed_samples, 1);
    assert_eq!(glances[100].in_flight(), 1);
}

#[test]
fn samples_of_the_offline_query_are_seen_as_they_come() {
    let seen: Arc<Mutex<(Option<RunObserver>, Vec<Glance>)>> = Arc::default();
    let shared = seen.clone();
    let driver =
        RealTime::new(Arc::new(FunctionSystem(move |samples: &[QuerySample], to: &Responder| {
            let (observer, glances) = &mut *shared.lock().unwrap();
            for part in samples.chunks(1_000) {
                answer(part, to);
                glances.extend(observer.as_mut().unwrap().glance());
            }
        })));
    seen.lock().unwrap().0 = Some(driver.monitor().observer());
    let run = play_with(&settings(Scenario::Offline, 5_000), driver);
    let glances = std::mem::take(&mut seen.lock().unwrap().1);
    let complete: Vec<u64> = glances.iter().map(|glance| glance.completed_samples).collect();
    assert_eq!(complete, [1_000, 2_000, 3_000, 4_000, 5_000]);
    let parts: Vec<usize> = glances.iter().map(|glance| glance.answered.len()).collect();
    assert_eq!(parts.iter().sum::<usize>(), 1_024);
    assert!(parts.iter().all(|part| (204..=206).contains(part)), "{parts:?}");
    assert!(answered(&glances).iter().all(|a| run.record.completed_at.contains(&a.latency)));
}

#[test]
fn the_first_of_several_issuing_threads_is_seen() {
    let wanted =
        TestSettings { server_num_issue_query_threads: 2, ..settings(Scenario::Server, 400) };
    let (run, glances) = looked_at(&wanted, 1, answer);
    let seen = answered(&glances);
    assert!((100..=200).contains(&seen.len()), "{}", seen.len());
    assert_recorded(&seen, &run.record);
}

#[test]
fn virtual_time_is_seen_and_ended_as_well() {
    let play = |observer: &mut dyn FnMut(&mut View<'_>) -> ControlFlow<()>| {
        let mut system = Echo { latency: 3 * MILLISECOND, ..Echo::default() };
        let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 }).observer(observer);
        let library = NullLibrary::new(100, 100);
        let wanted = settings(Scenario::Server, 50_000);
        run(&mut driver, &[tenant(&wanted, &library)], RecordRetention::Every, &mut |_| {})
            .swap_remove(0)
    };
    let mut glances = Vec::new();
    let watched = play(&mut |view| {
        glances.push(view.glance());
        ControlFlow::Continue(())
    });
    let unwatched = play(&mut |_| ControlFlow::Continue(()));
    assert_eq!(watched, unwatched, "looking on changes nothing");
    let seen = answered(&glances);
    assert!(seen.iter().all(|answered| answered.latency == 3 * MILLISECOND));
    let stand_for: u64 = seen.iter().map(|answered| answered.stands_for).sum();
    assert!((40_000..=60_000).contains(&stand_for), "{stand_for}");
    let record = &watched.runs().next().unwrap().record;
    assert_recorded(&seen, record);
    // At least two queries are in a stretch, so that every n-th query would hardly ever be followed by
    // the next one; random ones are in at least 1 of 9 cases.
    let numbers: HashMap<u64, usize> =
        (0..record.query_count()).map(|query| (record.scheduled(query), query)).collect();
    let of_long = seen.iter().filter(|answered| answered.stands_for > 1);
    let chosen: Vec<usize> = of_long.map(|answered| numbers[&answered.due]).collect();
    let neighbors = chosen.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
    assert!(neighbors > chosen.len() / 20, "{neighbors} of {}", chosen.len());
    let last = glances.last().unwrap();
    // At 100,000 queries/s about 300 are under way for 3 ms each.
    assert!((200..400).contains(&last.in_flight()), "{}", last.in_flight());

    let mut looks = 0;
    let ended = play(&mut |_| {
        looks += 1;
        if looks == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(!ended.complete);
    let run = ended.runs().next().unwrap();
    assert_eq!(run.ended, EndReason::Aborted);
    assert!((1..50_000).contains(&run.record.query_count()));
}
