//! Misses of the second cache, as the processor counts them.

#[cfg(target_os = "linux")]
pub use counted::Misses;
#[cfg(not(target_os = "linux"))]
pub use uncounted::Misses;

#[cfg(target_os = "linux")]
mod counted {
    use std::fs;

    use perf_event::events::Raw;
    use perf_event::{Builder, Counter};

    /// Of this process, and of all threads that it makes from now on.
    pub struct Misses {
        counter: Counter,
    }

    impl Misses {
        /// Begins to count.
        ///
        /// # Errors
        /// Says why nothing is counted.
        pub fn open() -> Result<Self, String> {
            let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
            let event = event(&told).ok_or("it is not known how this processor counts them")?;
            let refused = |error: std::io::Error| {
                // The kernel's answer where a virtual machine has no counters is "no such file".
                format!(
                    "this system does not permit it ({error}; see /proc/sys/kernel/perf_event_paranoid, and virtual machines may have no counters)"
                )
            };
            let mut builder = Builder::new(Raw::new(event));
            let mut counter = builder.inherit(true).build().map_err(refused)?;
            counter.enable().map_err(refused)?;
            Ok(Self { counter })
        }

        /// How many there were.
        pub fn read(&mut self) -> Option<u64> {
            self.counter.read().ok()
        }
    }

    /// The raw event: of Intel's cores L2_RQSTS.MISS (event 24h, mask 3Fh), of AMD's since Zen data
    /// requests that missed the L2 (event 64h, mask 08h), as their manuals have them.
    fn event(cpuinfo: &str) -> Option<u64> {
        let of = |key: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim())
        };
        let family: u32 = of("cpu family")?.parse().ok()?;
        match of("vendor_id")? {
            "GenuineIntel" if family == 6 => Some(0x3f24),
            "AuthenticAMD" if family >= 0x17 => Some(0x0864),
            _ => None,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn processors_have_events_of_their_own() {
            let of =
                |vendor, family| event(&format!("vendor_id\t: {vendor}\ncpu family\t: {family}\n"));
            assert_eq!(of("GenuineIntel", 6), Some(0x3f24));
            assert_eq!(of("AuthenticAMD", 26), Some(0x0864));
            assert_eq!(of("AuthenticAMD", 21), None);
            assert_eq!(event(""), None);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod uncounted {
    /// Nothing: only Linux tells.
    pub struct Misses;

    impl Misses {
        /// Says so.
        ///
        /// # Errors
        /// Always.
        pub fn open() -> Result<Self, String> {
            Err("only Linux tells".to_owned())
        }

        /// Nothing.
        pub fn read(&mut self) -> Option<u64> {
            None
        }
    }
}
