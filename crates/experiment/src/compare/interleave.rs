//! Runs of two configurations in turn: A B B A A B B A ...
//!
//! In this order a steady drift of the machine affects both sides equally, and slow fluctuations
//! affect the two runs of a pair equally. Runs in real time alternate in slices, and the system is
//! loaded anew for each slice: differences between loads are part of the intervals. Each pair has
//! its own seeds, which both sides share. So the runs of a pair differ only by the configuration
//! and not by when queries arrive, and the result does not depend on one schedule, nor in virtual
//! time on one draw of service times.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos, SECOND};
use dyno_loadgen::settings::{Origin, Scenario};
use dyno_results::run_directory::make_way;
use dyno_results::summary::{self, State};
use dyno_results::sweep::InputFile;
use dyno_results::units;
use dyno_tensors::files;

use super::Sides;
use super::conditions::{self, Conditions};
use super::layout::{Layout, NAMES, PAIRS_FEWEST, Place};
use crate::watch::Watch;

use crate::End;
use crate::effect::Strictness;
use crate::failure::Failure;
use crate::inputs;
use crate::options::{CommandLine, GivenKeys, Options};
use crate::outcome::settings;
use crate::run::{PreparedRun, variables};
use crate::test::PlannedTest;
use crate::watch::Control;
use crate::workers::stay_line;

/// The runs of a comparison to play.
#[derive(Debug)]
pub struct Schedule<'a> {
    /// Configurations of baseline and candidate.
    pub configs: [PathBuf; 2],
    /// Flags that both sides share, as `KEY=VALUE`.
    pub set: Vec<String>,
    /// Flags of the table of keys for each side. They differ only if a configuration names its server
    /// by a URL, which is then identified.
    pub keys: [GivenKeys; 2],
    /// Runs of each side (at least 2); with `until_decided` the minimum number.
    pub pairs: usize,
    /// Slices of a run; `None` chooses automatically.
    pub slices: Option<usize>,
    /// Whether pairs are added until the comparison is conclusive.
    pub until_decided: bool,
    /// Time limit, ns: no pair starts that would end later.
    pub most: Nanos,
    /// Whether differing settings are only reported.
    pub is_forced: bool,
    /// Whether the runs are only planned, so that no server is contacted.
    pub is_dry: bool,
    /// Observer of the runs.
    pub watch: &'a Arc<dyn Watch>,
}

/// Default of `--seed`.
const FIRST_SEED: u64 = 1;

/// Numbers of slices of a run to choose from.
const SLICES: [usize; 3] = [8, 4, 2];

/// Slices are at least this long; shorter ones have too few queries.
const SLICE_LEAST: Nanos = 250 * MILLISECOND;

/// Function that decides after a pair whether the comparison is conclusive.
pub type DecisionFn<'a> = &'a mut dyn FnMut(&Sides) -> Result<bool, Failure>;

