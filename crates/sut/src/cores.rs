//! Binding of threads to processor cores.
//!
//! A thread inherits the cores of the thread that starts it. The thread that starts the threads of
//! a system (a pool, or an engine with its own threads) is therefore bound while it does so, and
//! released afterwards.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Set of cores, by the numbers of the operating system.
///
/// ```
/// use dyno_sut::cores::Cores;
///
/// let cores: Cores = "6,0-3,2".parse()?;
/// assert_eq!((cores.len().get(), cores.to_string()), (5, "0-3,6".into()));
/// assert_eq!(cores.shares(2).expect("five cores")[1].to_string(), "2-3,6");
/// # Ok::<(), dyno_sut::cores::CoresError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores(
    /// Distinct numbers in ascending order; at least one.
    Vec<usize>,
);

/// Error of parsing a list of cores or of binding a thread.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CoresError {
    /// The text is not a list of numbers.
    #[error("expected numbers of processors such as 0-3,6, found `{0}`")]
    Text(String),
    /// A number exceeds the maximum that the operating system accepts.
    #[error("expected numbers of processors up to {most}, found {core}")]
    TooLarge {
        /// Number of the core.
        core: usize,
        /// Maximum number.
        most: usize,
    },
    /// The core does not exist, or this process may not use it.
    #[error(
        "processor {core} does not exist, or is not available to this process, which may use \
         {allowed}"
    )]
    NotAllowed {
        /// Number of the core.
        core: usize,
        /// Cores that this process may use.
        allowed: Cores,
    },
    /// Threads cannot be bound on this operating system.
    #[error("threads can be bound to processors only on Linux, not on {}", std::env::consts::OS)]
    Unsupported,
    /// The operating system returned this error message.
    #[error("cannot bind a thread: {0}")]
    Refused(String),
}

/// Maximum core number that Linux accepts.
const MOST: usize = 1023;

impl Cores {
    fn new(mut cores: Vec<usize>) -> Option<Self> {
        cores.sort_unstable();
        cores.dedup();
        (!cores.is_empty()).then_some(Self(cores))
    }

    /// Returns the number of cores.
    pub fn len(&self) -> std::num::NonZero<usize> {
        std::num::NonZero::new(self.0.len()).expect("there is at least one")
    }

    /// Returns the numbers of the cores, in ascending order.
    pub fn numbers(&self) -> &[usize] {
        &self.0
    }

    /// Divides the cores into this many shares (at least 1) of neighboring cores, whose sizes
    /// differ by at most one. Returns `None` if there are fewer cores than shares.
    pub fn shares(&self, shares: usize) -> Option<Vec<Self>> {
        let cut = |at: usize| self.0.len() * at / shares;
        (0..shares).map(|at| Self::new(self.0[cut(at)..cut(at + 1)].to_vec())).collect()
    }
}

impl FromStr for Cores {
    type Err = CoresError;

    fn from_str(text: &str) -> Result<Self, CoresError> {
        let wrong = || CoresError::Text(text.to_owned());
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if last > MOST {
                return Err(CoresError::TooLarge { core: last, most: MOST });
            }
            if first > last {
                return Err(wrong());
            }
            cores.extend(first..=last);
        }
        Self::new(cores).ok_or_else(wrong)
    }
}

impl fmt::Display for Cores {
    /// Writes consecutive numbers as a range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.0.chunk_by(|one, next| one + 1 == *next);
        for (number, range) in ranges.enumerate() {
            let comma = if number > 0 { "," } else { "" };
            match range {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                all => write!(f, "{comma}{}", all[0])?,
            }
        }
        Ok(())
    }
}

/// Binding of the calling thread. Dropping it restores the previous cores of the thread.
#[derive(Debug)]
#[must_use = "what is started while it lives is bound"]
pub struct Binding {
    #[cfg(target_os = "linux")]
    before: rustix::thread::CpuSet,
    /// Makes the type `!Send`: another thread must not drop it.
    _here: std::marker::PhantomData<*const ()>,
}

#[cfg(target_os = "linux")]
impl Cores {
    /// Binds the calling thread, and every thread that it starts, until the result is dropped.
    ///
    /// # Errors
    /// [`CoresError`] if this process may not use one of the cores, or the operating system does
    /// not bind the thread.
    pub fn bind(&self) -> Result<Binding, CoresError> {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

        let refused = |why: rustix::io::Errno| CoresError::Refused(why.to_string());
        let before = sched_getaffinity(None).map_err(refused)?;
        let mut set = CpuSet::new();
        for &core in &self.0 {
            // The operating system would silently ignore cores that are not allowed.
            if !before.is_set(core) {
                let allowed = (0..CpuSet::MAX_CPU).filter(|&core| before.is_set(core));
                let allowed = Self::new(allowed.collect()).expect("a thread runs somewhere");
                return Err(CoresError::NotAllowed { core, allowed });
            }
            set.set(core);
        }
        sched_setaffinity(None, &set).map_err(refused)?;
        Ok(Binding { before, _here: std::marker::PhantomData })
    }
}

#[cfg(not(target_os = "linux"))]
impl Cores {
    /// Returns an error: threads can be bound only on Linux.
    ///
    /// # Errors
    /// [`CoresError::Unsupported`].
    pub fn bind(&self) -> Result<Binding, CoresError> {
        Err(CoresError::Unsupported)
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        // These cores were allowed before. If they no longer are, the thread keeps its present
        // cores.
        let _ = rustix::thread::sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_in_any_order_and_print_as_ranges() {
        let printed = |text: &str| text.parse::<Cores>().map(|cores| cores.to_string());
        assert_eq!(printed("3"), Ok("3".into()));
        assert_eq!(printed("7, 0-2,1,4-5"), Ok("0-2,4-5,7".into()));
        for wrong in ["", ",", "1,", "3-1", "a", "-1", "0-", "1..3"] {
            assert_eq!(printed(wrong), Err(CoresError::Text(wrong.into())));
        }
        let large = Err(CoresError::TooLarge { core: 1024, most: 1023 });
        assert_eq!(printed("0-1024"), large);
    }

    #[test]
    fn shares_are_disjoint_and_nearly_equal() {
        let cores: Cores = "0-3,8".parse().unwrap();
        let shares = cores.shares(2).unwrap();
        assert_eq!([shares[0].to_string(), shares[1].to_string()], ["0-1", "2-3,8"]);
        assert_eq!((cores.shares(1), cores.shares(6)), (Some(vec![cores.clone()]), None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_started_while_bound_stay_there_and_the_thread_itself_goes_back() {
        use rustix::thread::{CpuSet, sched_getaffinity};

        let here = || {
            let set = sched_getaffinity(None).unwrap();
            Cores::new((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()).unwrap()
        };
        let before = here();
        let last = Cores(before.0[before.0.len() - 1..].to_vec());
        let bound = last.bind().unwrap();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let started = std::thread::spawn(move || {
            let _ = wait.recv();
            here()
        });
        drop(bound);
        assert_eq!(here(), before);
        go.send(()).unwrap();
        assert_eq!(started.join().unwrap(), last);

        let absent = Cores(vec![before.0[0], MOST]);
        let error = absent.bind().unwrap_err();
        assert_eq!(error, CoresError::NotAllowed { core: MOST, allowed: before.clone() });
        assert_eq!(here(), before, "nothing is bound by what is refused");
    }
}
