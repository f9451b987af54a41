//! Runs of two configurations in turn: A B B A A B B A ...
//!
//! In this order a steady drift of the machine falls on both sides alike, and
//! whatever comes and goes slowly falls on the two runs of a pair alike. Each pair
//! has seeds of its own, the same for both sides: its runs differ by the
//! configuration and not by when queries come, and what is found does not rest
//! on one schedule, nor in virtual time on one draw of service times.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dyno_loadgen::clock::{Clock, Nanos, SECOND};
use dyno_loadgen::settings::{Origin, Scenario};

use super::Played;
use super::conditions::{self, Conditions};
use crate::effect::Strictness;
use crate::exit::{Exit, Failure};
use crate::measure::{Test, Watch};
use crate::options::{CommandLine, GivenKeys, Options};
use crate::run::{Prepared, variables};
use crate::run_directory::make_way;
use crate::summary::{self, State};
use crate::{output, render, report};

/// What is to be played.
#[derive(Debug)]
pub struct Schedule {
    /// Configurations of baseline and candidate.
    pub configs: [PathBuf; 2],
    /// Flags that both have.
    pub set: Vec<String>,
    /// Flags that both have.
    pub keys: GivenKeys,
    /// Runs of each side (at least 2).
    pub pairs: usize,
    /// No pair begins that would not be over by then.
    pub most: Nanos,
    /// Whether settings that differ are only told.
    pub is_forced: bool,
}

/// The two sides, as their folders begin and as tables name them.
const SIDES: [&str; 2] = ["a", "b"];

/// Of the first pair, if nobody says.
const FIRST_SEED: u64 = 1;

/// Runs per side without which nothing is compared.
const PAIRS_FEWEST: usize = 2;

/// The two sides in the order in which pair `pair` (from 0) plays them.
fn order(pair: usize) -> [usize; 2] {
    if pair.is_multiple_of(2) { [0, 1] } else { [1, 0] }
}

/// When a side's run of a pair is played, among all.
fn position(pair: usize, side: usize) -> f64 {
    let within = order(pair).iter().position(|&s| s == side).unwrap_or(0);
    (2 * pair + within) as f64
}

fn folder(directory: &Path, pair: usize, side: usize) -> PathBuf {
    directory.join(format!("{}-{}", SIDES[side], pair + 1))
}

impl Schedule {
    fn prepare(&self, pair: usize, side: usize, rates: &[String]) -> Result<Prepared, Failure> {
        let mut command_line = CommandLine {
            config: Some(self.configs[side].clone()),
            set: self.set.clone(),
            keys: self.keys.clone(),
        };
        command_line.set.extend_from_slice(rates);
        command_line.give("mode", "performance");
        let seed = self.seed()?.wrapping_add(pair as u64);
        command_line.give("seed", &seed.to_string());
        let mut prepared = Prepared::checked(&command_line, Strictness::Flags, false)?;
        prepared.system.repeat(pair as u64);
        Ok(prepared)
    }

    /// Of the first pair: what the flag says, or the baseline's configuration. The
    /// candidate's counts for nothing.
    fn seed(&self) -> Result<u64, Failure> {
        let command_line = CommandLine {
            config: Some(self.configs[0].clone()),
            set: self.set.clone(),
            keys: self.keys.clone(),
        };
        let options = Options::read(&command_line, variables())?;
        Ok(options.run.seed.unwrap_or(FIRST_SEED))
    }

    /// What is played, in lines, and how long it takes at least.
    ///
    /// # Errors
    /// What makes no sense in either configuration.
    pub fn plan(&self) -> Result<String, Failure> {
        let mut lasts = 0;
        let mut text = String::new();
        for (side, config) in self.configs.iter().enumerate() {
            let prepared = self.prepare(0, side, &[])?;
            let tests = prepared.tests()?;
            let each = tests.iter().map(Test::expected).fold(0, Nanos::saturating_add);
            lasts = each.saturating_mul(self.pairs as u64).saturating_add(lasts);
            let titles: Vec<String> = tests.iter().map(Test::title).collect();
            text += &format!(
                "{}  {}: {}, {}, at least {} a run\n",
                SIDES[side],
                config.display(),
                prepared.system.spec,
                titles.join(", "),
                render::duration(each.cast_signed())
            );
        }
        let order: Vec<&str> = (0..self.pairs).flat_map(order).map(|side| SIDES[side]).collect();
        text += &format!(
            "{} pairs, in the order {}: at least {} in all;\nno pair begins that would end after {}\n",
            self.pairs,
            order.join(" "),
            render::duration(lasts.cast_signed()),
            render::duration(self.most.cast_signed())
        );
        Ok(text)
    }