impl Schedule<'_> {
    /// Prepares one side as a whole run of the first pair.
    fn prepare(&self, side: usize, rates: &[String]) -> Result<PreparedRun, Failure> {
        self.prepare_seeded(side, rates, 0)
    }

    fn prepare_seeded(
        &self,
        side: usize,
        rates: &[String],
        number: u64,
    ) -> Result<PreparedRun, Failure> {
        let mut command_line = self.line(side);
        command_line.set.extend_from_slice(rates);
        command_line.give("mode", "performance");
        let seed = self.seed()?.wrapping_add(number);
        command_line.give("seed", &seed.to_string());
        let mut prepared =
            PreparedRun::checked(&command_line, Strictness::Flags, Some(self.watch))?;
        prepared.system.repeat(number);
        Ok(prepared)
    }

    /// Prepares the run of a place: a whole one or a slice.
    fn prepare_place(
        &self,
        layout: &Layout,
        place: Place,
        rates: &[String],
    ) -> Result<PreparedRun, Failure> {
        let number = place.pair * layout.slices + place.slice;
        let mut prepared = self.prepare_seeded(place.side, rates, number as u64)?;
        if layout.slices > 1 {
            cut(&mut prepared, layout.slices as u64)?;
        }
        Ok(prepared)
    }

    /// Returns the layout of the runs: that of a resumed folder, otherwise the largest number of
    /// slices that fits.
    ///
    /// # Errors
    /// Incorrect configurations, or a folder with a different number of slices.
    pub fn layout(&self, directory: Option<&Path>) -> Result<Layout, Failure> {
        let seed = self.seed()?;
        let configs = self.configs.each_ref().map(|config| config.display().to_string());
        let existing = match directory {
            Some(directory) => Layout::read_or_whole(directory, &configs, seed)?,
            None => None,
        };
        let Some(existing) = existing else {
            let slices = match self.slices {
                Some(slices) => {
                    self.check_slices(slices)?;
                    slices
                }
                None => self.slices_that_fit()?,
            };
            let layout = Layout::new(configs, slices, seed, self.until_decided);
            return Ok(Layout { pairs: Some(self.pairs), files: self.files()?, ..layout });
        };
        existing.refuse_changes()?;
        if let Some(slices) = self.slices.filter(|slices| *slices != existing.slices) {
            let problem = format!(
                "the folder has runs in {} slices, but --slices is {slices}",
                existing.slices
            );
            return Err(Failure::usage(problem).hint("choose another folder with --out"));
        }
        let until_decided = existing.until_decided || self.until_decided;
        Ok(Layout { configs, until_decided, pairs: Some(self.pairs), ..existing })
    }

    /// Returns the files of both sides. Differing settings of configurations are found in the runs.
    fn files(&self) -> Result<Vec<InputFile>, Failure> {
        let mut files = Vec::new();
        for side in 0..2 {
            inputs::add_run(&mut files, &self.options(side)?);
        }
        Ok(files)
    }

    /// Rejects slices of a load that cannot be divided.
    fn check_slices(&self, slices: usize) -> Result<(), Failure> {
        if slices == 1 {
            return Ok(());
        }
        for side in 0..2 {
            let tests = self.prepare(side, &[])?.tests()?;
            if let Some(test) = tests.iter().find(|test| test.is_recorded()) {
                let problem = format!(
                    "--slices {slices}: {} has stages or recorded times, and a part of them is \
                     another load",
                    test.title()
                );
                return Err(Failure::usage(problem).hint("remove --slices, or use --slices 1"));
            }
        }
        Ok(())
    }

    /// Returns the largest number of slices that are long enough, also compared with the time to
    /// load the system. Virtual time does not drift. Runs under the rules, stages and recorded times
    /// are not divided.
    fn slices_that_fit(&self) -> Result<usize, Failure> {
        let mut shortest = Nanos::MAX;
        let mut load: Nanos = 0;
        for side in 0..2 {
            let clock = Clock::start();
            let prepared = self.prepare(side, &[])?;
            load = load.max(clock.now());
            let tests = prepared.tests()?;
            let is_whole = prepared.system.is_simulated()
                || prepared.options.rules.is_some()
                || tests.iter().any(|test| test.tenants.len() > 1 || test.is_recorded());
            if is_whole {
                return Ok(1);
            }
            shortest = tests.iter().map(PlannedTest::expected).fold(shortest, Nanos::min);
        }
        let fits = |slices: &usize| shortest / *slices as u64 >= SLICE_LEAST.max(load);
        Ok(SLICES.into_iter().find(fits).unwrap_or(1))
    }

    /// Returns the seed of the first pair: that of the flag, else that of the baseline's
    /// configuration. The seed of the candidate is ignored.
    fn seed(&self) -> Result<u64, Failure> {
        Ok(self.options(0)?.run.seed.unwrap_or(FIRST_SEED))
    }

    fn options(&self, side: usize) -> Result<Options, Failure> {
        Options::read(&self.line(side), variables())
    }

    fn line(&self, side: usize) -> CommandLine {
        CommandLine {
            config: Some(self.configs[side].clone()),
            set: self.set.clone(),
            keys: self.keys[side].clone(),
            is_dry: self.is_dry,
        }
    }

    /// Returns a description of the runs, with their minimum duration.
    ///
    /// # Errors
    /// Configurations that are incorrect.
    pub fn plan(&self, layout: &Layout) -> Result<String, Failure> {
        let mut lasts = 0;
        let mut is_virtual = true;
        let mut text = String::new();
        for (side, config) in self.configs.iter().enumerate() {
            let prepared = self.prepare(side, &[])?;
            let tests = prepared.tests()?;
            is_virtual &= prepared.system.is_simulated();
            let each = tests.iter().map(PlannedTest::expected).fold(0, Nanos::saturating_add);
            lasts = each.saturating_mul(self.pairs as u64).saturating_add(lasts);
            let titles: Vec<String> = tests.iter().map(PlannedTest::title).collect();
            text += &format!(
                "{}  {}: {}, {}, at least {} a run{}\n",
                NAMES[side],
                config.display(),
                prepared.system.spec,
                titles.join(", "),
                units::duration(each.cast_signed()),
                match layout.slices {
                    1 => String::new(),
                    slices => format!(" in {slices} slices"),
                }
            );
        }
        // With slices, the first pair shows the order.
        let shown = if layout.slices > 1 { 1 } else { self.pairs };
        let order = (0..shown).flat_map(|pair| layout.places(pair));
        let order: Vec<&str> = order.map(|place| NAMES[place.side]).collect();
        let order = order.join(" ");
        let (lasts, most) =
            (units::duration(lasts.cast_signed()), units::duration(self.most.cast_signed()));
        let (pairs, more) = if self.until_decided {
            (format!("at least {} pairs", self.pairs), " until the headline is decided")
        } else {
            (format!("{} pairs", self.pairs), "")
        };
        let further = if layout.slices > 1 { " .." } else { "" };
        let [in_time, of_time] =
            if is_virtual { [", in virtual time", " of real time"] } else { [""; 2] };
        text.extend(stay_line(&self.options(0)?.run, "run"));
        text += &format!(
            "{pairs}{more}, in the order {order}{further}: at least {lasts} in total{in_time};\nno \
             pair starts that would end after {most}{of_time}\n"
        );
        Ok(text)
    }

    /// Plays all runs that do not exist yet. Returns how that ended and the number of complete
    /// pairs. With `until_decided`, `decide` is called after each pair.
    ///
    /// # Errors
    /// Sides that cannot be compared, or a run that cannot be played.
    pub fn play(
        &self,
        directory: &Path,
        layout: &Layout,
        control: Control<'_>,
        decide: DecisionFn<'_>,
    ) -> Result<(End, usize), Failure> {
        let clock = Clock::start();
        let _lock = Layout::claim(directory)?;
        let Some(rates) = self.rates(directory, layout, control)? else {
            return Ok((End::Interrupted, 0));
        };
        self.check(&rates)?;
        let mut longest = self.pair_length()?;
        let is_missing = |pair: &usize| {
            layout.places(*pair).iter().any(|&place| !layout.folder(directory, place).is_dir())
        };
        let missing = (0..PAIRS_FEWEST).filter(is_missing).count() as u64;
        if clock.now().saturating_add(longest.saturating_mul(missing)) > self.most {
            return Err(self.too_short(longest));
        }
        let configs = Some(layout.configs.clone());
        let runs = [Vec::new(), Vec::new()];
        let mut sides = Sides { runs, configs, peer: None, missing: Vec::new() };
        let last = if self.until_decided { usize::MAX } else { self.pairs };
        for pair in 0..last {
            let begin = clock.now();
            if begin.saturating_add(longest) > self.most {
                return Ok((self.stop_after(pair, longest)?, pair));
            }
            if pair == 0 || self.until_decided {
                let pairs = Some(self.pairs.max(pair + 1));
                Layout { pairs, ..layout.clone() }.write(directory)?;
            }
            let exit = self.play_pair(directory, layout, pair, &rates, control)?;
            if exit != End::Valid {
                return Ok((exit, pair));
            }
            longest = longest.max(clock.now() - begin);
            let played = pair + 1;
            if self.until_decided {
                sides.add(layout.read_pair(directory, pair)?);
                if played >= self.pairs && decide(&sides)? {
                    return Ok((End::Valid, played));
                }
            }
        }
        Ok((End::Valid, last))
    }

    fn play_pair(
        &self,
        directory: &Path,
        layout: &Layout,
        pair: usize,
        rates: &[String],
        control: Control<'_>,
    ) -> Result<End, Failure> {
        let places = layout.places(pair);
        for (within, &place) in places.iter().enumerate() {
            let target = layout.folder(directory, place);
            if self.is_there(layout, place, rates, &target)? {
                continue;
            }
            let number = places.len() * pair + within + 1;
            let what = if layout.slices > 1 { "slice" } else { "run" };
            let all = if self.until_decided {
                String::new()
            } else {
                format!(" of {}", places.len() * self.pairs)
            };
            self.watch.step(&format!("{what} {number}{all}: {}", target.display()));
            let exit = play_one(&self.prepare_place(layout, place, rates)?, &target, control)?;
            if exit != End::Valid {
                return Ok(exit);
            }
        }
        Ok(End::Valid)
    }

    /// Returns a lower bound on a pair's duration, in ns; 0 in virtual time.
    fn pair_length(&self) -> Result<Nanos, Failure> {
        let of = |side: usize| -> Result<Nanos, Failure> {
            let prepared = self.prepare(side, &[])?;
            if prepared.system.is_simulated() {
                Ok(0)
            } else {
                Ok(prepared.tests()?.iter().map(PlannedTest::expected).sum())
            }
        };
        Ok(of(0)?.saturating_add(of(1)?))
    }

    /// Returns whether a complete run with the same settings already exists.
    fn is_there(
        &self,
        layout: &Layout,
        place: Place,
        rates: &[String],
        target: &Path,
    ) -> Result<bool, Failure> {
        let Ok(run) = summary::Run::read(target) else { return Ok(false) };
        let prepared = self.prepare_place(layout, place, rates)?;
        if let Some(difference) = difference(&run, &prepared, target)? {
            let found = format!("{} is a run of {difference}", target.display());
            return Err(Failure::usage(found).hint("choose another folder with --out"));
        }
        Ok(run.state == State::Complete)
    }

    fn stop_after(&self, pairs: usize, longest: Nanos) -> Result<End, Failure> {
        if pairs < PAIRS_FEWEST {
            return Err(self.too_short(longest));
        }
        if self.until_decided {
            self.watch.say(&format!("warning: out of time after {pairs} pairs"));
        } else {
            self.watch.say(&format!("warning: out of time after {pairs} of {} pairs", self.pairs));
        }
        Ok(End::Valid)
    }

    /// Returns the failure of a time limit that allows no comparison; `longest` is the duration of a
    /// pair, ns.
    fn too_short(&self, longest: Nanos) -> Failure {
        let [most, pair] = [self.most, longest].map(|time| units::duration(time.cast_signed()));
        let flag = if self.until_decided { "--until-decided" } else { "--max-time" };
        let problem = format!("{flag} {most} is too short for two pairs; one takes {pair}");
        Failure::usage(problem).hint(format!("raise {flag}, or shorten the runs"))
    }

    /// Rejects sides that cannot be compared, unless this depends on the rates of a probe.
    ///
    /// # Errors
    /// The differences between their conditions.
    pub fn check_planned(&self) -> Result<(), Failure> {
        if self.prepare(0, &[])?.is_probed() {
            return Ok(());
        }
        self.check(&[])
    }

    /// Rejects sides that cannot be compared before anything is played.
    fn check(&self, rates: &[String]) -> Result<(), Failure> {
        let [a, b] = [0, 1].map(|side| -> Result<Vec<Conditions>, Failure> {
            let prepared = self.prepare(side, rates)?;
            Ok(Conditions::planned(&prepared, &prepared.tests()?))
        });
        let (a, b) = (a?, b?);
        let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
        let same: Vec<_> = pairs.filter(|(a, b)| a.title() == b.title()).collect();
        if same.is_empty() {
            let titles = |tests: &[Conditions]| {
                tests.iter().map(Conditions::title).collect::<Vec<_>>().join(", ")
            };
            let problem = format!("{} and {} have no scenario in common", titles(&a), titles(&b));
            return Err(
                Failure::usage(problem).hint("figures of different scenarios are not comparable")
            );
        }
        let titles = [&a, &b].map(|side| side.iter().map(Conditions::title).collect::<Vec<_>>());
        let mut found: Vec<_> = conditions::of_titles(&titles[0], &titles[1]).into_iter().collect();
        found.extend(same.into_iter().flat_map(|(a, b)| conditions::of_tests(a, b)));
        conditions::refuse(found, self.is_forced).map(drop)
    }

    /// Returns the rates that are not given, from one probe of the baseline, because both sides
    /// must have the same load. Resumed runs keep their rates. Returns `None` after Ctrl-C.
    fn rates(
        &self,
        directory: &Path,
        layout: &Layout,
        control: Control<'_>,
    ) -> Result<Option<Vec<String>>, Failure> {
        let baseline = self.prepare(0, &[])?;
        // Errors in the candidate are reported before the probe.
        self.prepare(1, &[])?.tests()?;
        if !baseline.is_probed() {
            return Ok(Some(Vec::new()));
        }
        if let Ok(before) = summary::Run::read(&layout.folder(directory, FIRST)) {
            let rates = before.tests.iter().filter_map(|t| rate(&t.scenario, t.plan.target_qps));
            return Ok(Some(rates.collect()));
        }
        let Some(tests) = baseline.probed_tests(control)? else { return Ok(None) };
        baseline.probe_remark().iter().for_each(|remark| control.watch.say(remark));
        let of = |test: &PlannedTest| rate(test.scenario.name(), test.tenants[0].plan.target_qps);
        Ok(Some(tests.iter().filter_map(of).collect()))
    }
}

