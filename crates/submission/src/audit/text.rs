//! Texts that the official scripts write, with the words that the checkers search for.

/// Verdict file of TEST01, TEST06, TEST07 and TEST08.
pub(super) const ACCURACY: &str = "verify_accuracy.txt";
/// Verdict file of TEST01, TEST03, TEST04 and TEST05.
pub(super) const PERFORMANCE: &str = "verify_performance.txt";
/// Verdict file of TEST09.
pub(super) const OUTPUT_LENGTH: &str = "verify_output_len.txt";

/// Counts of TEST01.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Entries of the accuracy run.
    pub entries: u64,
    /// Entries whose sample occurred before.
    pub repeated: u64,
    /// Repeated entries with a different answer.
    pub contradicting: u64,
    /// Entries of the audited run.
    pub logged: u64,
    /// Logged entries whose sample the script can compare.
    pub matched: u64,
    /// Compared entries with a different first element.
    pub different: u64,
    /// First such sample.
    pub first_different: u64,
    /// Logged samples that the script cannot compare.
    pub missing: u64,
}

/// Returns the line that checkers search for.
pub(super) fn verdict(is_passed: bool) -> &'static str {
    if is_passed { "TEST PASS" } else { "TEST FAIL" }
}

pub(super) fn answers(counts: &Counts, is_passed: bool) -> String {
    let rows = [
        ("num_acc_log_entries", counts.entries),
        ("num_acc_log_duplicate_keys", counts.repeated),
        ("num_acc_log_data_mismatch", counts.contradicting),
        ("num_perf_log_entries", counts.logged),
        ("num_perf_log_qsl_idx_match", counts.matched),
        ("num_perf_log_data_mismatch", counts.different),
        ("num_missing_qsl_idxs", counts.missing),
    ];
    let rows: String = rows.iter().map(|(name, count)| format!("{name} = {count}\n")).collect();
    format!("{rows}{}\n\n", verdict(is_passed))
}

/// Formats two scores; `names` are their labels.
pub(super) fn scores(names: [&str; 2], scores: [f64; 2], is_passed: bool) -> String {
    let [reference, audit] = scores.map(decimal);
    let verdict = if is_passed { "TEST PASS" } else { "TEST FAIL: Test score invalid" };
    format!(
        "Verifying performance.\n{} = {reference}\n{} = {audit}\n{verdict}\n",
        names[0], names[1]
    )
}

/// Formats a number as the scripts do: with a decimal point and all significant digits.
fn decimal(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e16 {
        format!("{number:.1}")
    } else {
        number.to_string()
    }
}

/// Formats a boolean as the scripts do.
pub(super) fn truth(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}
