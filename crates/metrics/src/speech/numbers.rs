//! Number words as digits: `twenty one` becomes `21`, `two dollars` becomes `$2`.
//!
//! Source: the English text normalizer of Whisper, reproduced exactly with its quirks, since the
//! accuracy of the benchmark is measured after it.

use std::collections::HashMap;

use super::super::unicode::digit;
use Word as W;

/// Role of a word in a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Zero,
    /// 1 to 19.
    Ones(u32),
    /// Like `Ones`, with the ending of a plural or an ordinal; 0 to 19.
    OnesWith(u32, &'static str),
    /// 20 to 90.
    Tens(u32),
    TensWith(u32, &'static str),
    /// A power of ten, by its exponent.
    Power(usize),
    PowerWith(usize, &'static str),
    /// A sign, which precedes the number in words and in digits.
    Sign(&'static str),
    /// A currency, which follows the number in words and precedes it in digits.
    Currency(&'static str),
    Per,
    Percent,
    And,
    /// Repeats the next digit this many times.
    Repeat(usize),
    Point,
}

const ONES: [&str; 19] = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 8] =
    ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const POWERS: [(&str, usize); 12] = [
    ("hundred", 2),
    ("thousand", 3),
    ("million", 6),
    ("billion", 9),
    ("trillion", 12),
    ("quadrillion", 15),
    ("quintillion", 18),
    ("sextillion", 21),
    ("septillion", 24),
    ("octillion", 27),
    ("nonillion", 30),
    ("decillion", 33),
];
const OTHERS: [(&str, Word); 29] = [
    ("o", W::Zero),
    ("oh", W::Zero),
    ("zero", W::Zero),
    ("zeroth", W::OnesWith(0, "th")),
    ("first", W::OnesWith(1, "st")),
    ("second", W::OnesWith(2, "nd")),
    ("third", W::OnesWith(3, "rd")),
    ("fifth", W::OnesWith(5, "th")),
    ("twelfth", W::OnesWith(12, "th")),
    ("minus", W::Sign("-")),
    ("negative", W::Sign("-")),
    ("plus", W::Sign("+")),
    ("positive", W::Sign("+")),
    ("pound", W::Currency("£")),
    ("pounds", W::Currency("£")),
    ("euro", W::Currency("€")),
    ("euros", W::Currency("€")),
    ("dollar", W::Currency("$")),
    ("dollars", W::Currency("$")),
    ("cent", W::Currency("¢")),
    ("cents", W::Currency("¢")),
    ("per", W::Per),
    ("percent", W::Percent),
    ("and", W::And),
    ("double", W::Repeat(2)),
    ("triple", W::Repeat(3)),
    ("point", W::Point),
    ("sixes", W::OnesWith(6, "s")),
    ("eighth", W::OnesWith(8, "th")),
];

/// Table of number words.
///
/// ```
/// use dyno_metrics::speech::numbers::NumberWords;
///
/// let words = ["twenty", "one", "dollars", "and", "five", "percent"];
/// assert_eq!(NumberWords::default().rewrite(&words), ["$21", "and", "5%"]);
/// ```
#[derive(Debug)]
pub struct NumberWords {
    words: HashMap<String, Word>,
}

impl Default for NumberWords {
    fn default() -> Self {
        let mut words: HashMap<String, Word> =
            OTHERS.iter().map(|(name, word)| ((*name).to_owned(), *word)).collect();
        for (value, name) in (1..).zip(ONES) {
            words.insert(name.to_owned(), W::Ones(value));
            if name != "six" {
                words.insert(format!("{name}s"), W::OnesWith(value, "s"));
            }
            // The source lacks `ninth` and has `nineth`.
            if value > 3 && !matches!(value, 5 | 8 | 12) {
                words.insert(format!("{name}th"), W::OnesWith(value, "th"));
            }
        }
        for (value, name) in (20..).step_by(10).zip(TENS) {
            let stem = name.trim_end_matches('y');
            words.insert(name.to_owned(), W::Tens(value));
            words.insert(format!("{stem}ies"), W::TensWith(value, "s"));
            words.insert(format!("{stem}ieth"), W::TensWith(value, "th"));
        }
        for (name, exponent) in POWERS {
            words.insert(name.to_owned(), W::Power(exponent));
            for suffix in ["s", "th"] {
                words.insert(format!("{name}{suffix}"), W::PowerWith(exponent, suffix));
            }
        }
        Self { words }
    }
}

impl NumberWords {
    /// Returns the words with numbers rewritten as digits.
    pub fn rewrite(&self, words: &[&str]) -> Vec<String> {
        let kinds: Vec<Option<Word>> =
            words.iter().map(|word| self.words.get(*word).copied()).collect();
        let mut state = NumberParser::default();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let previous = at.checked_sub(1).and_then(|at| kinds[at]);
            let next = NextWord {
                word: words.get(at + 1).copied(),
                kind: kinds.get(at + 1).copied().flatten(),
            };
            at += state.take(word, kinds[at], previous, &next);
        }
        state.flush();
        state.out
    }

    /// Returns whether `point five` may follow the word, for `and a half`.
    pub(crate) fn may_have_half(&self, word: &str) -> bool {
        matches!(self.words.get(word), Some(W::Zero | W::Ones(_) | W::Tens(_) | W::Power(_)))
    }
}

struct NextWord<'a> {
    word: Option<&'a str>,
    kind: Option<Word>,
}

impl NextWord<'_> {
    fn is_figures(&self) -> bool {
        self.word.is_some_and(is_figures)
    }

    fn may_be_numeric(&self) -> bool {
        self.kind.is_some() || self.is_figures()
    }
}

