//! Observations of the runs of a search: the counts of each limit, and the recorded point.

use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_loadgen::metrics::{Definitions, Metrics, Rates};
use dyno_loadgen::record::Record;
use dyno_loadgen::run::RunLog;
use dyno_loadgen::search::{Block, End, Limit, Observation, Probe, Quantity, Unit};
use dyno_loadgen::session::EndReason;
use dyno_results::search::{self, Counts, Load, Peak, Phase, Point, limits};

use super::{Job, RunReport};

use crate::failure::Failure;
use crate::search::disturbed::Disturbance;

impl Job {
    /// Returns the observation of runs at one load. For each limit it has the worst run, because
    /// all runs must keep the limit.
    pub(super) fn observe(&self, probe: &Probe, runs: &[&RunLog], took: Nanos) -> Observation {
        let limits = self.rules().limits.iter();
        let blocks = limits.map(|limit| self.worst(limit, probe, runs, Limit::blocks)).collect();
        Observation { probe: *probe, took, overloaded: false, passed: false, blocks }
    }

    /// Returns the counts of a limit in the run that was worst by it.
    fn worst(
        &self,
        limit: &Limit,
        probe: &Probe,
        runs: &[&RunLog],
        blocks: fn(&Limit, &Record, Nanos) -> Vec<Block>,
    ) -> Vec<Block> {
        let of_run = |run: &&RunLog| blocks(limit, &run.record, self.lasted(probe, run));
        worst(runs.iter().map(of_run)).unwrap_or_default()
    }

    /// Returns the report of runs at one load, with the point that shows one of them.
    pub(super) fn report(
        &self,
        probe: &Probe,
        observation: Observation,
        (runs, shown): (&[&RunLog], &RunLog),
        folder: Option<&str>,
    ) -> RunReport {
        let of_client = self.limits.iter().filter(|limit| is_of_client(limit));
        let lag: Vec<Vec<Block>> =
            of_client.map(|limit| self.worst(limit, probe, runs, Limit::blocks)).collect();
        let disturbance = Disturbance::by_lag(&self.limits, &lag);
        let without_lag = |limit| self.worst(limit, probe, runs, Limit::blocks_without_lag);
        RunReport {
            point: self.point(&observation, &lag, shown, folder.map(str::to_owned)),
            observation,
            reasons: Vec::new(),
            without_lag: self.rules().limits.iter().map(without_lag).collect(),
            disturbance,
        }
    }

    /// Ends the search if no answer of a run has the time that a limit is on, nor one of the runs before. No
    /// load would be over it. A few answers may lack it by chance.
    pub(super) fn check_measured(&mut self, report: &RunReport) -> Result<(), Failure> {
        const FEW_ANSWERS: f64 = 30.0;
        let RunReport { observation, point, .. } = report;
        let seconds = point.duration_ns as f64 / SECOND as f64;
        let answers = point.throughput.unwrap_or(0.0) * seconds;
        let has_few = answers < FEW_ANSWERS && point.folder.is_none();
        if has_few || point.p50_ns == 0 {
            return Ok(());
        }
        let earlier = self.search.observations().iter();
        let unmeasured = self.unmeasured(&earlier.chain([observation]));
        self.reject_unmeasured(unmeasured)
    }

    /// Ends a search that would state that loads keep the limits, if no run measured one of them.
    pub(super) fn check_end(&mut self, end: End) -> Result<(), Failure> {
        if !matches!(end, End::NothingFails | End::Estimated) {
            return Ok(());
        }
        let unmeasured = self.unmeasured(&self.search.observations().iter());
        self.reject_unmeasured(unmeasured)
    }

    /// Returns a limit on TPOT that counts no query of these runs.
    pub(super) fn unmeasured<'a>(
        &self,
        runs: &(impl Iterator<Item = &'a Observation> + Clone),
    ) -> Option<Limit> {
        let is_counted =
            |at: usize| runs.clone().any(|run| Block::sum(&run.blocks[at]).queries > 0);
        let limits = self.rules().limits.iter().enumerate();
        let mut of_tpot =
            limits.filter(|(_, limit)| limit.quantity == Quantity::TimePerOutputToken);
        of_tpot.find(|(at, _)| !is_counted(*at)).map(|(_, limit)| *limit)
    }

