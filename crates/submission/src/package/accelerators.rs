//! The accelerators of a machine. Drivers tell the names of some; of others the bus and
//! the kernel tell that they are there, which a human must name. That there is none is
//! said only where the bus was read and has nothing of that kind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::capture::{Fields, Machine, count};
use super::describe::marker;
use super::runs::name_of;

/// What a machine without accelerators has nothing to say to.
const FIELDS: [&str; 5] = [
    "accelerator_model_name",
    "accelerator_memory_capacity",
    "accelerator_host_interconnect",
    "accelerator_memory_configuration",
    "accelerator_interconnect",
];

/// Makers of accelerators, by their number on the bus. Where the machine has the list
/// of all devices, that counts.
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

/// Accelerators whose class says something else, as those of Amazon and Google do.
const OTHER_CLASS: [(&str, &[&str]); 3] = [
    ("1ac1", &["089a"]),
    ("1ae0", &["0027", "0056", "005e", "0062", "0063", "006f", "0076"]),
    ("1d0f", &["7064", "7164", "7264", "7364"]),
];

/// Makers of display controllers that show the console of a server or of a virtual
/// machine, and compute nothing.
const CONSOLES: [&str; 9] =
    ["1013", "102b", "1234", "1414", "15ad", "18ca", "1a03", "1af4", "1b36"];

/// Lists of all devices on the bus, where distributions put them.
const DEVICE_LISTS: [&str; 3] =
    ["usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids", "usr/share/pci.ids"];

/// How sure it is that something computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It does nothing else.
    Accelerator,
    /// It shows pictures, and may compute.
    Display,
}

/// What was found.
#[derive(Debug, Default)]
struct Found {
    /// As a driver calls it, with its memory in bytes if that is told.
    named: Vec<(String, Option<u64>)>,
    /// As the bus or the kernel calls it.
    unnamed: Vec<(String, Kind)>,
    /// Their folders below `/sys/devices`, so that none counts twice.
    seen: BTreeSet<PathBuf>,
    /// Whether there is a bus to look at.
    has_bus: bool,
}

/// Adds the fields of accelerators.
pub(super) fn capture(machine: &Machine<'_>, fields: &mut Fields) {
    let mut found = Found::default();
    found.nvidia(machine);
    found.amd(machine);
    found.bus(machine);
    found.kernel(machine);
    found.describe(fields);
}

impl Found {
    /// What the driver of NVIDIA lists, by the place on the bus.
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

    /// Cards of AMD that have a name.
    fn amd(&mut self, machine: &Machine<'_>) {
        // Besides the cards there are their connectors and render nodes.
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

    /// What is of a class that computes, or may.
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
            // A part of a device for a virtual machine, beside the whole.
            let is_part = machine.root.join(&device).join("physfn").exists();
            let Some(kind) = kind(&class, &vendor, &id).filter(|_| !is_part) else { continue };
            if self.is_new(machine, &device) {
                let names = names.get_or_insert_with(|| device_list(machine));
                self.unnamed.push((called(names, &vendor, &id), kind));
            }
        }
    }

    /// What the kernel knows to compute, or to draw, wherever it is connected.
    fn kernel(&mut self, machine: &Machine<'_>) {
        for (class, kind) in
            [("sys/class/accel", Kind::Accelerator), ("sys/class/drm", Kind::Display)]
        {
            for node in machine.list(class) {
                let device = node.join("device");
                let uevent = machine.text(device.join("uevent")).unwrap_or_default();
                let said = |key: &str| uevent.lines().find_map(|line| line.strip_prefix(key));
                // What is on the bus was judged there.
                let is_render_node = name_of(&node).starts_with("renderD");
                let is_judged = said("PCI_ID=").is_some() || said("MODALIAS=virtio:").is_some();
                if kind == Kind::Display && (!is_render_node || is_judged) {
                    continue;
                }
                let name = said("OF_COMPATIBLE_0=").or(said("DRIVER="));
                let name = name.map_or_else(|| name_of(&node).to_owned(), str::to_owned);
                if self.is_new(machine, &device) {
                    self.unnamed.push((name, kind));
                }
            }
        }
    }

    /// Whether a device was not seen before; nodes of the system link to it.
    fn is_new(&mut self, machine: &Machine<'_>, device: &Path) -> bool {
        let real = machine.root.join(device);
        self.seen.insert(real.canonicalize().unwrap_or(real))
    }

    fn describe(self, fields: &mut Fields) {
        let unnamed = counted(self.unnamed.iter().map(|(name, _)| name.as_str()));
        let is_sure = self.unnamed.iter().all(|(_, kind)| *kind == Kind::Accelerator);
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
            let or = if is_sure { "" } else { ", or N/A if it computes nothing" };
            let what = format!("as its maker calls it{or}; there is {all}");
            fields.insert(model.into(), marker(&what));
        }
        let number = if is_sure {
            count(total)
        } else {
            marker(&format!("those of {total} devices that compute, or the text 0"))
        };
        fields.insert("accelerators_per_node".into(), number);
    }
}

/// What a class of the bus is, or a device that hides behind another.
fn kind(class: &str, vendor: &str, device: &str) -> Option<Kind> {
    let is_other = OTHER_CLASS.iter().any(|(v, ids)| *v == vendor && ids.contains(&device));
    match class {
        _ if is_other => Some(Kind::Accelerator),
        // 3D controllers, which have no connector, and processing accelerators.
        _ if class.starts_with("0302") || class.starts_with("12") => Some(Kind::Accelerator),
        _ if class.starts_with("03") && !CONSOLES.contains(&vendor) => Some(Kind::Display),
        _ => None,
    }
}

/// Each name with how often it is there, such as `2x Some GPU, 1x Other GPU`.
fn counted<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    let each = counts.iter().map(|(name, count)| format!("{count}x {name}"));
    each.collect::<Vec<_>>().join(", ")
}

/// The machine's list of all devices, or nothing.
fn device_list(machine: &Machine<'_>) -> String {
    DEVICE_LISTS.iter().find_map(|list| machine.text(list)).unwrap_or_default()
}

/// What the list calls a device, or as much as is known without one.
fn called(list: &str, vendor: &str, device: &str) -> String {
    let mut lines = list.lines().skip_while(|line| !is_of(line, vendor));
    let maker = lines.next().and_then(|line| line.get(4..)).map(str::trim);
    let model = lines
        .take_while(|line| line.starts_with(['\t', '#']))
        .find_map(|line| line.strip_prefix('\t').filter(|line| is_of(line, device)));
    let model = model.and_then(|line| line.get(4..)).map(str::trim);
    let known = || MAKERS.iter().find(|(number, _)| *number == vendor).map(|(_, name)| *name);
    let words = [maker.or_else(known), model].into_iter().flatten();
    let name = words.collect::<Vec<_>>().join(" ");
    if name.is_empty() {
        format!("PCI {vendor}:{device}")
    } else {
        format!("{name} (PCI {vendor}:{device})")
    }
}

/// Whether a line of the list is of this number.
fn is_of(line: &str, number: &str) -> bool {
    line.strip_prefix(number).is_some_and(|rest| rest.starts_with("  "))
}
