//! Chooses formats with scales by labelled samples, and confirms the choice on others.

use dyno_number::confirm::{Fallback, LEVEL, PairedSamples, SampleOutcomes};
use dyno_number::evaluate::graph::{
    CorrectnessRule, GraphEvaluator, GraphInput, GraphSamples, ScaledFormat, ScaledModel,
    ScaledRung, ScaledSearch,
};
use dyno_number::network::Metric;
use dyno_number::tune::{Chance, fewest_held_out};
use dyno_onnx::Model;

use super::built_in::{ONE_CLASS, check_scores, no_better};
use super::data::{held_out_parts, most_frequent_share};
use crate::watch::Interrupt;

/// Most choices that are compared with FLOAT 32 on held-out samples.
const MOST_RUNGS: usize = 8;

/// A search of formats with scales.
#[derive(Debug)]
pub struct ScaleSearch<'a> {
    /// The model.
    pub model: &'a Model,
    /// Samples with labels.
    pub samples: &'a GraphSamples,
    /// Formats to choose from.
    pub formats: &'a [ScaledFormat],
    /// Share of the accuracy that may be lost.
    pub margin: f64,
    /// Share of the samples that the search does not see.
    pub held_out: f64,
}

/// The choice of a search.
#[derive(Debug)]
pub struct ScaleChoice {
    /// Objects with their formats; those in FLOAT 32 are missing.
    pub formats: Vec<(String, ScaledFormat)>,
    /// Bits of all weights with their scales, and in FLOAT 32.
    pub bits: [u64; 2],
    /// Accuracy of the choice and of FLOAT 32 on the samples of the search.
    pub accuracies: [f64; 2],
    /// Number of choices that were evaluated.
    pub evaluations: u64,
    /// What the held-out samples show.
    pub verdict: ScaleVerdict,
}

/// What the held-out samples show about the loss of a choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScaleVerdict {
    /// The loss is at most the margin, with 95 % confidence.
    Confirmed {
        /// Number of held-out samples.
        samples: u64,
        /// Smallest margin that they prove.
        proven: f64,
    },
    /// The held-out samples are too few, or the choice loses more.
    Undecided {
        /// Number of held-out samples.
        samples: u64,
        /// Number that is needed, if one is known.
        needed: Option<u64>,
    },
    /// The choice may lose little, but is right no more often than the most frequent class.
    OneClass {
        /// Number of held-out samples.
        samples: u64,
    },
    /// Every choice that was tested loses more than the margin, each with 97.5 % confidence.
    Exceeded {
        /// Number of held-out samples.
        samples: u64,
    },
}

