//! Placement of workers on the cores that this process may use.

use std::ops::RangeInclusive;

/// A logical core: what the system schedules one thread on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogicalCore {
    pub(super) number: usize,
    /// Lowest number of the logical cores of the same physical core.
    pub(super) physical: usize,
    /// NUMA node.
    pub(super) node: usize,
}

/// Returns logical cores for `workers` workers, besides the caller that runs on `caller`.
///
/// Workers have physical cores of their own if there are enough, the last ones first, and stay on
/// one node if it has a physical core for each worker and the caller: the caller's node before
/// others. Missing cores are `None`.
pub(super) fn place(
    cores: &[LogicalCore],
    workers: usize,
    caller: Option<usize>,
) -> Vec<Option<usize>> {
    let firsts = |node: Option<usize>| -> Vec<LogicalCore> {
        let mut firsts: Vec<LogicalCore> = Vec::new();
        for core in cores.iter().filter(|core| node.is_none_or(|node| core.node == node)) {
            if firsts.iter().all(|first| first.physical != core.physical) {
                firsts.push(*core);
            }
        }
        firsts
    };
    let own = cores.iter().find(|core| Some(core.number) == caller).map(|core| core.node);
    let others = cores.iter().rev().map(|core| core.node);
    let node = own.into_iter().chain(others).find(|node| firsts(Some(*node)).len() > workers);
    // The first physical core is left to the caller.
    let mut order: Vec<LogicalCore> = firsts(node).into_iter().skip(1).rev().collect();
    let chosen = |order: &[LogicalCore], core: &LogicalCore| order.contains(core);
    let rest: Vec<LogicalCore> =
        cores.iter().rev().filter(|core| !chosen(&order, core)).copied().collect();
    order.extend(rest);
    (0..workers).map(|at| order.get(at).map(|core| core.number)).collect()
}

/// Returns the logical cores that this thread may use.
#[cfg(target_os = "linux")]
pub(super) fn usable() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn usable() -> Vec<usize> {
    Vec::new()
}

/// Describes logical cores. A system that does not describe them is taken for one node of cores
/// without siblings.
#[cfg(target_os = "linux")]
pub(super) fn describe(cores: &[usize]) -> Vec<LogicalCore> {
    const SYSTEM: &str = "/sys/devices/system";
    let ranges = |path: String| ranges(&std::fs::read_to_string(path).unwrap_or_default());
    let mut nodes: Vec<(usize, Vec<RangeInclusive<usize>>)> = Vec::new();
    for entry in std::fs::read_dir(format!("{SYSTEM}/node")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok());
        if let Some(number) = number {
            nodes.push((number, ranges(format!("{SYSTEM}/node/node{number}/cpulist"))));
        }
    }
    let describe = |number: usize| {
        let siblings = ranges(format!("{SYSTEM}/cpu/cpu{number}/topology/thread_siblings_list"));
        let is_in = |(_, cores): &&(usize, Vec<RangeInclusive<usize>>)| {
            cores.iter().any(|range| range.contains(&number))
        };
        LogicalCore {
            number,
            physical: siblings.iter().map(|range| *range.start()).min().unwrap_or(number),
            node: nodes.iter().find(is_in).map_or(0, |(node, _)| *node),
        }
    };
    cores.iter().map(|number| describe(*number)).collect()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn describe(cores: &[usize]) -> Vec<LogicalCore> {
    cores.iter().map(|number| LogicalCore { number: *number, physical: *number, node: 0 }).collect()
}

/// Reads a list of the kernel such as `0-3,8`.
fn ranges(list: &str) -> Vec<RangeInclusive<usize>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).collect()
}

/// Returns the logical core that this thread runs on.
#[cfg(target_os = "linux")]
pub(super) fn current() -> Option<usize> {
    Some(rustix::thread::sched_getcpu())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn current() -> Option<usize> {
    None
}

/// Pins this thread to a logical core. A thread that may not use the core stays where it is.
#[cfg(target_os = "linux")]
pub(super) fn bind(core: usize) {
    use rustix::thread::{CpuSet, sched_setaffinity};
    if core < CpuSet::MAX_CPU {
        let mut set = CpuSet::new();
        set.set(core);
        let _ = sched_setaffinity(None, &set);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn bind(_core: usize) {}

/// Moves this thread off `cores`; returns false if it may use no other core. Its affinity is
/// restored afterwards, and with it that of threads that it starts.
#[cfg(target_os = "linux")]
pub(super) fn leave(cores: &[usize]) -> bool {
    use rustix::thread::{sched_getaffinity, sched_setaffinity};
    let Ok(usable) = sched_getaffinity(None) else { return true };
    let mut free = usable;
    cores.iter().for_each(|core| free.unset(*core));
    let is_moved = free.count() > 0 && sched_setaffinity(None, &free).is_ok();
    is_moved && sched_setaffinity(None, &usable).is_ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn leave(_cores: &[usize]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of two physical cores of two logical cores each, numbered as Linux does: siblings are
    /// half of all cores apart.
    fn machine(nodes: usize) -> Vec<LogicalCore> {
        let half = 2 * nodes;
        let core = |number: usize| {
            let physical = number % half;
            LogicalCore { number, physical, node: physical / 2 }
        };
        (0..2 * half).map(core).collect()
    }

    #[test]
    fn workers_have_physical_cores_of_their_own_first() {
        assert_eq!(place(&machine(1), 1, Some(0)), [Some(1)]);
        assert_eq!(place(&machine(1), 3, Some(0)), [Some(1), Some(3), Some(2)]);
        assert_eq!(place(&machine(1), 5, Some(0))[3..], [Some(0), None]);
        // Without siblings, the last cores in reverse order.
        let plain = describe(&[]).into_iter().chain((0..3).map(|number| LogicalCore {
            number,
            physical: number,
            node: 0,
        }));
        assert_eq!(place(&plain.collect::<Vec<_>>(), 2, None), [Some(2), Some(1)]);
    }

    #[test]
    fn workers_stay_on_the_node_of_the_caller_if_it_has_enough_cores() {
        assert_eq!(place(&machine(2), 1, Some(0)), [Some(1)]);
        assert_eq!(place(&machine(2), 1, Some(6)), [Some(3)]);
        // No node has three physical cores.
        assert_eq!(place(&machine(2), 2, Some(0)), [Some(3), Some(2)]);
    }

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(ranges("0-3,8\n"), [0..=3, 8..=8]);
        assert_eq!(ranges("\n"), []);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_the_cores_that_may_be_used() {
        let cores = usable();
        assert!(!cores.is_empty());
        let described: Vec<usize> = describe(&cores).iter().map(|core| core.number).collect();
        assert_eq!(described, cores);
    }
}
