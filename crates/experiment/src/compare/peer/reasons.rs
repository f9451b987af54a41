//! Why the figures of two load generators differ: parts of the difference that their records prove.

use std::path::Path;

use dyno_results::foreign::aiperf::{self, ClientTimes};
use dyno_results::records::{self, NEVER, Records};
use dyno_results::summary;
use dyno_results::units;

use super::Peer;
use crate::failure::Failure;

/// What is known about the other load generator of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerAccount {
    /// Name.
    pub tool: String,
    /// Version; empty if unknown.
    pub version: String,
    /// Reasons for differences, and what is proven to be the same.
    pub reasons: Vec<Reason>,
}

/// A reason for a difference, from the records of both tools.
#[derive(Debug, Clone, PartialEq)]
pub struct Reason {
    /// What it is about.
    pub kind: ReasonKind,
    /// Metrics that it concerns.
    pub metrics: &'static [&'static str],
    /// The other tool minus Dyno, as a mean per request in ns; for counts and for requests in
    /// flight as a share of Dyno's.
    pub difference: f64,
    /// Sentences for readers.
    pub text: String,
}

dyno_loadgen::named_enum! {
    /// Kind of a reason.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ReasonKind {
        /// Time between the release of a request and its sending.
        Waiting = "waiting",
        /// Connections that were opened while requests were measured.
        Connections = "connections",
        /// Time after sending that no record divides further.
        AfterSending = "after_sending",
        /// Requests in flight, which with the latency determine the throughput.
        InFlight = "in_flight",
        /// Counts of output tokens.
        OutputTokens = "output_tokens",
        /// Counts of input tokens by the server.
        InputTokens = "input_tokens",
    }
}

impl ReasonKind {
    /// Returns whether differences are times in ns; others are shares.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Waiting | Self::Connections | Self::AfterSending)
    }
}

impl PeerAccount {
    /// Reads the records of the runs of both sides.
    ///
    /// # Errors
    /// Records that are missing or damaged.
    pub fn read(peer: Peer, sides: [Vec<&Path>; 2]) -> Result<Self, Failure> {
        let [ours, theirs] = sides;
        let dyno = ours.iter().map(|folder| of_dyno(folder)).collect::<Result<Vec<_>, _>>()?;
        let in_flight = dyno.first().and_then(|(_, in_flight)| *in_flight);
        let dyno: Vec<ClientTimes> = dyno.into_iter().map(|(times, _)| times).collect();
        let times = theirs.iter().map(|folder| ClientTimes::read(folder).map_err(Failure::usage));
        let times = times.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            tool: peer.name().into(),
            version: theirs.first().map(|folder| aiperf::version(folder)).unwrap_or_default(),
            reasons: reasons(&ClientTimes::sum(&dyno), &ClientTimes::sum(&times), in_flight),
        })
    }
}

/// Returns the times of a run of Dyno, and its fixed concurrency, if it has one.
fn of_dyno(folder: &Path) -> Result<(ClientTimes, Option<u32>), Failure> {
    let run = summary::Run::read(folder).map_err(Failure::usage)?;
    let test =
        run.tests.iter().find(|test| test.mode == "performance").ok_or_else(|| {
            Failure::usage(format!("{} has no performance test", folder.display()))
        })?;
    let records =
        Records::read(&folder.join(&test.folder).join(records::FILE)).map_err(Failure::usage)?;
    let mut times = from_records(&records);
    let tokens = test.metrics.as_ref().and_then(|metrics| metrics.tokens.as_ref());
    if let Some(input) = tokens.and_then(|tokens| tokens.input) {
        times.input_tokens = (times.requests, input as f64);
    }
    let by = tokens.map(|tokens| tokens.output_counted_by.keys().map(String::as_str).collect());
    times.counts_by_server = by == Some(vec!["server"]);
    let arrivals = test.plan.arrivals.as_deref().unwrap_or_default();
    Ok((times, arrivals.strip_prefix("concurrency:").and_then(|n| n.parse().ok())))
}

/// Returns the times of records. Dyno opens its connections before.
fn from_records(records: &Records) -> ClientTimes {
    let mut times = ClientTimes::default();
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    for row in (0..records.row_count()).filter(|&row| records.is_answered(row)) {
        let wait = records.issue_delay_ns[row];
        let (scheduled, latency) = (records.scheduled_ns[row], records.latency_ns[row]);
        (first, last) = (first.min(scheduled), last.max(scheduled.saturating_add(latency)));
        times.requests += 1;
        times.waiting_ns += wait as f64;
        times.latency_ns += (latency - wait) as f64;
        if let Some(&token) = records.first_token_ns.get(row).filter(|&&at| at != NEVER) {
            times.first_tokens += 1;
            times.first_token_ns += (token - wait) as f64;
        }
        if let Some(&tokens) = records.tokens.get(row) {
            times.output_tokens.0 += 1;
            times.output_tokens.1 += tokens as f64;
        }
    }
    times.span_ns = last.saturating_sub(first).max(0) as f64;
    times
}

