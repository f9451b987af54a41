//! Counter of second-level (L2) cache misses, from the processor's performance counters.

#[cfg(target_os = "linux")]
pub use counted::Misses;
#[cfg(not(target_os = "linux"))]
pub use uncounted::Misses;

#[cfg(target_os = "linux")]
mod counted {
    use std::fs;

    use perf_event::events::Raw;
    use perf_event::{Builder, Counter};

    /// Counter of the misses of this process and of all threads that it starts later.
    pub struct Misses {
        counter: Counter,
    }

    impl Misses {
        /// Starts to count.
        ///
        /// # Errors
        /// Returns the reason why nothing can be counted.
        pub fn open() -> Result<Self, String> {
            let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
            let event = event(&cpuinfo).ok_or("it is not known how this processor counts them")?;
            let refused = |error: std::io::Error| {
                // In a virtual machine without counters, the kernel's error is "no such file".
                format!(
                    "this system does not permit it ({error}; see /proc/sys/kernel/perf_event_paranoid, and virtual machines may have no counters)"
                )
            };
            let mut builder = Builder::new(Raw::new(event));
            let mut counter = builder.inherit(true).build().map_err(refused)?;
            counter.enable().map_err(refused)?;
            Ok(Self { counter })
        }

        /// Returns the misses so far; `None` if the counter cannot be read.
        pub fn read(&mut self) -> Option<u64> {
            self.counter.read().ok()
        }
    }

    /// Returns the raw event of the processor's vendor: L2_RQSTS.MISS (event 24h, mask 3Fh) on Intel cores, and data
    /// requests that missed the L2 (event 64h, mask 08h) on AMD cores since Zen. Source: the vendors' manuals.
    fn event(cpuinfo: &str) -> Option<u64> {
        let field = |key: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim())
        };
        let family: u32 = field("cpu family")?.parse().ok()?;
        match field("vendor_id")? {
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
            let event_of =
                |vendor, family| event(&format!("vendor_id\t: {vendor}\ncpu family\t: {family}\n"));
            assert_eq!(event_of("GenuineIntel", 6), Some(0x3f24));
            assert_eq!(event_of("AuthenticAMD", 26), Some(0x0864));
            assert_eq!(event_of("AuthenticAMD", 21), None);
            assert_eq!(event(""), None);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod uncounted {
    /// Placeholder: only Linux has a counter.
    pub struct Misses;

    impl Misses {
        /// Fails, because only Linux has a counter.
        ///
        /// # Errors
        /// Always.
        pub fn open() -> Result<Self, String> {
            Err("only Linux tells".to_owned())
        }

        /// Returns `None`.
        pub fn read(&mut self) -> Option<u64> {
            None
        }
    }
}
