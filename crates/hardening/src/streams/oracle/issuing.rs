//! When requests are due, and whether they were issued then.
//!
//! Sources: `docs/tasks/servers.md` (conversations, users at an interval, ramps) and
//! `docs/concepts/scenarios.md`. In virtual time the client is never late, so that a request is issued
//! when it is due, and a late answer is all that can delay the turn of a user at an interval.

use super::{Arrivals, Conversations, Ending, Findings, Request, Settings};
use crate::oracle::Scenario;

/// A request as a turn of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Number of the session, in the order of their begin.
    pub session: usize,
    /// Number of the turn, from 0.
    pub number: usize,
    /// Turns of the whole session.
    pub turns: usize,
    chain: usize,
}

impl Ending {
    /// Returns when the request was over; `None` if it never was.
    pub fn at_ns(self) -> Option<u64> {
        match self {
            Self::Answered { at_ns } | Self::Failed { at_ns, .. } | Self::Cancelled { at_ns } => {
                Some(at_ns)
            }
            Self::Lost => None,
        }
    }
}

/// Requests with their due times and their places in conversations.
pub struct IssueTimes<'a> {
    pub all: &'a [Request],
    pub due: Vec<u64>,
    /// Empty without conversations.
    pub places: Vec<Place>,
    /// Sessions that were due while all were in progress, if the documents decide it.
    pub held: Option<u64>,
    /// Until when turns could begin, if the documents decide it.
    pub ended_ns: Option<u64>,
}

impl<'a> IssueTimes<'a> {
    /// Derives the due times, and reports requests that were not issued when they were due.
    pub fn new(s: &Settings, all: &'a [Request], out: &mut Findings) -> Self {
        let due: Vec<u64> = all.iter().map(|request| request.issued_ns).collect();
        let mut issued = Self { all, due, places: Vec::new(), held: Some(0), ended_ns: Some(0) };
        if !all.is_sorted_by_key(|request| request.issued_ns) {
            out.issuing("requests in the order of their issue", "another order", "IFACE");
        }
        match &s.conversations {
            None => issued.check_alone(s, out),
            Some(conversations) => issued.check_conversations(s, conversations, out),
        }
        issued
    }

    /// Checks requests that are independent of each other.
    fn check_alone(&self, s: &Settings, out: &mut Findings) {
        if s.ramp_ns > 0 {
            return; // the growth of the load in a ramp is not judged
        }
        match (s.scenario, &s.arrivals) {
            (Scenario::Offline, _) => self.expect(out, "all at the start", |_| Some(0)),
            (Scenario::SingleStream, _) => self.check_closed(s, 1, out),
            (_, Arrivals::InFlight(most)) => self.check_closed(s, *most, out),
            (_, Arrivals::Recorded(times)) => {
                self.expect(out, "the recorded times", |at| times.get(at).copied());
            }
            (_, Arrivals::Constant(gap)) => {
                let is_off = |(at, due): (usize, &u64)| (*due as f64 - at as f64 * gap).abs() > 2.0;
                if let Some(at) = self.due.iter().enumerate().position(is_off) {
                    let found = format!("number {at} at {}", self.due[at]);
                    out.issuing("constant gaps", &found, "configuration.md: server_arrivals");
                }
            }
            (_, Arrivals::Random) => {}
        }
    }

    fn expect(&self, out: &mut Findings, rule: &str, time: impl Fn(usize) -> Option<u64>) {
        let wrong = (0..self.due.len()).find(|&at| time(at) != Some(self.due[at]));
        if let Some(at) = wrong {
            let (due, expected) = (self.due[at], time(at));
            out.issuing(rule, &format!("number {at} at {due}, not {expected:?}"), "scenarios.md");
        }
    }

