//! A tokenizer and ids of tokens; their text, or what is no tokenizer, as sentences.
#![no_main]

use std::path::Path;

use dyno_metrics::text::punkt::Punkt;
use dyno_metrics::text::tokenizer::Tokenizer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (json, ids) = bytes.split_at(end);
    let text = match Tokenizer::parse(Path::new("tokenizer.json"), json) {
        Ok(tokenizer) => tokenizer.decode(ids.iter().map(|id| i64::from(*id))),
        Err(_) => Ok(String::from_utf8_lossy(bytes).into_owned()),
    };
    let text = text.expect("bytes are no negative ids");
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    let sentences = Punkt::default().sentences(&text).concat();
    assert_eq!(bare(&sentences), bare(&text));
});
