//! Ratings of MovieLens: split, or an error that names a line of the file.
#![no_main]

use std::path::Path;

use dyno_task::data::movielens::{MovielensError, Ratings};
use libfuzzer_sys::fuzz_target;

const HEADER: &str = "user_id:token\titem_id:token\trating:float\ttimestamp:float";

fuzz_target!(|text: &str| {
    // With and without a first line that is right.
    for text in [text, &format!("{HEADER}\n{text}")] {
        match Ratings::parse(Path::new("made.inter"), text) {
            Ok(ratings) => {
                assert_eq!(ratings.test.len(), (ratings.test.len() + ratings.training.len()) / 10);
                let all = ratings.test.iter().chain(&ratings.training);
                assert!(all.clone().all(|of| of.user < ratings.users && of.item < ratings.items));
            }
            Err(MovielensError::Line { line, .. }) => {
                assert!((1..=text.lines().count().max(1)).contains(&line));
            }
            Err(error) => assert!(error.to_string().starts_with("made.inter: ")),
        }
    }
});
