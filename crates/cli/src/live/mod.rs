//! State of a run in progress: its tests and their results, and the counts, latencies and time
//! line of the current test.

mod line;
mod time_line;

use dyno_experiment::TestResult;
use dyno_experiment::goals::{EndCondition, Goals};
use dyno_experiment::test::PlannedTest;
use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::Glance;
use dyno_results::series::Counts;

pub use line::{bar, line};
pub use time_line::TimeLine;

/// A run in progress.
#[derive(Debug, Default)]
pub struct Live {
    /// Heading: what is measured, and how.
    pub heading: String,
    /// All tests in order; empty if the run announced none.
    pub tests: Vec<TestEntry>,
    /// Title of the current test, such as `2/8 Server performance`.
    pub title: String,
    /// Details of it, such as which run of a search.
    pub remark: String,
    /// Latest values of the servers' metrics pages, such as `8 running, 3 waiting`; empty if unknown.
    pub servers: String,
    /// Goals of the current test.
    pub goals: Goals,
    /// Observations of the current test.
    pub seen: Observations,
}

/// A test of the run.
#[derive(Debug, Clone, Default)]
pub struct TestEntry {
    /// Title, such as `Server performance`.
    pub title: String,
    /// Result, once the test is over.
    pub result: Option<TestResult>,
}

/// Observations of the current run. Counts are exact; latencies are those of sampled queries, in
/// buckets 3.2 to 6.25 % wide.
#[derive(Debug, Clone, Default)]
pub struct Observations {
    /// The last glance, with its lists emptied.
    pub last: Glance,
    /// Latency from the due time, ns.
    pub latency: Counts,
    /// Lag of the client, ns.
    pub client_lag: Counts,
    /// Time from the due time to the first token, ns.
    pub first_token: Counts,
    /// Answered queries with a bound; approximate.
    pub judged: u64,
    /// Those of them over their bound.
    pub over: u64,
    /// Waiting queries that are over their bound already.
    pub waiting_over: u64,
    /// Throughput and latency over time.
    pub time_line: TimeLine,
}

impl Live {
    /// Starts a test.
    pub fn begin(&mut self, title: &str, goals: Goals) {
        self.title = title.into();
        self.remark.clear();
        self.servers.clear();
        self.seen = Observations::default();
        self.goals = goals;
    }

    /// Adds a glance. A glance of a new run of the test resets the observations.
    pub fn saw(&mut self, glance: &Glance) {
        if glance.epoch != self.seen.last.epoch {
            self.seen = Observations::default();
        }
        self.seen.take(glance, &self.goals);
    }

    /// Sets the heading and the tests of the run.
    pub fn plan(&mut self, heading: String, tests: &[PlannedTest]) {
        self.heading = heading;
        let entry = |test: &PlannedTest| TestEntry { title: test.title(), result: None };
        self.tests = tests.iter().map(entry).collect();
    }

    /// Sets the result of the first test without one.
    pub fn result(&mut self, result: TestResult) {
        if let Some(test) = self.tests.iter_mut().find(|test| test.result.is_none()) {
            test.result = Some(result);
        }
    }
}

impl Observations {
    fn take(&mut self, glance: &Glance, goals: &Goals) {
        let (before, after) = (self.last.completed_samples, glance.completed_samples);
        self.time_line.add_completed(self.last.now..glance.now, after.saturating_sub(before));
        for answered in &glance.answered {
            self.latency.add_many(answered.latency, answered.stands_for);
            self.time_line.add_answered(answered.due, answered.latency, answered.stands_for);
            if let Some(lag) = answered.client_lag {
                self.client_lag.add_many(lag, answered.stands_for);
            }
            if let Some(first_token) = answered.first_token {
                self.first_token.add_many(first_token, answered.stands_for);
            }
            if let Some(bound) = goals.bound(answered.tenant) {
                let time = if bound.of_first_token {
                    answered.first_token.unwrap_or(Nanos::MAX)
                } else {
                    answered.latency
                };
                self.judged += answered.stands_for;
                self.over += if time > bound.limit { answered.stands_for } else { 0 };
            }
        }
        let waits_over = |waiting: &&dyno_loadgen::drive::WaitingQuery| {
            let bound = goals.bound(waiting.tenant).filter(|bound| !bound.of_first_token);
            bound.is_some_and(|bound| glance.now.saturating_sub(waiting.due) > bound.limit)
        };
        let waiting = glance.waiting.iter().filter(waits_over);
        self.waiting_over = waiting.map(|waiting| waiting.stands_for).sum();
        self.last = Glance { answered: Vec::new(), waiting: Vec::new(), ..*glance };
    }

    /// Returns the complete samples or queries, whichever the goals count.
    pub fn complete(&self, goals: &Goals) -> u64 {
        self.last.completed_samples / goals.samples_per_query.max(1)
    }

    /// Returns complete samples or queries per second since the start; `None` before the first one.
    pub fn rate(&self, goals: &Goals) -> Option<f64> {
        let seconds = self.last.now as f64 / 1e9;
        let complete = self.complete(goals);
        (complete > 0 && seconds > 0.0).then(|| complete as f64 / seconds)
    }

    /// Returns the share of queries over their bound, waiting ones included; `None` without a bound
    /// or observations.
    pub fn share_over(&self) -> Option<f64> {
        let judged = self.judged + self.waiting_over;
        (judged > 0).then(|| (self.over + self.waiting_over) as f64 / judged as f64)
    }