    /// Plays everything that is not there yet, and says how that ended.
    ///
    /// # Errors
    /// Sides that cannot be compared, and what keeps a run from being played.
    pub fn play(&self, directory: &Path, watch: Watch<'_>) -> Result<Exit, Failure> {
        let clock = Clock::start();
        let Some(rates) = self.rates(directory, watch)? else { return Ok(Exit::Interrupted) };
        self.check(&rates)?;
        let mut longest = self.pair_length()?;
        for pair in 0..self.pairs {
            let begin = clock.now();
            if begin.saturating_add(longest) > self.most {
                return self.stop_after(pair, longest);
            }
            for (within, side) in order(pair).into_iter().enumerate() {
                let target = folder(directory, pair, side);
                if self.is_there(pair, side, &rates, &target)? {
                    continue;
                }
                let number = 2 * pair + within + 1;
                output::say(format_args!(
                    "run {number} of {}: {}",
                    2 * self.pairs,
                    target.display()
                ));
                let exit = self.play_one(pair, side, &rates, &target, watch)?;
                if exit != Exit::Valid {
                    return Ok(exit);
                }
            }
            longest = longest.max(clock.now() - begin);
        }
        Ok(Exit::Valid)
    }

    /// How long a pair lasts at least, ns; virtual time costs none.
    fn pair_length(&self) -> Result<Nanos, Failure> {
        let of = |side: usize| -> Result<Nanos, Failure> {
            let prepared = self.prepare(0, side, &[])?;
            match prepared.system.is_simulated() {
                true => Ok(0),
                false => Ok(prepared.tests()?.iter().map(Test::expected).sum()),
            }
        };
        Ok(of(0)?.saturating_add(of(1)?))
    }

    /// Whether a run was played to its end before, as it would be now.
    fn is_there(
        &self,
        pair: usize,
        side: usize,
        rates: &[String],
        target: &Path,
    ) -> Result<bool, Failure> {
        let Ok(run) = summary::Run::read(target) else { return Ok(false) };
        let prepared = self.prepare(pair, side, rates)?;
        if let Some(difference) = difference(&run, &prepared, target)? {
            let found = format!("{} is a run of {difference}", target.display());
            return Err(Failure::usage(found).hint("choose another folder with --out"));
        }
        Ok(run.state == State::Complete)
    }

    fn play_one(
        &self,
        pair: usize,
        side: usize,
        rates: &[String],
        target: &Path,
        watch: Watch<'_>,
    ) -> Result<Exit, Failure> {
        let prepared = self.prepare(pair, side, rates)?;
        let tests = prepared.tests()?;
        make_way(target)?;
        let run = prepared.directory(&tests, Some(target))?;
        let measured = prepared.measure(&tests, watch, run)?;
        if let Some(failing) = measured.failing() {
            let problem = format!("{}: {}", target.display(), failing.reason());
            return Err(Failure::aborted(problem).hint("--resume with --out plays the rest"));
        }
        // INVALID runs are compared, too: both sides may be beyond their bound.
        match measured.exit() {
            Exit::Invalid => Ok(Exit::Valid),
            exit => Ok(exit),
        }
    }

    fn stop_after(&self, pairs: usize, longest: Nanos) -> Result<Exit, Failure> {
        if pairs < PAIRS_FEWEST {
            let [most, pair] =
                [self.most, longest].map(|time| render::duration(time.cast_signed()));
            let problem = format!("{most} are too short for two pairs; one takes {pair}");
            return Err(Failure::usage(problem)
                .hint("--max-time lets more of them be played, --duration shortens them"));
        }
        output::say(format_args!("warning: the time is up after {pairs} of {} pairs", self.pairs));
        Ok(Exit::Valid)
    }

