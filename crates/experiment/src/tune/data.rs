//! Samples of a model that is evaluated in this process, and their sets.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use dyno_number::evaluate::Samples;
use dyno_number::evaluate::graph::{CorrectnessRule, GraphInput, GraphSamples};
use dyno_number::network::{BuiltInModel, CorrectnessSource};
use dyno_number::tune::samples::{draw, shuffle, split};
use dyno_number::tune::{Subset, fewest_held_out};
use dyno_tensors::Elements;
use dyno_tensors::npy::Npy;

use crate::system::tuned::{array, whole_numbers};

use super::built_in::Engine;
use super::closed::{NamedHash, Provenance, sha256};
use super::scaled::subset;

/// All samples with the sets.
#[derive(Clone, Debug)]
pub struct Data {
    /// All samples; those of the validation set are last.
    pub fed: GraphSamples,
    /// Indices of the sets small, full and confirmation; confirmation is empty without a validation
    /// set.
    pub sets: [Vec<usize>; 3],
    /// Samples that decide the formats, in closed mode.
    pub provenance: Option<Provenance>,
    /// Number of different samples, if a part of them may be held out.
    pub different: usize,
    /// Remarks on copies of samples with other labels.
    pub remarks: Vec<String>,
}

/// How closed mode splits the calibration set.
#[derive(Clone, Copy, Debug)]
pub struct CalibrationSplit {
    /// Share of the samples in the first pass.
    pub small_share: f64,
    /// Seed of the split.
    pub seed: u64,
}

/// Seed of the held-out samples.
const HELD_OUT_SEED: u64 = 0x5eed_0000_c0f1;

/// Part of the samples that the search does not see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOut {
    /// Its share of the samples.
    pub share: f64,
    /// Margin to confirm. If the part is too small to confirm it, no sample is held out.
    pub margin: f64,
}

impl HeldOut {
    /// Returns the indices of the held-out samples and of all others. The former are in an order
    /// that is drawn, so that each fold of them is a sample of all. The split does not depend on the
    /// descriptor's seed: searches with several seeds have the same held-out samples. `firsts` are
    /// the samples that are no copy of an earlier one; copies are searched if their first one is,
    /// and otherwise left out, because a copy proves nothing more.
    fn split(self, firsts: &[usize], copies: &[(usize, usize)]) -> [Vec<usize>; 2] {
        let everything = || {
            let mut all: Vec<usize> =
                firsts.iter().copied().chain(copies.iter().map(|(at, _)| *at)).collect();
            all.sort_unstable();
            all
        };
        if (self.count(firsts.len()) as u64) < fewest_held_out(self.margin) {
            return [Vec::new(), everything()];
        }
        parts(firsts, copies, self.share)
    }

    /// Returns how many of `count` different samples would be held out.
    pub fn count(self, count: usize) -> usize {
        (count as f64 * self.share) as usize
    }
}

