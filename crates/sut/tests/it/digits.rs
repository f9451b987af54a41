//! The embedded default: its data, its weights and its accuracy.

use dyno_loadgen::sut::{QuerySample, ResponseId};
use dyno_sut::digits::{self, DigitsPerceptron};
use dyno_sut::engine::{Answers, Engine};

/// FNV-1a, 64 bits: small enough to write down twice.
fn checksum(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[test]
fn data_is_what_was_converted() {
    let images = || digits::training_digits().chain(digits::test_digits());
    let bytes =
        images().flat_map(|d| d.pixels.iter().copied().chain([d.label]).collect::<Vec<_>>());
    // Computed by the Python program that converted the file.
    assert_eq!(checksum(bytes), 0x7768_69cc_e379_5967);
    assert!(images().all(|d| d.label < 10 && d.pixels.iter().all(|&ink| ink <= 16)));
}

#[test]
fn trained_weights_get_519_of_540_test_images_right() {
    let samples: Vec<QuerySample> = (0..digits::TEST_COUNT as u64)
        .map(|index| QuerySample { id: ResponseId::new(1, 0, index), index })
        .collect();
    let mut answers = Answers::new();
    DigitsPerceptron::new().answer(&samples, &mut answers);
    let log = answers.iter().map(|(id, data)| (id.sequence() as u32, data.unwrap()));
    let score = digits::score(log);
    // Printed by `examples/train_digits.rs`, which counts without engine and log.
    assert_eq!((score.correct, score.total, score.malformed), (519, 540, 0));
}

#[test]
fn samples_beyond_the_library_fail() {
    let mut answers = Answers::new();
    let beyond = QuerySample { id: ResponseId(7), index: 540 };
    DigitsPerceptron::new().answer(&[beyond], &mut answers);
    let answers: Vec<_> = answers.iter().collect();
    assert_eq!(answers, [(ResponseId(7), Err(dyno_loadgen::record::Failure::Rejected))]);
}
