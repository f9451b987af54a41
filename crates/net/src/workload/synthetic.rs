//! Synthetic prompts with given lengths.

use dyno_loadgen::rng::Mt19937;

use super::{Lengths, Prompt, Workload};
use crate::openai::Input;

/// Settings of synthetic prompts.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticPrompts {
    /// Number of prompts (>= 1).
    pub count: usize,
    /// Tokens of each prompt, including the prefix.
    pub input: Lengths,
    /// Maximum number of output tokens.
    pub output: Option<Lengths>,
    /// Tokens at the start that the prompts of a group share.
    pub prefix: u64,
    /// Groups of prompts (>= 1), each with its own prefix.
    pub groups: usize,
    /// Kind of tokens.
    pub shape: Shape,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Kind of the tokens of a synthetic prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Short common words: about one token each in most vocabularies, so lengths are only
    /// approximate.
    Words,
    /// Numbers below this one (>= 1), sent as token numbers: lengths are exact.
    Numbers(u64),
}

/// Words that are one token each, including their space, in the common vocabularies of English.
const WORDS: [&str; 64] = [
    "the", "of", "and", "to", "in", "is", "you", "that", "it", "he", "was", "for", "on", "are",
    "as", "with", "his", "they", "at", "be", "this", "have", "from", "or", "one", "had", "by",
    "word", "but", "not", "what", "all", "were", "we", "when", "your", "can", "said", "there",
    "use", "an", "each", "which", "she", "do", "how", "their", "if", "will", "up", "other",
    "about", "out", "many", "then", "them", "these", "so", "some", "her", "would", "make", "like",
    "him",
];

impl SyntheticPrompts {
    /// Returns the prompts. Equal seeds give equal prompts, regardless of their number.
    #[must_use]
    pub fn workload(&self) -> Workload {
        let mut rng = Mt19937::new(self.seed);
        let prompts = (0..self.count).map(|number| {
            let length = self.input.draw(&mut rng);
            let max_tokens = self.output.as_ref().map(|output| output.draw(&mut rng));
            let prefix = self.prefix.min(length);
            let mut text = Text::new(self.shape);
            // Groups use their own seeds, which differ from those of prompts.
            let group = (number % self.groups.max(1)) as u64;
            text.draw(&mut Mt19937::new(!self.seed.wrapping_add(group)), prefix);
            text.draw(&mut rng, length - prefix);
            Prompt { max_tokens, ..Prompt::new(text.input()) }
        });
        let mut remarks = Vec::new();
        if self.shape == Shape::Words {
            remarks.push("Prompts are random words, about a token each.".to_owned());
        }
        Workload { prompts: prompts.collect(), remarks, ..Workload::default() }
    }
}

/// Builder of a prompt.
pub(super) enum Text {
    Words(String),
    Numbers(u64, Vec<u64>),
}

impl Text {
    pub(super) fn new(shape: Shape) -> Self {
        match shape {
            Shape::Words => Self::Words(String::new()),
            Shape::Numbers(below) => Self::Numbers(below, Vec::new()),
        }
    }

    /// Appends this many tokens.
    pub(super) fn draw(&mut self, rng: &mut Mt19937, tokens: u64) {
        let mut below = |n: u64| ((rng.canonical() * n as f64) as u64).min(n.saturating_sub(1));
        for _ in 0..tokens {
            match self {
                Self::Words(text) => {
                    if !text.is_empty() {
                        text.push(' ');
                    }
                    text.push_str(WORDS[below(WORDS.len() as u64) as usize]);
                }
                Self::Numbers(most, all) => all.push(below(*most)),
            }
        }
    }

    pub(super) fn input(self) -> Input {
        match self {
            Self::Words(text) => Input::Text(text),
            Self::Numbers(_, all) => Input::Tokens(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(shape: Shape) -> SyntheticPrompts {
        let (input, output) = (Lengths::Uniform(20, 40), Some(Lengths::Fixed(8)));
        SyntheticPrompts { count: 12, input, output, prefix: 10, groups: 3, shape, seed: 5 }
    }

    fn tokens(workload: &Workload) -> Vec<Vec<String>> {
        let of = |prompt: &Prompt| match &prompt.input {
            Input::Text(text) => text.split(' ').map(str::to_owned).collect(),
            Input::Tokens(all) => all.iter().map(ToString::to_string).collect(),
            Input::Messages(_) => unreachable!("nobody asked for a chat"),
        };
        workload.prompts.iter().map(of).collect()
    }

    #[test]
    fn prompts_of_a_group_share_their_prefix_and_nothing_else() {
        for shape in [Shape::Words, Shape::Numbers(32_000)] {
            let workload = made(shape).workload();
            let all = tokens(&workload);
            assert!(all.iter().all(|tokens| (20..=40).contains(&tokens.len())));
            assert!(workload.prompts.iter().all(|prompt| prompt.max_tokens == Some(8)));
            for (at, tokens) in all.iter().enumerate() {
                assert_eq!(tokens[..10], all[at % 3][..10]);
                assert_ne!(tokens[..10], all[(at + 1) % 3][..10]);
            }
            let mut rests: Vec<&[String]> = all.iter().map(|tokens| &tokens[10..]).collect();
            rests.sort();
            rests.dedup();
            assert_eq!(rests.len(), 12);
        }
    }

    #[test]
    fn equal_seeds_give_equal_prompts_whatever_their_number() {
        let few = made(Shape::Words).workload();
        let many = SyntheticPrompts { count: 30, ..made(Shape::Words) }.workload();
        assert_eq!(few.prompts[..], many.prompts[..12]);
        assert_ne!(few, SyntheticPrompts { seed: 6, ..made(Shape::Words) }.workload());
    }
}