impl Data {
    /// Reads the arrays of a descriptor, relative to `folder`.
    ///
    /// # Errors
    /// A file that cannot be read; a validation set whose samples are more than one array with
    /// labels; or, in closed mode, a sample that is in both sets.
    pub fn read(
        built_in: &BuiltInModel,
        folder: &Path,
        closed: Option<CalibrationSplit>,
        held_out: Option<HeldOut>,
    ) -> Result<Self, String> {
        let right = match &built_in.correctness {
            CorrectnessSource::Labels(file) => {
                CorrectnessRule::Labels(whole_numbers(&folder.join(file))?)
            }
            CorrectnessSource::Agreement(agreement) => CorrectnessRule::Agreement(*agreement),
        };
        let inputs: Vec<_> = built_in.samples.iter().map(|file| folder.join(file)).collect();
        let lengths = built_in.lengths.as_ref().map(|file| folder.join(file));
        let mut fed = fed(&inputs, lengths.as_deref(), right)?;
        if let CorrectnessSource::Labels(file) = &built_in.correctness {
            check_labels(&fed, &inputs[0], &folder.join(file))?;
        }
        let count = fed.count();
        if count == 0 {
            return Err(format!("{}: expected samples, found none", inputs[0].display()));
        }
        let (firsts, copied) = copies(&fed);
        let mut remarks = Vec::from_iter(contradictions(&fed, &copied, &inputs[0]));
        let mut confirmation = Vec::new();
        let mut provenance = None;
        if let Some(files) = &built_in.validation {
            let [values, own] = files.each_ref().map(|file| folder.join(file));
            let right = CorrectnessRule::Labels(whole_numbers(&own)?);
            let validation = self::fed(std::slice::from_ref(&values), None, right)?;
            check_labels(&validation, &values, &own)?;
            if let Some(of) = closed {
                let all = hashed(&fed, &inputs[0])?;
                let names = [inputs[0].display().to_string(), values.display().to_string()];
                let hashes = hashed(&validation, &values)?;
                provenance = Some(Provenance::from_samples(&all, hashes, &names, of)?);
            }
            check_unseen(&fed, &validation, &values)?;
            let (own_firsts, own_copied) = copies(&validation);
            remarks.extend(contradictions(&validation, &own_copied, &values));
            // A copy proves nothing more; closed mode uses the set as it is.
            confirmation = match closed {
                Some(_) => (count..count + validation.count()).collect(),
                None => own_firsts.into_iter().map(|at| count + at).collect(),
            };
            join(&mut fed, validation)?;
        }
        let mut searched: Vec<usize> = (0..count).collect();
        let mut different = count;
        if let (Some(held_out), true) = (held_out, confirmation.is_empty()) {
            different = firsts.len();
            [confirmation, searched] = held_out.split(&firsts, &copied);
        }
        let [small, full] = match (closed, searched.len()) {
            (_, 0) => [Vec::new(), Vec::new()],
            (Some(of), _) if count > 1 => split(count, of.small_share, of.seed),
            (_, count) => {
                let small = draw(count, built_in.small_share, built_in.seed);
                [small.into_iter().map(|at| searched[at]).collect(), searched]
            }
        };
        Ok(Self { fed, sets: [small, full, confirmation], provenance, different, remarks })
    }

    /// Returns the number of samples that are held out for the confirmation.
    pub fn held_out(&self) -> usize {
        self.sets[Subset::Confirmation as usize].len()
    }

    /// Returns the share of the held-out samples that have the most frequent label or, without labels,
    /// whose answers in FLOAT(32) agree with one and the same answer. `None` without held-out samples.
    ///
    /// # Errors
    /// The answers of FLOAT(32) are needed, and the engine does not support the model at `path`.
    pub fn constant_share(&self, path: &Path) -> Result<Option<f64>, String> {
        let held_out = &self.sets[Subset::Confirmation as usize];
        match &self.fed.correctness {
            CorrectnessRule::Labels(labels) => {
                Ok(most_frequent_share(held_out.iter().map(|at| labels[*at])))
            }
            CorrectnessRule::Agreement(_) if held_out.is_empty() => Ok(None),
            CorrectnessRule::Agreement(_) => {
                let sets = [Vec::new(), (0..held_out.len()).collect(), Vec::new()];
                Engine::new(path, subset(&self.fed, held_out), sets).map(|e| e.constant_share())
            }
        }
    }

    /// Returns the first sample as a single call: dimensions and values of each input.
    pub fn first(&self) -> Vec<(Vec<usize>, Vec<f32>)> {
        let length = self.fed.lengths.as_ref().and_then(|lengths| lengths.first());
        let of = |input: &GraphInput| {
            let mut dims = input.dims.clone();
            if let (Some(first), Some(length)) = (dims.first_mut(), length) {
                *first = *length;
            }
            let values = input.values.iter().take(dims.iter().product()).copied().collect();
            dims.insert(0, 1);
            (dims, values)
        };
        self.fed.inputs.iter().map(of).collect()
    }

    /// Returns the samples of a set with their labels, and the shape of one sample.
    ///
    /// # Errors
    /// The samples have several inputs or lengths, or no labels.
    pub fn subset(&self, subset: Subset) -> Result<(Samples, &[usize]), String> {
        let ([input], None, CorrectnessRule::Labels(labels)) =
            (&self.fed.inputs[..], &self.fed.lengths, &self.fed.correctness)
        else {
            return Err("a system is run with one array of samples and their labels".into());
        };
        let size: usize = input.dims.iter().product();
        let set = &self.sets[subset as usize];
        let values = set.iter().flat_map(|at| &input.values[at * size..][..size]).copied();
        let labels = set.iter().map(|at| labels[*at]);
        Ok((Samples { values: values.collect(), labels: labels.collect() }, &input.dims))
    }
}

