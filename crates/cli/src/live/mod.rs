//! What is known of a run while it is on: the tests and their results so far,
//! and of the test that is on its counts, latencies and course over time.

mod line;
mod time_line;

use dyno_experiment::TestResult;
use dyno_experiment::goals::{EndCondition, Goals};
use dyno_experiment::test::Test;
use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::Glance;
use dyno_results::series::Counts;

pub use line::{bar, line};
pub use time_line::TimeLine;

/// A run that is on.
#[derive(Debug, Default)]
pub struct Live {
    /// What is measured, and how; for the heading.
    pub heading: String,
    /// All tests in order; empty if nobody told.
    pub tests: Vec<Listed>,
    /// What is on, such as `2/8 Server performance`.
    pub title: String,
    /// More about it, such as which run of a search.
    pub remark: String,
    /// What the test that is on is to reach.
    pub goals: Goals,
    /// What was seen of it.
    pub seen: Seen,
}

/// A test of the run.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// Such as `Server performance`.
    pub title: String,
    /// Of a test that is over.
    pub result: Option<TestResult>,
}

/// What was seen of the run that is on. Counts are exact; latencies are those of
/// the queries that were looked at, in buckets 3.2 to 6.25 % wide.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The last glance; its lists are emptied.
    pub last: Glance,
    /// From the due time, ns.
    pub latency: Counts,
    /// Of the client, ns.
    pub client_lag: Counts,
    /// From the due time to the first token, ns.
    pub first_token: Counts,
    /// Queries answered, about; only those that have a bound.
    pub judged: u64,
    /// How many of them were over it.
    pub over: u64,
    /// Queries that wait for longer than their bound already.
    pub waiting_over: u64,
    /// The course of the run.
    pub time_line: TimeLine,
}

impl Live {
    /// A test begins.
    pub fn begin(&mut self, title: &str, goals: Goals) {
        self.title = title.into();
        self.remark.clear();
        self.seen = Seen::default();
        self.goals = goals;
    }

    /// Takes in what was seen. A new run of the test begins anew.
    pub fn saw(&mut self, glance: &Glance) {
        if glance.epoch != self.seen.last.epoch {
            self.seen = Seen::default();
        }
        self.seen.take(glance, &self.goals);
    }

    /// The tests are these.
    pub fn plan(&mut self, heading: String, tests: &[Test]) {
        self.heading = heading;
        let listed = |test: &Test| Listed { title: test.title(), result: None };
        self.tests = tests.iter().map(listed).collect();
    }

    /// The first test without a result has this one.
    pub fn result(&mut self, result: TestResult) {
        if let Some(test) = self.tests.iter_mut().find(|test| test.result.is_none()) {
            test.result = Some(result);
        }
    }
}

impl Seen {
    fn take(&mut self, glance: &Glance, goals: &Goals) {
        let (before, after) = (self.last.completed_samples, glance.completed_samples);
        self.time_line.completed((self.last.now, glance.now), after.saturating_sub(before));
        for answered in &glance.answered {
            self.latency.add_many(answered.latency, answered.stands_for);
            self.time_line.answered(answered.due, answered.latency, answered.stands_for);
            if let Some(lag) = answered.client_lag {
                self.client_lag.add_many(lag, answered.stands_for);
            }
            if let Some(first_token) = answered.first_token {
                self.first_token.add_many(first_token, answered.stands_for);
            }
            if let Some(bound) = goals.bound(answered.tenant) {
                let time = match bound.of_first_token {
                    true => answered.first_token.unwrap_or(Nanos::MAX),
                    false => answered.latency,
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

    /// Samples or queries that are complete, as the goals count.
    pub fn complete(&self, goals: &Goals) -> u64 {
        self.last.completed_samples / goals.samples_per_query.max(1)
    }

    /// Of them, per second since the start; `None` before anything is.
    pub fn rate(&self, goals: &Goals) -> Option<f64> {
        let seconds = self.last.now as f64 / 1e9;
        let complete = self.complete(goals);
        (complete > 0 && seconds > 0.0).then(|| complete as f64 / seconds)
    }

    /// Share of the queries that are over their bound, those that wait counted;
    /// `None` where there is no bound or nothing was seen.
    pub fn share_over(&self) -> Option<f64> {
        let judged = self.judged + self.waiting_over;
        (judged > 0).then(|| (self.over + self.waiting_over) as f64 / judged as f64)
    }

    /// How much of the test is done, in [0, 1]; `None` if nobody can tell.
    pub fn fraction(&self, goals: &Goals) -> Option<f64> {
        let of = |part: u64, whole: u64| match whole {
            0 => 1.0,
            whole => (part as f64 / whole as f64).min(1.0),
        };
        match goals.until {
            EndCondition::Unknown => None,
            EndCondition::Samples(samples) => Some(of(self.last.completed_samples, samples)),
            EndCondition::Least { duration, queries } => {
                let issued = self.last.issued_queries;
                Some(of(self.last.now, duration).min(of(issued, queries)))
            }
        }
    }

    /// Ns until the end at the pace so far; `None` if nobody can tell.
    pub fn left(&self, goals: &Goals) -> Option<Nanos> {
        let pace = |done: u64, of: u64| {
            let left = of.saturating_sub(done);
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
    //! Runs as they look halfway through, for tests of what draws them.

    use dyno_loadgen::clock::{MILLISECOND, SECOND};
    use dyno_loadgen::drive::AnsweredQuery;

    use super::*;
    use dyno_experiment::goals::Bound;
    use dyno_results::summary::Verdict;

    /// A Server test at 1,000 queries/s, half a minute into its minute: a
    /// distribution with a tail that crosses its bound of 10 ms.
    pub fn server() -> Live {
        let mut live = Live {
            heading: "digits, profile quick".into(),
            tests: ["SingleStream performance", "Server performance", "Offline performance"]
                .map(|title| Listed { title: title.into(), result: None })
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
        assert_eq!(live.seen.left(&live.goals), Some(28 * SECOND));
        assert_eq!(live.seen.fraction(&live.goals), Some(32.0 / 60.0));
        assert_eq!(live.seen.rate(&live.goals), Some(1_000.0));
        // As many queries again take as long again.
        live.goals.until = EndCondition::Least { duration: 60 * SECOND, queries: 2 * 32_003 * 3 };
        assert_eq!(live.seen.left(&live.goals), Some(5 * 32 * SECOND));
        live.goals.until = EndCondition::Samples(64_000);
        assert_eq!(live.seen.left(&live.goals), Some(32 * SECOND));
        live.goals.until = EndCondition::Unknown;
        assert_eq!((live.seen.left(&live.goals), live.seen.fraction(&live.goals)), (None, None));
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
