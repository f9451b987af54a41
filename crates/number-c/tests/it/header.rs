//! The header that is checked in is that of the sources.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program::{Language, output};

/// Sources that declare something C sees, in the order of the header.
const SOURCES: [&str; 3] = ["error.rs", "format.rs", "dictionary.rs"];

#[test]
fn the_header_is_that_of_the_sources() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_dir.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(crate_dir.join("src").join(source));
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = crate_dir.join("include/dyno_number.h");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == made,
        "include/dyno_number.h is not that of the sources: UPDATE_EXPECT=1 cargo test -p \
         dyno-number-c makes it anew"
    );
}

#[test]
fn the_headers_are_clean_c_and_clean_cpp() {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let headers = [
        (Language::C, "dyno_number.h"),
        (Language::Cpp, "dyno_number.h"),
        (Language::Cpp, "dyno_number.hpp"),
    ];
    for (language, header) in headers {
        let Some(compiler) = language.compiler() else { continue };
        let checked = output(
            Command::new(compiler)
                .args(["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
                .args(language.arguments())
                .arg(include.join(header)),
        );
        assert!(checked.stderr.is_empty(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