    /// Returns the finished share of the test, in [0, 1]; `None` if it cannot be estimated.
    pub fn fraction(&self, goals: &Goals) -> Option<f64> {
        let fraction = |part: u64, whole: u64| match whole {
            0 => 1.0,
            whole => (part as f64 / whole as f64).min(1.0),
        };
        match goals.until {
            EndCondition::Unknown => None,
            EndCondition::Samples(samples) => Some(fraction(self.last.completed_samples, samples)),
            EndCondition::Least { duration, queries } => {
                let issued = self.last.issued_queries;
                Some(fraction(self.last.now, duration).min(fraction(issued, queries)))
            }
        }
    }

    /// Returns the time to the end at the current pace, ns; `None` if it cannot be estimated.
    pub fn time_left(&self, goals: &Goals) -> Option<Nanos> {
        let pace = |done: u64, goal: u64| {
            let left = goal.saturating_sub(done);
            match (left, done) {
                (0, _) => Some(0),
                (_, 0) => None,
                _ => Some((self.last.now as f64 / done as f64 * left as f64) as Nanos),
            }
        };
        match goals.until {
            EndCondition::Unknown => None,
            EndCondition::Samples(samples) => pace(self.last.completed_samples, samples),
            EndCondition::Least { duration, queries } => {
                let by_time = duration.saturating_sub(self.last.now);
                Some(by_time.max(pace(self.last.issued_queries, queries)?))
            }
        }
    }
}

#[cfg(test)]
pub mod examples {
    //! Runs halfway through, for tests of the code that draws them.

    use dyno_loadgen::clock::{MILLISECOND, SECOND};
    use dyno_loadgen::drive::AnsweredQuery;

    use super::*;
    use dyno_experiment::goals::Bound;
    use dyno_results::summary::Verdict;

    /// Returns a Server test at 1,000 queries/s after half of its minute, with a tail of latencies
    /// that crosses the bound of 10 ms.
    pub fn server() -> Live {
        let mut live = Live {
            heading: "digits, profile quick".into(),
            tests: ["SingleStream performance", "Server performance", "Offline performance"]
                .map(|title| TestEntry { title: title.into(), result: None })
                .to_vec(),
            ..Live::default()
        };
        live.result(TestResult { text: "p90 330 ns".into(), verdict: Verdict::Valid });
        let goals = Goals {
            unit: "queries",
            until: EndCondition::Least { duration: 60 * SECOND, queries: 100 },
            samples_per_query: 1,
            bounds: vec![Bound { limit: 10 * MILLISECOND, of_first_token: false }],
            percentile: 0.99,
            max_client_lag: Some(MILLISECOND),
            target_qps: Some(1_000.0),
            is_virtual: false,
        };
        live.begin("2/3 Server performance", goals);
        for second in 1..=32_u64 {
            let answered = (0..1_000).map(|i| {
                let wave = 1 + (second % 8) / 2;
                let latency = match i % 1_000 {
                    0..990 => 400_000 * wave + i * 1_500,
                    990..998 => 1_500_000 * wave + i * 1_500,
                    _ => 12_000_000,
                };
                let due = (second - 1) * SECOND + i * MILLISECOND;
                let client_lag = Some(1_000 + i * 2);
                AnsweredQuery {
                    tenant: 0,
                    due,
                    latency,
                    first_token: None,
                    client_lag,
                    stands_for: 1,
                }
            });
            live.saw(&Glance {
                epoch: 1,
                now: second * SECOND,
                issued_queries: second * 1_000 + 3,
                issued_samples: second * 1_000 + 3,
                completed_samples: second * 1_000,
                answered: answered.collect(),
                ..Glance::default()
            });
        }
        live
    }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::clock::{MILLISECOND, SECOND};
    use dyno_loadgen::drive::WaitingQuery;

    use super::*;

    #[test]
    fn what_is_left_follows_from_time_and_queries() {
        let mut live = examples::server();
        assert_eq!(live.seen.time_left(&live.goals), Some(28 * SECOND));
        assert_eq!(live.seen.fraction(&live.goals), Some(32.0 / 60.0));
        assert_eq!(live.seen.rate(&live.goals), Some(1_000.0));
        // Twice the queries take twice the time.
        live.goals.until = EndCondition::Least { duration: 60 * SECOND, queries: 2 * 32_003 * 3 };
        assert_eq!(live.seen.time_left(&live.goals), Some(5 * 32 * SECOND));
        live.goals.until = EndCondition::Samples(64_000);
        assert_eq!(live.seen.time_left(&live.goals), Some(32 * SECOND));
        live.goals.until = EndCondition::Unknown;
        assert_eq!(
            (live.seen.time_left(&live.goals), live.seen.fraction(&live.goals)),
            (None, None)
        );
    }

    #[test]
    fn queries_that_wait_for_too_long_are_over_the_bound() {
        let mut live = examples::server();
        let share = live.seen.share_over().unwrap();
        assert!((share - 0.002).abs() < 1e-9, "{share}");
        let waits = |due| WaitingQuery { tenant: 0, due, stands_for: 32 };
        let glance = Glance {
            waiting: vec![waits(31 * SECOND), waits(32 * SECOND - 5 * MILLISECOND)],
            ..live.seen.last.clone()
        };
        live.saw(&glance);
        assert_eq!(live.seen.waiting_over, 32);
        assert!(live.seen.share_over().unwrap() > 0.002);
    }

    #[test]
    fn a_new_run_begins_anew() {
        let mut live = examples::server();
        live.saw(&Glance { epoch: 2, now: SECOND, ..Glance::default() });
        assert_eq!(live.seen.latency.quantile(0.5), None);
        assert_eq!(live.seen.rate(&live.goals), None);
    }
}
