//! From runs to a submission, its check and its tables.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::Folder;

/// Fields that only a human knows, or that a container hides.
pub const BOX: &str = r#"
[system]
host_processor_model_name = "Some processor"
host_memory_capacity = "8 GB"
host_memory_configuration = "2x 4 GB DDR5"
host_storage_capacity = "2 TB"
host_storage_type = "NVMe SSD"
host_networking = "1 Gbit/s Ethernet"
host_networking_topology = "N/A"
host_network_card_count = 1
accelerators_per_node = 0
accelerator_model_name = "N/A"
accelerator_memory_capacity = "N/A"
accelerator_memory_configuration = "N/A"
accelerator_host_interconnect = "N/A"
accelerator_interconnect = "N/A"
cooling = "<b>air</b>"
framework = "Some framework"
operating_system = "Some Linux"
other_software_stack = "Some driver"

[measurement]
input_data_types = "fp32"
retraining = "no"
starting_weights_filename = "weights.onnx"
weight_data_types = "fp32"
weight_transformations = "none"

[pages]
calibration = "Nothing is quantised."
code = "Beside this page."
"#;

const PACKAGE: &str = "package tree single --division open --submitter <i>Acme --system box --suite edge --infer \
     --describe box.toml";

/// A SingleStream run by the rules in virtual time, and its score by a script. The system is
/// faster than the round expects, so the run draws further queries. Dyno itself cannot judge its accuracy.
fn folder() -> Folder {
    let folder = Folder::new();
    folder
        .dyno(
            "run --system model:fixed=4ms --samples 43 --round v5.1 --benchmark 3d-unet-99 \
             --scenario single-stream --mode both --out single",
        )
        .exits(1);
    let accuracy = "single/SingleStream/accuracy/accuracy.txt";
    folder.write(accuracy, "Accuracy: mean = 0.96111\n");
    folder.write("box.toml", BOX);
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn a_run_becomes_a_submission_that_every_program_takes() {
    let folder = folder();
    // The runs name their round and benchmark.
    let out = folder.dyno(&format!("{PACKAGE} --benchmark own=")).exits(0).stdout;
    assert!(out.contains("Offline, inferred from SingleStream"), "{out}");
    assert!(out.contains("next: dyno check tree --round v5.1"), "{out}");
    let mapping: Value =
        serde_json::from_str(&folder.read("tree/open/<i>Acme/model_mapping.json")).unwrap();
    assert_eq!(mapping["own"], "3d-unet-99");
    for compat in ["", " --compat mono", " --compat modular"] {
        let out = folder.dyno(&format!("check tree --round v5.1{compat}")).exits(0).stdout;
        assert!(out.contains("VALID") && !out.contains("error["), "{compat}: {out}");
    }

    let report = "report --submission tree --round v5.1 --csv csv --json results.json";
    folder.dyno(report).exits(0);
    let page = folder.read("report.html");
    assert!(page.contains("&lt;i&gt;Acme") && !page.contains("<i>Acme"), "names are no markup");
    let results: Value = serde_json::from_str(&folder.read("results.json")).unwrap();
    assert!(results.to_string().contains("\"SingleStream\""), "{results}");
    let tables = fs::read_dir(folder.0.join("csv")).unwrap().flatten();
    let table = tables.map(|entry| fs::read_to_string(entry.path()).unwrap()).next().unwrap();
    assert!(
        table.contains("<i>Acme") && table.contains("3d-unet-99 Offline [Samples/s]"),
        "{table}"
    );

    // Duplicates count once, and the report shows that something is left out.
    let results = folder.0.join("tree/open/<i>Acme/results/box/own");
    let again = folder.0.join("tree/open/<i>Acme/results/box/own/offline");
    copy(&results.join("Offline"), &again);
    let twice = folder.dyno("check tree --round v5.1 --all").exits(1).stdout;
    assert!(twice.contains("warning[result.twice]"), "{twice}");
    let told = folder.dyno("report --submission tree --round v5.1").exits(0).stderr;
    assert!(told.contains("1 of 3 results are rejected"), "{told}");
}

#[test]
fn runs_that_do_not_say_their_round_need_the_flags() {
    let folder = Folder::new();
    folder
        .dyno("run --system model:fixed=1ms --scenario single-stream --duration 1s --out single")
        .exits(0);
    folder.write("box.toml", BOX);
    let refused = folder.dyno(&format!("{PACKAGE} --benchmark resnet")).exits(2).stderr;
    assert!(
        refused.contains("do not state their round") && refused.contains("--round"),
        "{refused}"
    );
    let refused = folder.dyno(&format!("{PACKAGE} --round v5.1")).exits(2).stderr;
    assert!(refused.contains("do not state their benchmark"), "{refused}");
    let missing = folder.dyno(&PACKAGE.replace(" single ", " absent ")).exits(3).stderr;
    assert!(missing.contains("cannot list the folder absent"), "{missing}");
    for foreign in ["[]", "7", "null", "{\"rules\": []}"] {
        folder.write("single/summary.json", foreign);
        let refused = folder.dyno(&format!("{PACKAGE} --benchmark resnet")).exits(2).stderr;
        assert!(refused.contains("do not state their round"), "{foreign}: {refused}");
    }
    assert!(!folder.0.join("tree").exists());
}

#[test]
fn what_is_in_the_way_is_told_with_a_way_out() {
    let folder = folder();
    folder
        .dyno(
            "run --system model:fixed=50ms --samples 1024 --round v5.1 --benchmark resnet \
             --scenario offline --mode both --out other",
        )
        .exits(1);
    folder.write("other/Offline/accuracy/accuracy.txt", "accuracy=76.5%, good=1, total=2\n");
    let open = "--division open --submitter Acme --system box";
    let told = folder.dyno(&format!("package tree single other --suite edge {open}")).exits(2);
    assert!(told.stderr.contains("single was run for 3d-unet-99 of v5.1"), "{}", told.stderr);
    assert!(told.stderr.contains("one benchmark at a time"), "{}", told.stderr);
    let told = folder.dyno(&format!("package single tree --suite edge {open}")).exits(2);
    assert!(told.stderr.contains("single is a run, not a submission tree"), "{}", told.stderr);

    // A field to fill in is reported once for all files that have it, and again if they are kept.
    let args = format!("package tree single --suite edge --infer {open}");
    let out = folder.dyno(&args).exits(0).stdout;
    assert_eq!(out.matches("retraining: yes or no").count(), 1, "{out}");
    assert!(out.contains("    and open/Acme/measurements/box/3d-unet-99/Offline/"), "{out}");
    let told = folder.dyno(&format!("package tree other --suite both {open}")).exits(2).stderr;
    assert!(told.contains("`system_type` is `edge` there, but --suite is"), "{told}");
    let out = folder.dyno(&format!("package tree other --suite edge {open}")).exits(0).stdout;
    assert!(out.contains("kept as it was: open/Acme/systems/box.json"), "{out}");
    assert!(out.contains("  cooling: air, liquid or passive"), "{out}");
    folder.write("box.toml", BOX);
    let args = "package tree other --suite edge --describe box.toml --benchmark own=rgat";
    let out = folder.dyno(&format!("{args} {open}")).exits(0).stdout;
    assert!(out.contains("completed: open/Acme/systems/box.json"), "{out}");
    assert!(out.contains("other was run for resnet of v5.1, and is submitted for rgat"), "{out}");
    assert!(!out.contains("fill in open/Acme/systems"), "{out}");
}

#[test]
fn a_killed_package_is_no_obstacle_and_a_running_one_is() {
    let folder = folder();
    let left = folder.0.join(".tree.partial");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("half"), "a copy").unwrap();
    let lock = fs::File::open(&left).unwrap();
    lock.lock().unwrap();
    let package = format!("{PACKAGE} --benchmark own=");
    let ran = folder.dyno(&package).exits(3);
    assert!(
        ran.stderr.contains("belongs to a package that is still being written"),
        "{}",
        ran.stderr
    );
    assert!(left.join("half").exists());
    // As its process ends.
    drop(lock);
    folder.dyno(&package).exits(0);
    assert!(!left.exists() && !folder.0.join("tree/half").exists());
}

