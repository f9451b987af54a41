//! Token counts of servers; deviations from valid counts are recorded.

use serde_json::Value;

use super::Usage;
use crate::ledger::{Flags, Oddity};

/// Counts that a server claims. A member that is missing or invalid is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Claim {
    /// Input tokens.
    pub input: Option<u32>,
    /// Input tokens from the cache.
    pub cached: Option<u32>,
    /// Output tokens, thoughts included.
    pub output: Option<u32>,
    /// Output tokens that are thoughts.
    pub reasoning: Option<u32>,
    /// All tokens.
    pub total: Option<u32>,
    /// Peculiarities of their spelling.
    pub oddities: Flags<Oddity>,
}

impl Claim {
    /// Reads the value of `usage`; `None` if it is null. Never fails.
    pub fn read(json: &str) -> Option<Self> {
        let mut claim = Self::default();
        match serde_json::from_str(json) {
            Ok(Value::Null) => return None,
            Ok(Value::Object(usage)) => {
                let odd = &mut claim.oddities;
                let mut at = |name: &str| usage.get(name).and_then(|value| count(value, odd));
                // Newer interfaces of OpenAI name them input and output.
                claim.input = at("prompt_tokens").or_else(|| at("input_tokens"));
                claim.output = at("completion_tokens").or_else(|| at("output_tokens"));
                claim.total = at("total_tokens");
                let mut detail = |of: [&str; 2], name: &str| {
                    let details = of.iter().find_map(|of| usage.get(*of))?;
                    count(details.get(name)?, odd)
                };
                let of = ["prompt_tokens_details", "input_tokens_details"];
                claim.cached = detail(of, "cached_tokens");
                let of = ["completion_tokens_details", "output_tokens_details"];
                claim.reasoning = detail(of, "reasoning_tokens");
                let rejected = detail(of, "rejected_prediction_tokens").unwrap_or(0);
                // SGLang and others state them beside the other counts, DeepSeek under a name of its own.
                let mut beside = |names: &[&str]| {
                    let found = names.iter().find_map(|name| usage.get(*name));
                    found.and_then(|value| count(value, odd))
                };
                claim.cached =
                    claim.cached.or_else(|| beside(&["cached_tokens", "prompt_cache_hit_tokens"]));
                claim.reasoning = claim.reasoning.or_else(|| beside(&["reasoning_tokens"]));
                // Tokens of a prediction that the answer does not contain are counted as output.
                if claim.output.is_some_and(|output| rejected < output) {
                    claim.output = claim.output.map(|output| output - rejected);
                    claim.total = claim.total.map(|total| total.saturating_sub(rejected));
                }
                if claim.input.is_none() || claim.output.is_none() {
                    claim.oddities.insert(Oddity::PartialUsage);
                }
            }
            _ => claim.oddities.insert(Oddity::NoCount),
        }
        Some(claim)
    }

    /// Reads counts under these names; those of inputs are added up. An answer may state some of them
    /// in one place and others in another.
    pub(super) fn read_named(
        json: &str,
        inputs: &[&str],
        cached: &str,
        output: &str,
    ) -> Option<Self> {
        let Ok(Value::Object(usage)) = serde_json::from_str(json) else { return None };
        let mut oddities = Flags::default();
        let mut at = |name: &str| usage.get(name).and_then(|value| count(value, &mut oddities));
        let (first, rest) = inputs.split_first()?;
        let input = at(first)
            .map(|first| rest.iter().filter_map(|name| at(name)).fold(first, u32::saturating_add));
        let (cached, output) = (at(cached), at(output));
        Some(Self { input, cached, output, oddities, ..Self::default() })
    }

    /// Merges a later claim of the same answer: a count of 0 or a missing one replaces no count
    /// above 0. Returns whether the count of output tokens went down.
    pub fn update(&mut self, later: Self) -> bool {
        let oddities = self.oddities.and(later.oddities);
        let is_less = matches!((self.output, later.output), (Some(a), Some(b)) if b < a && b > 0);
        let had_some = self.output.is_some_and(|tokens| tokens > 0);
        let last =
            |before: Option<u32>, later: Option<u32>| later.filter(|n| *n > 0).or(before).or(later);
        let counts_nothing = later.output.is_none_or(|tokens| tokens == 0);
        *self = Self {
            input: last(self.input, later.input),
            cached: last(self.cached, later.cached),
            output: last(self.output, later.output),
            reasoning: last(self.reasoning, later.reasoning),
            total: last(self.total, later.total),
            oddities,
        };
        if had_some && counts_nothing {
            self.oddities.insert(Oddity::ZeroLast);
        }
        is_less
    }