/// Returns the share of the most frequent class. `None` without samples.
pub(super) fn most_frequent_share(classes: impl ExactSizeIterator<Item = usize>) -> Option<f64> {
    let count = classes.len() as f64;
    let mut counts: HashMap<usize, usize> = HashMap::new();
    classes.for_each(|class| *counts.entry(class).or_default() += 1);
    counts.into_values().max().map(|most| most as f64 / count)
}

/// Divides samples into a part that is held out and the others. Copies of a sample are searched if
/// their first one is, and otherwise left out.
fn parts(firsts: &[usize], copies: &[(usize, usize)], share: f64) -> [Vec<usize>; 2] {
    if firsts.len() < 2 {
        let copied = copies.iter().map(|(at, _)| *at);
        return [Vec::new(), firsts.iter().copied().chain(copied).collect()];
    }
    let [held_out, searched] = split(firsts.len(), share, HELD_OUT_SEED);
    let named = |part: Vec<usize>| part.into_iter().map(|at| firsts[at]).collect::<Vec<_>>();
    let [mut held_out, mut searched] = [named(held_out), named(searched)];
    shuffle(&mut held_out, HELD_OUT_SEED);
    let seen: HashSet<usize> = searched.iter().copied().collect();
    searched.extend(copies.iter().filter(|(_, of)| seen.contains(of)).map(|(at, _)| *at));
    searched.sort_unstable();
    [held_out, searched]
}

/// Returns the samples that a job holds out, and the others.
pub(super) fn held_out_parts(fed: &GraphSamples, share: f64) -> [Vec<usize>; 2] {
    let (firsts, copies) = copies(fed);
    parts(&firsts, &copies, share)
}

/// Returns the samples that are no copy of an earlier one, and each copy with the first of its kind.
fn copies(fed: &GraphSamples) -> (Vec<usize>, Vec<(usize, usize)>) {
    let mut known: HashMap<Vec<u32>, usize> = HashMap::new();
    let (mut firsts, mut copies) = (Vec::new(), Vec::new());
    for at in 0..fed.count() {
        let length = fed.lengths.as_ref().and_then(|lengths| lengths.get(at)).copied();
        let values = fed.inputs.iter().flat_map(|input| {
            let size: usize = input.dims.iter().product();
            // The model does not see what is beyond the length.
            let seen = match (length, input.dims.split_first()) {
                (Some(length), Some((_, rest))) => {
                    size.min(length.saturating_mul(rest.iter().product()))
                }
                _ => size,
            };
            input.values.get(at * size..at * size + seen).unwrap_or_default()
        });
        // Both zeros are equal.
        let bits = values.map(|x| (x + 0.0).to_bits());
        let content = bits.chain(length.map(|length| length as u32)).collect();
        match known.entry(content) {
            Entry::Occupied(first) => copies.push((at, *first.get())),
            Entry::Vacant(place) => {
                place.insert(at);
                firsts.push(at);
            }
        }
    }
    (firsts, copies)
}

/// Returns a remark on samples of a file with the values of an earlier one and another label, if
/// there are any.
fn contradictions(fed: &GraphSamples, copies: &[(usize, usize)], path: &Path) -> Option<String> {
    let CorrectnessRule::Labels(labels) = &fed.correctness else { return None };
    let mut wrong = copies.iter().filter(|(at, of)| labels[*at] != labels[*of]);
    let (at, of) = wrong.next()?;
    let others = match wrong.count() {
        0 => String::new(),
        1 => "; so has 1 other".into(),
        count => format!("; so have {count} others"),
    };
    Some(format!(
        "{}: sample {at} has the values of sample {of} and another label ({} instead of {}){others}. At \
         most one of these labels is right",
        path.display(),
        labels[*at],
        labels[*of]
    ))
}

