//! Requests and parts of answers of the interface of OpenAI: what is read is written and read
//! again.
#![no_main]

use dyno_net::openai::{Api, Request, Usage, Writer, read_part};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for api in [Api::Completions, Api::Chat] {
        if let Ok(request) = Request::from_json(api, bytes)
            // Options of a stream are written where there is one.
            && (request.stream || !request.include_usage)
        {
            assert_eq!(Request::from_json(api, &request.to_json()), Ok(request));
        }
        let text = String::from_utf8_lossy(bytes);
        let whole = Writer::new(api, "id", &text, 0).whole(&text, "stop", Usage::default());
        let mut found = Vec::new();
        read_part(&whole, &mut found).expect("it was written here");
        assert_eq!(found, text.as_bytes());
    }
    let _ = read_part(bytes, &mut Vec::new());
});