impl ScaleSearch<'_> {
    /// Searches, and confirms the smallest choice that it can.
    ///
    /// # Errors
    /// The model or the samples cannot be used, or the user interrupted.
    pub fn run(&self, interrupt: &Interrupt) -> Result<ScaleChoice, String> {
        let CorrectnessRule::Labels(_) = self.samples.correctness else {
            return Err("expected labels of the samples".into());
        };
        check_scores(self.model, &self.samples.correctness)?;
        if self.samples.count() == 0 {
            return Err("expected samples, found none".into());
        }
        let mut parts = held_out_parts(self.samples, self.held_out);
        let different = parts[0].len() as u64;
        let is_enough = different >= fewest_held_out(self.margin);
        if !is_enough {
            parts = [Vec::new(), (0..self.samples.count()).collect()];
        }
        let [held_out, searched] = parts;
        let search =
            ScaledSearch::new(self.model, self.formats).map_err(|error| error.to_string())?;
        if !search.has_choice() {
            let problem = "no format of --from fits a weight of the model and is smaller; groups and MX \
                           formats need operators of version 21";
            return Err(problem.into());
        }
        let held_out =
            if is_enough { Some(self.base_outcomes(&held_out, "held-out sample")?) } else { None };
        let (part, base) = self.base_outcomes(&searched, "sample")?;
        let base = base.mean();
        let mut evaluations = 0;
        let mut evaluate = |choice: &[Option<ScaledFormat>]| {
            if interrupt.is_asked() {
                return Err("interrupted: nothing was written".to_owned());
            }
            evaluations += 1;
            Ok(self.answers(&search, choice, &part)?.mean())
        };
        let rungs = search.run((1.0 - self.margin) * base, &mut evaluate)?;
        let Some(smallest) = rungs.last() else {
            return Err("FLOAT 32 is not reproducible".into());
        };
        let (rung, verdict) = if let Some((part, base)) = &held_out {
            self.confirm(&search, &rungs, part, base)?
        } else {
            let needed = Some(fewest_held_out(self.margin)).filter(|needed| *needed < u64::MAX);
            (smallest, ScaleVerdict::Undecided { samples: different, needed })
        };
        Ok(ScaleChoice {
            formats: search.named(&rung.choice),
            bits: [rung.bits, search.base_bits()],
            accuracies: [rung.accuracy, base],
            evaluations,
            verdict,
        })
    }

    /// Returns some of the samples, and which of them FLOAT 32 answers rightly.
    fn base_outcomes(
        &self,
        places: &[usize],
        what: &str,
    ) -> Result<(GraphSamples, SampleOutcomes), String> {
        let part = subset(self.samples, places);
        let (predictions, labels) = predictions(self.model, &part)?;
        check_chance(&predictions, labels, what)?;
        let right = right_ones(&predictions, labels);
        Ok((part, right))
    }

    fn answers(
        &self,
        search: &ScaledSearch,
        choice: &[Option<ScaledFormat>],
        samples: &GraphSamples,
    ) -> Result<SampleOutcomes, String> {
        let formats = search.named(choice);
        let made = ScaledModel::new(self.model, &formats, false).map_err(|e| e.to_string())?;
        outcomes(&made.model, samples)
    }

    /// Compares choices with FLOAT 32 on held-out samples, the widest first. Returns the smallest one
    /// that is confirmed, else the smallest one that may still be within the margin. A choice that is
    /// right no more often than the most frequent class is not confirmed if FLOAT 32 is right more
    /// often, and is returned only if no other one may be within the margin.
    fn confirm<'r>(
        &self,
        search: &ScaledSearch,
        rungs: &'r [ScaledRung],
        part: &GraphSamples,
        base: &SampleOutcomes,
    ) -> Result<(&'r ScaledRung, ScaleVerdict), String> {
        let constant = match &part.correctness {
            CorrectnessRule::Labels(labels) => most_frequent_share(labels.iter().copied()),
            CorrectnessRule::Agreement(_) => None,
        };
        let every = rungs.len().div_ceil(MOST_RUNGS).max(1);
        let mut tested: Vec<&ScaledRung> = rungs.iter().rev().step_by(every).collect();
        if tested.last() != rungs.first().as_ref() {
            tested.extend(rungs.first());
        }
        tested.reverse();
        let mut levels = Fallback::new(LEVEL, tested.len());
        let (mut is_confirmed, mut found, mut open, mut one_class) = (false, None, None, None);
        let samples = part.count() as u64;
        for (at, rung) in tested.into_iter().enumerate() {
            let level = levels.next_level(is_confirmed);
            let tuned = self.answers(search, &rung.choice, part)?;
            let is_constant =
                constant.is_some_and(|share| base.mean() > share && tuned.mean() <= share);
            let paired = PairedSamples::new(base, &tuned, 0..base.len(), &Metric::default())?;
            is_confirmed = !is_constant && paired.confirms(self.margin, level);
            if is_confirmed {
                // The choice is made by these samples, so that a smaller margin counts each test.
                let proven = paired.smallest_margin(levels.own_level(at)).min(self.margin);
                found = Some((rung, ScaleVerdict::Confirmed { samples, proven }));
            }
            if paired.exceeds(self.margin, LEVEL / 2.0) {
                continue;
            }
            if is_constant {
                one_class = Some((rung, ScaleVerdict::OneClass { samples }));
            } else {
                let needed = paired.needed(self.margin, level);
                open = Some((rung, ScaleVerdict::Undecided { samples, needed }));
            }
        }
        let smallest = (&rungs[rungs.len() - 1], ScaleVerdict::Exceeded { samples });
        Ok(found.or(open).or(one_class).unwrap_or(smallest))
    }
}

/// Rejects labels of some samples that FLOAT 32 predicts no better than chance.
fn check_chance(predictions: &[usize], labels: &[usize], what: &str) -> Result<(), String> {
    let is_one_class = labels.windows(2).all(|pair| pair[0] == pair[1]);
    match Chance::new(predictions, labels) {
        Some(found) if !found.is_exceeded() && is_one_class => {
            Err(format!("{}. {ONE_CLASS}", no_better(&found, what)))
        }
        Some(found) if !found.is_exceeded() => Err(format!(
            "{}. Compare the order of the labels with that of the inputs, and both with the model",
            no_better(&found, what)
        )),
        _ => Ok(()),
    }
}

/// Returns which samples a model answers rightly.
fn outcomes(model: &Model, samples: &GraphSamples) -> Result<SampleOutcomes, String> {
    let (predictions, labels) = predictions(model, samples)?;
    Ok(right_ones(&predictions, labels))
}