/// Appends the samples of a validation set.
fn join(fed: &mut GraphSamples, validation: GraphSamples) -> Result<(), String> {
    let ([input], None, CorrectnessRule::Labels(labels)) =
        (&mut fed.inputs[..], &fed.lengths, &mut fed.correctness)
    else {
        return Err("a validation set is of models with one array of samples and `labels`".into());
    };
    for own in validation.inputs {
        if own.dims != input.dims {
            let (own, all) = (own.dims, &input.dims);
            return Err(format!("samples of the validation set are {own:?}, all others {all:?}"));
        }
        input.values.extend(own.values);
    }
    if let CorrectnessRule::Labels(own) = validation.correctness {
        labels.extend(own);
    }
    Ok(())
}

/// Rejects a validation set with samples that the search sees.
fn check_unseen(fed: &GraphSamples, validation: &GraphSamples, path: &Path) -> Result<(), String> {
    let samples = |of: &GraphSamples| -> Vec<Vec<u32>> {
        let values = &of.inputs[0].values;
        let size = (values.len() / of.count().max(1)).max(1);
        // Both zeros are equal.
        let bits = |sample: &[f32]| sample.iter().map(|x| (x + 0.0).to_bits()).collect();
        values.chunks_exact(size).map(bits).collect()
    };
    let seen: HashSet<Vec<u32>> = samples(fed).into_iter().collect();
    let unseen = samples(validation);
    match unseen.iter().position(|sample| seen.contains(sample)) {
        Some(at) => Err(format!(
            "{}: sample {at} is also among the samples of the search, so that it can confirm nothing",
            path.display()
        )),
        None => Ok(()),
    }
}