    fn reject_unmeasured(&mut self, unmeasured: Option<Limit>) -> Result<(), Failure> {
        let Some(limit) = unmeasured else { return Ok(()) };
        self.state.state = Phase::Aborted;
        self.keep();
        Err(Failure::usage(unmeasured_text(&limit))
            .hint("request longer answers, or limit ttft or latency"))
    }

    /// Returns how long the queries of a run were issued, ns.
    fn lasted(&self, probe: &Probe, run: &RunLog) -> Nanos {
        let issued =
            run.record.query_count().checked_sub(1).map_or(0, |at| run.record.scheduled(at));
        match (self.load, run.ended) {
            (Load::Qps, _) => probe.duration,
            (_, EndReason::MaxQueryCount { .. }) => issued,
            // Runs with a fixed number of queries may last longer than required.
            _ => probe.duration.max(issued),
        }
    }

    fn point(
        &self,
        observation: &Observation,
        lag: &[Vec<Block>],
        run: &RunLog,
        folder: Option<String>,
    ) -> Point {
        let definitions = match run.plan.in_flight() {
            Some(_) => Definitions::Native,
            None => Definitions::Reference,
        };
        let metrics = Metrics::with_definitions(definitions, &run.record, &run.plan);
        let timed = metrics.query_latency.unwrap_or(metrics.latency);
        let took = (run.finished_at - run.started_at).max(1) as f64 / SECOND as f64;
        let throughput = match metrics.rates {
            Rates::Server { completed, .. } => completed,
            _ => metrics.sample_count as f64 / took,
        };
        let (mut of_system, mut of_client) = (observation.blocks.iter().enumerate(), lag.iter());
        let counts = |limit: &Limit| {
            let (blocks, counted) = if is_of_client(limit) {
                (of_client.next()?, None)
            } else {
                of_system.next().map(|(at, blocks)| (blocks, Some(at)))?
            };
            // A confirmation counts as a whole.
            let all = match counted.filter(|_| folder.is_none()) {
                Some(at) => Block::sum(&self.search.counted(observation, at)),
                None => Block::sum(blocks),
            };
            Some(Counts {
                limit: limits::key(limit),
                queries: all.queries,
                over: all.over,
                stretches: search::write_stretches(blocks),
            })
        };
        let good = |(limit, blocks): (&Limit, &Vec<Block>)| {
            let all = Block::sum(blocks);
            let queries = match limit.quantity {
                Quantity::Latency | Quantity::FirstToken => all.queries,
                // Answers of one token do not count for the limit, and are good.
                Quantity::TimePerOutputToken => run.record.query_count() as u64,
                Quantity::Errors | Quantity::ClientLag => return None,
            };
            Some(queries.saturating_sub(all.over) as f64)
        };
        let pairs = self.rules().limits.iter().zip(&observation.blocks);
        let good = pairs.filter_map(good).fold(f64::INFINITY, f64::min);
        let answered = metrics.sample_count as f64 / run.plan.samples_per_query.max(1) as f64;
        let goodput = throughput * (good / answered.max(1.0)).min(1.0);
        let [p50, p90, _, _, p99, _] = timed.percentiles;
        let limits = self.limits.iter().filter_map(counts).collect();
        Point {
            number: observation.probe.number + 1,
            purpose: observation.probe.purpose.into(),
            folder,
            load: observation.probe.load,
            duration_ns: observation.probe.duration,
            took_ns: observation.took,
            overloaded: observation.overloaded,
            passed: observation.passed,
            throughput: Some(throughput).filter(|rate| rate.is_finite()),
            goodput: if goodput.is_finite() { goodput } else { 0.0 },
            failed_share: failed_share(&run.record),
            p50_ns: p50,
            p90_ns: p90,
            p99_ns: p99,
            limits,
        }
    }