/// Returns whether a word consists of digits of any script, optionally with a point and more
/// digits.
fn is_figures(word: &str) -> bool {
    let are_digits = |part: &str| !part.is_empty() && part.chars().all(|c| digit(c).is_some());
    match word.split_once('.') {
        Some((whole, fraction)) => are_digits(whole) && are_digits(fraction),
        None => are_digits(word),
    }
}

/// Value of an incomplete number.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    /// A whole number in decimal, without leading zeros.
    Whole(String),
    /// A sequence of digits, such as `007` or `2.`.
    Digits(String),
}

impl Value {
    fn text(&self) -> &str {
        let (Self::Whole(text) | Self::Digits(text)) = self;
        text
    }

    /// Returns the sum, if the number ends in as many zeros as `low` has digits. Otherwise appends
    /// the digits.
    fn append(&self, low: u32) -> Self {
        let low = low.to_string();
        match self {
            Self::Whole(text) if text == "0" => Self::Whole(low),
            Self::Whole(text) if text.ends_with(&"00"[..low.len()]) => {
                Self::Whole(format!("{}{low}", &text[..text.len() - low.len()]))
            }
            _ => Self::Digits(format!("{}{low}", self.text())),
        }
    }
}

#[derive(Debug, Default)]
struct NumberParser {
    out: Vec<String>,
    prefix: Option<String>,
    value: Option<Value>,
}

impl NumberParser {
    fn put(&mut self, text: &str) {
        self.out.push(self.prefix.take().unwrap_or_default() + text);
        self.value = None;
    }

    /// Outputs the number so far.
    fn flush(&mut self) {
        if let Some(value) = self.value.take() {
            self.put(value.text());
        }
    }

    /// Returns the digits so far; none for zero.
    fn digits(&self) -> String {
        match &self.value {
            Some(Value::Whole(text)) if text == "0" => String::new(),
            value => value.as_ref().map_or_else(String::new, |value| value.text().to_owned()),
        }
    }

    /// Adds a word. Returns how many words it consumed.
    fn take(
        &mut self,
        word: &str,
        kind: Option<Word>,
        previous: Option<Word>,
        next: &NextWord<'_>,
    ) -> usize {
        let first = word.chars().next().filter(|first| "-+£€$¢".contains(*first));
        let figures = first.map_or(word, |first| &word[first.len_utf8()..]);
        if is_figures(figures) {
            self.take_figures(word, first, figures);
            return 1;
        }
        match kind {
            None => {
                self.flush();
                self.put(word);
            }
            Some(W::Zero) => self.value = Some(Value::Digits(self.digits() + "0")),
            Some(W::Ones(ones)) => self.value = Some(self.with_ones(ones, previous)),
            Some(W::OnesWith(ones, suffix)) => {
                let value = self.with_ones(ones, previous);
                self.put(&format!("{}{suffix}", value.text()));
            }
            Some(W::Tens(tens)) => self.value = Some(self.with_tens(tens)),
            Some(W::TensWith(tens, suffix)) => {
                let value = self.with_tens(tens);
                self.put(&format!("{}{suffix}", value.text()));
            }
            Some(W::Power(exponent)) => self.take_power(exponent),
            Some(W::PowerWith(exponent, suffix)) => {
                self.take_power(exponent);
                if let Some(value) = self.value.take() {
                    self.put(&format!("{}{suffix}", value.text()));
                }
            }
            Some(W::Sign(sign)) => {
                self.flush();
                if next.may_be_numeric() {
                    self.prefix = Some(sign.to_owned());
                } else {
                    self.put(word);
                }
            }
            Some(W::Currency(sign)) => {
                if self.value.is_some() {
                    self.prefix = Some(sign.to_owned());
                    self.flush();
                } else {
                    self.put(word);
                }
            }
            Some(kind) => return self.take_special(word, kind, previous, next),
        }
        1
    }

