//! Detects the accelerators of a machine. Drivers provide the names of some. Others appear only
//! on the bus or in the kernel, and the submitter must name them. Fields state that there is no
//! accelerator only if the bus was read and has none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::capture::{Fields, Machine, count};
use super::describe::marker;
use super::runs::name_of;

/// Fields that do not apply to machines without accelerators.
const FIELDS: [&str; 5] = [
    "accelerator_model_name",
    "accelerator_memory_capacity",
    "accelerator_host_interconnect",
    "accelerator_memory_configuration",
    "accelerator_interconnect",
];

/// Names of accelerator vendors, by PCI vendor id. The machine's own device list takes
/// precedence.
const MAKERS: [(&str, &str); 9] = [
    ("1002", "AMD"),
    ("106b", "Apple"),
    ("10de", "NVIDIA"),
    ("17cb", "Qualcomm"),
    ("1ac1", "Google Edge TPU"),
    ("1ae0", "Google"),
    ("1d0f", "Amazon"),
    ("1da3", "Habana Labs"),
    ("8086", "Intel"),
];

/// Accelerators with an unrelated PCI class, such as those of Amazon and Google: vendor id and
/// device ids.
const OTHER_CLASS: [(&str, &[&str]); 3] = [
    ("1ac1", &["089a"]),
    ("1ae0", &["0027", "0056", "005e", "0062", "0063", "006f", "0076"]),
    ("1d0f", &["7064", "7164", "7264", "7364"]),
];

/// Vendor ids of display controllers for server consoles and virtual machines, which do not
/// compute.
const CONSOLES: [&str; 9] =
    ["1013", "102b", "1234", "1414", "15ad", "18ca", "1a03", "1af4", "1b36"];

/// Paths of the PCI device list in common distributions.
const DEVICE_LISTS: [&str; 3] =
    ["usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids", "usr/share/pci.ids"];

/// Kind of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeviceKind {
    /// Only computes.
    Accelerator,
    /// Drives a display, and may compute.
    Display,
}

/// Detected devices.
#[derive(Debug, Default)]
struct Accelerators {
    /// Names from a driver, with the memory in bytes if known.
    named: Vec<(String, Option<u64>)>,
    /// Devices without a driver name: name on the bus or in the kernel.
    unnamed: Vec<(String, DeviceKind)>,
    /// Paths below `/sys/devices`, to count each device once.
    known: BTreeSet<PathBuf>,
    /// Whether a PCI bus exists.
    has_bus: bool,
}

/// Adds the fields of accelerators.
pub(super) fn capture(machine: &Machine<'_>, fields: &mut Fields) {
    let mut found = Accelerators::default();
    found.nvidia(machine);
    found.amd(machine);
    found.bus(machine);
    found.kernel(machine);
    found.describe(fields);
}

impl Accelerators {
    /// Adds the devices that NVIDIA's driver lists by bus address.
    fn nvidia(&mut self, machine: &Machine<'_>) {
        for folder in machine.list("proc/driver/nvidia/gpus") {
            let text = machine.text(folder.join("information")).unwrap_or_default();
            let model = text.lines().find_map(|line| line.strip_prefix("Model:"));
            let Some(model) = model else { continue };
            self.named.push((model.trim().to_owned(), None));
            let device = Path::new("sys/bus/pci/devices").join(name_of(&folder));
            self.is_new(machine, &device);
        }
    }

    /// Adds AMD cards that have a product name.
    fn amd(&mut self, machine: &Machine<'_>) {
        // The folder also lists connectors and render nodes.
        let is_card = |path: &PathBuf| {
            let number = name_of(path).strip_prefix("card");
            number.is_some_and(|number| number.parse::<u64>().is_ok())
        };
        for card in machine.list("sys/class/drm").into_iter().filter(is_card) {
            let device = card.join("device");
            if machine.text(device.join("vendor")).as_deref() == Some("0x1002")
                && let Some(name) = machine.text(device.join("product_name"))
                // A device may have several cards.
                && self.is_new(machine, &device)
            {
                self.named.push((name, machine.number(device.join("mem_info_vram_total"))));
            }
        }
    }

    /// Adds PCI devices of a class that computes or may compute.
    fn bus(&mut self, machine: &Machine<'_>) {
        let bus = "sys/bus/pci/devices";
        self.has_bus = machine.root.join(bus).is_dir();
        let mut names = None;
        for device in machine.list(bus) {
            let hex = |file: &str| {
                let text = machine.text(device.join(file))?;
                Some(text.strip_prefix("0x").unwrap_or(&text).to_lowercase())
            };
            let [Some(class), Some(vendor), Some(id)] = ["class", "vendor", "device"].map(hex)
            else {
                continue;
            };
            // A virtual function is part of another device.
            let is_part = machine.root.join(&device).join("physfn").exists();
            let Some(kind) = kind(&class, &vendor, &id).filter(|_| !is_part) else { continue };
            if self.is_new(machine, &device) {
                let names = names.get_or_insert_with(|| device_list(machine));
                self.unnamed.push((device_name(names, &vendor, &id), kind));
            }
        }
    }