/// Returns the hash of each sample's values, without the label.
fn hashed(fed: &GraphSamples, path: &Path) -> Result<Vec<NamedHash>, String> {
    let (values, count) = (&fed.inputs[0].values, fed.count());
    if count == 0 || !values.len().is_multiple_of(count) {
        return Err(format!("{}: expected samples of one size for {count} labels", path.display()));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let size = values.len() / count;
    let of = |(at, values): (usize, &[f32])| {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        NamedHash { name: format!("{name}[{at}]"), sha256: sha256(&bytes) }
    };
    Ok(values.chunks_exact(size.max(1)).enumerate().map(of).collect())
}

/// Rejects samples with values that are no finite numbers, and names the first ones.
fn check_finite(path: &Path, input: &GraphInput) -> Result<(), String> {
    let size = input.dims.iter().product::<usize>().max(1);
    let samples = input.values.chunks(size).enumerate();
    let is_finite = |(_, values): &(usize, &[f32])| values.iter().all(|x| x.is_finite());
    let wrong: Vec<(usize, &[f32])> = samples.filter(|sample| !is_finite(sample)).collect();
    let Some((first, values)) = wrong.first() else { return Ok(()) };
    let at = values.iter().position(|x| !x.is_finite()).unwrap_or_default();
    let others = match wrong.len() - 1 {
        0 => String::new(),
        count => {
            let named: Vec<String> =
                wrong[1..].iter().take(MOST_NAMED).map(|(at, _)| at.to_string()).collect();
            let more = if count > MOST_NAMED { ", ..." } else { "" };
            let (verb, noun) = if count == 1 { ("has", "other") } else { ("have", "others") };
            format!("; so {verb} {count} {noun}: {}{more}", named.join(", "))
        }
    };
    Err(format!(
        "{}: expected finite numbers; sample {first} has {} at its position {at}{others}. Remove or \
         repair these samples",
        path.display(),
        values[at]
    ))
}

/// Rejects whole numbers that `f32` does not represent, such as indices of a large table.
fn check_whole(path: &Path, mut numbers: impl Iterator<Item = i64>) -> Result<(), String> {
    match numbers.find(|number| (*number as f32) as i64 != *number) {
        Some(number) => Err(format!(
            "{}: found the whole number {number}, but this engine computes in float32, which is exact up \
             to 16777216",
            path.display()
        )),
        None => Ok(()),
    }
}

/// Most samples that a message names.
const MOST_NAMED: usize = 8;

/// Rejects labels whose number is not that of the samples.
fn check_labels(fed: &GraphSamples, samples: &Path, labels: &Path) -> Result<(), String> {
    let CorrectnessRule::Labels(found) = &fed.correctness else { return Ok(()) };
    if found.len() == fed.count() {
        return Ok(());
    }
    Err(format!(
        "{}: expected a label for each of the {} samples of {}, found {}",
        labels.display(),
        fed.count(),
        samples.display(),
        found.len()
    ))
}

/// Reads NumPy arrays: samples of each input of a model, and their lengths.
///
/// # Errors
/// A file that cannot be read, values that are no finite numbers or no exact ones, or lengths that
/// are not whole numbers.
pub fn fed(
    inputs: &[PathBuf],
    lengths: Option<&Path>,
    right: CorrectnessRule,
) -> Result<GraphSamples, String> {
    let input = |path: &PathBuf| {
        let Npy { shape, elements } = array(path)?;
        let dims = shape.get(1..).unwrap_or_default().to_vec();
        match &elements {
            Elements::I32(all) => check_whole(path, all.iter().map(|number| i64::from(*number)))?,
            Elements::I64(all) => check_whole(path, all.iter().copied())?,
            _ => {}
        }
        let found = GraphInput { dims, values: elements.to_f32().into_owned() };
        check_finite(path, &found)?;
        Ok(found)
    };
    let inputs = inputs.iter().map(input).collect::<Result<_, String>>()?;
    Ok(GraphSamples {
        inputs,
        lengths: lengths.map(whole_numbers).transpose()?,
        correctness: right,
    })
}

#[cfg(test)]
mod tests {
    use dyno_number::Network;
    use dyno_sut::digits::{Perceptron, test_digits};

    use super::*;

    /// A hundred samples with sixty different contents.
    #[test]
    fn a_held_out_sample_is_no_copy_of_another_one() {
        let values: Vec<f32> = (0..100).map(|at| (at % 60) as f32).collect();
        let fed = GraphSamples {
            inputs: vec![GraphInput { dims: vec![1], values: values.clone() }],
            lengths: None,
            correctness: CorrectnessRule::Labels(vec![0; 100]),
        };
        let [held_out, searched] = held_out_parts(&fed, 0.5);
        assert_eq!(held_out.len(), 30);
        let mut contents: Vec<u32> = held_out.iter().map(|at| values[*at] as u32).collect();
        contents.sort_unstable();
        contents.dedup();
        assert_eq!(contents.len(), 30, "no content is held out twice");
        let is_seen = |at: &usize| searched.iter().any(|other| values[*other] == values[*at]);
        assert!(!held_out.iter().any(is_seen));
        // Copies of searched samples are searched.
        let firsts = searched.iter().filter(|at| **at < 60).count();
        assert_eq!(firsts, 30);
        assert!(searched.len() > 30);
        // Samples that differ only beyond their lengths are copies, and so are both zeros.
        let padded = GraphSamples {
            inputs: vec![GraphInput {
                dims: vec![2, 1],
                values: vec![0.0, 7.0, -0.0, 8.0, 3.0, 4.0],
            }],
            lengths: Some(vec![1, 1, 2]),
            correctness: CorrectnessRule::Labels(vec![0; 3]),
        };
        assert_eq!(copies(&padded), (vec![0, 2], vec![(1, 0)]));
        let path = Path::new("x.npy");
        assert_eq!(contradictions(&padded, &[(1, 0)], path), None);
        let labels = CorrectnessRule::Labels(vec![4, 5, 4]);
        let padded = GraphSamples { correctness: labels, ..padded };
        let remark = contradictions(&padded, &[(1, 0)], path);
        let expected = "x.npy: sample 1 has the values of sample 0 and another label (5 instead";
        assert!(remark.as_ref().is_some_and(|remark| remark.starts_with(expected)), "{remark:?}");
        for (copies, others) in [(2, "; so has 1 other. At"), (3, "; so have 2 others. At")] {
            let remark = contradictions(&padded, &vec![(1, 0); copies], path);
            assert!(remark.as_ref().is_some_and(|remark| remark.contains(others)), "{remark:?}");
        }
        // One sample cannot be divided.
        let one = GraphSamples {
            inputs: vec![GraphInput { dims: vec![1], values: vec![1.0; 3] }],
            lengths: None,
            correctness: CorrectnessRule::Labels(vec![0; 3]),
        };
        assert_eq!(held_out_parts(&one, 0.5), [vec![], vec![0, 1, 2]]);
    }

    #[test]
    fn copies_in_a_validation_set_count_once() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, values: &[f32]| {
            let mut file = std::fs::File::create(folder.path().join(name)).unwrap();
            dyno_tensors::npy::write(&mut file, &[values.len()], values).unwrap();
            name.to_owned()
        };
        let built_in = BuiltInModel {
            model: "none.onnx".into(),
            samples: vec![write("x.npy", &[1.0, 2.0])],
            lengths: None,
            correctness: CorrectnessSource::Labels(write("y.npy", &[0.0, 1.0])),
            small_share: 0.5,
            seed: 1,
            validation: Some([
                write("other-x.npy", &[7.0, 8.0, 7.0, 9.0]),
                write("other-y.npy", &[0.0, 1.0, 0.0, 1.0]),
            ]),
            system: None,
        };
        let data = Data::read(&built_in, folder.path(), None, None).unwrap();
        assert_eq!(data.sets[Subset::Confirmation as usize], [2, 3, 5]);
        assert!(data.remarks.is_empty(), "{:?}", data.remarks);
        write("other-y.npy", &[0.0, 1.0, 4.0, 1.0]);
        let data = Data::read(&built_in, folder.path(), None, None).unwrap();
        let expected = "other-x.npy: sample 2 has the values of sample 0 and another label (4";
        assert!(data.remarks[0].contains(expected), "{:?}", data.remarks);
    }

    /// 2^24 + 1 is the first whole number that float32 lacks.
    #[test]
    fn whole_numbers_beyond_float32_are_rejected() {
        let path = Path::new("x.npy");
        assert_eq!(check_whole(path, [0, -5, 16_777_216, 33_554_432].into_iter()), Ok(()));
        let found = check_whole(path, [1, 16_777_217].into_iter()).unwrap_err();
        assert!(found.starts_with("x.npy: found the whole number 16777217"), "{found}");
    }

    /// A configuration that always gives the digit 3 would agree with most answers to images of a 3.
    #[test]
    fn the_most_frequent_answer_of_float32_is_known_if_answers_agree() {
        let folder = tempfile::tempdir().unwrap();
        let model = Perceptron::trained().to_onnx();
        std::fs::write(folder.path().join("digits.onnx"), model).unwrap();
        let of = |agreement: &str, only: Option<u8>| {
            let digits = test_digits().filter(|digit| only.is_none_or(|only| digit.label == only));
            let ink: Vec<f32> = digits.flat_map(|digit| Perceptron::input(digit.pixels)).collect();
            let mut file = std::fs::File::create(folder.path().join("x.npy")).unwrap();
            dyno_tensors::npy::write(&mut file, &[ink.len() / 64, 64], &ink).unwrap();
            let text = format!(
                "layer_name = [\"Gemm\", \"Gemm_1\"]\nwgt_size = [3072, 480]\nact_size = [64, 48]\n\
                 wgt_max_abs = [1.0, 2.0]\nact_max_abs = [1.0, 8.0]\nmodel = \"digits.onnx\"\n\
                 samples = \"x.npy\"\nagreement = \"{agreement}\"\n"
            );
            let network = Network::from_descriptor(&text, None).unwrap();
            let built_in = network.built_in.as_ref().unwrap();
            let part = Some(HeldOut { share: 0.5, margin: 0.5 });
            let data = Data::read(built_in, folder.path(), None, part).unwrap();
            data.constant_share(&folder.path().join("digits.onnx")).unwrap()
        };
        assert!(of("top", Some(3)).is_some_and(|share| share > 0.8));
        assert!(of("top", None).is_some_and(|share| share < 0.2));
        // Answers with a cosine of at least -1 are all answers, and no two answers are equal.
        assert_eq!(of("cosine -1", None), Some(1.0));
        assert!(of("cosine 0.99", None).is_some_and(|share| share < 0.2));
        assert!(of("equal", None).is_some_and(|share| share < 0.05));
    }
}
