//! What a machine says of itself.

use std::fs;

use dyno_mlperf::package::capture;

use crate::made::folder::Folder;

fn machine(test: &str, files: &[(&str, &str)]) -> Folder {
    let scratch = Folder::new(test);
    for (path, text) in files {
        scratch.write(path, text);
    }
    scratch
}

/// A device has a card, a render node and connectors, perhaps several cards.
#[test]
fn a_device_counts_once_however_many_nodes_it_has() {
    let scratch = machine(
        "nodes",
        &[
            ("sys/devices/gpu/vendor", "0x1002"),
            ("sys/devices/gpu/product_name", "Some GPU"),
            ("sys/devices/gpu/mem_info_vram_total", "17179869184"),
        ],
    );
    for name in ["card0", "card1", "renderD128", "card0-DP-1"] {
        let node = scratch.path().join("sys/class/drm").join(name);
        fs::create_dir_all(&node).unwrap();
        std::os::unix::fs::symlink("../../../devices/gpu", node.join("device")).unwrap();
    }
    let fields = capture(scratch.path());
    assert_eq!(fields["accelerators_per_node"], 1);
    assert_eq!(fields["accelerator_memory_capacity"], "16 GB");
}

#[test]
fn two_sockets_with_an_accelerator_each_are_told() {
    let core = |processor, socket| {
        format!(
            "processor\t: {processor}\nmodel name\t: Some CPU @ 2.0GHz\ncpu MHz\t\t: 1999.5\n\
             physical id\t: {socket}\ncpu cores\t: 2\n\n"
        )
    };
    let cores: String = (0..8).map(|at| core(at, at / 4)).collect();
    let card = "Model: \t\t Some GPU\nIRQ: 5\n";
    let scratch = machine(
        "sockets",
        &[
            ("proc/cpuinfo", &cores),
            ("proc/meminfo", "MemTotal:       131072000 kB\nMemFree: 1 kB\n"),
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Some Linux 1\"\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/level", "1"),
            ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data"),
            ("sys/devices/system/cpu/cpu0/cache/index0/size", "48K"),
            ("sys/block/nvme0n1/size", "3907029168"),
            ("sys/block/nvme0n1/queue/rotational", "0"),
            ("sys/block/loop0/size", "99"),
            ("sys/class/net/eth0/device/vendor", "0x1"),
            ("sys/class/net/eth0/speed", "25000"),
            ("sys/class/net/eth1/device/vendor", "0x1"),
            ("sys/class/net/eth1/speed", "-1"),
            ("sys/class/net/lo/speed", "1"),
            ("sys/devices/system/edac/mc/mc0/dimm0/size", "65536"),
            ("sys/devices/system/edac/mc/mc0/dimm0/dimm_mem_type", "Registered-DDR5"),
            ("sys/devices/system/edac/mc/mc0/dimm1/size", "65536"),
            ("proc/driver/nvidia/gpus/0000:01/information", card),
            ("proc/driver/nvidia/gpus/0000:02/information", card),
        ],
    );
    let fields = capture(scratch.path());
    let expected = [
        ("host_processor_model_name", "Some CPU @ 2.0GHz".into()),
        ("host_processors_per_node", 2.into()),
        ("host_processor_core_count", 2.into()),
        ("host_processor_frequency", "2.00 GHz".into()),
        ("host_processor_caches", "L1d 48K".into()),
        ("host_memory_capacity", "125 GB".into()),
        ("host_memory_configuration", "2x 64 GB Registered-DDR5 with ECC".into()),
        ("operating_system", "Some Linux 1".into()),
        ("other_software_stack", "Linux 6.1.0".into()),
        ("host_storage_capacity", "2.00 TB".into()),
        ("host_storage_type", "NVMe SSD".into()),
        ("host_network_card_count", 2.into()),
        ("host_networking", "1x 25 Gbit/s".into()),
        ("accelerators_per_node", 2.into()),
        ("accelerator_model_name", "Some GPU".into()),
        ("number_of_nodes", 1.into()),
    ];
    let expected = expected.map(|(name, value): (_, serde_json::Value)| (name.to_owned(), value));
    assert_eq!(fields, expected.into());
}

#[test]
fn a_machine_that_tells_nothing_has_no_accelerator_and_one_node() {
    let scratch =
        machine("silent", &[("proc/cpuinfo", "\u{0}\n:\n"), ("proc/meminfo", "MemTotal:")]);
    let fields = capture(scratch.path());
    assert_eq!(fields["accelerators_per_node"], "0");
    assert_eq!(fields["accelerator_model_name"], "N/A");
    assert!(!fields.contains_key("host_memory_capacity"), "{fields:?}");
}
