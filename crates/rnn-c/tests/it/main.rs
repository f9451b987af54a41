//! The interface for C and C++: programs in `tests` and `examples` are compiled, linked against the
//! static and the shared library, and run.
#![expect(clippy::unwrap_used, reason = "tests")]

mod install;
// Shared by the tests of all C libraries.
#[path = "../../../loadgen-c/tests/it/header.rs"]
mod header;
#[path = "../../../loadgen-c/tests/it/program.rs"]
mod program;

use program::{Language, Link, build, folder, run};

const HEADER: &str = "dyno_rnn.h";

#[test]
fn the_header_is_that_of_the_sources() {
    header::check_sources(HEADER, &["error.rs", "model.rs"]);
}

#[test]
fn the_header_is_clean_c_and_clean_cpp() {
    header::check_clean(HEADER);
}

#[test]
fn programs_find_and_link_what_is_installed() {
    install::check_installed(&install::Example {
        headers: 1,
        language: Language::C,
        source: "../../examples/c/rnn.c",
        arguments: &["lstm:8x16"],
        prints: "piece by piece: the same states",
    });
}

#[test]
fn wrong_calls_are_results_with_a_text_and_right_ones_agree() {
    for link in Link::BOTH {
        let Some(program) = build("tests/c/calls.c", Language::C, link) else { return };
        assert_eq!(run(&program, &folder("calls"), &[]), "all as it should be\n");
    }
}

#[test]
fn the_example_in_c_runs_a_batch_piece_by_piece() {
    for link in Link::BOTH {
        let Some(program) = build("../../examples/c/rnn.c", Language::C, link) else { return };
        let printed = run(&program, &folder("c"), &["bilstm:8x16"]);
        assert!(printed.contains("bilstm:8x16: 8 inputs, 32 outputs, 1 layer"), "{printed}");
        let printed = run(&program, &folder("c"), &["lstm:8x16"]);
        assert!(printed.contains("piece by piece: the same states"), "{printed}");
    }
}

#[test]
fn the_example_in_cpp_frees_what_it_opens_and_throws_what_is_wrong() {
    for link in Link::BOTH {
        let source = "../../examples/cpp/rnn.cc";
        let Some(program) = build(source, Language::Cpp, link) else { return };
        let printed = run(&program, &folder("cpp"), &["gru:4x8"]);
        assert!(printed.contains("last state of row 1: 8 numbers"), "{printed}");
        let printed = run(&program, &folder("cpp"), &["none.onnx"]);
        assert!(printed.contains("`none.onnx` is not a file"), "{printed}");
    }
}
