//! Metrics pages of servers: whatever they hold, they are read, and what is read is finite where it has
//! to be.
#![no_main]

use dyno_net::exposition::Exposition;
use dyno_net::server_metrics::Quantities;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let page = Exposition::parse(&text);
    assert!(page.samples.len() + page.malformed <= text.split('\n').count());
    assert_eq!(page.malformed == 0, page.first_malformed.is_none());
    assert!(page.samples.iter().all(|sample| !sample.name.is_empty()));
    let found = Quantities::from_page(&page, None);
    assert_eq!(found.values.is_empty(), found.servers.is_empty());
});
