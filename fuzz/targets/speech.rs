//! Files of the tasks of speech and translation: arrays, recordings, turns of speakers,
//! dictionaries, manifests and sentences are read, or it is said what is wrong.
#![no_main]

use std::fs;
use std::io::Cursor;

use dyno_task::data::librispeech::Librispeech;
use dyno_task::data::lines::Lines;
use dyno_task::data::{speech, words};
use dyno_tensors::npz;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("dyno-fuzz-speech-{}", std::process::id()));
    fs::write(&path, bytes).expect("a file in the temporary folder");
    if let Err(error) = npz::read(Cursor::new(bytes)) {
        assert!(!error.to_string().is_empty());
    }
    match speech::recording(&path) {
        Ok(values) => {
            assert!(values.iter().all(|value| (-1.0..1.0).contains(value)));
            assert_eq!(speech::steps(&values).len(), values.len() / speech::STEP);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match speech::spoken(&path, 3) {
        Ok(spoken) => assert_eq!(spoken.len(), 3),
        Err(error) => assert!(error.to_string().contains(':')),
    }
    match words::draw(&path, 2) {
        Ok(drawn) => assert!(words::samples(&drawn, "letters").is_ok()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Err(error) = Librispeech::open(&std::env::temp_dir(), &path, "waveform".to_owned()) {
        assert!(!error.to_string().is_empty());
    }
    if let Err(error) = Lines::open(&path, &path, "sentence".to_owned()) {
        assert!(error.to_string().contains(':'));
    }
    fs::remove_file(&path).expect("the file goes");
});