    /// Replaces the counts of a point by those of the system's limits without the client's lag.
    pub(super) fn count_alone(&self, point: &mut Point, alone: &Observation) {
        (point.passed, point.overloaded) = (false, false);
        let pairs = self.limits.iter().zip(&mut point.limits);
        let of_system = pairs.filter(|(limit, _)| !is_of_client(limit)).map(|(_, counts)| counts);
        for ((at, blocks), counts) in alone.blocks.iter().enumerate().zip(of_system) {
            let all = if point.folder.is_some() {
                Block::sum(blocks)
            } else {
                Block::sum(&self.search.counted(alone, at))
            };
            (counts.queries, counts.over) = (all.queries, all.over);
            counts.stretches = search::write_stretches(blocks);
        }
    }

    pub(super) fn peak(&self, peak: &dyno_loadgen::search::Peak) -> Peak {
        // Whole loads are rounded down, as the peak is; at least one passed.
        let whole = |load: f64| match self.load.unit() {
            Unit::Rate => load,
            Unit::Whole => load.floor().max(1.0),
        };
        let mut known = peak.binds.iter();
        // A limit on the client never determines the peak.
        let probability = |limit: &Limit| {
            if is_of_client(limit) {
                0.0
            } else {
                known.next().map_or(0.0, |p| (p * 1e4).round() / 1e4)
            }
        };
        Peak {
            load: peak.load,
            low: whole(peak.low),
            high: whole(peak.high),
            confidence: 0.95,
            binds: limits::show(&self.rules().limits[self.binding(peak)]),
            binding_probability: self.limits.iter().map(probability).collect(),
        }
    }
}

impl Job {
    /// Returns the position of the limit that most likely binds. Failed queries count as over a limit on
    /// latency, too. If both limits are as likely, the one on errors is the cause.
    fn binding(&self, peak: &dyno_loadgen::search::Peak) -> usize {
        /// Difference of two probabilities that is rounding.
        const ROUNDING: f64 = 1e-6;
        let most = peak.binds[peak.binding()];
        let mut pairs = self.rules().limits.iter().zip(&peak.binds);
        let is_cause = |(limit, probability): (&Limit, &f64)| {
            limit.quantity == Quantity::Errors && *probability >= most - ROUNDING
        };
        pairs.position(is_cause).unwrap_or_else(|| peak.binding())
    }
}

/// Returns that runs do not measure a limit, and why.
pub(super) fn unmeasured_text(limit: &Limit) -> String {
    let shown = limits::show(limit);
    format!("the limit {shown} is not measured: no answer has several tokens")
}

/// Returns whether a limit is on the client.
pub(super) fn is_of_client(limit: &Limit) -> bool {
    limit.quantity == Quantity::ClientLag
}

/// Returns the share of the samples of a run that failed, of those that it issued.
fn failed_share(record: &Record) -> f64 {
    let samples = record.query_count() * record.samples_per_query.max(1);
    record.failed.len() as f64 / samples.max(1) as f64
}

/// Returns the counts of the run with the largest share over a limit.
fn worst(of_runs: impl Iterator<Item = Vec<Block>>) -> Option<Vec<Block>> {
    let share = |blocks: &Vec<Block>| {
        let all = Block::sum(blocks);
        all.over as f64 / all.queries.max(1) as f64
    };
    of_runs.max_by(|a, b| share(a).total_cmp(&share(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_several_runs_is_the_one_with_the_largest_share() {
        let run = |queries, over| vec![Block { queries, over }, Block { queries: 100, over: 0 }];
        // Of the third run fewer are over than of the first, and a larger share.
        let runs = [run(1_900, 30), run(900, 10), run(900, 20), run(900, 0)];
        assert_eq!(worst(runs.into_iter()), Some(run(900, 20)));
        assert_eq!(worst(std::iter::empty()), None);
    }
}