    /// Returns the counts with thoughts among the output tokens. xAI counts them beside the output
    /// tokens, and Gemini only in the total.
    pub(super) fn with_thoughts(mut self) -> Self {
        let (Some(input), Some(output), Some(total)) = (self.input, self.output, self.total) else {
            return self;
        };
        let beyond = u64::from(total).saturating_sub(u64::from(input) + u64::from(output));
        match self.reasoning {
            None if beyond > 0 => self.oddities.insert(Oddity::LargerTotal),
            Some(thoughts) if beyond > 0 && u64::from(thoughts) == beyond => {
                self.output = Some(output + thoughts);
                self.oddities.insert(Oddity::ThoughtsBeside);
            }
            _ => {}
        }
        self
    }
}

/// Counts of the parts of a stream, as long as each part may count its own tokens alone.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PartCounts {
    /// Parts with output.
    parts: u32,
    sum: u32,
    last: u32,
    is_ambiguous: bool,
}

impl PartCounts {
    /// Adds a part with this many bytes of output. A count of all tokens so far grows with each part
    /// that has output, and exceeds the bytes of a short one.
    pub(super) fn add(&mut self, bytes: usize, claim: Option<Claim>) {
        let tokens = claim.and_then(|claim| claim.output).unwrap_or(0);
        let has_thoughts = claim.and_then(|claim| claim.reasoning).is_some_and(|n| n > 0);
        let is_own = if bytes == 0 {
            tokens == 0
        } else {
            (1..=bytes).contains(&(tokens as usize)) && (self.parts == 0 || tokens <= self.last)
        };
        self.is_ambiguous |= has_thoughts || !is_own;
        if bytes > 0 {
            self.parts = self.parts.saturating_add(1);
            self.sum = self.sum.saturating_add(tokens);
            self.last = tokens;
        }
    }

    /// Returns the tokens of all parts; `None` if a part may count otherwise.
    pub(super) fn sum(self) -> Option<u32> {
        (self.parts > 1 && !self.is_ambiguous).then_some(self.sum)
    }
}

impl From<Usage> for Claim {
    fn from(usage: Usage) -> Self {
        let count = |tokens: u64| u32::try_from(tokens).ok();
        Self {
            input: count(usage.prompt_tokens),
            output: count(usage.completion_tokens),
            ..Self::default()
        }
    }
}

