//! Options of a run in layers: flags override the environment, then the file, the round, the
//! profile and the defaults. Each value has its origin.

pub mod arguments;
mod assignment;
mod axis;
mod batch;
mod conf;
mod file;
mod flags;
mod keys;
mod profile;
mod require;
mod rules;
mod seeds;
mod shape;
mod stages;
mod sweep_key;
mod variables;

use std::num::NonZero;
use std::path::PathBuf;

use dyno_loadgen::clock::MILLISECOND;
use dyno_loadgen::config::{Conf, ConfType, ConfigWarning};
use dyno_loadgen::message::{Message, Severity};
use dyno_loadgen::plan::{apply_test05, raise_query_count_for_percentile};
use dyno_loadgen::settings::{Arrivals, Origin, Scenario, Setting as _, Settings, TestMode};

pub use assignment::Assignment;
use assignment::apply;
pub use axis::{axis, expand as axis_range, read_axis, split as axis_values};
pub use batch::BatchSizes;
pub use file::{
    Annotation, SWEEP_KEYS, SweepTable, TenantTable, VERSION as FILE_VERSION, meaning, toml_text,
};
use flags::{all_given, read_flags};
pub use keys::find as find_key;
pub use keys::{GivenKeys, KEYS, Mode, RunOptions, scenario};
pub use profile::Profile;
pub use require::Requirement;
pub use rules::Rules;
pub use seeds::RandomStream;
pub use shape::ShapeOption;
pub use stages::{Stages, are_stages, in_short};
pub use sweep_key::SweepKey;
use variables::read_environment;

use crate::failure::{Failure, FailureKind};

/// Prefix of environment variables that set a setting, as in `DYNO_SETTINGS_SERVER_TARGET_QPS`.
pub(crate) const ENVIRONMENT_PREFIX: &str = "DYNO_SETTINGS_";

/// A key of a run that was set, with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyOrigin {
    /// Name of the key, with hyphens.
    pub key: &'static str,
    /// Where it was set: a flag, or a line of a file.
    pub origin: Origin,
}

/// All options of a run, in layers.
///
/// ```
/// use dyno_experiment::options::{CommandLine, Options};
/// use dyno_loadgen::settings::{Scenario, TestMode};
///
/// let mut line = CommandLine::default();
/// line.give("qps", "100");
/// let variable = ("DYNO_SETTINGS_SERVER_TARGET_QPS".to_owned(), "50".to_owned());
/// let options = Options::read(&line, std::iter::once(variable))?;
/// let settings = options.settings(Scenario::Server, TestMode::PerformanceOnly, None);
/// assert_eq!(settings.values.server_target_qps, 100.0); // a flag overrides a variable
/// # Ok::<(), dyno_experiment::Failure>(())
/// ```
#[derive(Debug)]
pub struct Options {
    /// Options of the run besides settings.
    pub run: RunOptions,
    /// Round and benchmark of the run.
    pub rules: Option<Rules>,
    /// Tenants of the configuration file; empty for a single tenant without a name.
    pub tenants: Vec<TenantTable>,
    /// `[sweep]` of the configuration file.
    pub sweep: Option<SweepTable>,
    /// Warnings about accepted but unusual contents of files.
    pub warnings: Vec<ConfigWarning>,
    conf: Vec<Conf>,
    audit: Option<Conf>,
    imposed: Vec<Assignment>,
    /// Departures of a command from the round, each as a sentence.
    departures: Vec<String>,
    /// Whether limits of the command judge failures, as those of a search do.
    limits_failures: bool,
    /// Whether limits of the command replace the bounds of the settings, as those of a search do.
    judges_limits: bool,
    /// Settings that the command sets.
    set_by_command: Vec<&'static str>,
    given: Vec<KeyOrigin>,
    file: Vec<Assignment>,
    environment: Vec<Assignment>,
    flags: Vec<Assignment>,
}

