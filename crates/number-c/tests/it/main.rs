//! Compiles C and C++ programs, links them with the static and the shared library, and runs them.
#![expect(clippy::unwrap_used, reason = "tests")]

mod types;
// Shared with the tests of the other C libraries.
#[path = "../../../loadgen-c/tests/it/header.rs"]
mod header;
#[path = "../../../rnn-c/tests/it/install.rs"]
mod install;
#[path = "../../../loadgen-c/tests/it/program.rs"]
mod program;

use std::fs;
use std::path::PathBuf;

use dyno_number::{Dictionary, Number};
use program::{Language, Link, build, folder, run};

const HEADER: &str = "dyno_number.h";

#[test]
fn the_header_is_that_of_the_sources() {
    header::check_sources(HEADER, &["error.rs", "format.rs", "dictionary.rs"]);
}

#[test]
fn the_headers_are_clean_c_and_clean_cpp() {
    for header in [HEADER, "dyno_number.hpp", "dyno_number_types.hpp"] {
        header::check_clean(header);
    }
}

/// Writes a configuration file for a test.
fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn wrong_calls_are_results_with_a_text_and_right_ones_agree() {
    let good = file("good.conf", "fc1.weight FIXED 15 -3\n");
    let bad = file("bad.conf", "\na.x FIXED 40\n");
    for link in Link::BOTH {
        let Some(program) = build("tests/c/calls.c", Language::C, link) else { return };
        let arguments = [good.to_str().unwrap(), bad.to_str().unwrap()];
        assert_eq!(run(&program, &folder("calls"), &arguments), "all as it should be\n");
    }
}

#[test]
fn programs_find_and_link_what_is_installed() {
    let config = file("installed.conf", "fc1.weight FIXED 4 0\n");
    install::check_installed(&install::Example {
        headers: 3,
        language: Language::Cpp,
        source: "tests/cpp/fully_connected.cc",
        arguments: &[config.to_str().unwrap()],
        prints: "0.25 I4(0)",
    });
}

/// Computes the C++ kernel with the Rust type `Number`.
fn fully_connected(config: &str) -> Vec<f32> {
    let dictionary: Dictionary = config.parse().unwrap();
    let number = |name: &str, x: f32| Number::new(x.into(), dictionary.format(name)).unwrap();
    let output = |o: u8| {
        let product = |i: u8| {
            let input = number("fc1.input", 0.37 * f32::from(i) - 0.5);
            let weight = number("fc1.weight", 0.9 - 0.13 * f32::from(o * 5 + i));
            (input * weight).to_f32()
        };
        (0..5).map(product).fold(number("fc1.bias", o.into()).to_f32(), |sum, x| sum + x)
    };
    (0..3).map(output).collect()
}

#[test]
fn the_kernel_of_the_thesis_computes_by_its_configuration_file() {
    let configs = [
        "",
        "fc1.input FIXED 3 0\nfc1.weight FIXED 4 0\nfc1.bias FIXED 3 -2\n",
        "fc1.input EXP 4\nfc1.weight FIXED 8\nfc1.bias FLOAT 16\n",
        "fc1.input fp8-e4m3fn\nfc1.weight EXP 3 2\nfc1.bias FLOAT 16 127 8\n",
    ];
    let mut seen = Vec::new();
    for (at, config) in configs.into_iter().enumerate() {
        let path = file(&format!("kernel-{at}.conf"), config);
        for link in Link::BOTH {
            let source = "tests/cpp/fully_connected.cc";
            let Some(program) = build(source, Language::Cpp, link) else { return };
            let printed = run(&program, &folder("kernel"), &[path.to_str().unwrap()]);
            let lines: Vec<&str> = printed.lines().collect();
            assert!(lines[0].starts_with("nowhere.conf: "), "{printed}");
            let found: Vec<f32> = lines[1..4].iter().map(|line| line.parse().unwrap()).collect();
            assert_eq!(found, fully_connected(config), "{config}");
            let named = ["0.300000012 0.300000012 F32", "0.300000012 0.25 I4(0)"];
            assert!(at > 1 || lines[4] == named[at], "{printed}");
            let adopts = ["1.29999995 F32 -2 2147483647 42", "1.25 F32 -2 2147483647 42"];
            assert!(at > 1 || lines[5] == adopts[at], "{printed}");
            seen.push(found);
        }
    }
    seen.dedup();
    assert_eq!(seen.len(), 4, "each file makes other numbers: {seen:?}");
}
