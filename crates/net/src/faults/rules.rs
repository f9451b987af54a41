//! Modes whose answer depends on the request, on earlier requests, or on the time.

use std::collections::{HashMap, VecDeque};

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND};

use super::request::Request;
use super::script::Stream;
use super::streams::{STREAMS, WITHOUT_PAUSE, stream};
use super::whole::{
    NO_KEY, NO_MAX, NO_OPTIONS, NO_SUCH_MODE, SLOW_DOWN, UNAVAILABLE, WHOLE, WholeAnswer, whole,
};

/// Reaction to one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decision {
    /// Delay before the reaction, in ns.
    pub wait: Nanos,
    pub play: Play,
    /// Whether the connection is closed afterwards.
    pub closes: bool,
}

/// Answer to a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Play {
    Stream(&'static Stream),
    Whole(&'static WholeAnswer),
    /// A redirection to the same path below `/ok`.
    Redirect,
    /// Nothing, and the connection stays open.
    Silence,
    /// The connection is reset.
    Reset,
}

/// Rule by which a mode selects an answer.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// Request `at` (from 0) of each `every` requests gets `then`, the others `otherwise`.
    Turns {
        every: u64,
        at: u64,
        then: &'static str,
        otherwise: &'static str,
    },
    /// Requests whose body holds this text are refused.
    Body {
        holds: &'static str,
        refusal: &'static str,
    },
    /// Requests without this key are refused.
    Key(&'static str),
    /// The first request waits two seconds.
    Cold,
    /// 20 requests a second pass, the others are refused.
    Bucket,
    /// From 2 s to 4 s after the first request nothing is answered.
    Stall,
    /// The connection is closed after each answer, without a field that announces it.
    Close,
    Redirect,
    Silence,
    Reset,
}

/// Mode of working servers.
const OK: &str = "ok";
const SILENCE: &str = "hangall";
/// Internal mode of a reset connection.
const RESET: &str = "reset, now";

const fn turns(every: u64, at: u64, then: &'static str) -> Rule {
    Rule::Turns { every, at, then, otherwise: OK }
}

const RULES: &[(&str, Rule)] = &[
    ("half_empty", turns(2, 1, "empty")),
    ("cut_half", Rule::Turns { every: 2, at: 1, then: "cut", otherwise: WITHOUT_PAUSE }),
    ("rate", turns(3, 2, "rateall")),
    ("hang", turns(10, 9, SILENCE)),
    ("e503half", turns(2, 1, UNAVAILABLE)),
    ("reset", turns(5, 4, RESET)),
    (RESET, Rule::Reset),
    ("nomax", Rule::Body { holds: "\"max_tokens\"", refusal: NO_MAX }),
    ("noopts", Rule::Body { holds: "stream_options", refusal: NO_OPTIONS }),
    ("auth", Rule::Key("Bearer sesame")),
    ("cold", Rule::Cold),
    ("bucket", Rule::Bucket),
    ("stall", Rule::Stall),
    ("close_after", Rule::Close),
    ("redirect", Rule::Redirect),
    (SILENCE, Rule::Silence),
];

/// Requests per second that `bucket` accepts.
const PASS: usize = 20;
/// Start and end of `stall`, after its first request.
const STALL: (Nanos, Nanos) = (2 * SECOND, 4 * SECOND);
/// Delay of the first request of `cold`.
const COLD: Nanos = 2 * SECOND;

/// State of the modes.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Number of requests by mode.
    requests: HashMap<String, u64>,
    /// Times of the requests accepted in the last second.
    passed: VecDeque<Nanos>,
    /// Time of the first request of `stall`.
    stall: Option<Nanos>,
}

/// Returns the names of all modes. Internal answers have a comma in their name.
pub(super) fn modes() -> Vec<&'static str> {
    let rules = RULES.iter().map(|(name, _)| *name);
    let streams = STREAMS.iter().map(|(name, _)| *name);
    let wholes = WHOLE.iter().map(|(name, _)| *name);
    let mut all: Vec<&str> = rules.chain(streams).chain(wholes).collect();
    all.retain(|name| !name.contains(','));
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the mode of request number `number` of a mode with a share.
fn of_share(mode: &str, share: Option<f64>, number: u64) -> &str {
    match share {
        None => mode,
        Some(share) if is_in_share(number, share) => fault_of(mode),
        Some(_) => OK,
    }
}