/// Flags of the command line for a run.
#[derive(Debug, Clone, Default)]
pub struct CommandLine {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--set` and dotted flags.
    pub set: Vec<String>,
    /// Flags of [`KEYS`].
    pub keys: GivenKeys,
    /// The run is only planned, so that no server is contacted.
    pub is_dry: bool,
}

impl CommandLine {
    /// Sets a flag of [`KEYS`] to this value and removes its other values.
    ///
    /// # Panics
    /// The flag does not exist.
    pub fn give(&mut self, name: &str, value: &str) {
        let key = KEYS.iter().find(|key| key.name == name).expect("it is a key of the table");
        self.keys.0.retain(|(given, _)| given.name != name);
        self.keys.0.push((key, value.to_string()));
    }

    /// Returns the last value of a flag of [`KEYS`].
    pub fn given(&self, name: &str) -> Option<&str> {
        let mut given = self.keys.0.iter().rev();
        given.find(|(key, _)| key.name == name).map(|(_, value)| value.as_str())
    }
}

impl Options {
    /// Reads all layers.
    ///
    /// # Errors
    /// Every problem of every layer at once.
    pub fn read(
        command_line: &CommandLine,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, Failure> {
        let (mut options, mut problems) = Self::layers(command_line, environment);
        match Rules::read(&options.run) {
            Ok(rules) => options.rules = rules,
            Err(found) => problems.extend(found),
        }
        options.take_from_rules();
        options.read_conf(&mut problems);
        options.check_conf(&mut problems);
        options.unless(problems, command_line)
    }

    /// Reads the options that all points of a sweep share. Round and benchmark may be axes of the
    /// sweep.
    ///
    /// # Errors
    /// As [`Options::read`].
    pub fn common(
        command_line: &CommandLine,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, Failure> {
        let (mut options, mut problems) = Self::layers(command_line, environment);
        options.read_conf(&mut problems);
        options.unless(problems, command_line)
    }

    /// Returns the options unless there are problems. If a file is missing, the failure is one of the
    /// set-up, as for all other files.
    fn unless(self, problems: Vec<String>, line: &CommandLine) -> Result<Self, Failure> {
        if problems.is_empty() {
            return Ok(self);
        }
        let mut files = self.run.conf.iter().chain(&self.run.audit).chain(&line.config);
        let is_missing = files.any(|file| !file.exists());
        let kind = if is_missing { FailureKind::SetUp } else { FailureKind::Usage };
        Err(Failure::new(kind, problems))
    }

    fn layers(
        command_line: &CommandLine,
        environment: impl Iterator<Item = (String, String)>,
    ) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        let file = match &command_line.config {
            Some(path) => file::ConfigFile::read(path).unwrap_or_else(|found| {
                problems.extend(found);
                file::ConfigFile::default()
            }),
            None => file::ConfigFile::default(),
        };
        let environment = read_environment(environment, &mut problems);
        let given = all_given(&file.given, command_line);
        let (mut run, flags) = read_flags(command_line, file.run, &mut problems);
        run.is_dry = command_line.is_dry;
        run.tenant_systems = file.tenants.iter().map(|tenant| tenant.system.clone()).collect();
        let options = Self {
            run,
            rules: None,
            tenants: file.tenants,
            sweep: file.sweep,
            warnings: Vec::new(),
            conf: Vec::new(),
            audit: None,
            imposed: Vec::new(),
            departures: Vec::new(),
            limits_failures: false,
            judges_limits: false,
            set_by_command: Vec::new(),
            given,
            file: file.settings,
            environment,
            flags,
        };
        (options, problems)
    }

    /// Takes options besides settings from the round, unless they are set.
    fn take_from_rules(&mut self) {
        let Some(rules) = self.rules else { return };
        let (run, benchmark) = (&mut self.run, rules.benchmark);
        if run.conf_model.is_none() {
            run.conf_model = rules.model();
        }
        run.profile = run.profile.or(Some(Profile::Rules));
        let of_interactive = benchmark.loadgen.interactive_samples;
        let of_interactive = of_interactive.filter(|_| rules.is_interactive);
        let samples = of_interactive.unwrap_or(benchmark.dataset.samples);
        run.samples_of_round = usize::try_from(samples).ok().and_then(NonZero::new);
        run.accuracy_target = run.accuracy_target.or(benchmark.least_accuracy());
    }

    fn is_given(&self, key: &str) -> bool {
        self.given.iter().any(|given| given.key == key)
    }

    /// Returns the keys that were set, each with its last origin, without those that a round sets.
    pub fn given(&self) -> &[KeyOrigin] {
        &self.given
    }

    /// Returns the settings that were set.
    pub fn assigned(&self) -> impl Iterator<Item = &Assignment> {
        self.file.iter().chain(&self.environment).chain(&self.flags)
    }

    /// Returns the scenarios of the run, in order.
    pub fn scenarios(&self) -> Vec<Scenario> {
        match (&self.run.scenarios[..], self.run.mode) {
            ([], Some(Mode::Peak)) => vec![Scenario::Server],
            ([], _) => match &self.rules {
                Some(rules) => rules.scenarios(),
                None if self.profile() == Profile::Llm => vec![Scenario::Server],
                None => Scenario::ALL.to_vec(),
            },
            (given, _) => {
                let is_asked = |scenario: &Scenario| given.contains(scenario);
                Scenario::ALL.iter().copied().filter(is_asked).collect()
            }
        }
    }

    /// Returns the tests of each scenario.
    pub fn modes(&self) -> &'static [TestMode] {
        // Data of language models often has answers, and scoring them all may take hours.
        let is_fast = self.profile() == Profile::Llm && self.run.accuracy_target.is_none();
        let default = if is_fast { Mode::Performance } else { Mode::Both };
        match self.run.mode.unwrap_or(default) {
            Mode::Accuracy => &[TestMode::AccuracyOnly],
            Mode::Performance => &[TestMode::PerformanceOnly],
            Mode::Both => &[TestMode::AccuracyOnly, TestMode::PerformanceOnly],
            Mode::Peak => &[TestMode::FindPeakPerformance],
        }
    }

    /// Returns the profile, by default the one that suits the system.
    pub fn profile(&self) -> Profile {
        let is_of_texts = |spec: &String| spec.starts_with("openai:");
        let is_llm = self.run.system.as_ref().is_some_and(is_of_texts) && self.tenants.is_empty();
        let default = if is_llm { Profile::Llm } else { Profile::Quick };
        self.run.profile.unwrap_or(default)
    }

    /// Lets limits of the command judge failures.
    pub(crate) fn limit_failures(&mut self) {
        self.limits_failures = true;
    }

    /// Lets limits of the command replace the bounds of the settings.
    pub(crate) fn judge_limits(&mut self) {
        self.judges_limits = true;
    }

    /// Returns whether limits of the command replace the bounds of the settings.
    pub(crate) fn judges_limits(&self) -> bool {
        self.judges_limits
    }

    /// Returns who judges failed requests of a performance test.
    pub fn failures(&self, scenario: Scenario) -> FailureRule {
        let on_errors = |one: &&Requirement| one.is_for(scenario) && one.is_on_errors();
        if self.profile() != Profile::Llm || self.rules.is_some() || self.limits_failures {
            FailureRule::Bound
        } else if self.run.requirements.iter().any(|one| on_errors(&one)) {
            FailureRule::Requirement
        } else {
            FailureRule::None
        }
    }

    /// Returns whether a run ends when most answers fail. Under the rules a run continues.
    pub fn fails_fast(&self) -> bool {
        let by_default = self.profile() != Profile::Rules && self.rules.is_none();
        self.run.fails_fast.unwrap_or(by_default)
    }

    /// Returns whether a run at a rate ends when its queue grows without bound.
    pub(crate) fn stops_on_saturation(&self) -> bool {
        let by_default = self.profile() == Profile::Llm && self.rules.is_none();
        self.run.stops_on_saturation.unwrap_or(by_default)
    }

    /// Returns the settings of a scenario below those of `dyno.toml`, variables and flags.
    pub fn unassigned(&self, scenario: Scenario) -> Settings {
        let model = self.run.conf_model.as_deref().unwrap_or("*");
        let word = scenario.name();
        let mut settings = Settings::default();
        settings.values.scenario = scenario;
        Conf::built_in().apply(&mut settings, model, word, ConfType::BuiltIn);
        let is_known_model = self.run.conf_model.is_some();
        self.profile().apply(&mut settings, scenario, is_known_model);
        if let Some(rules) = &self.rules {
            rules.apply(&mut settings, scenario);
        }
        for conf in &self.conf {
            conf.apply(&mut settings, model, word, ConfType::User);
        }
        settings
    }

    /// Returns the settings of one test of one tenant, from all layers. Settings that depend on the
    /// system are still open; see [`Options::complete`].
    pub fn settings(
        &self,
        scenario: Scenario,
        mode: TestMode,
        tenant: Option<&TenantTable>,
    ) -> Settings {
        let mut settings = self.unassigned(scenario);
        apply(&self.file, &mut settings, scenario);
        if let Some(tenant) = tenant {
            apply(&tenant.settings, &mut settings, scenario);
        }
        apply(&self.environment, &mut settings, scenario);
        apply(&self.flags, &mut settings, scenario);
        settings.values.scenario = scenario;
        if let Some(tenant) = tenant {
            self.separate_tenant(&mut settings, tenant);
        }
        settings.values.mode = mode;
        let is_searched = mode == TestMode::FindPeakPerformance;
        if is_searched && self.leaves_streams(&settings) {
            settings.values.multi_stream_samples_per_query = 1;
            settings.record(STREAMS, Origin::Code("a search begins with one stream"));
        }
        let given = Origin::Code("dyno run");
        settings.record("scenario", given.clone());
        settings.record("mode", given);
        settings
    }

    /// Returns whether the round leaves the number of streams open and it is not set.
    fn leaves_streams(&self, settings: &Settings) -> bool {
        let leaves = |rules: &Rules| rules.leaves_streams(settings.values.scenario);
        self.rules.as_ref().is_some_and(leaves) && is_open(settings, STREAMS)
    }

    /// Sets settings of one scenario above all layers, as an audit does.
    ///
    /// # Panics
    /// A setting does not exist, or a value is invalid.
    pub fn impose(
        &mut self,
        scenario: Scenario,
        settings: &[(&'static str, String)],
        origin: &Origin,
    ) {
        self.imposed.extend(settings.iter().map(|(key, value)| {
            let (value, origin) = (value.clone(), origin.clone());
            Assignment { scenario: Some(scenario), key, value, origin }
        }));
    }

    /// Records where these settings, which a command sets above all layers, depart from the round,
    /// so that runs report it.
    ///
    /// # Panics
    /// As [`Options::impose`].
    pub fn depart(
        &mut self,
        scenario: Scenario,
        on_top: &[(&'static str, String)],
        origin: &Origin,
    ) {
        let Some(rules) = &self.rules else { return };
        self.set_by_command = on_top.iter().map(|(key, _)| *key).collect();
        let mut settings = self.settings(scenario, TestMode::PerformanceOnly, None);
        let known = rules.broken(&settings);
        for (key, value) in on_top {
            settings
                .set(key, value, origin.clone())
                .expect("settings that exist, values that read");
        }
        self.departures = rules.broken(&settings);
        self.departures.retain(|sentence| !known.contains(sentence));
    }

    /// Returns remarks on requirements of the round that the run does not meet.
    pub fn rules_remarks(&self) -> Vec<String> {
        let Some(rules) = &self.rules else { return Vec::new() };
        let mut remarks = vec![rules.remark()];
        if self.profile() == Profile::Quick {
            remarks.push("Profile quick does not shorten settings of the round.".into());
        }
        remarks.extend(self.departures_from_round());
        remarks
    }

    /// Returns the requirements of the round that the run does not meet.
    pub(crate) fn departures_from_round(&self) -> Vec<String> {
        let Some(rules) = &self.rules else { return Vec::new() };
        let mut remarks = self.departures.clone();
        let asked = rules.benchmark.least_accuracy();
        if let Some(given) = self.run.accuracy_target.filter(|given| Some(*given) != asked) {
            let asked = asked.map_or("another figure".into(), |asked| asked.to_string());
            remarks.push(format!("The accuracy target is {given}; the round requires {asked}."));
        }
        let is_searched = self.modes().contains(&TestMode::FindPeakPerformance)
            || self.set_by_command.contains(&STREAMS);
        let tenants: Vec<_> = match &self.tenants[..] {
            [] => vec![None],
            tenants => tenants.iter().map(Some).collect(),
        };
        for scenario in self.scenarios() {
            remarks.extend(rules.remarks(scenario));
            for tenant in &tenants {
                let mut settings = self.settings(scenario, TestMode::PerformanceOnly, *tenant);
                let mut broken = rules.broken(&settings);
                if !is_searched && self.leaves_streams(&settings) {
                    let streams = settings.values.multi_stream_samples_per_query;
                    broken.push(format!(
                        "The round does not define the number of streams; {STREAMS} defaults to \
                         {streams}."
                    ));
                }
                let before = settings.clone();
                self.apply_audit(&mut settings);
                broken.extend(rules.audited(&settings, &before));
                for sentence in broken {
                    if !remarks.contains(&sentence) {
                        remarks.push(sentence);
                    }
                }
            }
        }
        remarks
    }

    /// Sets the load of Server unless it is given by its arrivals, by a rate, or by the times of a
    /// recorded trace: as many queries in flight as `max-concurrency` permits, or as the profile has.
    pub(crate) fn complete_load(&self, settings: &mut Settings) {
        let is_measured = settings.values.mode != TestMode::AccuracyOnly;
        if let (Some(stages), Scenario::Server, true) =
            (&self.run.stages, settings.values.scenario, is_measured)
        {
            let times = stages.arrivals(settings.values.schedule_rng_seed);
            let origin = || Origin::Code("the stages of the load");
            for (key, value) in [
                ("server_target_qps", stages.mean_rate().to_string()),
                ("min_duration_ms", "0".into()),
                ("min_query_count", times.len().max(1).to_string()),
                ("max_query_count", "0".into()),
            ] {
                settings.set(key, &value, origin()).expect("a valid value");
            }
            // By chance there may be no arrival, which the plan rejects.
            settings.values.server_arrivals = Arrivals::Replay(times.into());
            settings.record("server_arrivals", origin());
            return;
        }
        let is_given =
            ["server_arrivals", "server_target_qps"].iter().any(|k| !is_open(settings, k));
        if settings.values.scenario != Scenario::Server || is_given {
            return;
        }
        let load = match (self.run.max_concurrency, self.profile()) {
            (Some(most), _) => Some((most.get(), Origin::Flag("--max-concurrency".into()))),
            (None, Profile::Llm) => Some((LLM_CONCURRENCY, Origin::Code("profile llm"))),
            (None, Profile::Quick | Profile::Rules) => None,
        };
        if let Some((in_flight, origin)) = load {
            let arrivals = Arrivals::Concurrency(in_flight).show();
            settings.set("server_arrivals", &arrivals, origin).expect("a valid value");
        }
    }

    fn apply_audit(&self, settings: &mut Settings) {
        if let Some(audit) = &self.audit {
            audit.apply_audit(settings);
            apply_test05(settings);
        }
    }

    /// Completes settings that are not set, and applies those of an audit last. Returns messages
    /// for the log.
    pub fn complete(&self, settings: &mut Settings) -> Vec<Message> {
        raise_query_count_for_percentile(settings);
        set_client_lag(settings);
        set_deadline(settings);
        let before = settings.clone();
        self.apply_audit(settings);
        apply(&self.imposed, settings, settings.values.scenario);
        let note = |text: String| Message {
            at: 0,
            key: "generic_message",
            severity: Severity::Info,
            text,
        };
        let changes = settings.changes_since(&before);
        changes.iter().map(|change| note(change.to_string())).collect()
    }
}

/// Returns whether a value is not chosen: it is a default of the program or of the built-in table.
pub fn is_open(settings: &Settings, key: &str) -> bool {
    matches!(settings.origin(key), Some(Origin::Default | Origin::BuiltIn { .. }))
}

/// Returns whether the user chose a value, and not the program, a profile or the built-in table.
pub fn is_chosen(settings: &Settings, key: &str) -> bool {
    !is_open(settings, key) && !matches!(settings.origin(key), Some(Origin::Code(_)))
}

/// Which failed requests a performance test may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureRule {
    /// As many as the bound of the load generator allows.
    Bound,
    /// As many as a requirement on errors allows.
    Requirement,
    /// None: VALID means complete answers.
    None,
}

/// Queries in flight of profile llm, if no load is given.
const LLM_CONCURRENCY: u32 = 8;

const STREAMS: &str = "multi_stream_samples_per_query";

/// Minimum budget for the client's lag. A shared machine delays any thread by less than that.
const LEAST_LAG_BUDGET_NS: u64 = MILLISECOND;

fn set_client_lag(settings: &mut Settings) {
    let key = "max_client_lag_ns";
    if settings.values.scenario != Scenario::Server || !is_open(settings, key) {
        return;
    }
    let bound = if settings.values.use_token_latencies {
        settings.values.server_ttft_latency
    } else {
        settings.values.server_target_latency_ns
    };
    settings.values.max_client_lag_ns = (bound / 10).max(LEAST_LAG_BUDGET_NS);
    settings.record(key, Origin::Code("a tenth of the latency bound, at least 1 ms"));
}

/// Time limit of a test beyond its expected duration, ms.
const PATIENCE_MS: u64 = 60_000;

fn set_deadline(settings: &mut Settings) {
    let key = "response_deadline_ms";
    if is_open(settings, key) {
        let least = settings.values.min_duration_ms;
        settings.values.response_deadline_ms = least.saturating_add(PATIENCE_MS);
        settings.record(key, Origin::Code("60 s more than the duration of the test"));
    }
}
