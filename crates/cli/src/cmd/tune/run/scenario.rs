//! Scenarios of `dyno tune run`: files in TOML with the flags of `dyno npu run`.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use clap::{Args, Command, FromArgMatches};
use dyno_experiment::options::toml_text;
use dyno_experiment::tune::{Scenario, ScenarioGoal, arrivals};
use dyno_experiment::{Failure, files};
use dyno_loadgen::clock::Nanos;
use dyno_loadgen::settings::similar;
use dyno_npu::mix::{Mix, MixLoad};
use dyno_npu::profile::Picos;
use dyno_npu::schedule::SchedulerSpec;
use dyno_npu::serve::BatchingPolicy;
use dyno_number::tune::{
    self, Confirmation, Evaluation, Journal, Progress, Settings, Stop, Trial, TuneEnd, TuneOutcome,
};
use dyno_number::{Network, Objective};
use dyno_results::units::{parse_bound, parse_duration};
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::{JOURNAL, Run, confirm, open_journal};
use crate::cmd::flag_errors::cause;
use crate::cmd::npu::arguments::Sharing;

/// Value of `--objective`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WantedObjective {
    /// A function of the formats alone.
    Formats(Objective),
    /// `stp`.
    Throughput,
    /// `qos`.
    Latency,
}

impl FromStr for WantedObjective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "stp" => Ok(Self::Throughput),
            "qos" => Ok(Self::Latency),
            _ => text
                .parse()
                .map(Self::Formats)
                .map_err(|error: String| error.replacen("expected ", "expected stp, qos, ", 1)),
        }
    }
}

/// Keys of a scenario: flags of `dyno npu run`, and those of requests.
#[derive(Debug, Args)]
struct ScenarioFlags {
    #[command(flatten)]
    sharing: Sharing,
    #[arg(long, default_value = "balanced")]
    scheduler: String,
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    passes: u64,
    /// Requests per second of each network.
    #[arg(long, value_parser = rate)]
    rate: Vec<f64>,
    /// Latency limit of each network.
    #[arg(long, value_parser = limit)]
    limit: Vec<Nanos>,
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    duration: Nanos,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    window: Nanos,
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    active: u16,
    #[arg(long, value_parser = parse_duration)]
    wake: Option<Nanos>,
}

/// Name of the positional argument.
const NETWORKS: &str = "networks";
/// Flags without an effect in a scenario.
const ENERGIES: [&str; 3] = ["mac-pj", "memory-byte-pj", "static-w"];
const PICOS_PER_NANO: Picos = 1_000;

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.0..=1e9).contains(rate));
    rate.ok_or_else(|| "expected requests per second, 0 to 1e9".into())
}

fn limit(text: &str) -> Result<Nanos, String> {
    let limit = parse_bound(text)?;
    (limit > 0).then_some(limit).ok_or_else(|| "expected a latency above 0".into())
}

fn picos(time: Nanos) -> Picos {
    time.saturating_mul(PICOS_PER_NANO)
}

fn flags() -> Command {
    let command = Command::new("scenario").no_binary_name(true).disable_help_flag(true);
    ScenarioFlags::augment_args(command)
}

