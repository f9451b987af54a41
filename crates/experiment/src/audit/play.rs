//! Plays the runs of an audit.

use std::path::{Path, PathBuf};

use dyno_loadgen::settings::{Origin, Scenario, TestMode};
use dyno_results::summary::{State, mode_name};
use dyno_rules::{Round, Version};
use dyno_submission::audit::{
    AuditPlan, AuditTest, Evidence, RequiredRuns, RunFolder, verify, write_folder,
};

use super::loads::{Loads, is_repeated};
use super::{Bounds, ScenarioAudit, plan, quality};

use crate::End;
use crate::compare::interleave::rate;
use crate::failure::Failure;
use crate::options::{CommandLine, Options, is_open};
use crate::run::{MeasuredRun, PreparedRun, variables};
use crate::test::PlannedTest;
use crate::watch::Control;

/// Folder of the submission's run, relative to the folder of the audit.
const BASELINE: &str = "baseline";

/// The runs of an audit.
pub struct Schedule {
    /// The audit.
    pub test: AuditTest,
    /// Round whose rules apply.
    pub round: &'static Round,
    /// Benchmark of the round.
    pub benchmark: Option<String>,
    /// Flags of the runs.
    pub line: CommandLine,
    /// Flags that differ in the audited run, for TEST03.
    pub custom: Vec<(String, String)>,
    /// Bounds given by the user.
    pub bounds: Bounds,
    /// The evidence to judge, as given by flags; `play` fills in the runs.
    pub evidence: Evidence,
    /// Whether only errors are shown.
    pub is_quiet: bool,
}

/// Returns the origin of the settings that an audit changes.
fn origin(test: AuditTest) -> Origin {
    Origin::Flag(format!("dyno audit {test}"))
}

impl Schedule {
    /// Plays all runs in `directory` and judges them. The inner error is how a run ended that keeps
    /// the audit from a verdict.
    ///
    /// The system is loaded once, because loading may take minutes, and keeps its state between
    /// runs. Only the comparison run of a caching audit gets a new system: samples that were
    /// computed before would hide a cache.
    ///
    /// # Errors
    /// Invalid flags, or a run that cannot be played.
    pub fn play(
        &self,
        directory: &Path,
        control: Control<'_>,
    ) -> Result<Result<Vec<ScenarioAudit>, End>, Failure> {
        let mut line = self.line.clone();
        self.set_seeds(&mut line)?;
        let needs = self.plan(Scenario::Offline)?.needs;
        line.give("mode", mode(needs));
        let mut prepared = if self.is_quiet {
            PreparedRun::silently(&line, control.watch)?
        } else {
            PreparedRun::new(&line, control.watch)?
        };
        if !prepared.options.tenants.is_empty() {
            return Err(Failure::usage(
                "an audit runs one tenant, but the configuration has several",
            )
            .hint("remove the [[tenants]] tables"));
        }
        let plans = prepared.options.scenarios().into_iter().map(|scenario| self.plan(scenario));
        let plans = plans.collect::<Result<Vec<AuditPlan>, Failure>>()?;
        // Errors in the audited run are reported before the baseline is played.
        let custom = self.customized(&line, control)?;
        let Some(rates) = self.rates(&mut prepared, &line, control)? else {
            return Ok(Err(End::Interrupted));
        };
        let mut is_warm = !rates.is_empty();
        line.set.extend(rates);
        // Repeated runs settle on a load, which the runs of the audit must use.
        prepared.options = Options::read(&line, variables())?;
        let mut loads = Loads::default();
        if needs != RequiredRuns::default() || is_repeated(&prepared.tests()?) {
            if self.test == AuditTest::Test04 && is_warm {
                prepared = prepared.renewed(control.watch)?;
            }
            let measured = self.measure(&prepared, &directory.join(BASELINE), control)?;
            // The audit decides what an INVALID run means.
            if measured.summary.state != State::Complete {
                return Ok(Err(measured.end()));
            }
            loads = Loads::from_tests(&measured.summary.tests);
            is_warm = true;
        }
        line.give("mode", "performance");
        for (name, value) in &self.custom {
            line.give(name, value);
        }
        if let Some(custom) = custom {
            prepared = custom;
        }
        for at in 0..plans[0].runs.len() {
            if self.test == AuditTest::Test04Pair && at == 0 && is_warm {
                prepared = prepared.renewed(control.watch)?;
            }
            prepared.options = Options::read(&line, variables())?;
            for plan in &plans {
                let settings = plan.runs[at].settings.iter().cloned();
                let settings: Vec<_> = settings.chain(loads.settings(plan.scenario)).collect();
                prepared.options.impose(plan.scenario, &settings, &origin(self.test));
            }
            let measured =
                self.measure(&prepared, &directory.join(plans[0].runs[at].name), control)?;
            if measured.summary.state != State::Complete {
                return Ok(Err(measured.end()));
            }
        }
        let judged = plans.iter().map(|plan| self.judge(plan, &prepared, &loads, directory));
        judged.collect::<Result<_, _>>().map(Ok)
    }

    fn plan(&self, scenario: Scenario) -> Result<AuditPlan, Failure> {
        plan(self.test, self.round, self.benchmark.as_deref(), scenario)
            .map(|plan| self.bounds.over(plan))
    }

    /// Returns the audited run of TEST03 where it differs from the baseline.
    fn customized(
        &self,
        line: &CommandLine,
        control: Control<'_>,
    ) -> Result<Option<PreparedRun>, Failure> {
        if self.custom.is_empty() {
            return Ok(None);
        }
        let mut line = line.clone();
        line.give("mode", "performance");
        for (name, value) in &self.custom {
            line.give(name, value);
        }
        let prepared = PreparedRun::silently(&line, control.watch)?;
        prepared.tests()?;
        Ok(Some(prepared))
    }