    /// Adds devices of the kernel's compute and display classes on any bus.
    fn kernel(&mut self, machine: &Machine<'_>) {
        for (class, kind) in
            [("sys/class/accel", DeviceKind::Accelerator), ("sys/class/drm", DeviceKind::Display)]
        {
            for node in machine.list(class) {
                let device = node.join("device");
                let uevent = machine.text(device.join("uevent")).unwrap_or_default();
                let value = |key: &str| uevent.lines().find_map(|line| line.strip_prefix(key));
                // PCI devices were handled with the bus.
                let is_render_node = name_of(&node).starts_with("renderD");
                let is_judged = value("PCI_ID=").is_some() || value("MODALIAS=virtio:").is_some();
                if kind == DeviceKind::Display && (!is_render_node || is_judged) {
                    continue;
                }
                let name = value("OF_COMPATIBLE_0=").or(value("DRIVER="));
                let name = name.map_or_else(|| name_of(&node).to_owned(), str::to_owned);
                if self.is_new(machine, &device) {
                    self.unnamed.push((name, kind));
                }
            }
        }
    }

    /// Whether a device is new. Nodes of the system link to devices.
    fn is_new(&mut self, machine: &Machine<'_>, device: &Path) -> bool {
        let real = machine.root.join(device);
        self.known.insert(real.canonicalize().unwrap_or(real))
    }

    fn describe(self, fields: &mut Fields) {
        let unnamed = counted(self.unnamed.iter().map(|(name, _)| name.as_str()));
        let is_sure = self.unnamed.iter().all(|(_, kind)| *kind == DeviceKind::Accelerator);
        let total = self.named.len() + self.unnamed.len();
        let model = "accelerator_model_name";
        if total == 0 {
            if self.has_bus {
                fields.insert("accelerators_per_node".into(), count(0));
                fields.extend(FIELDS.map(|field| (field.to_owned(), "N/A".into())));
            }
            return;
        }
        if self.unnamed.is_empty() {
            let names: Vec<&str> = self.named.iter().map(|(name, _)| name.as_str()).collect();
            let is_one = names.iter().all(|name| *name == names[0]);
            let all = if is_one { names[0].to_owned() } else { counted(names) };
            fields.insert(model.into(), all.into());
            if let Some(bytes) = self.named[0].1.filter(|_| is_one) {
                let gib = bytes.div_ceil(1 << 30);
                fields.insert("accelerator_memory_capacity".into(), format!("{gib} GB").into());
            }
        } else {
            let named = counted(self.named.iter().map(|(name, _)| name.as_str()));
            let all = [named, unnamed].into_iter().filter(|text| !text.is_empty());
            let all = all.collect::<Vec<_>>().join(", ");
            let alternative = if is_sure { "" } else { ", or N/A if it does not compute" };
            let what = format!("the manufacturer's name{alternative}; found {all}");
            fields.insert(model.into(), marker(&what));
        }
        let number = if is_sure {
            count(total)
        } else {
            marker(&format!("how many of {total} devices compute, or the text 0"))
        };
        fields.insert("accelerators_per_node".into(), number);
    }
}

/// Returns the kind of a device from its PCI class, or from its ids if the class is unrelated.
fn kind(class: &str, vendor: &str, device: &str) -> Option<DeviceKind> {
    let is_other = OTHER_CLASS.iter().any(|(v, ids)| *v == vendor && ids.contains(&device));
    match class {
        _ if is_other => Some(DeviceKind::Accelerator),
        // 3D controllers without a connector, and processing accelerators.
        _ if class.starts_with("0302") || class.starts_with("12") => Some(DeviceKind::Accelerator),
        _ if class.starts_with("03") && !CONSOLES.contains(&vendor) => Some(DeviceKind::Display),
        _ => None,
    }
}

/// Formats names with their counts, such as `2x Some GPU, 1x Other GPU`.
fn counted<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    let each = counts.iter().map(|(name, count)| format!("{count}x {name}"));
    each.collect::<Vec<_>>().join(", ")
}

/// Returns the machine's PCI device list, or an empty text.
fn device_list(machine: &Machine<'_>) -> String {
    DEVICE_LISTS.iter().find_map(|list| machine.text(list)).unwrap_or_default()
}

/// Returns the name of a device from the list, or its ids.
fn device_name(list: &str, vendor: &str, device: &str) -> String {
    let mut lines = list.lines().skip_while(|line| !has_id(line, vendor));
    let maker = lines.next().and_then(|line| line.get(4..)).map(str::trim);
    let model = lines
        .take_while(|line| line.starts_with(['\t', '#']))
        .find_map(|line| line.strip_prefix('\t').filter(|line| has_id(line, device)));
    let model = model.and_then(|line| line.get(4..)).map(str::trim);
    let maker_name = || MAKERS.iter().find(|(number, _)| *number == vendor).map(|(_, name)| *name);
    let words = [maker.or_else(maker_name), model].into_iter().flatten();
    let name = words.collect::<Vec<_>>().join(" ");
    if name.is_empty() {
        format!("PCI {vendor}:{device}")
    } else {
        format!("{name} (PCI {vendor}:{device})")
    }
}

/// Whether a line of the list has this id.
fn has_id(line: &str, number: &str) -> bool {
    line.strip_prefix(number).is_some_and(|rest| rest.starts_with("  "))
}