impl ScenarioFlags {
    fn read(path: &Path) -> Result<Self, Failure> {
        let text =
            files::read_to_string(path).map_err(|error| Failure::unreadable(path, &error))?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        let place =
            |at: usize| format!("{}:{}", path.display(), 1 + text[..at].matches('\n').count());
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            Failure::usage(format!("{}: not valid TOML: {}", place(at), error.message()))
        })?;
        let (mut arguments, mut networks, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        let known = keys();
        let mut entries: Vec<_> = table.get_ref().iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let flag = key.get_ref().replace('_', "-");
            let mut problem = |what: String| {
                problems.push(format!("{}: `{}`: {what}", place(key.span().start), key.get_ref()));
            };
            if ENERGIES.contains(&flag.as_str()) {
                problem("has no effect: a scenario computes no energy".into());
                continue;
            }
            if !known.contains(&flag) {
                let near = similar(&flag, known.iter().map(String::as_str))
                    .map(|near| near.replace('-', "_"));
                let near =
                    near.map_or_else(String::new, |near| format!("; the nearest is `{near}`"));
                problem(format!("unknown key{near}"));
                continue;
            }
            match words(value.get_ref()) {
                Some(words) if flag == NETWORKS => networks.extend(words),
                Some(words) => {
                    let before = arguments.len();
                    arguments.extend(argument(&flag, value.get_ref(), words));
                    // Networks are checked with all other keys.
                    let alone =
                        [&arguments[before..], &["--".to_owned(), "RN".to_owned()]].concat();
                    if let Err(error) = flags().try_get_matches_from(alone) {
                        problem(cause(&error));
                    }
                }
                None => {
                    problem("expected a text, a number, true, false, or a list of these".into());
                }
            }
        }
        if networks.is_empty() && problems.is_empty() {
            problems.push(format!(
                "{}: `{NETWORKS}` is missing; the first network is the tuned one",
                path.display()
            ));
        }
        if !problems.is_empty() {
            return Err(Failure::usages(problems));
        }
        arguments.push("--".to_owned());
        arguments.extend(networks);
        let matches = flags().try_get_matches_from(arguments);
        let found = matches.and_then(|matches| Self::from_arg_matches(&matches));
        found.map_err(|error| Failure::usage(format!("{}: {}", path.display(), cause(&error))))
    }

    /// Returns the networks on their NPU. Files are relative to `folder`.
    fn mix(mut self, folder: &Path) -> Result<Mix, Failure> {
        let names = self.sharing.networks.clone();
        let in_folder = |name: &String, endings: &[&str]| {
            let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
            let is_file = ending.is_some_and(|ending| endings.contains(&ending));
            if is_file { folder.join(name).display().to_string() } else { name.clone() }
        };
        let files = names.iter().map(|name| in_folder(name, &["csv", "onnx"]));
        self.sharing.networks = files.collect();
        self.sharing.hardware.npu = in_folder(&self.sharing.hardware.npu, &["toml"]);
        self.sharing.check()?;
        let scheduler: SchedulerSpec = self.scheduler.parse().map_err(Failure::usage)?;
        let mut plan = self.sharing.plan(scheduler)?;
        for (at, (tenant, name)) in plan.tenants.iter_mut().zip(names).enumerate() {
            tenant.network.name = name;
            let limit = self.limit.get(at).or(self.limit.first());
            tenant.limit = limit.map_or(Picos::MAX, |limit| picos(*limit));
        }
        Mix::new(plan, self.passes).map_err(Failure::usage)
    }

    /// Returns the requests; `None` without rates.
    fn load(&self) -> Result<Option<MixLoad>, Failure> {
        let networks = self.sharing.networks.len();
        for (key, count) in [("rate", self.rate.len()), ("limit", self.limit.len())] {
            if ![0, 1, networks].contains(&count) {
                let all = match networks {
                    1 => "1 network".to_owned(),
                    more => format!("{more} networks"),
                };
                return Err(Failure::usage(format!("`{key}` has {count} values for {all}"))
                    .hint("give one value, or one for each network"));
            }
        }
        if self.rate.is_empty() != self.limit.is_empty() {
            return Err(Failure::usage("`rate` and `limit` have no effect without each other")
                .hint("give both, or remove both"));
        }
        if self.rate.is_empty() {
            return Ok(None);
        }
        let rates = (0..networks).map(|at| *self.rate.get(at).unwrap_or(&self.rate[0]));
        let rates: Vec<f64> = rates.collect();
        let requests = rates.iter().sum::<f64>() * self.duration as f64 / 1e9;
        if !(1.0..=MOST_REQUESTS).contains(&requests) {
            return Err(Failure::usage(format!(
                "`rate` and `duration` make {requests:.0} requests; expected 1 to {MOST_REQUESTS:.0}, \
                 because a search serves them for each candidate"
            )));
        }
        let batching = BatchingPolicy {
            window: picos(self.window),
            active: self.active.into(),
            wake: self.wake.map_or(Picos::MAX, picos),
        };
        let arrivals = arrivals(&rates, picos(self.duration), self.seed);
        if arrivals.iter().all(|(_, network)| *network > 0) {
            return Err(Failure::usage(
                "`rate` and `duration` make no request to the tuned network",
            )
            .hint("use a higher rate, or a longer duration"));
        }
        Ok(Some(MixLoad { arrivals, batching }))
    }
}