    /// Sets the seeds of the round unless others are given, because the baseline is a run of the
    /// round.
    fn set_seeds(&self, line: &mut CommandLine) -> Result<(), Failure> {
        let options = Options::read(line, variables())?;
        let settings = options.settings(Scenario::Offline, TestMode::PerformanceOnly, None);
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

    /// Sets the rates that are not given to those of one probe, because all runs must have the same
    /// load. Returns `None` after Ctrl-C.
    fn rates(
        &self,
        prepared: &mut PreparedRun,
        line: &CommandLine,
        control: Control<'_>,
    ) -> Result<Option<Vec<String>>, Failure> {
        let mut line = line.clone();
        line.give("mode", "performance");
        prepared.options = Options::read(&line, variables())?;
        if !prepared.is_probed() {
            return Ok(Some(Vec::new()));
        }
        let Some(tests) = prepared.probed_tests(control)? else { return Ok(None) };
        prepared.probe_remark().iter().for_each(|remark| control.watch.say(remark));
        let of = |test: &PlannedTest| rate(test.scenario.name(), test.tenants[0].plan.target_qps);
        Ok(Some(tests.iter().filter_map(of).collect()))
    }

    /// Plays one run. An INVALID run is no error.
    fn measure(
        &self,
        prepared: &PreparedRun,
        target: &Path,
        control: Control<'_>,
    ) -> Result<MeasuredRun, Failure> {
        let tests = prepared.tests()?;
        let run = prepared.directory(&tests, Some(target))?;
        if !self.is_quiet {
            control.watch.step(&format!("run: {}", target.display()));
        }
        let measured = prepared.measure(&tests, control, run)?;
        let measured = measured.stored_in(target, "then audit again, in another folder (--out)")?;
        if self.is_quiet {
            return Ok(measured);
        }
        // The audit only reports that a run is INVALID. The reasons are shown here, because a run
        // that is too short needs a different remedy than a system that cheats.
        for test in measured.summary.tests.iter().filter(|test| !test.is_valid()) {
            let reasons = test.reasons.join("\n");
            let why = reasons.lines().next().unwrap_or_default();
            let may = if self.may_be_short(target) {
                ", which is acceptable if it is only too \
                 short"
            } else {
                ""
            };
            let (scenario, mode, verdict) = (&test.scenario, &test.mode, &test.verdict);
            control.watch.say(&format!("{scenario} {mode} is {verdict}{may}: {why}"));
        }
        Ok(measured)
    }

    /// Returns whether a run may be short because the number of samples or answers ends it.
    fn may_be_short(&self, target: &Path) -> bool {
        match self.test {
            AuditTest::Test04Pair => target.ends_with("unique"),
            AuditTest::Test06 | AuditTest::Test07 | AuditTest::Test08 | AuditTest::Test09 => {
                !target.ends_with(BASELINE)
            }
            _ => false,
        }
    }

    fn judge(
        &self,
        plan: &AuditPlan,
        baseline: &PreparedRun,
        loads: &Loads,
        directory: &Path,
    ) -> Result<ScenarioAudit, Failure> {
        let played = |run: &str, mode: TestMode| {
            let test = PathBuf::from(plan.scenario.name()).join(mode_name(mode));
            RunFolder::new(directory.join(run).join(test))
        };
        let of_baseline = |is_needed: bool, mode| is_needed.then(|| played(BASELINE, mode));
        let audited = plan.runs.iter().map(|run| played(run.name, TestMode::PerformanceOnly));
        let mut evidence = Evidence {
            accuracy: of_baseline(plan.needs.accuracy, TestMode::AccuracyOnly),
            performance: of_baseline(plan.needs.performance, TestMode::PerformanceOnly),
            audited: audited.collect(),
            ..self.evidence.clone()
        };
        if let (AuditTest::Test07, Some(labels)) = (plan.test, baseline.system.labels.as_deref()) {
            let own = quality::audited_accuracy(&evidence, labels)?;
            evidence.quality = evidence.quality.or(own);
        }
        let mut result = verify(plan, &evidence);
        if let Some(labels) = baseline.system.labels.as_deref().filter(|_| !result.is_passed())
            && plan.test == AuditTest::Test01
            && evidence.qualities.is_none()
        {
            evidence.qualities = quality::accuracies(&evidence, labels, self.round)?;
            result = verify(plan, &evidence);
        }
        result.notes.extend(loads.note(plan.scenario));
        // The first round uses a different folder name.
        let is_first = self.round.version == Version::new(0, 5);
        let compliance = directory.join(if is_first { "audit" } else { "compliance" });
        let is_interactive =
            baseline.options.run.is_interactive && plan.scenario == Scenario::Server;
        let scenario = if is_interactive { "Interactive" } else { plan.scenario.name() };
        let written = write_folder(&result, &evidence, &compliance.join(scenario));
        let written = written.map_err(|error| {
            Failure::set_up(format!("cannot write to {}: {error}", compliance.display()))
        })?;
        Ok(ScenarioAudit { scenario: plan.scenario, result, folders: written.folders })
    }
}

/// Returns the mode that the runs of the submission need.
fn mode(needs: RequiredRuns) -> &'static str {
    match (needs.accuracy, needs.performance) {
        (true, true) => "both",
        (true, false) => "accuracy",
        (false, _) => "performance",
    }
}