    /// So many requests are in flight; the next one is issued when one is over.
    fn check_closed(&self, s: &Settings, most: u64, out: &mut Findings) {
        const RULE: &str = "fidelity.md: end of a fixed concurrency";
        let mut over: Vec<u64> = self.all.iter().filter_map(|r| r.ending.at_ns()).collect();
        over.sort_unstable();
        let most = most as usize;
        let time = |at: usize| if at < most { Some(0) } else { over.get(at - most).copied() };
        self.expect(out, "the next request when one is over", time);
        if s.scenario != Scenario::Server {
            return;
        }
        // A fixed concurrency issues until the duration is over and there are enough requests.
        let goes_on =
            |at: usize, time: u64| at < s.min_queries as usize || time < s.min_duration_ns;
        let issued = self.all.len();
        if let Some(last) = issued.checked_sub(1).filter(|at| !goes_on(*at, self.due[*at])) {
            let found = format!("request {last} at {}", self.due[last]);
            out.issuing("no request after the duration", &found, RULE);
        }
        if let Some(next) = time(issued).filter(|time| goes_on(issued, *time)) {
            out.issuing(&format!("a request at {next}"), "none", RULE);
        }
    }

    fn check_conversations(&mut self, s: &Settings, c: &Conversations, out: &mut Findings) {
        if let Err(problem) = self.find_places(c) {
            out.issuing("turns in their order", &problem, "servers.md: conversations");
            (self.held, self.ended_ns) = (None, None);
            return;
        }
        if c.every_ns > 0 {
            self.derive_due_of_users(s, c);
        }
        self.check_turns(c, out);
        let ends = self.ends();
        self.check_begins(s, c, &ends, out);
        self.check_end(s, c, out);
        (self.held, self.ended_ns) = self.end_of_run(s, c, &ends);
    }

    fn find_places(&mut self, c: &Conversations) -> Result<(), String> {
        let mut current: Vec<Option<usize>> = vec![None; c.chains.len()];
        let mut sessions = 0;
        // By session: number of turns so far, and whether the last one was answered.
        let mut progress: Vec<(usize, bool)> = Vec::new();
        for (at, request) in self.all.iter().enumerate() {
            let holds = |chain: &(u32, Vec<u64>)| {
                (chain.0..chain.0 + chain.1.len() as u32).contains(&request.sample)
            };
            let chain = c.chains.iter().position(holds).ok_or("a sample of no conversation")?;
            let (first, thinks) = &c.chains[chain];
            let (number, turns) = ((request.sample - first) as usize, thinks.len());
            if number == 0 {
                let before = current[chain].map(|session: usize| progress[session]);
                if before.is_some_and(|(done, answered)| answered && done < turns) {
                    return Err(format!("request {at}: its conversation is in progress"));
                }
                current[chain] = Some(sessions);
                progress.push((0, true));
                sessions += 1;
            }
            let session = current[chain].ok_or_else(|| format!("request {at}: no first turn"))?;
            if progress[session] != (number, true) {
                return Err(format!("request {at}: turn {number} after {:?}", progress[session]));
            }
            progress[session] = (number + 1, matches!(request.ending, Ending::Answered { .. }));
            self.places.push(Place { session, number, turns, chain });
        }
        Ok(())
    }

    /// Each user sends a request each interval after the previous one was due, across sessions. Users
    /// begin one after the other, spread over the ramp or else over the interval.
    fn derive_due_of_users(&mut self, s: &Settings, c: &Conversations) {
        let users = self.users(s, c);
        // By user: when its next request is due, when the last one was over, and its session.
        let mut next: Vec<(u64, Option<u64>, Option<usize>)> =
            self.first_due(s, c, users).into_iter().map(|due| (due, Some(0), None)).collect();
        for at in 0..self.all.len() {
            let (place, request) = (self.places[at], &self.all[at]);
            let is_ready = |(_, over, session): &(u64, Option<u64>, Option<usize>)| {
                let is_free = over.is_some_and(|over| over <= request.issued_ns);
                if place.number == 0 {
                    session.is_none() && is_free
                } else {
                    *session == Some(place.session)
                }
            };
            let ready = (0..next.len()).filter(|&user| is_ready(&next[user]));
            let Some(user) = ready.min_by_key(|&user| (next[user].0, next[user].1)) else {
                continue;
            };
            self.due[at] = next[user].0;
            let goes_on =
                matches!(request.ending, Ending::Answered { .. }) && place.number + 1 < place.turns;
            let session = (goes_on || request.ending == Ending::Lost).then_some(place.session);
            next[user] = (self.due[at] + c.every_ns, request.ending.at_ns(), session);
        }
    }

