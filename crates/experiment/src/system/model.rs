//! The grammar of `model:SERVICE`: a service-time model on the command line.

use std::num::NonZero;

use dyno_loadgen::plan::Plan;
use dyno_loadgen::settings::known_keys;
use dyno_loadgen::sut::SimulatedSystem;
use dyno_results::units::parse_duration;
use dyno_sut::batch;
use dyno_sut::model::{Cost, Faults, Model, ServiceModel, ServiceTime, Tokens};

use super::kind::{Drive, OpenedSystem, Resources, Simulation, SystemKind, WorkerPool, repeated};
use super::{Numbers, SAMPLES_DEFAULT};
use crate::failure::Failure;
use crate::options::{RandomStream, RunOptions};

pub(super) const KIND: SystemKind = SystemKind {
    name: "model",
    operand: "SERVICE",
    help: "a queue in virtual time: fixed=TIME, exponential=TIME or lognormal=TIME \
     for a query (TIME is the mean), then any of per-sample=TIME, servers=N, sigma=X (lognormal), tokens=N-M, \
     per-token=TIME, failed=SHARE, unanswered=SHARE, seed=N",
    accepts: &["workers", "batch", "batch-wait"],
    resources: Resources::nothing,
    check: None,
    open: |request| {
        let model = read(request.spec, request.operand, request.run)?;
        let library = Numbers::new(request.run.samples_or_of_round(SAMPLES_DEFAULT));
        let drive = Drive::Virtual(Box::new(model));
        Ok(OpenedSystem { caution: Some(SIMULATED), ..OpenedSystem::new(drive, library) })
    },
};

/// Remark on figures of models.
pub(super) const SIMULATED: &str = "The system is simulated: the figures describe a model.";

/// Parses a model, and builds it once to check it; each test builds a new one.
fn read(spec: &str, operand: &str, run: &RunOptions) -> Result<Model, Failure> {
    let model = parse(operand, run).and_then(|model| {
        ServiceModel::new(model.clone()).map(|_| model).map_err(|error| error.to_string())
    });
    model.map_err(|expected| {
        Failure::usage(format!("system `{spec}`: {expected}"))
            .hint("for example model:exponential=2ms,servers=4; see dyno info systems model")
    })
}

impl Simulation for Model {
    fn name(&self) -> &'static str {
        "a queue with servers"
    }

    fn reports_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    fn servers(&self) -> Option<NonZero<usize>> {
        Some(self.servers)
    }

    /// A model receives whole queries. Workers give it the samples of larger queries one by one, or
    /// in batches, so that its servers share them.
    fn system(
        &self,
        plan: &Plan,
        repeat: u64,
        batching: Option<WorkerPool>,
    ) -> Box<dyn SimulatedSystem> {
        let seed = repeated(self.seed, repeat);
        let seed = RandomStream::System.apart_from(seed, &plan.seeds);
        let seeded = Self { seed, ..self.clone() };
        let system = ServiceModel::new(seeded).expect("the model was built when it was read");
        match batching {
            None => Box::new(system),
            Some(WorkerPool { policy, workers, sizes }) => Box::new(
                batch::SimulatedBatcher::new(system, policy, workers).with_batch_sizes(sizes),
            ),
        }
    }
}

const KEYS: [&str; 11] = [
    "fixed",
    "exponential",
    "lognormal",
    "per-sample",
    "servers",
    "sigma",
    "tokens",
    "per-token",
    "failed",
    "unanswered",
    "seed",
];

/// Default spread of a lognormal model: the standard deviation of the logarithm of latencies
/// commonly seen in serving.
const SIGMA_DEFAULT: f64 = 0.5;

/// Parses a model.
///
/// # Errors
/// A sentence fragment that begins with "expected" or names an unknown key.
fn parse(text: &str, run: &RunOptions) -> Result<Model, String> {
    let mut kind = None;
    let mut cost = Cost::default();
    let mut sigma = SIGMA_DEFAULT;
    let (mut token_range, mut per_token) = (None, 0);
    let mut faults = Faults::default();
    let (mut servers, workers) = (None, run.workers.and_then(NonZero::new));
    let mut seed = run.seed_of(RandomStream::System);
    for part in text.split(',') {
        let (key, value) =
            part.split_once('=').ok_or_else(|| format!("expected key=value, found `{part}`"))?;
        match key {
            "fixed" | "exponential" | "lognormal" => {
                if let Some(other) = kind.filter(|other| *other != key) {
                    return Err(format!("expected one service time, found `{other}` and `{key}`"));
                }
                kind = Some(key);
                cost.base = parse_duration(value)?;
            }
            "per-sample" => cost.per_sample = parse_duration(value)?,
            "per-token" => per_token = parse_duration(value)?,
            "servers" => servers = Some(number(key, value)?),
            "sigma" => sigma = at_least_zero(key, value)?,
            "seed" => seed = RandomStream::System.seed(number(key, value)?),
            "failed" => faults.failed = share(key, value)?,
            "unanswered" => faults.unanswered = share(key, value)?,
            "tokens" => token_range = Some(range(value)?),
            _ => {
                let known = known_keys(key, KEYS.into_iter());
                return Err(format!("unknown key `{key}`; {known}"));
            }
        }
    }
    let service = match kind {
        Some("fixed") => ServiceTime::Deterministic(cost),
        Some("exponential") => ServiceTime::Exponential(cost),
        Some(_) => ServiceTime::LogNormal { mean: cost, sigma },
        None => return Err("expected fixed=TIME, exponential=TIME or lognormal=TIME".into()),
    };
    let tokens = token_range.map(|(fewest, most)| Tokens { fewest, most, per_token });
    let servers = servers_of(servers, workers)?;
    Ok(Model { servers, service, tokens, faults, seed })
}

