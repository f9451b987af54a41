//! Prompts and recorded traces as JSON lines and CSV.
#![no_main]

use dyno_net::workload::{Format, RowOptions, Workload};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for format in [Format::JsonLines, Format::Json, Format::Csv] {
        let Ok(rows) = format.rows(bytes) else { continue };
        // Lengths are made up: gigabytes of words show nothing.
        let rows = rows.map(|row| {
            let mut row = row?;
            row.retain(|_, value| value.as_f64().or_else(|| value.as_str()?.parse().ok()).is_none_or(|x| x < 1e4));
            Ok(row)
        });
        if let Ok(workload) = Workload::of_rows(rows, &RowOptions::default())
            && let Some(times) = &workload.arrivals
        {
            assert!(times.is_sorted() && times.len() == workload.prompts.len());
        }
    }
});
