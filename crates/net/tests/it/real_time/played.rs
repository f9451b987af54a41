//! Runs of the load generator against a client.

use std::net::SocketAddr;
use std::sync::Arc;

use dyno_loadgen::clock::Clock;
use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::drive::{Driver, Job, JobTenant, RunOutcome, TenantOutcome};
use dyno_loadgen::plan::{Library as Samples, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::settings::{Scenario, TestSettings};
use dyno_loadgen::share::Share;
use dyno_loadgen::sut::SystemUnderTest;
use dyno_loadgen::trace::loadable_sets;
use dyno_net::client::{Client, Library, Options};
use dyno_net::endpoint::Endpoint;
use dyno_net::protocol::Protocol;

pub fn endpoint(address: SocketAddr) -> Endpoint {
    format!("http://{address}").parse().unwrap()
}

/// A client of one server.
pub fn client(
    protocol: impl Protocol + 'static,
    nodes: &[Endpoint],
    options: Options,
) -> (Arc<Client>, Library) {
    let (client, library) = Client::start(Arc::new(protocol), nodes, options).unwrap();
    (Arc::new(client), library)
}

/// A run of so many queries.
pub fn settings(scenario: Scenario, queries: u64, qps: f64) -> TestSettings {
    TestSettings {
        scenario,
        min_duration_ms: 0,
        min_query_count: queries,
        max_query_count: queries,
        server_target_qps: qps,
        offline_expected_qps: queries as f64,
        ..TestSettings::default()
    }
}

/// Plays one run, of which all answers are kept.
pub fn play(client: &Arc<Client>, library: &Library, settings: &TestSettings) -> TenantOutcome {
    play_timed(client, library, settings).0.tenants.swap_remove(0)
}

/// As [`play`], with the clock that the start of the run is by.
pub fn play_timed(
    client: &Arc<Client>,
    library: &Library,
    settings: &TestSettings,
) -> (RunOutcome, Clock) {
    let total = library.total_sample_count() as u64;
    let samples = Samples { total, performance: total };
    let settings = TestSettings { accuracy_log_probability: 1.0, ..settings.clone() };
    let plan = Arc::new(Plan::resolve(&settings, samples).unwrap());
    let set = loadable_sets(&plan, false, total as usize).swap_remove(0);
    library.load(&set.samples);
    let system: Arc<dyn SystemUnderTest> = client.clone();
    let mut driver = RealTime::new(system);
    let tenant = JobTenant { plan, set: &set, samples_before: 0 };
    let epoch = driver.epoch(1);
    let played =
        driver.play(&Job { tenants: vec![tenant], accuracy: false, share: Share::WHOLE, epoch });
    library.unload(&set.samples);
    (played, driver.clock())
}
