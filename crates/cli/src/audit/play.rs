//! Plays what an audit takes.

use std::path::{Path, PathBuf};

use dyno_loadgen::settings::{Origin, Scenario, TestMode};
use dyno_mlperf::audit::{Evidence, Needs, Plan, Played, Test, verify, write_folder};
use dyno_mlperf::round::{Round, Version};

use super::{Audited, Bounds, plan, quality};
use crate::compare::interleave::rate;
use crate::exit::{Exit, Failure};
use crate::measure::{Test as MeasuredTest, Watch, mode_name};
use crate::options::{CommandLine, is_open};
use crate::output;
use crate::run::Prepared;
use crate::summary::State;

/// The run of the submission, below the folder of the audit.
const BASELINE: &str = "baseline";

/// The runs of an audit.
pub struct Schedule {
    /// The audit.
    pub test: Test,
    /// Of this round.
    pub round: &'static Round,
    /// Of this benchmark.
    pub benchmark: Option<String>,
    /// The run's own flags.
    pub line: CommandLine,
    /// TEST03: flags that are others in the audited run.
    pub custom: Vec<(String, String)>,
    /// Bounds that are given.
    pub bounds: Bounds,
    /// What is judged, given by flags; its runs are filled in.
    pub evidence: Evidence,
}

/// Who sets what an audit sets.
fn origin(test: Test) -> Origin {
    Origin::Flag(format!("dyno audit {test}"))
}

impl Schedule {
    /// Plays everything below `directory` and judges it; or says how it ended before.
    ///
    /// # Errors
    /// Flags that make no sense, and what keeps a run from being played.
    pub fn play(
        &self,
        directory: &Path,
        watch: Watch<'_>,
    ) -> Result<Result<Vec<Audited>, Exit>, Failure> {
        let mut line = self.line.clone();
        self.set_seeds(&mut line)?;
        let needs = self.plan(Scenario::Offline)?.needs;
        line.give("mode", mode(needs));
        let baseline = Prepared::new(&line)?;
        if !baseline.options.tenants.is_empty() {
            return Err(Failure::usage(
                "an audit is of one tenant, and the configuration has several",
            )
            .hint("leave [[tenant]] out"));
        }
        let plans = baseline.options.scenarios().into_iter().map(|scenario| self.plan(scenario));
        let plans = plans.collect::<Result<Vec<Plan>, Failure>>()?;
        let Some(rates) = self.rates(&line, watch)? else { return Ok(Err(Exit::Interrupted)) };
        line.set.extend(rates);
        if needs != Needs::default() {
            let exit = self.measure(&line, &directory.join(BASELINE), &[], watch)?;
            if exit != Exit::Valid {
                return Ok(Err(exit));
            }
        }
        line.give("mode", "performance");
        for (name, value) in &self.custom {
            line.give(name, value);
        }
        for (at, run) in plans[0].runs.iter().enumerate() {
            let imposed: Vec<_> =
                plans.iter().map(|plan| (plan.scenario, &plan.runs[at].settings[..])).collect();
            let exit = self.measure(&line, &directory.join(run.name), &imposed, watch)?;
            if exit != Exit::Valid {
                return Ok(Err(exit));
            }
        }
        let judged = plans.iter().map(|plan| self.judge(plan, &baseline, directory));
        judged.collect::<Result<_, _>>().map(Ok)
    }

    fn plan(&self, scenario: Scenario) -> Result<Plan, Failure> {
        plan(self.test, self.round, self.benchmark.as_deref(), scenario)
            .map(|plan| self.bounds.over(plan))
    }

    /// The baseline is a run of the round: it has its seeds, unless others are given.
    fn set_seeds(&self, line: &mut CommandLine) -> Result<(), Failure> {
        let prepared = Prepared::silently(line)?;
        let settings =
            prepared.options.settings(Scenario::Offline, TestMode::PerformanceOnly, None);
        let seeds = self.round.seeds;
        for (key, seed) in [
            ("qsl_rng_seed", seeds.qsl),
            ("sample_index_rng_seed", seeds.sample_index),
            ("schedule_rng_seed", seeds.schedule),
        ] {
            if is_open(&settings, key) {
                line.set.push(format!("{key}={seed}"));
            }
        }
        Ok(())
    }

