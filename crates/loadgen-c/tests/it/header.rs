//! The header that is checked in is that of the sources.
//!
//! The tests of `rnn-c` and `number-c` include this file.

use std::fs;

use crate::program::{Language, crate_dir, output};

/// That `include/NAME` is what cbindgen makes of sources that declare something C sees, in their
/// order.
pub fn check_sources(name: &str, sources: &[&str]) {
    let config = cbindgen::Config::from_file(crate_dir().join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(crate_dir().join("src").join(source));
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = crate_dir().join("include").join(name);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    let package = env!("CARGO_PKG_NAME");
    assert!(
        checked_in == made,
        "include/{name} is not that of the sources: UPDATE_EXPECT=1 cargo test -p {package} makes it anew"
    );
}

/// That compilers take the header without a warning: of both languages, or of C++ alone for one of C++.
pub fn check_clean(name: &str) {
    let languages = if name.ends_with(".hpp") { &[Language::Cpp][..] } else { &Language::BOTH };
    for mut compiler in languages.iter().filter_map(|language| language.compiler()) {
        compiler.arg("-fsyntax-only").arg(crate_dir().join("include").join(name));
        let checked = output(&mut compiler);
        assert!(checked.stderr.is_empty(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