/// Returns the count of a value; `None` if it is null.
fn count(value: &Value, odd: &mut Flags<Oddity>) -> Option<u32> {
    let (number, oddity) = match value {
        Value::Null => return None,
        Value::Number(number) if number.is_u64() => (number.as_f64(), None),
        Value::Number(number) => (number.as_f64(), Some(Oddity::FloatCount)),
        Value::String(text) => (text.trim().parse().ok(), Some(Oddity::TextCount)),
        _ => (None, None),
    };
    let whole = number.filter(|n| n.fract() == 0.0 && (0.0..f64::from(u32::MAX)).contains(n));
    match whole {
        Some(whole) => {
            oddity.into_iter().for_each(|oddity| odd.insert(oddity));
            Some(whole as u32)
        }
        None => {
            odd.insert(Oddity::NoCount);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, input: Option<u32>, output: Option<u32>, oddities: &[Oddity]) {
        let claim = Claim::read(json).unwrap();
        assert_eq!((claim.input, claim.output), (input, output), "{json}");
        assert_eq!(claim.oddities.iter().collect::<Vec<_>>(), oddities, "{json}");
    }

    #[test]
    fn counts_are_read_as_far_as_they_are_counts() {
        use Oddity::{FloatCount, NoCount, PartialUsage, TextCount};
        check(r#"{"prompt_tokens":5,"completion_tokens":2}"#, Some(5), Some(2), &[]);
        let null = r#"{"prompt_tokens":null,"completion_tokens":2,"total_tokens":null}"#;
        check(null, None, Some(2), &[PartialUsage]);
        check(r#"{"prompt_tokens":5.0,"completion_tokens":2e0}"#, Some(5), Some(2), &[FloatCount]);
        let negative = r#"{"prompt_tokens":-1,"completion_tokens":2}"#;
        check(negative, None, Some(2), &[PartialUsage, NoCount]);
        check(r#"{"prompt_tokens":"5","completion_tokens":" 2 "}"#, Some(5), Some(2), &[TextCount]);
        for huge in ["18446744073709551616", "1e300", "4294967296", "2.5", "true", "[1]", "\"x\""] {
            let json = format!(r#"{{"prompt_tokens":5,"completion_tokens":{huge}}}"#);
            check(&json, Some(5), None, &[PartialUsage, NoCount]);
        }
        check("{}", None, None, &[PartialUsage]);
        for odd in ["3", "\"none\"", "[]", "true"] {
            check(odd, None, None, &[NoCount]);
        }
        assert_eq!(Claim::read("null"), None);
    }

    #[test]
    fn details_are_read_where_they_are_stated() {
        let json = r#"{"prompt_tokens":9,"completion_tokens":8,"total_tokens":17,
            "prompt_tokens_details":{"cached_tokens":4,"audio_tokens":null},
            "completion_tokens_details":{"reasoning_tokens":6}}"#;
        let claim = Claim::read(json).unwrap();
        assert_eq!((claim.cached, claim.reasoning, claim.total), (Some(4), Some(6), Some(17)));
        let beside = r#"{"prompt_tokens":9,"completion_tokens":8,"total_tokens":17,
            "prompt_tokens_details":null,"prompt_cache_hit_tokens":4,"reasoning_tokens":6}"#;
        assert_eq!(Claim::read(beside), Some(claim));
        let odd = r#"{"prompt_tokens":9,"completion_tokens":8,"prompt_tokens_details":null,
            "completion_tokens_details":"x"}"#;
        let claim = Claim::read(odd).unwrap();
        assert_eq!((claim.cached, claim.reasoning), (None, None));
    }

    #[test]
    fn tokens_of_a_prediction_that_the_answer_does_not_contain_are_no_output() {
        let claim = |output: u32, rejected: u32| {
            let json = format!(
                "{{\"prompt_tokens\":5,\"completion_tokens\":{output},\"total_tokens\":{},
                \"completion_tokens_details\":{{\"rejected_prediction_tokens\":{rejected},
                \"accepted_prediction_tokens\":2}}}}",
                5 + output
            );
            let claim = Claim::read(&json).unwrap();
            (claim.output, claim.total)
        };
        assert_eq!(claim(304, 300), (Some(4), Some(9)));
        assert_eq!(claim(304, 0), (Some(304), Some(309)));
        // A server that counts them beside the output.
        assert_eq!(claim(4, 300), (Some(4), Some(9)));
    }

    #[test]
    fn thoughts_beside_the_output_are_found_by_the_total() {
        let claim = |output: u32, reasoning: Option<u32>, total: u32| {
            let (input, output, total) = (Some(5), Some(output), Some(total));
            let claim = Claim { input, output, reasoning, total, ..Claim::default() };
            let claim = claim.with_thoughts();
            (claim.output, claim.oddities.iter().next())
        };
        assert_eq!(claim(2, Some(3), 10), (Some(5), Some(Oddity::ThoughtsBeside)));
        assert_eq!(claim(5, Some(3), 10), (Some(5), None));
        assert_eq!(claim(2, None, 10), (Some(2), Some(Oddity::LargerTotal)));
        assert_eq!(claim(2, Some(2), 10), (Some(2), None));
        assert_eq!(claim(2, None, 6), (Some(2), None));
    }

    #[test]
    fn a_later_claim_of_nothing_replaces_no_count() {
        let claim = |output: Option<u32>| Claim { output, ..Claim::default() };
        let mut all = claim(Some(2));
        assert!(!all.update(claim(Some(0))));
        assert!(!all.update(claim(None)));
        assert_eq!(all.output, Some(2));
        assert!(all.oddities.contains(Oddity::ZeroLast));
        assert!(!all.update(claim(Some(3))));
        assert!(all.update(claim(Some(1))), "it went down");
        let mut none = claim(None);
        none.update(claim(Some(0)));
        assert_eq!(none.output, Some(0));
    }
}