/// Returns the number of servers: as many as workers, unless it is given.
fn servers_of(
    servers: Option<NonZero<usize>>,
    workers: Option<NonZero<usize>>,
) -> Result<NonZero<usize>, String> {
    match (servers, workers) {
        (Some(servers), Some(workers)) if workers > servers => Err(format!(
            "servers={servers} serve at most {servers} batches at a time, so --workers {workers} \
             has no further effect; lower it, or raise servers"
        )),
        (servers, workers) => Ok(servers.or(workers).unwrap_or(NonZero::<usize>::MIN)),
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("expected a number for `{key}`, found `{value}`"))
}

fn at_least_zero(key: &str, value: &str) -> Result<f64, String> {
    let number = number(key, value)?;
    if number >= 0.0 { Ok(number) } else { Err(format!("expected `{key}` of at least 0")) }
}

fn share(key: &str, value: &str) -> Result<f64, String> {
    let number = number(key, value)?;
    if (0.0..=1.0).contains(&number) {
        return Ok(number);
    }
    Err(format!("expected a share from 0 to 1 for `{key}`, found `{value}`"))
}

fn range(value: &str) -> Result<(u32, u32), String> {
    let (fewest, most) = value.split_once('-').unwrap_or((value, value));
    match (fewest.parse(), most.parse()) {
        (Ok(fewest), Ok(most)) if 1 <= fewest && fewest <= most => Ok((fewest, most)),
        _ => Err(format!("expected tokens=N or tokens=N-M with 1 <= N <= M, found `{value}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> RunOptions {
        RunOptions::default()
    }

    #[test]
    fn workers_are_servers_unless_there_are_fewer_servers() {
        let with = |workers| RunOptions { workers: Some(workers), ..none() };
        let servers = |text, workers| parse(text, &with(workers)).map(|model| model.servers.get());
        assert_eq!(servers("fixed=1ms", 8), Ok(8));
        assert_eq!(servers("fixed=1ms", 0), Ok(1));
        assert_eq!(servers("fixed=1ms,servers=4", 2), Ok(4));
        assert!(servers("fixed=1ms,servers=4", 8).unwrap_err().contains("at most 4 batches"));
    }

    #[test]
    fn a_model_reads_and_a_misspelt_key_names_the_nearest() {
        let model = parse("exponential=2ms,servers=4,tokens=10-20,per-token=5us", &none()).unwrap();
        assert_eq!(model.servers.get(), 4);
        assert_eq!(
            model.service,
            ServiceTime::Exponential(Cost { base: 2_000_000, per_sample: 0 })
        );
        assert_eq!(model.tokens, Some(Tokens { fewest: 10, most: 20, per_token: 5_000 }));
        let error = parse("fixed=1ms,exponential=2ms", &none()).unwrap_err();
        assert_eq!(error, "expected one service time, found `fixed` and `exponential`");
        let error = parse("fixed=1ms,server=2", &none()).unwrap_err();
        assert_eq!(error, "unknown key `server`; the nearest key is `servers`");
        assert!(parse("", &none()).unwrap_err().starts_with("expected"));
    }

    #[test]
    fn models_in_which_time_stands_still_or_that_need_gigabytes_are_rejected() {
        let error = |text: &str| read("model:x", text, &none()).unwrap_err().to_string();
        for text in
            ["fixed=0ns", "exponential=0s", "lognormal=0s", "fixed=0s,tokens=1,per-token=1s"]
        {
            assert!(error(text).contains("every query takes 0 ns"), "{text}");
        }
        assert!(error("fixed=1ms,servers=99999999999").contains("at most 1000000"));
        assert!(error("lognormal=1ms,sigma=inf").contains("from 0 to 4"));
        assert!(read("model:x", "fixed=0s,tokens=2,per-token=1us", &none()).is_ok());
        assert!(read("model:x", "fixed=0s,per-sample=1ns", &none()).is_ok());
    }
}