    /// Rates that nobody gave are those of one probe: all runs must bear the same
    /// load. `None` after Ctrl-C.
    fn rates(&self, line: &CommandLine, watch: Watch<'_>) -> Result<Option<Vec<String>>, Failure> {
        let mut line = line.clone();
        line.give("mode", "performance");
        let prepared = Prepared::silently(&line)?;
        if !prepared.is_probed() {
            return Ok(Some(Vec::new()));
        }
        let Some(tests) = prepared.probed_tests(watch)? else { return Ok(None) };
        let of = |test: &MeasuredTest| rate(test.scenario.name(), test.tenants[0].plan.target_qps);
        Ok(Some(tests.iter().filter_map(of).collect()))
    }

    /// One run, with settings that the audit imposes; how it ended, INVALID or not.
    fn measure(
        &self,
        line: &CommandLine,
        target: &Path,
        imposed: &[(Scenario, &[(&'static str, String)])],
        watch: Watch<'_>,
    ) -> Result<Exit, Failure> {
        let mut prepared = Prepared::silently(line)?;
        for (scenario, settings) in imposed {
            prepared.options.impose(*scenario, settings, &origin(self.test));
        }
        let tests = prepared.tests()?;
        let run = prepared.directory(&tests, Some(target))?;
        output::say(format_args!("run: {}", target.display()));
        let measured = prepared.measure(&tests, watch, run)?;
        Ok(match measured.summary.state {
            // What an INVALID run means for the audit, the audit says.
            State::Complete => Exit::Valid,
            State::Aborted | State::Interrupted => measured.exit(),
        })
    }

    fn judge(
        &self,
        plan: &Plan,
        baseline: &Prepared,
        directory: &Path,
    ) -> Result<Audited, Failure> {
        let played = |run: &str, mode: TestMode| {
            let test = PathBuf::from(plan.scenario.name()).join(mode_name(mode));
            Played::new(directory.join(run).join(test))
        };
        let of_baseline = |is_needed: bool, mode| is_needed.then(|| played(BASELINE, mode));
        let audited = plan.runs.iter().map(|run| played(run.name, TestMode::PerformanceOnly));
        let mut evidence = Evidence {
            accuracy: of_baseline(plan.needs.accuracy, TestMode::AccuracyOnly),
            performance: of_baseline(plan.needs.performance, TestMode::PerformanceOnly),
            audited: audited.collect(),
            ..self.evidence.clone()
        };
        if let (Test::Test07, Some(labels)) = (plan.test, baseline.system.labels.as_deref()) {
            let own = quality::of_audited(&evidence, labels)?;
            evidence.quality = evidence.quality.or(own);
        }
        let mut result = verify(plan, &evidence);
        if let Some(labels) = baseline.system.labels.as_deref().filter(|_| !result.is_passed())
            && plan.test == Test::Test01
            && evidence.qualities.is_none()
        {
            evidence.qualities = quality::of(&evidence, labels, self.round)?;
            result = verify(plan, &evidence);
        }
        // The first round has another name for it.
        let is_first = self.round.version == Version::new(0, 5);
        let compliance = directory.join(if is_first { "audit" } else { "compliance" });
        let is_interactive =
            baseline.options.run.is_interactive && plan.scenario == Scenario::Server;
        let scenario = if is_interactive { "Interactive" } else { plan.scenario.name() };
        let written = write_folder(&result, &evidence, &compliance.join(scenario));
        let written = written.map_err(|error| {
            Failure::set_up(format!("cannot write to {}: {error}", compliance.display()))
        })?;
        Ok(Audited { scenario: plan.scenario, result, folders: written.folders })
    }
}

/// What the submission has to have measured.
fn mode(needs: Needs) -> &'static str {
    match (needs.accuracy, needs.performance) {
        (true, true) => "both",
        (true, false) => "accuracy",
        (false, _) => "performance",
    }
}
