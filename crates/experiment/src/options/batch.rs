//! Batch sizes: one for all scenarios, and sizes for single scenarios.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;

use dyno_loadgen::settings::Scenario;

use super::keys::{at_least_one, scenario};

/// Value of `--batch`: `32`, `Offline=64,Server=8`, or `32,Server=8`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchSizes {
    all: Option<NonZero<usize>>,
    by_scenario: BTreeMap<Scenario, NonZero<usize>>,
}

impl BatchSizes {
    /// Parses the value.
    ///
    /// # Errors
    /// A sentence fragment that begins with "expected", or a repeated scenario.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut sizes = Self::default();
        for part in text.split(',').map(str::trim) {
            let (name, is_new) = match part.split_once('=') {
                Some((name, size)) => {
                    let (scenario, size) = (scenario(name.trim())?, at_least_one(size.trim())?);
                    (scenario.name(), sizes.by_scenario.insert(scenario, size).is_none())
                }
                None => ("all", sizes.all.replace(at_least_one(part)?).is_none()),
            };
            if !is_new {
                return Err(format!("expected one size for {name}, found two in `{text}`"));
            }
        }
        Ok(sizes)
    }

    /// Returns the size in a scenario, if it is given.
    pub fn size(&self, scenario: Scenario) -> Option<NonZero<usize>> {
        self.by_scenario.get(&scenario).copied().or(self.all)
    }
}

impl fmt::Display for BatchSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all.iter().map(ToString::to_string);
        let of =
            self.by_scenario.iter().map(|(scenario, size)| format!("{}={size}", scenario.name()));
        f.write_str(&all.chain(of).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_all_scenarios_or_for_some() {
        let sizes = |text: &str| {
            let sizes = BatchSizes::parse(text).unwrap();
            let size = |scenario: &Scenario| sizes.size(*scenario).map_or(0, NonZero::get);
            let of: Vec<usize> = Scenario::ALL.iter().map(size).collect();
            (of, sizes.to_string())
        };
        assert_eq!(sizes("32"), (vec![32; 4], "32".into()));
        let some = sizes("server=8, Offline=64");
        assert_eq!(some, (vec![0, 0, 8, 64], "Server=8,Offline=64".into()));
        let rest = sizes("single-stream=1,16");
        assert_eq!(rest, (vec![1, 16, 16, 16], "16,SingleStream=1".into()));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |text: &str| BatchSizes::parse(text).unwrap_err();
        assert!(refused("0").starts_with("expected a number of at least 1"));
        assert!(refused("Offlin=3").contains("the nearest is Offline"));
        assert!(refused("Offline=").starts_with("expected a number"));
        assert!(refused("").starts_with("expected a number"));
        assert_eq!(refused("1,2"), "expected one size for all, found two in `1,2`");
        let twice = refused("server=1,Server=2");
        assert_eq!(twice, "expected one size for Server, found two in `server=1,Server=2`");
    }
}
