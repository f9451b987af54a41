//! Networks on a simulated NPU in the Server scenario: tests at given rates, and the search for the
//! highest sustained rate.

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::metrics::Metrics;
use dyno_loadgen::plan::{Library, Plan, SettingsErrors};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::run::{RecordRetention, Tenant, TestLog, run};
use dyno_loadgen::settings::{Scenario, Settings, TestMode, TestSettings};
use dyno_loadgen::verdict::{Verdict, judge};
use dyno_npu::bounds::load;
use dyno_npu::deploy::Deployment;
use dyno_npu::serve::BatchingPolicy;

use super::{NpuSetup, NpuSystem, PICOS_PER_NANO};

/// Sample library without data: a simulated NPU does not read samples.
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
}

/// Networks on one simulated NPU, one per tenant, each with the latency limit of the deployment.
///
/// ```
/// use dyno_npu::hardware::Npu;
/// use dyno_npu::lowering::LoweringOptions;
/// use dyno_npu::schedule::NamedScheduler;
/// use dyno_npu::serve::BatchingPolicy;
/// use dyno_npu::setting::Setting;
/// use dyno_sut::npu::service::NpuService;
///
/// let setting = Setting {
///     npu: Npu::preset("memory-centric")?,
///     mapping: "kcpx+1:128".parse()?,
///     seq: 16,
///     options: LoweringOptions::default(),
/// };
/// // A limit of 15 ms.
/// let deployment = setting.deploy(&[("RN", 15_000_000_000)], NamedScheduler::find("balanced")?)?;
/// let batching = BatchingPolicy { window: 0, active: 1, wake: u64::MAX };
/// let service = NpuService { deployment, batching };
/// let rate = service.bound(&[1.0]) / 10.0;
/// let late = service.late_shares(&[rate], 0.1)?;
/// assert!(late[0] < 0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct NpuService {
    /// Networks and the NPU.
    pub deployment: Deployment,
    /// Policy that groups requests into passes.
    pub batching: BatchingPolicy,
}

/// Parameters of the search for the peak rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakSearch {
    /// Queries of the network with the lowest rate in a test; 1,000 are enough for early stopping
    /// at the 99th percentile.
    pub queries: f64,
    /// Number of halvings of a range of 64; 9 halvings leave 0.8 %.
    pub steps: u32,
}

impl NpuService {
    /// Runs a test of all networks at these rates in queries/s, for this many seconds of virtual
    /// time. Returns the log of each network.
    ///
    /// # Errors
    /// [`SettingsErrors`] if a rate or a limit is invalid.
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
        let mut system = NpuSystem::new(self.deployment.clone(), NpuSetup::ONE, self.batching);
        let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
        Ok(run(&mut driver, &tenants, RecordRetention::Every, &mut |_| {}))
    }

    /// Returns, for each network, the share of its queries that exceed its limit in such a test.
    ///
    /// # Errors
    /// [`SettingsErrors`] if a rate or a limit is invalid.
    pub fn late_shares(&self, rates: &[f64], seconds: f64) -> Result<Vec<f64>, SettingsErrors> {
        let share = |log: &TestLog| {
            let metrics = log.runs().map(|run| Metrics::from_record(&run.record, &run.plan));
            let counts = metrics.map(|run| (run.over.latency as f64, run.issued_samples() as f64));
            let (over, all) = counts.fold((0.0, 0.0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
            over / f64::max(all, 1.0)
        };
        Ok(self.test(rates, seconds)?.iter().map(share).collect())
    }

    /// Returns whether all networks get a valid verdict at these rates, by early stopping.
    ///
    /// # Errors
    /// [`SettingsErrors`] if a rate or a limit is invalid.
    pub fn is_sustained(&self, rates: &[f64], queries: f64) -> Result<bool, SettingsErrors> {
        let rarest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let logs = self.test(rates, queries / rarest)?;
        Ok(logs.iter().flat_map(TestLog::runs).all(|run| {
            let metrics = Metrics::from_record(&run.record, &run.plan);
            judge(&metrics, &run.plan, run.ended).verdict == Verdict::Valid
        }))
    }

    /// Returns an upper bound on the total rate of all networks, in queries/s, for rates in these
    /// proportions. At the bound, full batches keep the busier resource busy.
    pub fn bound(&self, mix: &[f64]) -> f64 {
        let sum: f64 = mix.iter().sum();
        let served = &self.deployment.served;
        let batches: Vec<f64> = mix
            .iter()
            .zip(served)
            .map(|(part, network)| part / sum / network.passes.len() as f64)
            .collect();
        let [compute, memory] = load(&self.deployment.largest(), &batches);
        1.0 / compute.max(memory)
    }

    /// Returns the highest sustained total rate of all networks, in queries/s, for rates in these
    /// proportions. Returns 0 if no rate within a factor of 64 of the bound is sustained.
    ///
    /// # Errors
    /// [`SettingsErrors`] if a rate or a limit is invalid.
    pub fn peak_rate(&self, mix: &[f64], search: PeakSearch) -> Result<f64, SettingsErrors> {
        let sum: f64 = mix.iter().sum();
        let (mut low, mut high) = (0.0, self.bound(mix));
        let least = high / 64.0;
        for _ in 0..search.steps {
            let middle = if low == 0.0 { (least * high).sqrt() } else { f64::sqrt(low * high) };
            let rates: Vec<f64> = mix.iter().map(|part| middle * part / sum).collect();
            if self.is_sustained(&rates, search.queries)? { low = middle } else { high = middle }
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
        let served = NpuService {
            deployment: setting.deploy(&networks, scheduler).expect("both fit"),
            batching: BatchingPolicy { window: 1_000_000_000, active: 4, wake: 500_000_000 },
        };
        let mix = [1.0, 1.0];
        let peak =
            served.peak_rate(&mix, PeakSearch { queries: 600.0, steps: 3 }).expect("it is a test");
        assert!(peak > 0.0 && peak <= served.bound(&mix), "{peak} of {}", served.bound(&mix));
        assert!(served.is_sustained(&[peak / 2.0; 2], 600.0).expect("it is a test"));
        let late = served.late_shares(&[4.0 * served.bound(&mix); 2], 0.2).expect("it is a test");
        assert!(late.iter().all(|share| (0.0..=1.0).contains(share)) && late[0] > 0.1, "{late:?}");
    }
}