    fn take_figures(&mut self, word: &str, first: Option<char>, figures: &str) {
        match &mut self.value {
            // Decimals, or the next part of an address.
            Some(Value::Digits(text)) if text.ends_with('.') => {
                text.push_str(word);
                return;
            }
            _ => self.flush(),
        }
        if let Some(first) = first {
            self.prefix = Some(first.to_string());
        }
        let whole = times_power(figures, 0);
        self.value = Some(whole.map_or_else(|| Value::Digits(figures.to_owned()), Value::Whole));
    }

    fn with_ones(&self, ones: u32, previous: Option<Word>) -> Value {
        let Some(value) = &self.value else { return Value::Whole(ones.to_string()) };
        match (value, previous) {
            // `twenty one` after digits: the one replaces the zero.
            (Value::Digits(text), Some(W::Tens(_))) if ones < 10 => {
                Value::Digits(format!("{}{ones}", text.strip_suffix('0').unwrap_or(text)))
            }
            (_, Some(W::Ones(_))) => Value::Digits(format!("{}{ones}", value.text())),
            _ => value.append(ones),
        }
    }

    fn with_tens(&self, tens: u32) -> Value {
        self.value
            .as_ref()
            .map_or_else(|| Value::Whole(tens.to_string()), |value| value.append(tens))
    }

    fn take_power(&mut self, exponent: usize) {
        let one = || Value::Whole(format!("1{:0<exponent$}", ""));
        self.value = Some(match &self.value {
            None => one(),
            Some(Value::Whole(text)) => Value::Whole(times_low(text, exponent)),
            Some(Value::Digits(text)) => match times_power(text, exponent) {
                Some(whole) => Value::Whole(whole),
                None => {
                    self.flush();
                    one()
                }
            },
        });
    }

    fn take_special(
        &mut self,
        word: &str,
        kind: Word,
        previous: Option<Word>,
        next: &NextWord<'_>,
    ) -> usize {
        match kind {
            W::Percent | W::Per if self.value.is_some() => {
                let is_cent = next.word == Some("cent");
                if kind == W::Percent || is_cent {
                    let value = self.value.take().expect("it was found to be there");
                    self.put(&format!("{}%", value.text()));
                    return 1 + usize::from(kind == W::Per);
                }
                self.flush();
                self.put(word);
            }
            // `two hundred and one` is one number.
            W::And if matches!(previous, Some(W::Power(_))) && next.may_be_numeric() => {}
            W::Repeat(times) if matches!(next.kind, Some(W::Ones(_) | W::Zero)) => {
                let ones = if let Some(W::Ones(ones)) = next.kind { ones } else { 0 };
                let repeated = ones.to_string().repeat(times);
                self.value = Some(Value::Digits(self.digits() + &repeated));
                return 2;
            }
            W::Point if next.may_be_numeric() => {
                let is_decimal = matches!(next.kind, Some(W::Zero | W::Ones(_) | W::Tens(_)));
                // The source drops the word in other cases.
                if is_decimal || next.is_figures() {
                    self.value = Some(Value::Digits(self.digits() + "."));
                }
            }
            _ => {
                self.flush();
                self.put(word);
            }
        }
        1
    }
}

/// Returns decimal digits, optionally with a point, times a power of ten; `None` if the result is
/// not a whole number.
fn times_power(text: &str, exponent: usize) -> Option<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let ascii = |part: &str| -> Option<String> {
        part.chars()
            .map(|character| digit(character).map(|digit| char::from(b'0' + digit)))
            .collect()
    };
    let (whole, fraction) = (ascii(whole)?, ascii(fraction)?);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    (fraction.len() <= exponent).then(|| without_zeros(&format!("{whole}{fraction:0<exponent$}")))
}

/// Multiplies the last three digits of a whole number by a power of ten.
fn times_low(text: &str, exponent: usize) -> String {
    let (high, low) = text.split_at(text.len().saturating_sub(3));
    let times = format!("{low}{:0<exponent$}", "");
    if high.is_empty() { without_zeros(&times) } else { sum(&format!("{high}000"), &times) }
}

/// Returns the sum of two whole numbers in decimal.
fn sum(a: &str, b: &str) -> String {
    let length = a.len().max(b.len()) + 1;
    let (a, b) = (format!("{a:0>length$}"), format!("{b:0>length$}"));
    let mut carry = 0;
    let mut digits: Vec<u8> = a
        .bytes()
        .rev()
        .zip(b.bytes().rev())
        .map(|(a, b)| {
            let sum = (a - b'0') + (b - b'0') + carry;
            carry = sum / 10;
            b'0' + sum % 10
        })
        .collect();
    digits.reverse();
    without_zeros(&digits.into_iter().map(char::from).collect::<String>())
}

fn without_zeros(text: &str) -> String {
    let trimmed = text.trim_start_matches('0');
    if trimmed.is_empty() { "0".to_owned() } else { trimmed.to_owned() }
}
