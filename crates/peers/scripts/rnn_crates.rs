//! What Rust crates with trained recurrent networks make of samples, for `rnn_real.py`.

use std::io::{BufRead, stdin};

use icu_provider::prelude::*;
use icu_segmenter::WordSegmenter;
use icu_segmenter::options::WordBreakInvariantOptions;
use icu_segmenter::provider::{Baked, SegmenterLstmAutoV1};
use nnnoiseless::{DenoiseFeatures, DenoiseState, FRAME_SIZE};

const SCRIPTS: [&str; 4] = ["Thai_", "Lao_", "Khmer_", "Burmese_"];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["weights"] => weights(),
        ["segments"] => segments(),
        ["noise", path] => noise(path),
        other => panic!("{other:?}: expected weights, segments or noise FILE"),
    }
}

/// The networks of the segmenter, one line of JSON each.
fn weights() {
    for script in SCRIPTS {
        let mut metadata = DataRequestMetadata::default();
        metadata.attributes_prefix_match = true;
        let attributes = DataMarkerAttributes::from_str_or_panic(script);
        let id = DataIdentifierBorrowed::for_marker_attributes(attributes);
        let found: DataResponse<SegmenterLstmAutoV1> =
            Baked.load(DataRequest { id, metadata }).expect("data of the crate");
        println!("{}", serde_json::to_string(found.payload.get()).expect("numbers"));
    }
}

/// Where words of each line end, in bytes.
fn segments() {
    let segmenter = WordSegmenter::new_lstm(WordBreakInvariantOptions::default());
    for line in stdin().lock().lines() {
        let line = line.expect("lines are text");
        let ends: Vec<String> = segmenter.segment_str(&line).map(|end| end.to_string()).collect();
        println!("{}", ends.join(" "));
    }
}

/// Of each frame: whether it is silent, what the network is fed, and the probability of speech.
fn noise(path: &str) {
    let bytes = std::fs::read(path).expect("samples");
    let samples: Vec<f32> = bytes
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .collect();
    let (mut features, mut state) = (DenoiseFeatures::new(), DenoiseState::new());
    let mut output = [0.0; FRAME_SIZE];
    for frame in samples.chunks_exact(FRAME_SIZE) {
        features.shift_and_filter_input(frame);
        let silent = features.compute_frame_features();
        let speech = state.process_frame(&mut output, frame);
        println!("{}", serde_json::json!([silent, features.features(), speech]));
    }
}