/// Most requests that are served for each candidate.
const MOST_REQUESTS: f64 = 100_000.0;

/// Returns the keys of a scenario, in the spelling of flags.
fn keys() -> Vec<String> {
    let command = flags();
    let key = |arg: &clap::Arg| arg.get_long().unwrap_or(NETWORKS).to_owned();
    command.get_arguments().map(key).filter(|key| !ENERGIES.contains(&key.as_str())).collect()
}

/// Returns a value, or each value of a list, as text.
fn words(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value {
        DeValue::Array(values) => {
            let each = values.iter().map(|value| words(value.get_ref()));
            each.collect::<Option<Vec<_>>>().map(|each| each.concat())
        }
        value => toml_text(value).map(|text| vec![text]),
    }
}

/// Returns the arguments of a key.
fn argument(flag: &str, value: &DeValue<'_>, words: Vec<String>) -> Vec<String> {
    match value {
        DeValue::Boolean(false) => Vec::new(),
        DeValue::Boolean(true) => vec![format!("--{flag}")],
        _ => words.into_iter().map(|word| format!("--{flag}={word}")).collect(),
    }
}

impl Run {
    /// Returns the scenario of `--scenario`, if the objective needs one.
    pub(super) fn scenario(&self, network: &Network) -> Result<Option<Arc<Scenario>>, Failure> {
        let goal = match &self.objective {
            Some(WantedObjective::Throughput) => Some(("stp", ScenarioGoal::Throughput)),
            Some(WantedObjective::Latency) => Some(("qos", ScenarioGoal::Latency)),
            Some(WantedObjective::Formats(_)) | None => None,
        };
        let (path, (name, goal)) = match (&self.scenario, goal) {
            (None, None) => return Ok(None),
            (Some(path), Some(goal)) => (path, goal),
            (None, Some((name, _))) => {
                return Err(Failure::usage(format!("--objective {name} needs --scenario FILE"))
                    .hint("the file names the networks that share an NPU, such as networks = [\"lenet.onnx\", \"RN\"]"));
            }
            (Some(_), None) => {
                return Err(Failure::usage(
                    "--scenario has no effect without --objective stp or qos",
                ));
            }
        };
        let flags = ScenarioFlags::read(path)?;
        let load = flags.load()?;
        if goal == ScenarioGoal::Latency && load.is_none() {
            return Err(Failure::usage(format!(
                "--objective {name} needs `rate` and `limit` in {}",
                path.display()
            ))
            .hint("such as rate = [600, 200] in requests per second and limit = [\"15ms\", \"130ms\"]"));
        }
        let mix = flags.mix(path.parent().unwrap_or(Path::new("")))?;
        Scenario::new(network, mix, goal, load).map(|scenario| Some(Arc::new(scenario)))
    }
}

/// Adds the scenario to the description of a job.
pub(super) fn about(mut about: Value, scenario: Option<&Scenario>) -> Value {
    if let Some(scenario) = scenario {
        about["scenario"] = scenario.about();
    }
    about
}

/// The search with the objective `bits` after that of a scenario.
pub(super) struct BitsSearch<'a> {
    pub network: &'a Network,
    pub settings: &'a Settings,
    pub folder: &'a Path,
    pub about: &'a Value,
    /// The verdict about samples that are too few, as for the first search.
    pub too_few: Option<&'a Confirmation>,
}

/// Evaluates trials and returns a result for each.
pub(super) type Evaluate<'a> = dyn FnMut(&[Trial]) -> Vec<Result<Evaluation, Stop>> + 'a;

