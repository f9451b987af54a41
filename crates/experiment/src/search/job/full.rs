//! Full runs of a search, which confirm a load.

use std::path::PathBuf;

use dyno_loadgen::backlog::Growth;
use dyno_loadgen::clock::MILLISECOND;
use dyno_loadgen::record::Record;
use dyno_loadgen::run::{RunLog, TestLog};
use dyno_loadgen::search::Probe;
use dyno_loadgen::settings::TestMode;
use dyno_results::run_directory::make_way;
use dyno_results::summary::backlog::growth_sentence;

use super::observed::unmeasured_text;
use super::{Attempt, Job, ORIGIN, failures};

use crate::failure::Failure;
use crate::search::request;
use crate::system::net::Remote;
use crate::test::PlannedTest;
use crate::watch::Control;

/// Difference between the seeds of two tries, beyond those of the short runs.
const SEED_STEP: u64 = 1_000_003;

impl Job {
    /// Plays a confirmation: a full run with its own directory.
    pub(super) fn confirm(
        &mut self,
        probe: &Probe,
        control: Control<'_>,
    ) -> Result<Attempt, Failure> {
        let tests = [self.full_test(probe)?];
        let has_one_rate = tests[0].has_one_rate();
        let (folder, path) = self.confirm_folder()?;
        let directory = self.prepared.directory(&tests, Some(&path))?;
        // Another try has other arrivals, and other answers of a simulated system.
        let repeat = if self.tried() == 0 { 0 } else { probe.number + 1 };
        self.prepared.system.repeat(repeat);
        let before = self.prepared.system.remote().map(Remote::seen);
        let (mut made, mut growth, mut unmeasured, mut failed) = (None, None, None, (0, 0));
        let mut see = |log: &TestLog| {
            let Some(run) = log.result() else { return };
            failed = failures(&run.record);
            let took = self.took(log);
            made = Some(self.without_result(log, took).unwrap_or_else(|| {
                let runs: Vec<&RunLog> = log.runs().collect();
                let mut observation = self.observe(probe, &runs, took);
                let mut limits = self.rules().limits.iter().zip(&observation.blocks);
                observation.passed = limits.all(|(limit, blocks)| limit.is_kept(blocks));
                unmeasured = self.unmeasured(&std::iter::once(&observation));
                observation.passed &= unmeasured.is_none();
                if observation.passed && has_one_rate {
                    growth = runs.iter().find_map(|run| self.growth(probe, &run.record));
                    observation.overloaded = growth.is_some();
                    observation.passed = growth.is_none();
                }
                Attempt::Report(Box::new(self.report(
                    probe,
                    observation,
                    (&runs, run),
                    Some(folder.as_str()),
                )))
            }));
        };
        let control = Control { most: Some(self.left()), ..control };
        let measured = self.prepared.measure_and_see(&tests, control, directory, &mut see);
        self.prepared.system.repeat(0);
        let mut measured = measured?;
        // The result counts, although a resumed search repeats the run, and those after it.
        let not_stored = measured.take_not_stored_in(&path).map(|failure| {
            failure
                .hint(format!("then continue: dyno search --resume {}", self.directory.display()))
        });
        self.not_stored = self.not_stored.take().or(not_stored);
        let failing = measured.failing().cloned();
        if let Some(failing) = failing.or_else(|| self.lost(before.as_ref(), failed)) {
            return Ok(Attempt::Failing(failing));
        }
        let mut made = made.ok_or_else(|| Failure::set_up("a run left no record"))?;
        if let Attempt::Report(report) = &mut made {
            report.observation.passed &= measured.summary.is_valid();
            report.point.passed = report.observation.passed;
            let reasons = measured.summary.tests.iter().flat_map(|test| &test.reasons);
            let first_line =
                |reason: &String| reason.lines().next().unwrap_or_default().to_string();
            report.reasons = reasons.map(|reason| format!("   {}", first_line(reason))).collect();
            report.reasons.extend(growth.map(|growth| format!("    {growth}")));
            report
                .reasons
                .extend(unmeasured.map(|limit| format!("    {}", unmeasured_text(&limit))));
            report.disturb(&measured.summary.tests);
        }
        Ok(made)
    }

    /// Returns the test of a full run. Each try has other arrivals than the ones before.
    fn full_test(&mut self, probe: &Probe) -> Result<PlannedTest, Failure> {
        let (scenario, tried) = (self.load.scenario(), self.tried() as u64);
        let said = self.prepared.options.settings(scenario, TestMode::PerformanceOnly, None).values;
        let mut on_top = self.load.bounds(&self.limits);
        on_top.push(self.load.setting(probe.load));
        if tried > 0 {
            let seeded = |seed: u64| seed.wrapping_add(tried.wrapping_mul(SEED_STEP)).to_string();
            on_top.push(("sample_index_rng_seed", seeded(said.sample_index_rng_seed)));
            on_top.push(("schedule_rng_seed", seeded(said.schedule_rng_seed)));
        }
        self.prepared.options.depart(scenario, &on_top, &ORIGIN);
        on_top.extend(request::repetition(&self.prepared, self.load));
        on_top.extend(request::least_queries(&self.prepared, self.load, &self.limits));
        let extended = self.search.extended_length(probe).filter(|_| said.max_query_count == 0);
        on_top.extend(extended.map(|ns| ("min_duration_ms", ns.div_ceil(MILLISECOND).to_string())));
        let test = self.prepared.performance_test(scenario, &on_top, &ORIGIN)?;
        // A confirmation is judged by its whole length.
        Ok(PlannedTest { stops_saturated: false, ..test })
    }

    /// Returns the number of full runs so far.
    fn tried(&self) -> usize {
        self.state.points.iter().filter(|point| point.folder.is_some()).count()
    }

    /// Returns why a run at one rate does not pass although it kept every limit: its backlog grew, so that
    /// a longer run would miss them.
    pub(super) fn growth(&self, probe: &Probe, record: &Record) -> Option<String> {
        if let Some(growth) = Growth::of_record(record).filter(Growth::is_found) {
            return Some(growth_sentence(&growth));
        }
        self.search.fails_by_backlog(probe, record).then(|| {
            "The backlog did not return to its earlier level before the run ended. The limits are so \
             wide that only a longer run may miss them."
                .into()
        })
    }

    /// Returns name and path of the folder of a confirmation: `confirm`, or `confirm-2` and so on
    /// for further tries. The remains of an interrupted try are replaced.
    fn confirm_folder(&self) -> Result<(String, PathBuf), Failure> {
        let folder = match self.tried() {
            0 => "confirm".to_string(),
            tried => format!("confirm-{}", tried + 1),
        };
        let path = self.directory.join(&folder);
        make_way(&path)?;
        Ok((folder, path))
    }
}
