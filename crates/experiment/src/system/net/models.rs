//! A mix of models: each sample names one of several.

use std::str::FromStr;

use dyno_loadgen::rng::Mt19937;
use dyno_net::workload::Workload;

use super::model_names::unquoted;

/// Models with their weights, such as `small*3+large`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelMix(Vec<(String, f64)>);

impl FromStr for ModelMix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || format!("expected MODEL*WEIGHT+MODEL*WEIGHT, such as small*3+large, found `{text}`");
        let model = |part: &str| {
            let (name, weight) = match part.rsplit_once('*') {
                None => (part, 1.0),
                Some((name, weight)) => (name, weight.parse().map_err(|_| expected())?),
            };
            let name = unquoted(name)?;
            let is_valid = !name.is_empty() && weight > 0.0 && f64::is_finite(weight);
            is_valid.then_some((name, weight)).ok_or_else(expected)
        };
        let models: Vec<(String, f64)> = text.split('+').map(model).collect::<Result<_, _>>()?;
        let mut names: Vec<&String> = models.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        if models.len() < 2 || names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("expected two or more different models, found `{text}`"));
        }
        Ok(Self(models))
    }
}

impl ModelMix {
    /// Returns the first model.
    pub fn first(&self) -> &str {
        &self.0[0].0
    }

    /// Returns the names of the models.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Assigns a model to each sample, or to each conversation with all its turns. The number of each
    /// model is that of its weight, to within one; the seed determines which samples they are. Returns
    /// a remark.
    ///
    /// # Errors
    /// A row names its model itself.
    pub fn assign(&self, workload: &mut Workload, seed: u64) -> Result<String, String> {
        if workload.prompts.iter().any(|prompt| prompt.members.contains_key("model")) {
            return Err("rows of --data name their models; remove models".into());
        }
        let starts: Vec<usize> = match &workload.conversations[..] {
            [] => (0..workload.prompts.len()).collect(),
            all => all.iter().map(|one| one.first).collect(),
        };
        let numbers = self.numbers(starts.len());
        let mut models: Vec<&str> = Vec::new();
        for ((name, _), number) in self.0.iter().zip(&numbers) {
            models.extend(std::iter::repeat_n(name.as_str(), *number));
        }
        Mt19937::new(seed).shuffle(&mut models);
        let ends = starts.iter().skip(1).copied().chain([workload.prompts.len()]);
        let ranges: Vec<_> = starts.iter().copied().zip(ends).collect();
        for ((first, end), model) in ranges.into_iter().zip(&models) {
            for prompt in &mut workload.prompts[first..end] {
                prompt.members.insert("model".into(), (*model).into());
            }
        }
        let what = if workload.conversations.is_empty() { "samples" } else { "conversations" };
        let parts = self.0.iter().zip(&numbers);
        let parts: Vec<String> =
            parts.map(|((name, _), number)| format!("{name} for {number}")).collect();
        Ok(format!("Models of the {} {what}: {}.", starts.len(), parts.join(", ")))
    }

    /// Returns how many of `all` samples each model has: the whole part of its share, and one more for
    /// the models with the largest rests.
    fn numbers(&self, all: usize) -> Vec<usize> {
        let sum: f64 = self.0.iter().map(|(_, weight)| weight).sum();
        let share = |weight: f64| all as f64 * weight / sum;
        let mut numbers: Vec<usize> =
            self.0.iter().map(|(_, weight)| share(*weight) as usize).collect();
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        let rest = |at: &usize| share(self.0[*at].1).fract();
        order.sort_by(|a, b| rest(b).total_cmp(&rest(a)));
        let left = all.saturating_sub(numbers.iter().sum());
        order.iter().cycle().take(left).for_each(|at| numbers[*at] += 1);
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_net::workload::{Lengths, SyntheticConversations};

    #[test]
    fn models_have_their_weights() {
        let mix: ModelMix = "org/a*b*3+c".parse().unwrap();
        assert_eq!(mix, ModelMix(vec![("org/a*b".into(), 3.0), ("c".into(), 1.0)]));
        let mix: ModelMix = "\"a\\u002bb\\u002c\"*3+c".parse().unwrap();
        assert_eq!(mix, ModelMix(vec![("a+b,".into(), 3.0), ("c".into(), 1.0)]));
        for (all, expected) in [(4, [3, 1]), (0, [0, 0]), (1, [1, 0]), (6, [5, 1])] {
            assert_eq!(mix.numbers(all), expected, "{all}");
        }
        for odd in ["", "a", "a*0+b", "a+", "a+a", "a*x+b", "a*-1+b", "a*inf+b", "\"a+b"] {
            assert!(odd.parse::<ModelMix>().unwrap_err().starts_with("expected"), "{odd}");
        }
    }

    #[test]
    fn all_turns_of_a_conversation_have_one_model() {
        let made = SyntheticConversations {
            count: 8,
            turns: Lengths::Fixed(3),
            input: Lengths::Fixed(2),
            output: None,
            prefix: 0,
            seed: 1,
        };
        let mix: ModelMix = "a*3+b".parse().unwrap();
        let models = |seed| {
            let mut workload = made.workload().unwrap();
            mix.assign(&mut workload, seed).unwrap();
            let model = |at: usize| workload.prompts[at].members["model"].clone();
            (0..24).map(model).collect::<Vec<_>>()
        };
        let found = models(5);
        for turns in found.chunks(3) {
            assert!(turns.iter().all(|model| *model == turns[0]));
        }
        assert_eq!(found.iter().filter(|model| **model == "a").count(), 18);
        assert_eq!(found, models(5));
        assert_ne!(found, models(6));
    }
}
