//! What is installed: headers that every compiler takes, symbols, and packages
//! that other programs find, wherever they are moved.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{WARNINGS, finish, has_tool, include, installed, sources};
use crate::program::{Language, folder, output};

const HEADERS: [&str; 7] = [
    "loadgen.h",
    "system_under_test.h",
    "query_sample_library.h",
    "query_sample.h",
    "query_dispatch_library.h",
    "test_settings.h",
    "bindings/c_api.h",
];

/// Symbols of the reference's library on x86-64 Linux, which objects compiled
/// against its headers ask for.
const SYMBOLS: [&str; 16] = [
    "_ZN6mlperf1c12ConstructSUTEmPKcmPFvmPKNS_11QuerySampleEmEPFvvE",
    "_ZN6mlperf1c10DestroySUTEPv",
    "_ZN6mlperf1c12ConstructQSLEmPKcmmmPFvmPKmmES6_",
    "_ZN6mlperf1c10DestroyQSLEPv",
    "_ZN6mlperf1c9StartTestEPvS1_RKNS_12TestSettingsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    "_ZN6mlperf1c20QuerySamplesCompleteEPNS_19QuerySampleResponseEm",
    "_ZN6mlperf1c30QuerySamplesCompleteResponseCbEPNS_19QuerySampleResponseEmPFvmS2_Em",
    "_ZN6mlperf1c18FirstTokenCompleteEPNS_19QuerySampleResponseEm",
    "_ZN6mlperf1c28FirstTokenCompleteResponseCbEPNS_19QuerySampleResponseEmPFvmS2_Em",
    "_ZN6mlperf1c24RegisterIssueQueryThreadEv",
    "_ZN6mlperf9StartTestEPNS_15SystemUnderTestEPNS_18QuerySampleLibraryERKNS_12TestSettingsERKNS_11LogSettingsENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    "_ZN6mlperf9AbortTestEv",
    "_ZN6mlperf20QuerySamplesCompleteEPNS_19QuerySampleResponseEmRKSt8functionIFvS1_EE",
    "_ZN6mlperf18FirstTokenCompleteEPNS_19QuerySampleResponseEmRKSt8functionIFvS1_EE",
    "_ZN6mlperf24RegisterIssueQueryThreadEv",
    "_ZN6mlperf12TestSettings10FromConfigERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES8_S8_i",
];

#[test]
fn headers_are_clean_for_every_compiler_and_standard() {
    let Some(installed) = installed() else { return };
    let include = include(&installed.prefix);
    assert!(HEADERS.iter().all(|header| include.join(header).exists()));
    for name in ["g++", "clang++"].into_iter().filter(|name| has_tool(name)) {
        let check = |standard: &str| {
            let mut command = Command::new(name);
            command.args(["-fsyntax-only", "-Wshadow", "-Wconversion"]).args(WARNINGS);
            command.arg(format!("-std={standard}")).arg("-I").arg(&include);
            command
        };
        let everything = |standard| check(standard).arg(sources().join("headers.cc")).spawn();
        for pair in [["c++14", "c++17"], ["c++20", "c++2b"]] {
            finish(pair.map(|standard| everything(standard).unwrap()).into());
        }
        // Each alone, as a harness may include no other.
        let headers = HEADERS.iter().map(|header| include.join(header));
        finish(vec![check("c++14").args(["-x", "c++"]).args(headers).spawn().unwrap()]);
    }
}