    /// Refuses what could not be compared, before anything is played.
    fn check(&self, rates: &[String]) -> Result<(), Failure> {
        let [a, b] = [0, 1].map(|side| -> Result<Vec<Conditions>, Failure> {
            let prepared = self.prepare(0, side, rates)?;
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
            return Err(Failure::usage(problem)
                .hint("the figures of different scenarios mean different things"));
        }
        let found = same.into_iter().flat_map(|(a, b)| conditions::of_tests(a, b)).collect();
        conditions::refuse(found, self.is_forced).map(drop)
    }

    /// Rates that nobody gave are those of one probe of the baseline: both sides
    /// must bear the same load. Runs that are resumed have had theirs. `None` after
    /// Ctrl-C.
    fn rates(&self, directory: &Path, watch: Watch<'_>) -> Result<Option<Vec<String>>, Failure> {
        let baseline = self.prepare(0, 0, &[])?;
        // What makes no sense in the candidate is told before the probe.
        self.prepare(0, 1, &[])?.tests()?;
        if !baseline.is_probed() {
            return Ok(Some(Vec::new()));
        }
        if let Ok(before) = summary::Run::read(&folder(directory, 0, 0)) {
            let rates = before.tests.iter().filter_map(|t| rate(&t.scenario, t.plan.target_qps));
            return Ok(Some(rates.collect()));
        }
        let Some(tests) = baseline.probed_tests(watch)? else { return Ok(None) };
        baseline.probe_remark().iter().for_each(output::say);
        let of = |test: &Test| rate(test.scenario.name(), test.tenants[0].plan.target_qps);
        Ok(Some(tests.iter().filter_map(of).collect()))
    }
}

/// The rate of a scenario as a setting, where a probe may have found it.
pub fn rate(scenario: &str, qps: f64) -> Option<String> {
    let (_, key) = PROBED.iter().find(|(probed, _)| probed.name() == scenario)?;
    Some(format!("{scenario}.{key}={qps}"))
}

/// Scenarios whose rate a probe may find, and the setting that says it.
const PROBED: [(Scenario, &str); 2] =
    [(Scenario::Server, "server_target_qps"), (Scenario::Offline, "offline_expected_qps")];

/// The first thing in which a run differs from the one that would be played now: what
/// it was, and what it is to be.
fn difference(
    run: &summary::Run,
    prepared: &Prepared,
    target: &Path,
) -> Result<Option<String>, Failure> {
    let system = &prepared.system.spec;
    if run.system != *system {
        return Ok(Some(format!("{}, not of {system}", run.system)));
    }
    // Workers, batches and the like.
    let was = std::fs::read_to_string(target.join(report::EFFECTIVE)).unwrap_or_default();
    let is = report::effective_toml(run, &prepared.options);
    if let Some((was, is)) = (run_table(&was).zip(run_table(&is))).find(|(was, is)| was != is) {
        return Ok(Some(format!("another [run] table: {was:?}, not {is:?}")));
    }
    let planned = prepared.tests()?;
    let conditions = Conditions::planned(prepared, &planned);
    let tenants = planned.iter().flat_map(|test| &test.tenants);
    for (now, tenant) in conditions.iter().zip(tenants) {
        let is_same = |test: &&summary::Test| Conditions::of(test).title() == now.title();
        let Some(test) = run.tests.iter().find(is_same) else {
            // Ended before this one.
            continue;
        };
        if test.data != now.data {
            return Ok(Some("another data set".into()));
        }
        let said: BTreeMap<&str, String> = tenant
            .settings
            .rows()
            .filter(|(_, _, origin)| **origin != Origin::Default)
            .map(|(field, value, _)| (field.name, value))
            .collect();
        let keys = test.settings.keys().map(String::as_str).chain(said.keys().copied());
        let value = |of: Option<&String>| of.map_or("the default", |value| value).to_string();
        for key in keys {
            let was = test.settings.get(key).map(|setting| &setting.value);
            let (was, is) = (value(was), value(said.get(key)));
            if was != is {
                return Ok(Some(format!("{}, {key} {was}, not {is}", now.title())));
            }
        }
    }
    Ok(None)
}

/// The lines of `[run]`, and an empty one for ever.
fn run_table(text: &str) -> impl Iterator<Item = &str> {
    let rows = text.lines().skip_while(|line| *line != "[run]");
    rows.take_while(|line| !line.is_empty()).chain(std::iter::repeat("")).take(RUN_ROWS)
}

/// More than a `[run]` table has.
const RUN_ROWS: usize = 64;

/// Reads the pairs of a folder of interleaved runs, so many or all: the runs of each
/// side.
///
/// # Errors
/// If there are fewer than two pairs, or one does not read.
pub fn read(directory: &Path, most: Option<usize>) -> Result<[Vec<Played>; 2], Failure> {
    let is_there = |pair: &usize| (0..2).all(|side| folder(directory, *pair, side).is_dir());
    let pairs = (0..most.unwrap_or(usize::MAX)).take_while(is_there).count();
    if pairs < PAIRS_FEWEST {
        let problem =
            format!("{} holds {pairs} pairs of runs, a-1 b-1 a-2 b-2 ..", directory.display());
        return Err(Failure::usage(problem).hint(
            "give two runs (dyno compare A B), or two configurations (--interleave 5 A.toml B.toml)",
        ));
    }
    let side = |side: usize| -> Result<Vec<Played>, Failure> {
        let read = |pair: usize| {
            let mut run = Played::read(&folder(directory, pair, side))?;
            for test in &mut run.tests {
                test.columns.position = Some(position(pair, side));
            }
            Ok(run)
        };
        (0..pairs).map(read).collect()
    };
    Ok([side(0)?, side(1)?])
}

/// Places runs in the order in which they began, if that is known of each. Those that
/// began in the same second share the middle of their places.
pub fn place(sides: &mut [Vec<Played>; 2]) {
    let begun: Vec<String> = sides.iter().flatten().map(|run| run.started_at.clone()).collect();
    if begun.iter().any(String::is_empty) {
        return;
    }
    for run in sides.iter_mut().flatten() {
        let before = begun.iter().filter(|at| **at < run.started_at).count();
        let same = begun.iter().filter(|at| **at == run.started_at).count();
        let position = before as f64 + 0.5 * (same - 1) as f64;
        for test in &mut run.tests {
            test.columns.position = Some(position);
        }
    }
}

/// The time after which no further pair begins, if nobody says.
pub const MOST: Nanos = 3_600 * SECOND;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_drift_falls_on_both_sides_alike() {
        for pairs in [2, 4, 6] {
            let sum = |side| (0..pairs).map(|pair| position(pair, side)).sum::<f64>();
            assert!((sum(0) - sum(1)).abs() < 0.5, "{pairs} pairs");
        }
        let of_five: Vec<usize> = (0..5).flat_map(order).collect();
        assert_eq!(of_five, [0, 1, 1, 0, 0, 1, 1, 0, 0, 1]);
    }
}
