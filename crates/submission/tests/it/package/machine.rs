//! Capture of a machine's properties.

use std::fs;

use dyno_submission::package::capture;

use crate::made::folder::Folder;

fn machine(test: &str, files: &[(&str, &str)]) -> Folder {
    let scratch = Folder::new(test);
    for (path, text) in files {
        scratch.write(path, text);
    }
    scratch
}

/// A device has a card, a render node and connectors, possibly several cards.
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
fn a_machine_that_tells_nothing_is_not_said_to_have_no_accelerator() {
    let scratch =
        machine("silent", &[("proc/cpuinfo", "\u{0}\n:\n"), ("proc/meminfo", "MemTotal:")]);
    let fields = capture(scratch.path());
    assert_eq!(fields["number_of_nodes"], 1);
    for unknown in ["accelerators_per_node", "accelerator_model_name", "host_memory_capacity"] {
        assert!(!fields.contains_key(unknown), "{fields:?}");
    }
}

/// Files of a PCI device: class, vendor, device id.
fn on_bus(place: &str, [class, vendor, device]: [&str; 3]) -> [(String, String); 3] {
    let file = |name: &str, text: &str| {
        (format!("sys/bus/pci/devices/{place}/{name}"), format!("0x{text}\n"))
    };
    [file("class", class), file("vendor", vendor), file("device", device)]
}

fn bus(test: &str, devices: &[[&str; 3]]) -> Folder {
    let files = devices.iter().enumerate().flat_map(|(at, device)| {
        let place = format!("0000:00:{at:02}.0");
        on_bus(&place, *device)
    });
    let files: Vec<_> = files.collect();
    let files: Vec<_> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    machine(test, &files)
}

const NETWORK: [&str; 3] = ["020000", "1ae0", "0042"];

#[test]
fn that_there_is_no_accelerator_is_said_of_a_bus_that_has_none() {
    // A network card of an accelerator vendor, and the consoles of a server and of a virtual
    // machine.
    let scratch = bus("none", &[NETWORK, ["030000", "1a03", "2000"], ["038000", "1af4", "1050"]]);
    let fields = capture(scratch.path());
    assert_eq!(fields["accelerators_per_node"], "0");
    assert_eq!(fields["accelerator_interconnect"], "N/A");
}

#[test]
fn accelerators_of_every_maker_are_found_on_the_bus() {
    for (device, expected) in [
        (["120000", "1da3", "1020"], "2x Habana Labs (PCI 1da3:1020)"),
        (["ff0000", "1ae0", "0063"], "2x Google (PCI 1ae0:0063)"),
        (["120000", "17cb", "a100"], "2x Qualcomm (PCI 17cb:a100)"),
        (["088000", "1d0f", "7264"], "2x Amazon (PCI 1d0f:7264)"),
        (["038000", "8086", "0bd5"], "2x Intel (PCI 8086:0bd5)"),
        // NVIDIA's driver is not installed.
        (["030200", "10de", "2330"], "2x NVIDIA (PCI 10de:2330)"),
        (["120000", "feed", "0001"], "2x PCI feed:0001"),
    ] {
        let scratch = bus(device[1], &[NETWORK, device, device]);
        let fields = capture(scratch.path());
        let model = fields["accelerator_model_name"].as_str().unwrap();
        assert!(model.starts_with("FILL IN: ") && model.contains(expected), "{model}");
        // Display devices may not compute.
        let count = &fields["accelerators_per_node"];
        match device[0] {
            "038000" => assert!(count.as_str().unwrap().starts_with("FILL IN"), "{count}"),
            _ => assert_eq!(*count, 2),
        }
        assert!(!fields.contains_key("accelerator_interconnect"), "{fields:?}");
    }
}

#[test]
fn the_list_of_devices_tells_their_names() {
    let scratch = bus("list", &[["120000", "1da3", "1020"]]);
    let list = scratch.path().join("usr/share/misc/pci.ids");
    fs::create_dir_all(list.parent().unwrap()).unwrap();
    fs::write(
        list,
        "# made\n0bad  Other\n\t1020  Wrong\n1da3  Some Maker\n\t1000  Other\n\
         \t1020  Some Model\n\t\t1da3 0001  Some Board\nffff  Last\n",
    )
    .unwrap();
    let fields = capture(scratch.path());
    let model = fields["accelerator_model_name"].as_str().unwrap();
    assert!(model.ends_with("1x Some Maker Some Model (PCI 1da3:1020)"), "{model}");
}

/// Driver, bus and kernel report the same devices. A device has virtual functions, and some
/// devices are not on the bus.
#[test]
fn an_accelerator_counts_once_whoever_tells_of_it() {
    let scratch = bus(
        "once",
        &[["030200", "10de", "2330"], ["120000", "1da3", "1020"], ["120000", "1da3", "1020"]],
    );
    let root = scratch.path();
    let information = root.join("proc/driver/nvidia/gpus/0000:00:00.0/information");
    fs::create_dir_all(information.parent().unwrap()).unwrap();
    fs::write(information, "Model: \t\t Some GPU\n").unwrap();
    let bus = root.join("sys/bus/pci/devices");
    std::os::unix::fs::symlink("../0000:00:01.0", bus.join("0000:00:02.0/physfn")).unwrap();
    let link = |node: &str, device: &str| {
        let node = root.join("sys/class").join(node);
        fs::create_dir_all(&node).unwrap();
        std::os::unix::fs::symlink(device, node.join("device")).unwrap();
    };
    link("accel/accel0", "../../../bus/pci/devices/0000:00:01.0");
    let fields = capture(root);
    assert_eq!(fields["accelerators_per_node"], 2);
    let model = fields["accelerator_model_name"].as_str().unwrap();
    assert!(model.ends_with("1x Some GPU, 1x Habana Labs (PCI 1da3:1020)"), "{model}");

    let soc = root.join("sys/devices/gpu");
    fs::create_dir_all(&soc).unwrap();
    fs::write(soc.join("uevent"), "DRIVER=asahi\nOF_COMPATIBLE_0=apple,agx-g13g\n").unwrap();
    link("drm/card0", "../../../devices/gpu");
    link("drm/renderD128", "../../../devices/gpu");
    let fields = capture(root);
    let model = fields["accelerator_model_name"].as_str().unwrap();
    assert!(model.contains("1x apple,agx-g13g"), "{model}");
    let count = fields["accelerators_per_node"].as_str().unwrap();
    assert!(count.contains("of 3 devices"), "{count}");
}
