//! Truncation of accuracy logs.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use dyno_submission::package::{
    ELLIPSIS, KEPT_BYTES, LIMIT_BYTES, TruncateError, Truncation, hash_in, is_truncated, truncate,
    truncate_folder,
};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use crate::made::folder::Folder;

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn accuracy_folder(folder: &Path, log: &[u8], text: &str) {
    fs::write(folder.join("mlperf_log_accuracy.json"), log).unwrap();
    fs::write(folder.join("accuracy.txt"), text).unwrap();
}

fn files(folder: &Path) -> (Vec<u8>, String) {
    let log = fs::read(folder.join("mlperf_log_accuracy.json")).unwrap();
    (log, fs::read_to_string(folder.join("accuracy.txt")).unwrap())
}

/// Reader of a log that arrives in pieces.
struct Pieces<'a> {
    left: &'a [u8],
    sizes: std::iter::Cycle<std::vec::IntoIter<usize>>,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes.next().unwrap_or(1).min(buffer.len()).min(self.left.len());
        let (now, later) = self.left.split_at(size);
        buffer[..size].copy_from_slice(now);
        self.left = later;
        Ok(size)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn both_ends_are_kept_however_the_log_arrives(
        length in 0_usize..20_000,
        sizes in prop::collection::vec(1_usize..6_000, 1..5),
    ) {
        let log: Vec<u8> = (0..length).map(|at| b'a' + (at * at % 23) as u8).collect();
        let mut kept = Vec::new();
        let reader = Pieces { left: &log, sizes: sizes.into_iter().cycle() };
        let hash = truncate(reader, &mut kept).unwrap();
        prop_assert_eq!(hash.to_string(), hex(&log));
        let expected = if length < KEPT_BYTES {
            log
        } else {
            [&log[..KEPT_BYTES], ELLIPSIS, &log[length - KEPT_BYTES..]].concat()
        };
        prop_assert_eq!(kept, expected);
    }
}

#[test]
fn a_log_has_8199_bytes_afterwards() {
    let mut kept = Vec::new();
    truncate(io::repeat(b'7').take(3_000_000), &mut kept).unwrap();
    assert_eq!(kept.len(), 8_199);
}

#[test]
fn a_character_is_kept_whole_or_not_at_all() {
    for shift in 0..4 {
        let text = "x".repeat(shift) + &"名".repeat(9_000);
        let mut kept = Vec::new();
        truncate(text.as_bytes(), &mut kept).unwrap();
        let kept = String::from_utf8(kept).unwrap();
        assert!(kept.len() > 8_190, "{}", kept.len());
    }
}

#[test]
fn bytes_that_are_no_text_are_kept_as_they_are() {
    let mut kept = Vec::new();
    truncate([0x80_u8; 10_000].as_slice(), &mut kept).unwrap();
    assert_eq!(kept.len(), 8_199);
}

#[test]
fn a_folder_gets_the_short_log_and_the_hash_of_the_long_one() {
    let scratch = Folder::new("cut");
    let log = b"0123456789".repeat(5_000);
    accuracy_folder(scratch.path(), &log, "accuracy=76.5%, good=1, total=2");
    let Truncation::Done { hash, from_bytes, to_bytes } = truncate_folder(scratch.path()).unwrap()
    else {
        panic!("it was not cut");
    };
    assert_eq!((from_bytes, to_bytes), (50_000, 8_199));
    let (log_now, text) = files(scratch.path());
    assert_eq!(log_now.len() as u64, to_bytes);
    assert_eq!(text, format!("accuracy=76.5%, good=1, total=2\nhash={}\n", hex(&log)));
    assert_eq!(hash_in(&text), Some(hash.to_string().as_str()));
    let names: Vec<_> = fs::read_dir(scratch.path()).unwrap().collect();
    assert_eq!(names.len(), 2, "nothing else is left: {names:?}");
}

#[test]
fn a_second_time_changes_nothing() {
    let scratch = Folder::new("twice");
    accuracy_folder(scratch.path(), &[b'5'; 40_000], "x\n");
    truncate_folder(scratch.path()).unwrap();
    let before = files(scratch.path());
    let again = truncate_folder(scratch.path()).unwrap();
    assert!(matches!(again, Truncation::Already { .. }), "{again:?}");
    assert_eq!(files(scratch.path()), before);
}

/// The tool of the rules converts line ends on Windows.
#[test]
fn a_log_that_was_truncated_on_windows_is_not_truncated_again() {
    let scratch = Folder::new("windows");
    let entry = "{ \"seq_id\" : 0, \"qsl_idx\" : 4442, \"data\" : \"00006A44\" },\r\n";
    let half = entry.repeat(80);
    let log = [&half[..4_170], "\r\n\r\n...\r\n\r\n", &half[..4_100]].concat();
    accuracy_folder(scratch.path(), log.as_bytes(), &format!("x\nhash={}\n", hex(b"all")));
    assert!(is_truncated(&scratch.path().join("mlperf_log_accuracy.json")).unwrap());
    let done = truncate_folder(scratch.path()).unwrap();
    assert!(matches!(done, Truncation::Already { .. }), "{done:?}");
    assert_eq!(files(scratch.path()).0, log.as_bytes());
    accuracy_folder(scratch.path(), half.as_bytes(), "x\n");
    assert!(!is_truncated(&scratch.path().join("mlperf_log_accuracy.json")).unwrap());
}

#[test]
fn a_short_log_stays_and_gets_its_hash() {
    let scratch = Folder::new("short");
    accuracy_folder(scratch.path(), b"[]\n", "x\n");
    truncate_folder(scratch.path()).unwrap();
    assert_eq!(files(scratch.path()), (b"[]\n".to_vec(), format!("x\nhash={}\n", hex(b"[]\n"))));
}

#[test]
fn killed_between_its_two_files_it_goes_on() {
    let scratch = Folder::new("killed");
    let log = [b'3'; 30_000];
    let text = format!("x\nhash={}\n", hex(&log));
    accuracy_folder(scratch.path(), &log, &text);
    truncate_folder(scratch.path()).unwrap();
    let (log, text_now) = files(scratch.path());
    assert!((log.len() as u64) < LIMIT_BYTES);
    assert_eq!(text_now, text, "the line is there once");
}

#[test]
fn a_cut_log_without_its_hash_is_refused() {
    let scratch = Folder::new("lost");
    accuracy_folder(scratch.path(), &[b'5'; 40_000], "x\n");
    truncate_folder(scratch.path()).unwrap();
    fs::write(scratch.path().join("accuracy.txt"), "x\n").unwrap();
    let error = truncate_folder(scratch.path()).unwrap_err();
    assert!(matches!(error, TruncateError::HashLost { .. }), "{error}");
}

#[test]
fn a_hash_of_another_log_is_refused() {
    let scratch = Folder::new("other");
    accuracy_folder(scratch.path(), &[b'5'; 40_000], "x\nhash=abc\n");
    let before = files(scratch.path());
    let error = truncate_folder(scratch.path()).unwrap_err();
    assert!(matches!(error, TruncateError::OtherHash { .. }), "{error}");
    assert_eq!(files(scratch.path()), before);
}

#[test]
fn an_absent_log_is_named() {
    let scratch = Folder::new("absent");
    fs::write(scratch.path().join("accuracy.txt"), "x\n").unwrap();
    let error = truncate_folder(scratch.path()).unwrap_err().to_string();
    assert!(error.contains("mlperf_log_accuracy.json"), "{error}");
}
