//! Reads properties of a machine as fields of a system description.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::accelerators;

/// Values by field name of a system description.
pub type Fields = BTreeMap<String, Value>;

/// Reads the properties that Linux provides below `root`, which is `/` except in tests. Unknown
/// properties are omitted.
pub fn capture(root: &Path) -> Fields {
    let machine = Machine { root };
    let mut fields = Fields::new();
    machine.processor(&mut fields);
    machine.memory(&mut fields);
    machine.software(&mut fields);
    machine.storage(&mut fields);
    machine.network(&mut fields);
    accelerators::capture(&machine, &mut fields);
    fields.insert("number_of_nodes".into(), 1.into());
    fields
}

/// Returns a count as a value. Zero is a text, because the official checkers treat the number 0
/// as missing.
pub(super) fn count(number: usize) -> Value {
    if number == 0 { "0".into() } else { number.into() }
}

/// Files of a Linux system.
pub(super) struct Machine<'a> {
    pub(super) root: &'a Path,
}

impl Machine<'_> {
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = fs::read(self.root.join(path)).ok()?;
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// Returns the entries of a folder relative to the root, sorted.
    pub(super) fn list(&self, folder: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|e| Path::new(folder).join(e.file_name())).collect();
        paths.sort();
        paths
    }

    fn processor(&self, fields: &mut Fields) {
        let Some(text) = self.text("proc/cpuinfo") else { return };
        let values = |name: &str| -> Vec<&str> {
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim()).collect()
        };
        if let Some(model) = values("model name").first() {
            fields.insert("host_processor_model_name".into(), (*model).into());
        }
        let sockets = values("physical id").into_iter().collect::<BTreeSet<_>>().len().max(1);
        let threads = values("processor").len();
        let cores = values("cpu cores").first().and_then(|cores| cores.parse().ok());
        fields.insert("host_processors_per_node".into(), sockets.into());
        fields.insert(
            "host_processor_core_count".into(),
            cores.unwrap_or(threads / sockets).max(1).into(),
        );
        if sockets == 1 {
            fields.insert("host_processor_interconnect".into(), "N/A".into());
        }
        let greatest = self.number("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
        let now = values("cpu MHz").first().and_then(|mhz| mhz.parse::<f64>().ok());
        let frequency = match (greatest, now) {
            (Some(khz), _) => Some(format!("{:.2} GHz at most", khz as f64 / 1e6)),
            (None, Some(mhz)) => Some(format!("{:.2} GHz", mhz / 1e3)),
            (None, None) => None,
        };
        if let Some(frequency) = frequency {
            fields.insert("host_processor_frequency".into(), frequency.into());
        }
        let caches = self.caches();
        if !caches.is_empty() {
            fields.insert("host_processor_caches".into(), caches.into());
        }
    }

    /// Formats the caches of the first core, such as `L1d 48K, L1i 32K, L2 2048K, L3 107520K`.
    fn caches(&self) -> String {
        let cache = |folder: PathBuf| {
            let level = self.text(folder.join("level"))?;
            let kind = match self.text(folder.join("type"))?.as_str() {
                "Data" => "d",
                "Instruction" => "i",
                _ => "",
            };
            Some(format!("L{level}{kind} {}", self.text(folder.join("size"))?))
        };
        let folders = self.list("sys/devices/system/cpu/cpu0/cache");
        folders.into_iter().filter_map(cache).collect::<Vec<_>>().join(", ")
    }

    fn memory(&self, fields: &mut Fields) {
        let text = self.text("proc/meminfo").unwrap_or_default();
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        if let Some(kib) = kib {
            let gib = kib.div_ceil(1 << 20);
            fields.insert("host_memory_capacity".into(), format!("{gib} GB").into());
        }
        // The kernel lists modules only if the memory has ECC.
        let controllers = self.list("sys/devices/system/edac/mc");
        let modules = controllers.iter().flat_map(|mc| self.list(&mc.to_string_lossy()));
        let sizes: Vec<(u64, Option<String>)> = modules
            .filter_map(|module| {
                let mib = self.number(module.join("size"))?;
                (mib > 0).then(|| (mib, self.text(module.join("dimm_mem_type"))))
            })
            .collect();
        if let Some((mib, kind)) = sizes.first() {
            let kind = kind.as_deref().unwrap_or("memory");
            let text = format!("{}x {} GB {kind} with ECC", sizes.len(), mib.div_ceil(1_024));
            fields.insert("host_memory_configuration".into(), text.into());
        }
    }

    fn software(&self, fields: &mut Fields) {
        let release = self.text("etc/os-release").unwrap_or_default();
        let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        let kernel = self.text("proc/sys/kernel/osrelease");
        let system = match (name, &kernel) {
            (Some(name), _) => Some(name.trim_matches('"').to_owned()),
            (None, Some(kernel)) => Some(format!("Linux {kernel}")),
            (None, None) => None,
        };
        if let Some(system) = system {
            fields.insert("operating_system".into(), system.into());
        }
        if let Some(kernel) = kernel {
            fields.insert("other_software_stack".into(), format!("Linux {kernel}").into());
        }
    }

    fn storage(&self, fields: &mut Fields) {
        let is_disk = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let others = ["loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd"];
            !others.iter().any(|other| name.starts_with(other))
        };
        let mut bytes = 0;
        let mut kinds = BTreeSet::new();
        for disk in self.list("sys/block").into_iter().filter(is_disk) {
            // Linux counts units of 512 bytes, regardless of the sector size.
            let size = self.number(disk.join("size")).unwrap_or(0).saturating_mul(512);
            if size == 0 {
                continue;
            }
            bytes += size;
            let name = disk.file_name().unwrap_or_default().to_string_lossy();
            let rotates = self.number(disk.join("queue/rotational")) == Some(1);
            kinds.insert(if name.starts_with("nvme") {
                "NVMe SSD"
            } else if name.starts_with("vd") || name.starts_with("xvd") {
                "virtual disk"
            } else if rotates {
                "HDD"
            } else {
                "SSD"
            });
        }
        if bytes > 0 {
            let capacity = match bytes as f64 / 1e9 {
                gb if gb >= 1e3 => format!("{:.2} TB", gb / 1e3),
                gb => format!("{gb:.0} GB"),
            };
            fields.insert("host_storage_capacity".into(), capacity.into());
            let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
            fields.insert("host_storage_type".into(), kinds.into());
        }
    }

    fn network(&self, fields: &mut Fields) {
        let cards = self.list("sys/class/net").into_iter();
        // Virtual interfaces have no device.
        let cards: Vec<_> =
            cards.filter(|card| self.root.join(card).join("device").exists()).collect();
        if cards.is_empty() {
            return;
        }
        fields.insert("host_network_card_count".into(), count(cards.len()));
        let mut speeds = BTreeMap::<u64, usize>::new();
        for card in &cards {
            // The speed is -1 if there is no link.
            if let Some(mbit) = self.number(card.join("speed")).filter(|&mbit| mbit > 0) {
                *speeds.entry(mbit).or_default() += 1;
            }
        }
        let cards = speeds.iter().rev().map(|(mbit, cards)| match mbit {
            1_000.. => format!("{cards}x {} Gbit/s", *mbit as f64 / 1e3),
            _ => format!("{cards}x {mbit} Mbit/s"),
        });
        let text = cards.collect::<Vec<_>>().join(", ");
        if !text.is_empty() {
            fields.insert("host_networking".into(), text.into());
        }
    }
}
