//! Synthetic prompts with given lengths.

use dyno_loadgen::rng::Mt19937;

use super::budget::SizeBudget;
use super::images::{MadeImages, place};
use super::{LengthMix, Prompt, Workload};
use crate::openai::{Input, Message};

/// Settings of synthetic prompts.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticPrompts {
    /// Number of prompts (>= 1).
    pub count: usize,
    /// Tokens of each prompt, including the prefix, and limits of output tokens.
    pub lengths: LengthMix,
    /// Tokens at the start that the prompts of a group share.
    pub prefix: u64,
    /// Groups of prompts (>= 1), each with its own prefix.
    pub groups: usize,
    /// Images of each prompt, which make it a message of a chat.
    pub images: Option<MadeImages>,
    /// Documents that each prompt is a question about; 0 makes no ranking.
    pub documents: usize,
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

/// Remark on prompts of words whose tokens were not counted.
pub const WORDS_REMARK: &str = "Prompts are random words, about one token per word.";

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
    ///
    /// # Errors
    /// Prompts of more than 512 MiB.
    pub fn workload(&self) -> Result<Workload, String> {
        let texts = (self.documents as u64).saturating_add(1);
        let least = self.lengths.least_input().saturating_mul(texts);
        let mut budget = SizeBudget::for_prompts(self.count as u64, least)?;
        let least_images = self.images.map_or(0, MadeImages::least_bytes);
        SizeBudget::check(self.count as u64, least_images)?;
        let mut rng = Mt19937::new(self.seed);
        let mut without_own_text = 0;
        let prompts = (0..self.count).map(|number| {
            let (length, max_tokens) = self.lengths.draw(&mut rng);
            budget.prompt(length)?;
            let prefix = self.prefix.min(length);
            without_own_text += usize::from(self.prefix > 0 && prefix == length);
            let mut text = Text::new(self.shape);
            // Groups use their own seeds, which differ from those of prompts.
            let group = (number % self.groups.max(1)) as u64;
            text.draw(&mut Mt19937::new(!self.seed.wrapping_add(group)), prefix);
            text.draw(&mut rng, length - prefix);
            let input = self.with_documents(text.input(), &mut rng, &mut budget)?;
            let input = self.with_images(input, number, &mut budget)?;
            let input_tokens = Some(length);
            Ok(Prompt { max_tokens, input_tokens, ..Prompt::new(input) })
        });
        let prompts: Vec<Prompt> = prompts.collect::<Result<_, String>>()?;
        let mut remarks = Vec::new();
        remarks.extend(self.remark_on_prefix(without_own_text)?);
        if self.shape == Shape::Words {
            remarks.push(WORDS_REMARK.to_owned());
        }
        if let Some(images) = self.images {
            remarks.push(format!("Each prompt has its own images: {images} pixels, PNG."));
        }
        Ok(Workload { prompts, remarks, ..Workload::default() })
    }

    /// Returns a remark on prompts that consist of the prefix of their group alone.
    ///
    /// # Errors
    /// All prompts do, so that those of a group are equal.
    fn remark_on_prefix(&self, without_own_text: usize) -> Result<Option<String>, String> {
        if without_own_text == 0 || self.groups >= self.count {
            return Ok(None);
        }
        let prefix = self.prefix;
        let is_all = without_own_text == self.count;
        if is_all && self.images.is_none() && self.documents == 0 {
            return Err(format!(
                "prefix={prefix} leaves no prompt a text of its own, so those of a group would be \
                 equal; expected a prefix shorter than the input"
            ));
        }
        let all = self.count;
        Ok(Some(format!(
            "{without_own_text} of {all} prompts are not longer than the prefix of {prefix} tokens, \
             so their texts equal the prefix, or its beginning."
        )))
    }

    /// Returns a ranking of random documents, each of a length of its own.
    fn with_documents(
        &self,
        input: Input,
        rng: &mut Mt19937,
        budget: &mut SizeBudget,
    ) -> Result<Input, String> {
        let Input::Text(query) = input else { return Ok(input) };
        if self.documents == 0 {
            return Ok(Input::Text(query));
        }
        let documents = (0..self.documents).map(|_| {
            let (length, _) = self.lengths.draw(rng);
            budget.prompt(length)?;
            let mut words = String::new();
            draw_words(&mut words, rng, length);
            Ok(words)
        });
        Ok(Input::Ranking { query, documents: documents.collect::<Result<_, String>>()? })
    }

    /// Returns the message of a text with images. Their seeds are their own, so that a prompt has the
    /// same text with and without them.
    fn with_images(
        &self,
        input: Input,
        number: usize,
        budget: &mut SizeBudget,
    ) -> Result<Input, String> {
        let (Some(images), Input::Text(text)) = (self.images, &input) else { return Ok(input) };
        let mut messages = [Message::new("user", text.as_str())];
        let mut rng = Mt19937::new(self.seed.rotate_left(32) ^ (number as u64 + 1));
        let urls = images.urls(&mut rng).map(|url| {
            budget.bytes(url.len() as u64)?;
            Ok(url)
        });
        place(urls.collect::<Result<_, String>>()?, &mut messages).expect("a user message");
        Ok(Input::Messages(messages.into()))
    }
}