#[test]
fn a_log_without_an_end_is_reported_and_not_read() {
    let folder = folder();
    folder.dyno(&format!("{PACKAGE} --benchmark own=")).exits(0);
    let log = "tree/open/<i>Acme/results/box/own/SingleStream/performance/run_1/\
               mlperf_log_detail.txt";
    // Sparse: it takes no space. Reading it would take minutes.
    let file = fs::File::options().write(true).open(folder.0.join(log)).unwrap();
    file.set_len(10 << 30).unwrap();
    let out = folder.dyno("check tree --round v5.1").exits(1).stdout;
    for id in ["error[submitter.file_size]", "error[performance.readable]"] {
        assert!(out.contains(id), "{out}");
    }
}

#[test]
fn a_tree_has_tables_of_its_published_results_and_candidates_of_audits() {
    let folder = folder();
    folder.dyno(&PACKAGE.replace("<i>", "")).exits(0);
    let shown = folder.dyno("report --submission tree --round v5.1 --published").exits(0).stdout;
    let divisions = "v5.1, closed division: 0 results of 0 systems; open division: ";
    let counts = shown.strip_prefix(divisions).unwrap_or_else(|| panic!("{shown}"));
    assert!(!counts.starts_with('0'), "{shown}");
    assert!(shown.contains("Results by model and scenario"), "{shown}");
    let audits = "check tree --round v5.1 --audit-candidates tree --previous-round v5.1";
    let ran = folder.dyno(&format!("{audits} --audit-seed 7"));
    assert!(ran.stdout.contains("Draw with seed 7"), "{}{}", ran.stdout, ran.stderr);
    folder.write("tree/stray.txt", "A file in the root rejects all results.\n");
    let rejected = folder.dyno(audits).exits(1).stdout;
    assert!(rejected.contains("not valid, so"), "{rejected}");
    let unknown = folder.dyno(&format!("{audits} --audited Nobody/box")).exits(2);
    assert!(unknown.stderr.contains("Nobody/box"), "{}", unknown.stderr);
    let none = audits.replace("candidates tree", "candidates none");
    let missing = folder.dyno(&none).exits(3).stderr;
    assert!(missing.contains("cannot list the folder none"), "{missing}");
}
