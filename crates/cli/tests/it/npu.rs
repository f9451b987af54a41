//! Networks on a model of accelerators, from the command line.

use crate::program::Folder;

#[test]
fn layers_of_a_network_add_up() {
    let folder = Folder::new();
    let told = folder.dyno("npu layers RN --json").json();
    let layers = told["layers"].as_array().unwrap();
    assert_eq!((layers.len(), told["blocks"].as_u64()), (54, Some(54)));
    let sum = |key: &str| layers.iter().map(|layer| layer[key].as_f64().unwrap()).sum::<f64>();
    // The thesis' memory-centric NPU under MAESTRO's mapping: 1.696 ms.
    assert!((told["compute_us"].as_f64().unwrap() - 1696.0).abs() < 1.0, "{told}");
    assert!((told["compute_us"].as_f64().unwrap() - sum("compute_us")).abs() < 1e-3);
    assert!((told["fetch_us"].as_f64().unwrap() - sum("fetch_us")).abs() < 1e-3);
    assert_eq!(told["waits_for"], "compute");
}

#[test]
fn a_table_that_was_printed_is_read_again() {
    let folder = Folder::new();
    folder.write("bert.csv", &folder.dyno("npu layers BB --seq 16 --weight-bits 8 --csv").stdout);
    let times = |command: &str| folder.dyno(command).stdout;
    let direct = times("npu layers BB --seq 16 --weight-bits 8 --batch 4 --times");
    assert_eq!(times("npu layers bert.csv --batch 4 --times"), direct);
    // Its head, and 75 units.
    assert_eq!(direct.lines().count(), 76);
}

#[test]
fn an_npu_may_be_described() {
    let folder = Folder::new();
    folder.write("half.toml", "base = \"memory-centric\"\nmemory_gb_per_s = 112.5\n");
    let fetched = |npu: &str| {
        let told = folder.dyno(&format!("npu layers RN --npu {npu} --json")).json();
        told["fetch_us"].as_f64().unwrap()
    };
    let ratio = fetched("half.toml") / fetched("memory-centric");
    assert!((ratio - 2.0).abs() < 1e-3, "{ratio}");
}

#[test]
fn what_makes_no_sense_is_told_with_its_place() {
    let folder = Folder::new();
    folder.write("npu.toml", "base = \"tpu-v1\"\n\npess = 3\n");
    folder.write("bad.csv", "name,type,groups\nconv1,conv,-1\n");
    for (command, expected) in [
        (
            "RN --npu npu.toml",
            "npu.toml: line 3: `pess`: there is no such key; the nearest is `pes`",
        ),
        ("bad.csv", "bad.csv:1: `macs`: is missing"),
        ("RM", "there is no network `RM`; the nearest is `RN`"),
        ("RN --mapping kpc", "there is no mapping `kpc`"),
        ("RN --batch 0", "a batch of 0 samples"),
        ("RN --seq 3", "network `RN` has no sequence length"),
    ] {
        let ran = folder.dyno(&format!("npu layers {command}"));
        assert_eq!(ran.code, Some(2), "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{command}: {}", ran.stderr);
    }
}