/// Appends random words.
pub(crate) fn draw_words(text: &mut String, rng: &mut Mt19937, words: u64) {
    for _ in 0..words {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(WORDS[below(rng, WORDS.len() as u64) as usize]);
    }
}

/// Draws a number below this one.
fn below(rng: &mut Mt19937, most: u64) -> u64 {
    ((rng.canonical() * most as f64) as u64).min(most.saturating_sub(1))
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
        match self {
            Self::Words(text) => draw_words(text, rng, tokens),
            Self::Numbers(most, all) => all.extend((0..tokens).map(|_| below(rng, *most))),
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
        SyntheticPrompts {
            count: 12,
            lengths: "20-40/8".parse().unwrap(),
            prefix: 10,
            groups: 3,
            images: None,
            documents: 0,
            shape,
            seed: 5,
        }
    }

    fn tokens(workload: &Workload) -> Vec<Vec<String>> {
        let of = |prompt: &Prompt| match &prompt.input {
            Input::Text(text) => text.split(' ').map(str::to_owned).collect(),
            Input::Tokens(all) => all.iter().map(ToString::to_string).collect(),
            other => unreachable!("{other:?} was not requested"),
        };
        workload.prompts.iter().map(of).collect()
    }

    #[test]
    fn prompts_of_a_group_share_their_prefix_and_nothing_else() {
        for shape in [Shape::Words, Shape::Numbers(32_000)] {
            let workload = made(shape).workload().unwrap();
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
    fn a_prefix_that_covers_prompts_is_reported() {
        let of = |lengths: &str| SyntheticPrompts {
            lengths: lengths.parse().unwrap(),
            ..made(Shape::Words)
        };
        for lengths in ["10", "3-9"] {
            let error = of(lengths).workload().unwrap_err();
            assert!(error.starts_with("prefix=10 leaves no prompt"), "{error}");
        }
        assert!(SyntheticPrompts { groups: 12, ..of("10") }.workload().is_ok());
        assert!(SyntheticPrompts { prefix: 0, ..of("10") }.workload().is_ok());
        let remarks = of("5/8,30/8").workload().unwrap().remarks;
        let about = remarks.iter().find(|text| text.contains("of 12 prompts")).unwrap();
        assert!(about.contains("not longer than the prefix of 10 tokens"), "{about}");
        let longer = of("11").workload().unwrap().remarks;
        assert!(longer.iter().all(|text| !text.contains("prefix")), "{longer:?}");
    }

    #[test]
    fn equal_seeds_give_equal_prompts_whatever_their_number() {
        let few = made(Shape::Words).workload().unwrap();
        let many = SyntheticPrompts { count: 30, ..made(Shape::Words) }.workload().unwrap();
        assert_eq!(few.prompts[..], many.prompts[..12]);
        assert_ne!(few, SyntheticPrompts { seed: 6, ..made(Shape::Words) }.workload().unwrap());
    }

    #[test]
    fn prompts_larger_than_the_limit_are_not_made() {
        let words = || made(Shape::Words);
        let mix = |text: &str| text.parse().unwrap();
        for too_large in [
            SyntheticPrompts { count: usize::MAX, ..words() },
            SyntheticPrompts { lengths: mix("1000000000"), ..words() },
            SyntheticPrompts { lengths: mix("lognormal:900000000:0.1"), ..words() },
            SyntheticPrompts { documents: usize::MAX, ..words() },
        ] {
            let error = too_large.workload().unwrap_err();
            assert!(error.contains("larger than 512 MiB"), "{error}");
        }
    }
}
