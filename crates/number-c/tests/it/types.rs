//! Compares the arithmetic of the header-only types with that of the library.

use crate::program::{Language, Link, build, folder, run};

/// Formats of the types in `types.cc`, by their names there.
const CONFIG: &str = "fixed3 FIXED 3 1\nfixed20 FIXED 20 -3\nfixed32 FIXED 32 -9\nexp4 EXP 4 3\n\
                      half FLOAT 16\nbyte int8\nunsigned uint8\n";

#[test]
fn types_compute_as_numbers_and_the_library_do() {
    let config = crate::file("types.conf", CONFIG);
    for link in Link::BOTH {
        let Some(program) = build("tests/cpp/types.cc", Language::Cpp, link) else { return };
        let printed = run(&program, &folder("types"), &[config.to_str().unwrap()]);
        assert!(printed.ends_with("4900 pairs, 36000 values: all alike\n"), "{printed}");
    }
}
