//! The interfaces for C and C++: programs in `tests/c` and `tests/cpp` are
//! compiled, linked against the static and the shared library, and run; their
//! logs are read back.
#![expect(clippy::unwrap_used, reason = "tests")]

mod completion_cost;
mod cpp;
mod examples;
mod header;
mod logs;
mod misuse;
mod program;
mod scenarios;
mod traces;

const HEADER: &str = "dyno_loadgen.h";

#[test]
fn the_header_is_that_of_the_sources() {
    header::check_sources(
        HEADER,
        &[
            "error.rs",
            "abi.rs",
            "settings.rs",
            "log_settings.rs",
            "system.rs",
            "library.rs",
            "test.rs",
            "completion.rs",
        ],
    );
}

#[test]
fn the_header_is_clean_c_and_clean_cpp() {
    header::check_clean(HEADER);
}
