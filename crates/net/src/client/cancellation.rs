//! Cancellation: the client gives up a share of its requests, like users who close a page. The server
//! sees that their connection or stream ends.

use std::fmt;
use std::str::FromStr;

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND};
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::rng::{GOLDEN_RATIO, mix};

use super::{ClientCore, Job};
use crate::trouble::{Kind, Trouble};

/// A share of the requests, and when the client gives them up. Requests that are complete before that
/// count as usual.
///
/// ```
/// use dyno_net::client::{Cancellation, CancelPoint};
///
/// let cancellation: Cancellation = "5%@20tok".parse()?;
/// assert_eq!((cancellation.share, cancellation.point), (0.05, CancelPoint::Tokens(20)));
/// assert_eq!(cancellation.to_string(), "5%@20tok");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cancellation {
    /// Share of the requests, above 0 and at most 1.
    pub share: f64,
    /// When they are given up.
    pub point: CancelPoint,
    /// Seed of the choice of requests.
    pub seed: u64,
}

/// When a request is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelPoint {
    /// This long after it was first sent, in ns.
    Time(Nanos),
    /// When this many parts of a stream with output have come (>= 1).
    Tokens(u32),
}

/// Unit of [`CancelPoint::Tokens`].
const TOKENS: &str = "tok";

impl FromStr for Cancellation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "expected SHARE%@TIME or SHARE%@N{TOKENS}, such as 5%@2s or 5%@20{TOKENS}, found \
                 `{text}`"
            )
        };
        let (share, point) = text.split_once("%@").ok_or_else(expected)?;
        let percent: f64 = share.parse().map_err(|_| expected())?;
        if !(percent > 0.0 && percent <= 100.0) {
            return Err(format!("expected a share above 0 and up to 100 %, found `{share}%`"));
        }
        let point = match point.strip_suffix(TOKENS) {
            Some(count) => CancelPoint::Tokens(count.parse().map_err(|_| expected())?),
            None => CancelPoint::Time(time(point).ok_or_else(expected)?),
        };
        match point {
            CancelPoint::Time(0) | CancelPoint::Tokens(0) => {
                Err(format!("expected a time or number above 0, found `{text}`"))
            }
            point => Ok(Self { share: percent / 100.0, point, seed: 0 }),
        }
    }
}

/// Reads a time in ms or s.
fn time(text: &str) -> Option<Nanos> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, MILLISECOND),
        None => (text.strip_suffix('s')?, SECOND),
    };
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number * unit as f64) as Nanos)
}

impl fmt::Display for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%@", self.share * 100.0)?;
        match self.point {
            CancelPoint::Time(ns) => write!(f, "{}s", ns as f64 / SECOND as f64),
            CancelPoint::Tokens(count) => write!(f, "{count}{TOKENS}"),
        }
    }
}

impl Cancellation {
    /// Returns whether request number `number` of a tenant is to be given up. Equal seeds choose equal
    /// requests.
    pub fn chooses(&self, tenant: u8, number: u64) -> bool {
        let of_tenant = self.seed ^ (u64::from(tenant) << 56);
        let step = number.wrapping_add(1).wrapping_mul(GOLDEN_RATIO);
        ((mix(of_tenant.wrapping_add(step)) >> 11) as f64) < self.share * (1_u64 << 53) as f64
    }
}

impl ClientCore {
    /// Returns the cancellation, if it chooses this request.
    fn cancellation_of(&self, job: Job) -> Option<CancelPoint> {
        let cancellation = self.options.cancellation?;
        let is_chosen = cancellation.chooses(job.id.tenant(), job.id.sequence());
        is_chosen.then_some(cancellation.point)
    }

    /// Returns when a request is given up that was on the wire, or waited for its retry, at `now`; `None`
    /// if it is not given up by time. Times are by the client's clock and count from the first attempt: a
    /// user who leaves does not ask how often a request was sent.
    pub(super) fn given_up_at(&self, job: Job, to: &Responder, now: Nanos) -> Option<Nanos> {
        let CancelPoint::Time(after) = self.cancellation_of(job)? else { return None };
        let passed = |first: Nanos| to.time_of(&self.clock, now).saturating_sub(first);
        // The first attempt has no time before it is written.
        let passed = self.accepted.time(job.id).map_or(0, passed);
        Some(now.saturating_sub(passed).saturating_add(after))
    }

    /// Returns whether a request is given up after this many parts with output.
    pub(super) fn gives_up_at(&self, job: Job, parts: u32) -> bool {
        matches!(self.cancellation_of(job), Some(CancelPoint::Tokens(most)) if parts >= most)
    }

    /// Returns the trouble of a request that was given up.
    pub(super) fn cancelled(&self) -> Trouble {
        let asked = self.options.cancellation.map(|of| of.to_string()).unwrap_or_default();
        Trouble::new(Kind::Cancelled, format!("the client cancelled the request (cancel={asked})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_is_written_as_it_is_read() {
        for text in ["5%@2s", "100%@1tok", "0.5%@0.25s"] {
            assert_eq!(text.parse::<Cancellation>().unwrap().to_string(), text);
        }
        let same: Cancellation = "10%@250ms".parse().unwrap();
        assert_eq!(same.point, CancelPoint::Time(250 * MILLISECOND));
        for odd in ["", "5%", "5@2s", "0%@2s", "101%@2s", "nan%@2s", "5%@0s", "5%@0tok", "5%@2"] {
            assert!(odd.parse::<Cancellation>().unwrap_err().starts_with("expected"), "{odd}");
        }
    }

    #[test]
    fn the_chosen_share_is_that_of_the_option_and_depends_on_the_seed() {
        let chosen = |share, seed, tenant| {
            let of = Cancellation { share, point: CancelPoint::Tokens(1), seed };
            (0..10_000).filter(|number| of.chooses(tenant, *number)).collect::<Vec<u64>>()
        };
        for (share, seed) in [(0.05, 1), (0.5, 2), (0.9, 3)] {
            let found = chosen(share, seed, 0).len() as f64;
            // Within 4 standard deviations of a binomial distribution.
            let most = 4.0 * f64::sqrt(10_000.0 * share * (1.0 - share));
            assert!((found - 10_000.0 * share).abs() < most, "{share}: {found}");
        }
        assert_eq!(chosen(0.3, 7, 0), chosen(0.3, 7, 0));
        assert_ne!(chosen(0.3, 7, 0), chosen(0.3, 8, 0));
        assert_ne!(chosen(0.3, 7, 0), chosen(0.3, 7, 1));
        assert_eq!(chosen(1.0, 7, 0).len(), 10_000);
    }
}
