//! The texts that the official scripts leave, in the words that the checkers
//! search for.

/// Where TEST01, TEST06, TEST07 and TEST08 say what they found.
pub(super) const ACCURACY: &str = "verify_accuracy.txt";
/// Where TEST01, TEST03, TEST04 and TEST05 do.
pub(super) const PERFORMANCE: &str = "verify_performance.txt";
/// Where TEST09 does.
pub(super) const OUTPUT_LENGTH: &str = "verify_output_len.txt";

/// What TEST01 counts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Entries of the accuracy run.
    pub entries: u64,
    /// Of these, samples that were there before.
    pub repeated: u64,
    /// Of these, with another answer.
    pub contradicting: u64,
    /// Entries of the audited run.
    pub logged: u64,
    /// Of these, samples that the script has an answer for.
    pub matched: u64,
    /// Of these, with another first element.
    pub different: u64,
    /// The first such sample.
    pub first_different: u64,
    /// Samples that the script has no answer for.
    pub missing: u64,
}

/// The line that checkers look for.
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

/// `names` are those of the two scores.
pub(super) fn scores(names: [&str; 2], scores: [f64; 2], is_passed: bool) -> String {
    let [reference, audit] = scores.map(decimal);
    let verdict = if is_passed { "TEST PASS" } else { "TEST FAIL: Test score invalid" };
    format!(
        "Verifying performance.\n{} = {reference}\n{} = {audit}\n{verdict}\n",
        names[0], names[1]
    )
}

/// A number as the scripts print it: with a point, and all the digits it needs.
fn decimal(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e16 {
        format!("{number:.1}")
    } else {
        number.to_string()
    }
}

/// A truth value as the scripts print it.
pub(super) fn truth(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}
