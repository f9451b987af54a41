//! Networks on a simulated NPU in the scenario Server: tests of them, and the highest rate that they are served at.

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::metrics::Metrics;
use dyno_loadgen::plan::{Library, Plan, SettingsErrors};
use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};
use dyno_loadgen::run::{RecordRetention, Tenant, TestLog, run};
use dyno_loadgen::settings::{Scenario, Settings, TestMode, TestSettings};
use dyno_loadgen::verdict::{Verdict, judge};
use dyno_npu::bounds::load;
use dyno_npu::deploy::Deployment;
use dyno_npu::serve::BatchingPolicy;

use super::{Npu, Npus, PICOS_PER_NANO};

/// Samples in name only: a simulated NPU looks at none.
struct Names;

const LIBRARY: Library = Library { total: 64, performance: 64 };

impl SampleLibrary for Names {
    fn name(&self) -> &str {
        "names"
    }
    fn total_sample_count(&self) -> usize {
        LIBRARY.total as usize
    }
    fn performance_sample_count(&self) -> usize {
        LIBRARY.performance as usize
    }
    fn load(&self, _: &[SampleIndex]) {}
    fn unload(&self, _: &[SampleIndex]) {}
}

/// Networks behind the instrument, one a tenant, each with its limit as the deployment has it.
#[derive(Clone, Debug)]
pub struct Served {
    /// Who is served.
    pub deployment: Deployment,
    /// How requests become passes.
    pub batching: BatchingPolicy,
}

/// How a peak is searched for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// Queries of the rarest network in a test: 1,000 are enough for early stopping at the 99th percentile.
    pub queries: f64,
    /// Halvings of a range of 64; with 9 the last is 0.8 %.
    pub steps: u32,
}

impl Served {
    /// A test of all networks at these rates, queries/s, for so many seconds of virtual time: the log of each.
    ///
    /// # Errors
    /// Rates or limits that make no test.
    pub fn test(&self, rates: &[f64], seconds: f64) -> Result<Vec<TestLog>, SettingsErrors> {
        let tenant = |(at, &rate): (usize, &f64)| {
            let limit: Nanos = self.deployment.served[at].limit / PICOS_PER_NANO;
            let settings = TestSettings {
                scenario: Scenario::Server,
                mode: TestMode::PerformanceOnly,
                server_target_qps: rate,
                server_target_latency_ns: limit,
                min_duration_ms: (seconds * 1e3) as u64,
                min_query_count: 1,
                schedule_rng_seed: 11 + at as u64,
                ..TestSettings::default()
            };
            let plan = Plan::resolve(&settings, LIBRARY)?;
            let settings = Settings::from(settings);
            Ok(Tenant { settings, plan, library: &Names, messages: Vec::new() })
        };
        let networks = rates.iter().enumerate().take(self.deployment.served.len());
        let tenants = networks.map(tenant).collect::<Result<Vec<_>, _>>()?;
        let mut system = Npu::new(self.deployment.clone(), Npus::ONE, self.batching);
        let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
        Ok(run(&mut driver, &tenants, RecordRetention::Every, &mut |_| {}))
    }

    /// Of each network, the share of its queries that are over its limit in such a test.
    ///
    /// # Errors
    /// As of [`test`](Self::test).
    pub fn late(&self, rates: &[f64], seconds: f64) -> Result<Vec<f64>, SettingsErrors> {
        let share = |log: &TestLog| {
            let metrics = log.runs().map(|run| Metrics::from_record(&run.record, &run.plan));
            let counts = metrics.map(|of| (of.over.latency as f64, of.issued_samples() as f64));
            let (over, all) = counts.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
            over / f64::max(all, 1.0)
        };
        Ok(self.test(rates, seconds)?.iter().map(share).collect())
    }

    /// Whether the verdict on all of them is that they are served, by early stopping.
    ///
    /// # Errors
    /// As of [`test`](Self::test).
    pub fn holds(&self, rates: &[f64], queries: f64) -> Result<bool, SettingsErrors> {
        let rarest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let logs = self.test(rates, queries / rarest)?;
        Ok(logs.iter().flat_map(TestLog::runs).all(|run| {
            let metrics = Metrics::from_record(&run.record, &run.plan);
            judge(&metrics, &run.plan, run.ended).verdict == Verdict::Valid
        }))
    }

    /// What no scheduler can pass, queries/s of all networks together whose rates are in these proportions: full
    /// batches keep the busier resource busy.
    #[must_use]
    pub fn bound(&self, mix: &[f64]) -> f64 {
        let sum: f64 = mix.iter().sum();
        let served = &self.deployment.served;
        let batches: Vec<f64> =
            mix.iter().zip(served).map(|(part, of)| part / sum / of.passes.len() as f64).collect();
        let [compute, memory] = load(&self.deployment.largest(), &batches);
        1.0 / compute.max(memory)
    }

    /// The highest rate of all together that is held, queries/s; 0 if none is within a factor of 64 of the bound.
    ///
    /// # Errors
    /// As of [`test`](Self::test).
    pub fn peak(&self, mix: &[f64], search: Search) -> Result<f64, SettingsErrors> {
        let sum: f64 = mix.iter().sum();
        let (mut low, mut high) = (0.0, self.bound(mix));
        let least = high / 64.0;
        for _ in 0..search.steps {
            let middle = if low == 0.0 { (least * high).sqrt() } else { f64::sqrt(low * high) };
            let rates: Vec<f64> = mix.iter().map(|part| middle * part / sum).collect();
            if self.holds(&rates, search.queries)? { low = middle } else { high = middle }
        }
        Ok(low)
    }
}

#[cfg(test)]
mod tests {
    use dyno_npu::hardware::Npu as Hardware;
    use dyno_npu::lowering::LoweringOptions;
    use dyno_npu::schedule::NamedScheduler;
    use dyno_npu::setting::Setting;

    use super::*;

    #[test]
    fn a_peak_is_held_and_below_the_bound() {
        let setting = Setting {
            npu: Hardware::preset("chapter-v").expect("it is one"),
            mapping: "kcp+1".parse().expect("it is one"),
            seq: 16,
            options: LoweringOptions { batch: 4, ..LoweringOptions::default() },
        };
        let networks = [("RN", 15_000_000_000), ("BB", 130_000_000_000)];
        let scheduler = NamedScheduler::find("balanced").expect("it is one");
        let served = Served {
            deployment: setting.deploy(&networks, scheduler).expect("both fit"),
            batching: BatchingPolicy { window: 1_000_000_000, active: 4, wake: 500_000_000 },
        };
        let mix = [1.0, 1.0];
        let peak = served.peak(&mix, Search { queries: 600.0, steps: 3 }).expect("it is a test");
        assert!(peak > 0.0 && peak <= served.bound(&mix), "{peak} of {}", served.bound(&mix));
        assert!(served.holds(&[peak / 2.0; 2], 600.0).expect("it is a test"));
        let late = served.late(&[4.0 * served.bound(&mix); 2], 0.2).expect("it is a test");
        assert!(late.iter().all(|share| (0.0..=1.0).contains(share)) && late[0] > 0.1, "{late:?}");
    }
}