/// Returns which predictions are right.
fn right_ones(predictions: &[usize], labels: &[usize]) -> SampleOutcomes {
    SampleOutcomes::from_right(predictions.iter().zip(labels).map(|(a, b)| a == b))
}

/// Returns the predicted class of each sample, and the labels.
fn predictions<'s>(
    model: &Model,
    samples: &'s GraphSamples,
) -> Result<(Vec<usize>, &'s [usize]), String> {
    let CorrectnessRule::Labels(labels) = &samples.correctness else {
        return Err("no labels".into());
    };
    let all: Vec<usize> = (0..samples.count()).collect();
    let sets = [Vec::new(), all.clone(), Vec::new()];
    let engine = GraphEvaluator::new(model, samples.clone(), sets).map_err(|e| e.to_string())?;
    Ok((engine.predictions(&all), &labels[..]))
}

/// Returns some of the samples.
pub(super) fn subset(samples: &GraphSamples, places: &[usize]) -> GraphSamples {
    let inputs = samples.inputs.iter().map(|input| {
        let size: usize = input.dims.iter().product();
        let values = places.iter().flat_map(|at| &input.values[at * size..][..size]).copied();
        GraphInput { dims: input.dims.clone(), values: values.collect() }
    });
    let lengths = samples.lengths.as_ref();
    let correctness = match &samples.correctness {
        CorrectnessRule::Labels(labels) => {
            CorrectnessRule::Labels(places.iter().map(|at| labels[*at]).collect())
        }
        other @ CorrectnessRule::Agreement(_) => other.clone(),
    };
    GraphSamples {
        inputs: inputs.collect(),
        lengths: lengths.map(|lengths| places.iter().map(|at| lengths[*at]).collect()),
        correctness,
    }
}

#[cfg(test)]
mod tests {
    use dyno_onnx::{Builder, Dim, Element, Fill, Tensor, Weights};

    use super::*;

    /// Returns 4,000 samples of two classes, which all differ.
    fn samples_of(is_second: impl Fn(usize) -> bool) -> GraphSamples {
        let second = |at: usize| if is_second(at) { 80.0 } else { 0.0 };
        let values = (0..4_000).flat_map(|at| [1.0 + at as f32 / 40_000.0, second(at)]);
        let labels = (0..4_000).map(|at| usize::from(is_second(at)));
        GraphSamples {
            inputs: vec![GraphInput { dims: vec![2], values: values.collect() }],
            lengths: None,
            correctness: CorrectnessRule::Labels(labels.collect()),
        }
    }

    /// Searches formats of a model that knows both classes. Four bits with the scale of the first class
    /// are too few for the weight of the second one.
    fn choice_of(formats: &[&str], samples: &GraphSamples) -> ScaleChoice {
        let mut net = Builder::new("net", Weights::seeded(1));
        let x = net.input("x", Element::F32, &[Dim::symbol("N"), 2.into()]);
        let weight = net.weight("fc.weight", &[2, 2], Fill::he(2)).unwrap();
        let y = net.node("MatMul", &[&x, &weight], &[]).unwrap();
        net.output("y", &y).unwrap();
        let mut model = net.finish();
        model.tensors = vec![Tensor::from_f32("fc.weight", &[2, 2], &[7.0, 0.0, 0.0, 0.3])];
        let formats: Vec<ScaledFormat> =
            formats.iter().map(|format| format.parse().unwrap()).collect();
        let (model, formats) = (&model, &formats[..]);
        let search = ScaleSearch { model, samples, formats, margin: 0.05, held_out: 0.5 };
        search.run(&Interrupt::default()).unwrap()
    }

    #[test]
    fn a_choice_that_knows_one_class_is_not_confirmed() {
        let samples = samples_of(|at| at % 100 < 3);
        let both = choice_of(&["int8", "int4"], &samples);
        assert_eq!(both.formats[0].1.to_string(), "int8:tensor");
        assert!(matches!(both.verdict, ScaleVerdict::Confirmed { samples: 2_000, .. }));
        let narrow = choice_of(&["int4"], &samples);
        assert_eq!(narrow.verdict, ScaleVerdict::OneClass { samples: 2_000 });
    }

    /// The second class has 3 % of the samples of the search, and 20 % of the others.
    #[test]
    fn a_choice_that_certainly_loses_more_than_the_margin_is_invalid() {
        let [held_out, _] = held_out_parts(&samples_of(|_| false), 0.5);
        let samples = samples_of(|at| at % 100 < if held_out.contains(&at) { 20 } else { 3 });
        let narrow = choice_of(&["int4"], &samples);
        assert_eq!(narrow.verdict, ScaleVerdict::Exceeded { samples: 2_000 });
    }
}
