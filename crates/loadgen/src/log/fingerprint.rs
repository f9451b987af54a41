//! Fingerprint of the code that wrote a log: a hash of every source file of this crate at build
//! time.

use std::io;
use std::path::Path;

use super::{sha1, sources};

/// Returns each source file as `/src/lib.rs` with its SHA-1 at build time, sorted by name.
pub fn fingerprint() -> &'static [(&'static str, &'static str)] {
    include!(concat!(env!("OUT_DIR"), "/fingerprint.rs"))
}

/// Returns one hash for all files: the SHA-1 of the lines `name hash`.
pub fn combined_fingerprint() -> String {
    combined(fingerprint().iter().copied())
}

/// Returns the hashes of a source checkout, to compare with [`fingerprint`]. `root` is the folder
/// of this crate (with `build.rs` and `src/`).
///
/// # Errors
/// A file or folder that cannot be read.
pub fn recompute_fingerprint(root: &Path) -> io::Result<Vec<(String, String)>> {
    sources::hashes(root, sha1::hex)
}

/// Returns the combined hash of a list of files and hashes, such as from [`recompute_fingerprint`].
pub fn combined<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let lines: String = files.map(|(file, hash)| format!("{file} {hash}\n")).collect();
    sha1::hex(lines.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha1_of_published_vectors() {
        // FIPS 180-4 examples, and a million times "a" for many blocks.
        assert_eq!(sha1::hex(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(sha1::hex(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(
            sha1::hex(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
        );
        assert_eq!(sha1::hex(&vec![b'a'; 1_000_000]), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    }

    #[test]
    fn the_build_names_the_sources_it_was_built_from() {
        let now = recompute_fingerprint(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let now: Vec<(&str, &str)> = now.iter().map(|(f, h)| (f.as_str(), h.as_str())).collect();
        assert_eq!(now, fingerprint());
        assert!(now.iter().any(|(file, _)| *file == "/src/log/fingerprint.rs"));
        assert_eq!(combined_fingerprint(), combined(now.into_iter()));
    }
}
