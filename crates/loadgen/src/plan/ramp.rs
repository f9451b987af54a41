//! Ramps: the load grows to its target before the measured part of a run.

use super::{Load, Plan, SampleChoice};
use crate::clock::{Nanos, SECOND};
use crate::rng::Mt19937;
use crate::settings::{Arrivals, EarlyStopping, Scenario};

impl Plan {
    /// Returns the plan of a performance run with a ramp of `length` ns before its measured part. The
    /// rate rises linearly from 0, or the queries in flight from 1. Queries of the ramp are issued, and
    /// [excluded](crate::record::Record::exclude) from the record.
    ///
    /// # Errors
    /// A load that has no ramp, and a remedy.
    pub fn with_ramp(mut self, length: Nanos) -> Result<Self, String> {
        let scenario = self.scenario();
        let Load::Server(server) = &mut self.load else {
            return Err(format!(
                "expected scenario {} for a ramp, found {scenario}; use --scenario server",
                Scenario::Server
            ));
        };
        match server.arrivals {
            Arrivals::Replay(_) => {
                return Err("recorded times and stages have no rate to which a ramp could rise; \
                            remove the ramp, or begin with a stage such as 10s@0-8"
                    .into());
            }
            Arrivals::Concurrency(_) if self.choice == SampleChoice::Unique => {
                return Err("each sample is issued once, and a ramp would use up some of them; \
                            remove the ramp, or set performance_issue_unique to false"
                    .into());
            }
            Arrivals::Concurrency(_) => self.continue_trace = true,
            _ => {}
        }
        // Threads would need a ramp each.
        server.issue_threads = 0;
        if self.early_stopping.policy == EarlyStopping::Extend {
            self.early_stopping.policy = EarlyStopping::AfterRun;
        }
        self.ramp = length;
        Ok(self)
    }

    /// Returns the arrival times of the ramp, ns; none without a ramp, or if queries do not arrive at
    /// a rate. They are Poisson, or at constant arrivals each is one unit of the integral of the
    /// rate after the last.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time >= 0")]
    pub fn ramp_arrivals(&self) -> Vec<Nanos> {
        let Load::Server(server) = &self.load else { return Vec::new() };
        if self.ramp == 0 || matches!(server.arrivals, Arrivals::Concurrency(_)) {
            return Vec::new();
        }
        let mut rng = Mt19937::new(!self.seeds.schedule);
        let seconds = self.ramp as f64 / SECOND as f64;
        // The rate at time t is target * t / seconds; its integral is half of target * t^2 / seconds.
        let whole = self.target_qps * seconds / 2.0;
        let mut passed = 0.0;
        let mut times = Vec::new();
        loop {
            passed += match server.arrivals {
                Arrivals::Constant => 1.0,
                _ => rng.exponential(1.0),
            };
            if passed >= whole {
                return times;
            }
            times.push((self.ramp as f64 * (passed / whole).sqrt()) as Nanos);
        }
    }

    /// Returns how many queries may be in flight at `now` if the target is `target`, and when that
    /// number grows; `None` after the ramp.
    pub fn ramped(&self, target: u64, now: Nanos) -> (u64, Option<Nanos>) {
        let steps = u128::from(target.saturating_sub(1));
        if now >= self.ramp || steps == 0 {
            return (target, None);
        }
        let length = u128::from(self.ramp);
        let step = u128::from(now) * steps / length;
        let next_at = ((step + 1) * length).div_ceil(steps);
        let number = |wide: u128| u64::try_from(wide).unwrap_or(u64::MAX);
        (1 + number(step), Some(number(next_at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Library;
    use crate::settings::TestSettings;

    fn plan(arrivals: Arrivals) -> Plan {
        let settings = TestSettings {
            scenario: Scenario::Server,
            server_arrivals: arrivals,
            server_target_qps: 100.0,
            ..TestSettings::default()
        };
        Plan::resolve(&settings, Library { total: 10, performance: 10 }).unwrap()
    }

    #[test]
    fn arrivals_of_a_ramp_are_those_of_a_rising_rate() {
        for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
            let is_exact = arrivals == Arrivals::Constant;
            let times = plan(arrivals).with_ramp(20 * SECOND).unwrap().ramp_arrivals();
            assert!(times.is_sorted() && times.iter().all(|at| *at < 20 * SECOND));
            // 100/s after 20 s: 1,000 arrivals, a quarter of them in the first half.
            let early = times.iter().filter(|at| **at < 10 * SECOND).count() as f64;
            for (found, expected) in [(times.len() as f64, 1_000.0), (early, 250.0)] {
                let most = if is_exact { 2.0 } else { 4.0 * f64::sqrt(expected) };
                assert!((found - expected).abs() <= most, "{found} of {expected}");
            }
        }
        assert!(plan(Arrivals::Poisson).ramp_arrivals().is_empty());
    }

    #[test]
    fn queries_in_flight_grow_in_equal_steps() {
        let plan = plan(Arrivals::Concurrency(5)).with_ramp(400).unwrap();
        let found: Vec<_> = [0, 99, 100, 250, 399, 400].map(|now| plan.ramped(5, now)).into();
        let expected =
            [(1, Some(100)), (1, Some(100)), (2, Some(200)), (3, Some(300)), (4, Some(400))];
        assert_eq!(found, [&expected[..], &[(5, None)]].concat());
        assert_eq!(plan.ramped(1, 0), (1, None));
    }

    #[test]
    fn loads_without_a_rate_have_no_ramp() {
        let told = plan(Arrivals::Replay([5].into())).with_ramp(1).unwrap_err();
        assert!(told.contains("recorded times"), "{told}");
        let settings = TestSettings::default();
        let single = Plan::resolve(&settings, Library { total: 10, performance: 10 }).unwrap();
        assert!(single.with_ramp(1).unwrap_err().contains("expected scenario Server"));
    }
}