    fn users(&self, s: &Settings, c: &Conversations) -> usize {
        let Arrivals::InFlight(most) = s.arrivals else { return 0 };
        (most as usize).min(c.chains.len())
    }

    fn first_due(&self, s: &Settings, c: &Conversations, users: usize) -> Vec<u64> {
        let spread = if s.ramp_ns > 0 { s.ramp_ns } else { c.every_ns };
        (0..users as u64).map(|user| spread * user / users as u64).collect()
    }

    /// Returns the request of the turn before.
    pub fn before(&self, at: usize) -> Option<usize> {
        let place = self.places[at];
        let is_before =
            |other: &Place| (other.session, other.number + 1) == (place.session, place.number);
        self.places[..at].iter().rposition(is_before)
    }

    /// Each later turn is due when the answer before it is complete and the think time is over.
    fn check_turns(&self, c: &Conversations, out: &mut Findings) {
        const RULE: &str = "servers.md: conversations, users at an interval";
        for at in 0..self.all.len() {
            let place = self.places[at];
            let (due, issued) = (self.due[at], self.all[at].issued_ns);
            let over = self.before(at).and_then(|before| self.all[before].ending.at_ns());
            let expected = match (c.every_ns, over) {
                (0, None) => due,
                (0, Some(over)) => over + c.chains[place.chain].1[place.number],
                (_, None) => issued.max(due),
                (_, Some(over)) => due.max(over),
            };
            if expected != issued {
                let found = format!("request {at} of session {} at {issued}", place.session);
                out.issuing(&format!("a turn at {expected}"), &found, RULE);
            }
        }
        let last = self.all.last().map_or(0, |request| request.issued_ns);
        for (at, request) in self.all.iter().enumerate() {
            let place = self.places[at];
            let Ending::Answered { at_ns } = request.ending else { continue };
            let Some(think) = c.chains[place.chain].1.get(place.number + 1) else { continue };
            let next = match c.every_ns {
                0 => at_ns + think,
                every => at_ns.max(self.due[at] + every),
            };
            let is_sent = self.places[at..]
                .iter()
                .any(|other| (other.session, other.number) == (place.session, place.number + 1));
            if next < last && !is_sent {
                let found = format!("none after request {at}, which was answered at {at_ns}");
                out.issuing(&format!("a turn at {next}"), &found, RULE);
            }
        }
    }

    /// Returns when sessions ended, ascending.
    fn ends(&self) -> Vec<u64> {
        let end = |(request, place): (&Request, &Place)| match request.ending {
            Ending::Answered { at_ns } => (place.number + 1 == place.turns).then_some(at_ns),
            ending => ending.at_ns(),
        };
        let mut ends: Vec<u64> = self.all.iter().zip(&self.places).filter_map(end).collect();
        ends.sort_unstable();
        ends
    }

    fn begins(&self) -> Vec<u64> {
        let firsts = self.places.iter().enumerate().filter(|(_, place)| place.number == 0);
        firsts.map(|(at, _)| self.due[at]).collect()
    }

    /// Returns when each session is due that could begin, as far as the documents decide it: when a
    /// place is free, or at the recorded time, or later when a conversation is idle.
    fn starts(&self, s: &Settings, c: &Conversations, ends: &[u64]) -> Option<Vec<u64>> {
        if c.every_ns > 0 || matches!(s.arrivals, Arrivals::Random) {
            return None;
        }
        let mut starts = match &s.arrivals {
            Arrivals::InFlight(_) => {
                let mut starts = self.first_due(s, c, self.users(s, c));
                starts.extend(ends);
                starts.sort_unstable();
                starts
            }
            Arrivals::Recorded(times) => {
                let idle = |at: usize| match at.checked_sub(c.chains.len()) {
                    Some(before) => ends.get(before).copied(),
                    None => Some(0),
                };
                let start = |(at, time): (usize, &u64)| idle(at).map(|idle| idle.max(*time));
                times.iter().enumerate().map_while(start).collect()
            }
            _ => return None,
        };
        if c.is_once {
            starts.truncate(c.chains.len());
        }
        Some(starts)
    }