/// Journal of this search.
const BITS_JOURNAL: &str = "journal-bits.jsonl";

impl BitsSearch<'_> {
    /// Searches as the job did that ended with `outcome`, and shares its evaluations. Returns `None` if either search
    /// does not come to its end. An interrupt of this search interrupts the job.
    pub fn run(
        &self,
        outcome: &mut TuneOutcome,
        evaluate: &mut Evaluate<'_>,
        watch: &dyn Fn(&Progress<'_>, &Network),
    ) -> Result<Option<TuneOutcome>, Failure> {
        if outcome.end != TuneEnd::Complete {
            return Ok(None);
        }
        let network = Network { objective: Objective::Bits, ..self.network.clone() };
        let mut about = self.about.clone();
        about["f_obj"] = network.objective.to_string().into();
        about["scenario"] = Value::Null;
        let mut journal: Journal = open_journal(&self.folder.join(BITS_JOURNAL), &about)?;
        let first = self.folder.join(JOURNAL);
        journal.import(&first).map_err(|error| {
            Failure::set_up(format!("cannot read {}: {error}", first.display()))
        })?;
        let mut watch = |progress: &Progress<'_>| watch(progress, &network);
        let mut found = tune::tune(&network, self.settings, journal, evaluate, &mut watch);
        if found.end == TuneEnd::Stopped(Stop::Interrupted) {
            outcome.end = found.end;
            return Ok(None);
        }
        confirm::doubt(&network, self.too_few, &mut found);
        Ok((found.end == TuneEnd::Complete).then_some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ScenarioFlags, String> {
        let found = ScenarioFlags::parse(text, Path::new("shared.toml"));
        found.map_err(|failure| failure.problems().join("\n"))
    }

    #[test]
    fn keys_are_the_flags_of_npu_run() {
        let text = "networks = [\"lenet.onnx\", \"RN\"]\nseq = 16\nmemory_gb_per_s = 112.5\nspill = true\n\
                    apart = false\nbind = [\"N=1\", \"S=64\"]\nrate = [600, 200.5]\nlimit = \"15ms\"\n";
        let found = read(text).unwrap();
        assert_eq!(found.sharing.networks, ["lenet.onnx", "RN"]);
        assert_eq!(found.sharing.changes.changes().seq, Some(16));
        assert_eq!(found.sharing.changes.changes().bind.len(), 2);
        assert_eq!((found.rate, found.limit), (vec![600.0, 200.5], vec![15_000_000]));
        let found = read("networks = \"RN\"\npasses = 0x10\nseed = 1_000\n").unwrap();
        assert_eq!((found.passes, found.seed), (16, 1_000));
    }

    #[test]
    fn problems_name_the_line_and_the_key() {
        let problem = |text: &str| read(text).unwrap_err();
        assert_eq!(
            problem("networks = [\"RN\"]\nmaping = \"kcp\"\nmac_pj = 1\nseq = \"x\"\nnpu = {}\n"),
            "shared.toml:2: `maping`: unknown key; the nearest is `mapping`\n\
             shared.toml:3: `mac_pj`: has no effect: a scenario computes no energy\n\
             shared.toml:4: `seq`: invalid value 'x' for '--seq <N>': expected a whole number, found `x`\n\
             shared.toml:5: `npu`: expected a text, a number, true, false, or a list of these"
        );
        assert!(problem("seq = 16\n").contains("`networks` is missing"));
        assert!(problem("limit = [\"1ms\", \"0s\"]\n").contains("expected a latency above 0"));
        assert!(problem("seq = \n").starts_with("shared.toml:1: not valid TOML: "));
    }

    #[test]
    fn objectives_of_scenarios_have_names() {
        assert_eq!("stp".parse(), Ok(WantedObjective::Throughput));
        assert_eq!("bits".parse(), Ok(WantedObjective::Formats(Objective::Bits)));
        let error = "nothing".parse::<WantedObjective>().unwrap_err();
        assert!(error.starts_with("expected stp, qos, bits, "), "{error}");
    }
}
