//! Flags of `dyno serve` that may have no effect.

use crate::failure::Failure;

/// Flags with the systems that use them; all systems use other flags.
const ROWS: [(&str, &[&str]); 5] = [
    ("threads", &["onnx", "rnn", "digits-lstm"]),
    ("cores", &["digits", "digits-lstm", "null", "onnx", "tuned", "rnn"]),
    ("ort-lib", &["onnx"]),
    ("batch-wait", &["digits", "digits-lstm", "null", "onnx", "tuned", "rnn"]),
    ("shape", &["onnx", "tuned", "rnn"]),
];

/// Rejects flags that the served system ignores.
///
/// # Errors
/// Each such flag with the systems that use it.
pub fn check_served(spec: &str, given: &[(&str, bool)]) -> Result<(), Failure> {
    let system = spec.split(':').next().unwrap_or(spec);
    let is_given = |flag: &str| given.iter().any(|(name, is_given)| *name == flag && *is_given);
    let ignored = ROWS.iter().filter(|(flag, of)| is_given(flag) && !of.contains(&system));
    let ignored: Vec<_> = ignored.collect();
    if ignored.is_empty() {
        return Ok(());
    }
    let problem =
        |(flag, _): &&(&str, &[&str])| format!("--{flag} has no effect on system `{system}`");
    let failure = Failure::usages(ignored.iter().map(problem).collect());
    Err(ignored.iter().fold(failure, |failure, (flag, of)| {
        failure.hint(format!("--{flag} belongs to {}; remove it", of.join(", ")))
    }))
}