    fn check_begins(&self, s: &Settings, c: &Conversations, ends: &[u64], out: &mut Findings) {
        const RULE: &str = "servers.md: conversations, --max-concurrency, --request-rate";
        let Some(starts) = self.starts(s, c, ends) else { return };
        let (begins, last) = (self.begins(), self.all.last().map_or(0, |last| last.issued_ns));
        let wrong = (0..begins.len()).find(|&at| starts.get(at) != Some(&begins[at]));
        if let Some(at) = wrong {
            let expected = format!("session {at} at {:?}", starts.get(at));
            out.issuing(&expected, &format!("at {}", begins[at]), RULE);
        }
        if let Some(at) = starts.get(begins.len()).filter(|at| **at < last) {
            out.issuing(&format!("a session at {at}"), "none", RULE);
        }
    }

    /// No turn is sent when the time of the run is over, unless requests are still missing.
    fn check_end(&self, s: &Settings, c: &Conversations, out: &mut Findings) {
        let mut measured = 0;
        for at in 0..self.all.len() {
            let issued = self.all[at].issued_ns;
            if !c.is_once && measured >= s.min_queries && issued >= s.ramp_ns + s.min_duration_ns {
                let found = format!("request {at} at {issued}");
                out.issuing(
                    "no turn after the time of the run",
                    &found,
                    "servers.md: conversations",
                );
                return;
            }
            measured += u64::from(self.due[at] >= s.ramp_ns);
        }
    }

    /// Returns how many sessions were due while all were in progress, and until when turns could
    /// begin.
    fn end_of_run(
        &self,
        s: &Settings,
        c: &Conversations,
        ends: &[u64],
    ) -> (Option<u64>, Option<u64>) {
        if self.all.iter().any(|request| request.ending == Ending::Lost) {
            return (None, None); // the run then ends when nothing else can happen
        }
        let begins = self.begins();
        let known = match &s.arrivals {
            Arrivals::Recorded(times) => Some(times.as_slice()),
            _ => None,
        };
        let all_begun = match known {
            Some(times) => begins.len() >= times.len(),
            None => false,
        };
        let all_begun = all_begun || (c.is_once && begins.len() >= c.chains.len());
        let last_over = self.all.iter().filter_map(|request| request.ending.at_ns()).max();
        if all_begun && begins.len() == ends.len() {
            return (self.held(s, c, ends, u64::MAX), last_over.map(|at| at - at.min(s.ramp_ns)));
        }
        let is_measured = |at: &usize| self.due[*at] >= s.ramp_ns;
        let needed = (s.min_queries as usize).saturating_sub(1);
        let enough = (0..self.all.len()).filter(is_measured).nth(needed);
        let Some(enough) = enough else { return (None, None) };
        let end = self.all[enough].issued_ns.max(s.ramp_ns + s.min_duration_ns);
        (self.held(s, c, ends, end), Some(end - s.ramp_ns))
    }

    fn held(&self, s: &Settings, c: &Conversations, ends: &[u64], end: u64) -> Option<u64> {
        match &s.arrivals {
            Arrivals::InFlight(_) => Some(0),
            Arrivals::Recorded(times) => {
                let idle = |at: usize| match at.checked_sub(c.chains.len()) {
                    Some(before) => ends.get(before).copied().unwrap_or(u64::MAX),
                    None => 0,
                };
                let limit = if c.is_once { c.chains.len() } else { times.len() };
                let due = times.iter().take(limit).enumerate();
                let held = due.filter(|(at, time)| **time < end && **time < idle(*at));
                Some(held.count() as u64)
            }
            _ => None,
        }
    }
}