/// Returns whether request number `number`, from 0, is in a share of them that is spread evenly.
fn is_in_share(number: u64, share: f64) -> bool {
    // A share such as 0.1 is not exact; the product of 10 requests must still be 1.
    let taken = |requests: u64| (requests as f64 * share + 1e-9).floor();
    taken(number + 1) > taken(number)
}

/// Returns the answer of the faulty requests of a mode that selects some of them, otherwise the mode.
fn fault_of(mode: &str) -> &str {
    match RULES.iter().find(|(name, _)| *name == mode) {
        Some((_, Rule::Turns { then, .. })) => then,
        _ => mode,
    }
}

impl Memory {
    /// Returns the reaction to a request at `now` in a mode. With a share, that part of the requests
    /// gets the fault of the mode, spread evenly, and the others a correct answer.
    pub(super) fn decide(
        &mut self,
        (mode, share): (&str, Option<f64>),
        request: &Request,
        now: Nanos,
    ) -> Decision {
        let before = self.count(mode);
        let mode = of_share(mode, share, before);
        if mode == "reset_counts" {
            *self = Self::default();
        }
        let mut decision = Decision { wait: 0, play: Play::Whole(&NO_SUCH_MODE), closes: false };
        let mut mode = mode;
        while let Some((_, rule)) = RULES.iter().find(|(name, _)| *name == mode) {
            mode = match *rule {
                Rule::Turns { every, at, then, otherwise } => {
                    if before % every == at {
                        then
                    } else {
                        otherwise
                    }
                }
                Rule::Body { holds, refusal } => {
                    if request.holds(holds) {
                        refusal
                    } else {
                        OK
                    }
                }
                Rule::Key(key) => {
                    if request.field("authorization") == Some(key) {
                        OK
                    } else {
                        NO_KEY
                    }
                }
                Rule::Cold => {
                    decision.wait = if before == 0 { COLD } else { 0 };
                    OK
                }
                Rule::Bucket => {
                    if self.passes(now) {
                        OK
                    } else {
                        SLOW_DOWN
                    }
                }
                Rule::Close => {
                    decision.closes = true;
                    OK
                }
                Rule::Stall => {
                    let since = now - *self.stall.get_or_insert(now);
                    if (STALL.0..STALL.1).contains(&since) {
                        decision.wait = STALL.1 - since;
                    }
                    break;
                }
                Rule::Redirect => return Decision { play: Play::Redirect, ..decision },
                Rule::Silence => return Decision { play: Play::Silence, ..decision },
                Rule::Reset => return Decision { play: Play::Reset, ..decision },
            };
        }
        if let Some(stream) = stream(mode) {
            decision.closes |= stream.end != super::script::End::Whole;
            decision.play = Play::Stream(stream);
        } else if let Some(whole) = whole(mode) {
            decision.wait += whole.pause_ms * MILLISECOND;
            decision.closes |= whole.is_last;
            decision.play = Play::Whole(whole);
        }
        decision
    }

    /// Counts a request of a mode, and returns the number of earlier ones.
    fn count(&mut self, mode: &str) -> u64 {
        let Some(count) = self.requests.get_mut(mode) else {
            self.requests.insert(mode.to_owned(), 1);
            return 0;
        };
        *count += 1;
        *count - 1
    }

    fn passes(&mut self, now: Nanos) -> bool {
        while self.passed.front().is_some_and(|&at| now - at >= SECOND) {
            self.passed.pop_front();
        }
        let passes = self.passed.len() < PASS;
        if passes {
            self.passed.push_back(now);
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_requests_is_faulty() {
        for (share, expected) in [(0.1, 10), (0.25, 25), (0.07, 7), (1.0, 100)] {
            let chosen: Vec<u64> = (0..100).filter(|number| is_in_share(*number, share)).collect();
            assert_eq!(chosen.len(), expected, "{share}");
            let gaps = chosen.windows(2).map(|pair| pair[1] - pair[0]);
            let most = (1.0 / share).ceil() as u64;
            assert!(gaps.into_iter().all(|gap| gap <= most), "{share}");
        }
        assert_eq!((fault_of("hang"), fault_of("cut"), fault_of("cold")), (SILENCE, "cut", "cold"));
    }
}