#[test]
fn the_shared_library_exports_the_interfaces_and_nothing_else() {
    let Some(installed) = installed() else { return };
    if !has_tool("nm") {
        return;
    }
    let library = installed.prefix.join("lib/libmlperf_loadgen.so");
    let listed = output(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let listed = String::from_utf8(listed.stdout).unwrap();
    let symbols: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    // Names of other machines and of other standard libraries differ.
    let is_libstdcxx = symbols.iter().any(|name| name.contains("St7__cxx11"));
    if cfg!(target_arch = "x86_64") && is_libstdcxx {
        for wanted in SYMBOLS {
            assert!(symbols.contains(&wanted), "{wanted} is not exported");
        }
    }
    assert!(symbols.contains(&"dyno_start_test") && symbols.contains(&"dyno_settings_get"));
    let of_ours = ["dyno_", "_ZN6mlperf", "_ZTIN6mlperf", "_ZTSN6mlperf", "_ZTVN6mlperf"];
    let foreign: Vec<_> =
        symbols.iter().filter(|name| !of_ours.iter().any(|of| name.starts_with(of))).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

/// The installation at a place where it was not made.
fn moved(to: &str) -> Option<PathBuf> {
    let from = &installed()?.prefix;
    let to = folder(to).join("moved");
    output(Command::new("cp").arg("-R").arg(from).arg(&to));
    let texts = ["lib/pkgconfig/mlperf_loadgen.pc", "lib/cmake/mlperf_loadgen"];
    let path = from.to_str().unwrap();
    for text in texts.iter().flat_map(|below| texts_at(&to.join(below))) {
        assert!(!text.contains(path) && !text.contains('@'), "{text}");
    }
    Some(to)
}

/// The contents of a file, or of all files in a folder.
fn texts_at(path: &Path) -> Vec<String> {
    if path.is_file() {
        return vec![fs::read_to_string(path).unwrap()];
    }
    let entries = fs::read_dir(path).unwrap();
    entries.flat_map(|entry| texts_at(&entry.unwrap().path())).collect()
}

fn check_cases(program: &Path, prefix: &Path, cases: &[&str]) {
    for case in cases {
        let mut command = Command::new(program);
        command.current_dir(program.parent().unwrap()).arg(case);
        output(command.env("LD_LIBRARY_PATH", prefix.join("lib")));
    }
}

#[test]
fn pkg_config_finds_the_installation() {
    let Some(prefix) = moved("cpp-pkg-config") else { return };
    if !has_tool("pkg-config") {
        return;
    }
    let ask = |arguments: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.args(arguments).arg("mlperf_loadgen");
        let output = output(command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
        let words = String::from_utf8(output.stdout).unwrap();
        words.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let flags = ask(&["--cflags", "--libs"]);
    let harness = prefix.join("harness");
    let mut command = installed().unwrap().compiler.command();
    command.arg("-std=c++14").args(["main.cc", "c_api.cc"].map(|name| sources().join(name)));
    output(command.args(&flags).arg("-lpthread").arg("-o").arg(&harness));
    check_cases(&harness, &prefix, &["c_api_performance"]);

    // A program in C needs neither a C++ compiler nor its library.
    let Some(mut command) = Language::C.compiler() else { return };
    let program = prefix.join("program");
    let archive = prefix.join("lib/libmlperf_loadgen.a");
    let private = ask(&["--static", "--libs-only-l"]);
    let private = private.iter().filter(|word| *word != "-lmlperf_loadgen");
    command.arg(sources().join("../c/scenario.c")).args(ask(&["--cflags"])).args(["-x", "none"]);
    output(command.arg(archive).args(private).arg("-o").arg(&program));
    check_cases(&program, &prefix, &["min_duration_ms=0"]);
}

#[test]
fn cmake_finds_the_installation() {
    let Some(prefix) = moved("cpp-cmake") else { return };
    if !has_tool("cmake") {
        return;
    }
    let build = prefix.join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(sources()).arg("-B").arg(&build);
    output(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    output(Command::new("cmake").arg("--build").arg(&build).arg("--parallel"));
    for harness in ["mlperf_loadgen_harness", "mlperf_loadgen_static_harness"] {
        check_cases(&build.join(harness), &prefix, &["c_api_issue_threads"]);
    }
    // Another series of versions is refused.
    for (version, is_found) in [("", true), ("0.1", true), ("0.0.9", false), ("0.2", false)] {
        let project = prefix.join(format!("project-{version}"));
        fs::create_dir(&project).unwrap();
        let text = format!(
            "cmake_minimum_required(VERSION 3.10)\nproject(p NONE)\n\
             find_package(mlperf_loadgen {version} QUIET)\n\
             if(NOT mlperf_loadgen_FOUND)\n  message(FATAL_ERROR \"refused\")\nendif()\n"
        );
        fs::write(project.join("CMakeLists.txt"), text).unwrap();
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(&project).arg("-B").arg(project.join("build"));
        configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
        assert_eq!(configure.output().unwrap().status.success(), is_found, "{version}");
    }
}
