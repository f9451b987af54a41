//! Rounding of accuracies for publication: five significant digits, ties to even.

/// Rounds a decimal number to five significant digits, ties to even. Digits before the point remain:
/// such a number is a count, such as the length of all outputs. It works on the digits, because a
/// double may be on the other side of a tie. Other texts are returned unchanged.
///
/// ```
/// use dyno_submission::results::five_digits;
///
/// assert_eq!(five_digits("76.0145"), "76.014");
/// assert_eq!(five_digits("8209319"), "8209319");
/// ```
pub fn five_digits(text: &str) -> String {
    const DIGITS: usize = 5;
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let sign = &text[..text.len() - unsigned.len()];
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    if all.is_empty() || !all.iter().all(u8::is_ascii_digit) {
        return text.to_owned();
    }
    let first = all.iter().position(|&digit| digit != b'0').unwrap_or(all.len());
    let end = (first + DIGITS).max(whole.len());
    if end >= all.len() {
        return text.to_owned();
    }
    let (mut kept, rest) = (all[..end].to_vec(), &all[end..]);
    let is_odd = kept.last().is_some_and(|last| last % 2 == 1);
    let is_half = rest[0] == b'5' && rest[1..].iter().all(|&digit| digit == b'0');
    if rest[0] > b'5' || (rest[0] == b'5' && (!is_half || is_odd)) {
        carry(&mut kept);
    }
    // A carry may have added a digit.
    let before_point = whole.len() + kept.len() - end;
    let first = kept.iter().position(|&digit| digit != b'0').unwrap_or(kept.len());
    kept.truncate(before_point.max(first + DIGITS).min(kept.len()));
    let digits = String::from_utf8_lossy(&kept);
    let (whole, fraction) = digits.split_at(before_point);
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// Adds one to the last digit.
fn carry(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

/// Rounds the numbers of `METRIC: value  METRIC: value`.
pub(super) fn accuracy(text: &str) -> String {
    let pair = |pair: &str| match pair.rsplit_once(": ") {
        Some((metric, value)) => format!("{metric}: {}", five_digits(value.trim())),
        None => pair.to_owned(),
    };
    text.split("  ").map(pair).collect::<Vec<_>>().join("  ")
}