/// Plays a run of Dyno.
///
/// # Errors
/// The run cannot be played, or has no result.
pub(super) fn play_one(
    prepared: &PreparedRun,
    target: &Path,
    control: Control<'_>,
) -> Result<End, Failure> {
    let tests = prepared.tests()?;
    make_way(target)?;
    let run = prepared.directory(&tests, Some(target))?;
    let remedy = "then --resume with --out runs the rest";
    let measured = prepared.measure(&tests, control, run)?.stored_in(target, remedy)?;
    if let Some(failing) = measured.failing() {
        let problem = format!("{}: {}", target.display(), failing.reason());
        return Err(Failure::aborted(problem).hint("--resume with --out runs the rest"));
    }
    // INVALID runs are compared too: both sides may exceed their bound.
    match measured.end() {
        End::Invalid => Ok(End::Valid),
        exit => Ok(exit),
    }
}

/// Returns the rate of a scenario as a setting, if a probe can find it.
pub fn rate(scenario: &str, qps: f64) -> Option<String> {
    let (_, key) = PROBED.iter().find(|(probed, _)| probed.name() == scenario)?;
    Some(format!("{scenario}.{key}={qps}"))
}

/// Scenarios whose rate a probe can find, with the setting of the rate.
const PROBED: [(Scenario, &str); 2] =
    [(Scenario::Server, "server_target_qps"), (Scenario::Offline, "offline_expected_qps")];