/// Returns the reasons from the sums over all runs of Dyno and of the other tool.
fn reasons(dyno: &ClientTimes, peer: &ClientTimes, in_flight: Option<u32>) -> Vec<Reason> {
    let all = [
        waiting(dyno, peer),
        connections(peer, in_flight.is_some()),
        after_sending(dyno, peer),
        in_flight.and_then(|most| throughput(dyno, peer, most)),
        output_tokens(dyno, peer),
        input_tokens(dyno, peer),
    ];
    all.into_iter().flatten().collect()
}

/// Returns a mean; `None` of nothing.
fn mean(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

fn time(ns: f64) -> String {
    units::duration(ns.round() as i64)
}

fn waiting(dyno: &ClientTimes, peer: &ClientTimes) -> Option<Reason> {
    let [ours, theirs] = [dyno, peer].map(|one| mean(one.waiting_ns, one.requests));
    let (ours, theirs) = (ours?, theirs?);
    let text = format!(
        "aiperf sends a request {} after it releases it, Dyno {} after it is due. The table \
         includes this time on both sides; aiperf's own time_to_first_token and request_latency \
         leave it out.",
        time(theirs),
        time(ours)
    );
    Some(Reason {
        kind: ReasonKind::Waiting,
        metrics: &["ttft", "latency"],
        difference: theirs - ours,
        text,
    })
}

fn connections(peer: &ClientTimes, is_fixed: bool) -> Option<Reason> {
    let each = mean(peer.connecting_ns, peer.new_connections)?;
    let difference = mean(peer.connecting_ns, peer.requests)?;
    let ours = if is_fixed { " Dyno opens all connections before it measures." } else { "" };
    let text = format!(
        "{} of {} requests of aiperf opened a connection, in {} each: {} per request on \
         average.{ours}",
        units::count(peer.new_connections),
        units::count(peer.requests),
        time(each),
        time(difference),
    );
    Some(Reason { kind: ReasonKind::Connections, metrics: &["ttft", "latency"], difference, text })
}

fn after_sending(dyno: &ClientTimes, peer: &ClientTimes) -> Option<Reason> {
    let [ours, theirs] = [dyno, peer].map(|one| mean(one.first_token_ns, one.first_tokens));
    let difference = theirs? - ours? - mean(peer.connecting_ns, peer.requests)?;
    let than = if difference < 0.0 { "earlier" } else { "later" };
    let text = format!(
        "after sending, and without its connections, aiperf sees the first token {} {than} than \
         Dyno on average. No record proves why.",
        time(difference.abs())
    );
    Some(Reason { kind: ReasonKind::AfterSending, metrics: &["ttft"], difference, text })
}

/// Returns the parts of the change of the throughput. By Little's law it is the mean number of
/// requests in flight divided by their mean latency.
fn throughput(dyno: &ClientTimes, peer: &ClientTimes, most: u32) -> Option<Reason> {
    let of = |one: &ClientTimes| -> Option<(f64, f64)> {
        let latency = mean(one.latency_ns, one.requests)?;
        (one.span_ns > 0.0 && latency > 0.0).then(|| (one.latency_ns / one.span_ns, latency))
    };
    let ((ours, our_latency), (theirs, their_latency)) = (of(dyno)?, of(peer)?);
    let difference = theirs / ours - 1.0;
    let share = |share: f64| format!("{:+.1} %", 100.0 * share);
    let text = format!(
        "aiperf keeps {theirs:.2} of {most} requests in flight on average, Dyno {ours:.2}. This \
         changes its throughput by {}, its latency since sending by {}.",
        share(difference),
        share(our_latency / their_latency - 1.0)
    );
    Some(Reason { kind: ReasonKind::InFlight, metrics: &["throughput"], difference, text })
}

fn output_tokens(dyno: &ClientTimes, peer: &ClientTimes) -> Option<Reason> {
    let [ours, theirs] = [dyno, peer].map(|one| mean(one.output_tokens.1, one.output_tokens.0));
    let kind = ReasonKind::OutputTokens;
    let metrics: &[&str] = &["tpot"];
    let Some(theirs) = theirs else {
        let text = "aiperf has no token counts, because the server reports no usage.".to_owned();
        return Some(Reason { kind, metrics, difference: -1.0, text });
    };
    let ours = ours.filter(|&ours| ours > 0.0)?;
    let difference = theirs / ours - 1.0;
    let source = |one: &ClientTimes| if one.counts_by_server { "the server" } else { "itself" };
    let text = if is_same(difference) && dyno.counts_by_server && peer.counts_by_server {
        format!("both count {ours:.1} output tokens per answer, as the server does.")
    } else {
        format!(
            "aiperf counts {theirs:.1} output tokens per answer (by {}), Dyno {ours:.1} (by {}). \
             Times per token differ by this factor.",
            source(peer),
            source(dyno)
        )
    };
    Some(Reason { kind, metrics, difference, text })
}

fn input_tokens(dyno: &ClientTimes, peer: &ClientTimes) -> Option<Reason> {
    let [ours, theirs] = [dyno, peer].map(|one| mean(one.input_tokens.1, one.input_tokens.0));
    let (ours, theirs) = (ours.filter(|&ours| ours > 0.0)?, theirs?);
    let difference = theirs / ours - 1.0;
    let text = if is_same(difference) {
        format!(
            "both send the same bodies, in which the server counts {ours:.1} input tokens on \
             average."
        )
    } else {
        format!(
            "the server counts {theirs:.1} input tokens per request of aiperf and {ours:.1} of \
             Dyno. The requests differ, so the figures are not comparable."
        )
    };
    Some(Reason { kind: ReasonKind::InputTokens, metrics: &["ttft"], difference, text })
}

/// Returns whether a share is a rounding error.
fn is_same(difference: f64) -> bool {
    difference.abs() < 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 requests of Dyno: 10 us late, first token after 20 ms, answer after 100 ms.
    fn dyno() -> ClientTimes {
        ClientTimes {
            requests: 100,
            waiting_ns: 100.0 * 10e3,
            first_tokens: 100,
            first_token_ns: 100.0 * 20e6,
            latency_ns: 100.0 * 100e6,
            span_ns: 2.5e9,
            input_tokens: (100, 800.0),
            output_tokens: (100, 1_600.0),
            counts_by_server: true,
            ..ClientTimes::default()
        }
    }

    /// 100 requests of the other tool. Four of them opened a connection, which took 5 ms each.
    fn peer() -> ClientTimes {
        ClientTimes {
            new_connections: 4,
            connecting_ns: 20e6,
            waiting_ns: 100.0 * 3e6,
            first_token_ns: 100.0 * 22.2e6,
            latency_ns: 100.0 * 125e6,
            span_ns: 3.5e9,
            ..dyno()
        }
    }

    fn difference(reasons: &[Reason], kind: ReasonKind) -> f64 {
        reasons.iter().find(|reason| reason.kind == kind).unwrap().difference
    }

    #[test]
    fn parts_of_the_difference_of_the_first_token_add_up() {
        let found = reasons(&dyno(), &peer(), Some(4));
        // 22.2 + 3 ms against 20 ms + 10 us.
        let parts = [ReasonKind::Waiting, ReasonKind::Connections, ReasonKind::AfterSending];
        let parts = parts.map(|kind| difference(&found, kind));
        assert_eq!(parts, [2.99e6, 0.2e6, 2e6]);
        assert_eq!(parts.iter().sum::<f64>(), 5.19e6);
        assert!(
            found[1].text.contains("4 of 100 requests of aiperf opened a connection, in 5.00 ms")
        );
    }

    #[test]
    fn the_change_of_throughput_is_that_of_requests_in_flight_and_of_latency() {
        let found = reasons(&dyno(), &peer(), Some(4));
        // 100 / 3.5 s against 100 / 2.5 s is -28.57 %.
        let in_flight = difference(&found, ReasonKind::InFlight);
        let product = (1.0 + in_flight) * (100.0 / 125.0);
        assert!((product - 2.5 / 3.5).abs() < 1e-12, "{product}");
        let text = &found.iter().find(|r| r.kind == ReasonKind::InFlight).unwrap().text;
        assert!(text.contains("3.57 of 4") && text.contains("Dyno 4.00"), "{text}");
        assert!(text.contains("by -10.7 %") && text.contains("by -20.0 %"), "{text}");
        assert!(!reasons(&dyno(), &peer(), None).iter().any(|r| r.kind == ReasonKind::InFlight));
    }

    #[test]
    fn counts_of_tokens_are_compared_with_their_source() {
        let text = |peer: ClientTimes, kind: ReasonKind| {
            let found = reasons(&dyno(), &peer, None);
            found.into_iter().find(|reason| reason.kind == kind).unwrap().text
        };
        let same = text(peer(), ReasonKind::OutputTokens);
        assert!(same.contains("16.0 output tokens per answer, as the server does"), "{same}");
        let fewer =
            ClientTimes { output_tokens: (100, 1_200.0), counts_by_server: false, ..peer() };
        let fewer = text(fewer, ReasonKind::OutputTokens);
        assert!(fewer.contains("12.0 output tokens per answer (by itself), Dyno 16.0"), "{fewer}");
        let none =
            text(ClientTimes { output_tokens: (0, 0.0), ..peer() }, ReasonKind::OutputTokens);
        assert!(none.contains("no usage"), "{none}");
        let other =
            text(ClientTimes { input_tokens: (100, 900.0), ..peer() }, ReasonKind::InputTokens);
        assert!(
            other.contains("9.0 input tokens per request of aiperf and 8.0 of Dyno"),
            "{other}"
        );
    }
}
