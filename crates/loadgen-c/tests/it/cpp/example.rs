//! The example in C++ runs: a harness with a batcher, devices and threads that
//! complete, written for the reference's interface alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{LIBRARIES, WARNINGS, has_tool, include, installed};
use crate::logs::{accuracy, detail, grave};
use crate::program::{folder, output, run};

const SCENARIOS: [&str; 4] = ["SingleStream", "MultiStream", "Server", "Offline"];

/// In the data set, and loaded at once in a performance run.
const SAMPLES: [(&str, usize); 2] = [("--samples", 300), ("--performance-samples", 64)];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The program; `None` where it cannot be built.
fn classifier() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let installed = installed()?;
        let program = folder("cpp-example").join("classifier");
        let sources = ["main.cc", "classifier.cc", "images.cc"];
        let mut command = installed.compiler.command();
        command
            .args(["-std=c++14", "-O2"])
            .args(WARNINGS)
            .arg("-I")
            .arg(include(&installed.prefix));
        command.args(sources.map(|name| examples().join("cpp").join(name)));
        command.arg(installed.prefix.join("lib/libmlperf_loadgen.a")).args(LIBRARIES);
        output(command.arg("-o").arg(&program));
        Some(program)
    };
    BUILT.get_or_init(build).as_deref()
}

/// Runs the program with these options; the folder with its logs.
fn played(program: &Path, name: &str, options: &[&str]) -> PathBuf {
    let folder = folder(&format!("cpp-example-{name}"));
    let conf = examples().join("user.conf");
    let counts = SAMPLES.map(|(option, count)| [option.to_owned(), count.to_string()]).concat();
    let mut arguments = vec!["--user-conf", conf.to_str().unwrap()];
    arguments.extend(counts.iter().map(String::as_str));
    arguments.extend(options);
    run(program, &folder, &arguments);
    assert_eq!(grave(&folder), [""; 0], "{name}");
    folder
}

#[test]
fn the_example_in_cpp_is_measured_in_every_scenario() {
    let Some(program) = classifier() else { return };
    for scenario in SCENARIOS {
        let folder = played(program, scenario, &["--scenario", scenario]);
        let detail = detail(&folder);
        assert_eq!(detail.text("sut_name"), Some("linear classifier"));
        assert_eq!(detail.text("effective_scenario"), Some(scenario));
        assert!(detail.text("result_validity").is_some(), "{scenario}");
    }
}

#[test]
fn the_example_in_cpp_gives_one_answer_to_a_sample_in_every_scenario() {
    let Some(program) = classifier() else { return };
    let mut labels = BTreeMap::new();
    for scenario in SCENARIOS {
        let name = format!("accuracy-{scenario}");
        let options = ["--scenario", scenario, "--mode", "AccuracyOnly"];
        for entry in accuracy(&played(program, &name, &options)) {
            let label = labels.entry(entry.qsl_idx).or_insert_with(|| entry.data.clone());
            assert_eq!(*label, entry.data, "{scenario}: sample {}", entry.qsl_idx);
        }
        assert_eq!(labels.len(), SAMPLES[0].1, "{scenario}");
    }
    let distinct: BTreeSet<_> = labels.values().collect();
    assert!(distinct.len() > 10, "a classifier that looks at its input: {distinct:?}");
}

#[test]
fn the_example_in_cpp_issues_from_threads_of_its_own() {
    let Some(program) = classifier() else { return };
    let options = ["--scenario", "Server", "--mode", "SubmissionRun", "--issue-threads", "2"];
    let folder = played(program, "issue-threads", &options);
    assert_eq!(accuracy(&folder).len(), SAMPLES[0].1);
    assert!(detail(&folder).text("result_validity").is_some());
}

#[test]
fn the_example_in_cpp_is_built_by_cmake() {
    let Some(installed) = installed() else { return };
    if !has_tool("cmake") {
        return;
    }
    let build = folder("cpp-example-cmake");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(examples().join("cpp")).arg("-B").arg(&build);
    configure.arg("-DCMAKE_BUILD_TYPE=Debug");
    output(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", installed.prefix.display())));
    output(Command::new("cmake").arg("--build").arg(&build));
    let usage = run(&build.join("classifier"), &build, &["--help"]);
    assert!(usage.contains("--max-delay-us"), "{usage}");
}