/// Returns the first difference between an existing run and the run that would be played now: the
/// old value and the new one.
fn difference(
    run: &summary::Run,
    prepared: &PreparedRun,
    target: &Path,
) -> Result<Option<String>, Failure> {
    let system = &prepared.system.spec;
    if run.system != *system {
        return Ok(Some(format!("{}, not of {system}", run.system)));
    }
    // The `[run]` table has workers, batches and other options.
    let was = files::read_to_string(target.join(dyno_results::effective::FILE)).unwrap_or_default();
    let is = crate::run::effective_toml(run, &prepared.options);
    if let Some((was, is)) = (run_table(&was).zip(run_table(&is))).find(|(was, is)| was != is) {
        return Ok(Some(format!("another [run] table: {was:?}, not {is:?}")));
    }
    let planned = prepared.tests()?;
    let conditions = Conditions::planned(prepared, &planned);
    let tenants = planned.iter().flat_map(|test| &test.tenants);
    for (now, tenant) in conditions.iter().zip(tenants) {
        let is_same = |test: &&summary::Test| Conditions::from_test(test).title() == now.title();
        let Some(test) = run.tests.iter().find(is_same) else {
            // This scenario ended before.
            continue;
        };
        if test.data != now.data {
            return Ok(Some("another data set".into()));
        }
        // Both in the form of the summary, which shortens recorded times.
        let said = settings(&tenant.settings);
        let value = |of: Option<&summary::Setting>| {
            of.map_or("the default", |setting| &setting.value[..]).to_string()
        };
        for key in test.settings.keys().chain(said.keys()) {
            let (was, is) = (value(test.settings.get(key)), value(said.get(key)));
            if was != is {
                return Ok(Some(format!("{}, {key} {was}, not {is}", now.title())));
            }
        }
    }
    Ok(None)
}

/// Returns the lines of `[run]`, followed by endless empty lines.
fn run_table(text: &str) -> impl Iterator<Item = &str> {
    let rows = text.lines().skip_while(|line| *line != "[run]");
    rows.take_while(|line| !line.is_empty()).chain(std::iter::repeat("")).take(RUN_ROWS)
}

/// Upper bound on the lines of a `[run]` table.
const RUN_ROWS: usize = 64;

/// Sorts runs by when they began, if that is known for all. Runs that began in the same second
/// share the mean of their positions.
pub fn place(sides: &mut Sides) {
    let begun: Vec<String> =
        sides.runs.iter().flatten().map(|run| run.started_at.clone()).collect();
    if begun.iter().any(String::is_empty) {
        return;
    }
    for run in sides.runs.iter_mut().flatten() {
        let before = begun.iter().filter(|at| **at < run.started_at).count();
        let same = begun.iter().filter(|at| **at == run.started_at).count();
        let position = before as f64 + 0.5 * (same - 1) as f64;
        for run in run.tests.iter_mut().flat_map(|test| &mut test.observations) {
            run.position = Some(position);
        }
    }
}

/// The first of all runs.
const FIRST: Place = Place { pair: 0, side: 0, slice: 0 };

/// Divides the duration and the query count of a run by the number of slices.
fn cut(prepared: &mut PreparedRun, slices: u64) -> Result<(), Failure> {
    for test in prepared.tests()? {
        let values = &test.tenants[0].settings.values;
        let part = |whole: u64| whole.div_ceil(slices);
        // One more query, because the first of a slice is not compared.
        let count = |whole: u64| if whole == 0 { 0 } else { part(whole) + 1 };
        let settings = [
            ("min_duration_ms", part(values.min_duration_ms)),
            ("max_duration_ms", part(values.max_duration_ms)),
            ("min_query_count", count(values.min_query_count)),
            ("max_query_count", count(values.max_query_count)),
        ];
        let settings = settings.map(|(key, value)| (key, value.to_string()));
        prepared.options.impose(test.scenario, &settings, &Origin::Code("a slice of a run"));
    }
    Ok(())
}

/// Default time after which no further pair begins.
pub const MOST: Nanos = 3_600 * SECOND;
