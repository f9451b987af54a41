//! Contents of calls, and their answers.

use std::num::NonZero;
use std::sync::Mutex;

use super::super::answer::Output;
use super::*;
use crate::tensors::{Element, Source};

#[test]
fn samples_enter_with_or_without_a_first_dimension_of_one() {
    let any = None;
    assert_eq!(call_shape(&[any, Some(64)], &[64]), Some(vec![1, 64]));
    assert_eq!(call_shape(&[Some(1), Some(5)], &[5]), Some(vec![1, 5]));
    assert_eq!(call_shape(&[any, Some(3), any], &[1, 3, 9]), Some(vec![1, 3, 9]));
    assert_eq!(call_shape(&[Some(2), Some(5)], &[2, 5]), Some(vec![2, 5]));
    assert_eq!(call_shape(&[Some(2), Some(5)], &[5]), None);
}

/// Sample n has n % 2 + 1 elements of value n. Sample 5 cannot be read.
#[derive(Debug)]
struct RaggedSource {
    inputs: Vec<String>,
    read: Mutex<Vec<u32>>,
}

impl Source for RaggedSource {
    fn name(&self) -> &str {
        "ragged"
    }

    fn count(&self) -> usize {
        8
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: u32) -> Result<Vec<SampleTensor>, String> {
        self.read.lock().unwrap().push(index);
        if index == 5 {
            return Err("5.jpg: the image is cut off".into());
        }
        let len = index as usize % 2 + 1;
        let elements = Elements::I32(vec![index as i32; len].into());
        Ok(vec![SampleTensor { shape: vec![len], elements }])
    }
}

fn ragged() -> (Arc<RaggedSource>, Arc<TensorLibrary>) {
    let source = Arc::new(RaggedSource { inputs: vec!["x".into()], read: Mutex::default() });
    let library = TensorLibrary::from_source(source.clone(), NonZero::new(4).unwrap(), None);
    (source, Arc::new(library.unwrap()))
}

fn feed(library: &Arc<TensorLibrary>, answer: Answer, largest_batch: usize) -> Feed {
    let (name, element) = ("x".to_owned(), Element::I32);
    let input = ModelInput { name, element, shape: vec![None, None] };
    let options = EngineOptions { answer, largest_batch, ..EngineOptions::default() };
    Feed::new(&[input], library, options).unwrap()
}

fn query(indices: &[u64]) -> Vec<QuerySample> {
    let sample = |&index: &u64| QuerySample { id: ResponseId(index + 1), index };
    indices.iter().map(sample).collect()
}

/// Feeds samples to a model that returns its inputs as `same` and, in another shape, as `all`.
/// Returns the inputs of each call.
fn echo(feed: &Feed, indices: &[u64], answers: &mut Answers) -> Vec<Vec<usize>> {
    let mut calls = Vec::new();
    feed.answer(&query(indices), answers, &mut |inputs, samples, take| {
        let (shape, elements) = &inputs[0];
        calls.push(shape.to_vec());
        let output = |name, shape: &[usize]| Output {
            name,
            shape: shape.to_vec(),
            elements: Ok(elements.slice(0..elements.len())),
            samples: samples.len(),
        };
        let all = [elements.len()];
        take(&Outputs::new(vec![output("same", shape), output("all", &all)]).for_samples(samples))
    });
    calls
}

fn answer_list(answers: &Answers) -> Vec<(u64, Result<Vec<u8>, Failure>)> {
    let mut list: Vec<_> =
        answers.iter().map(|(id, data)| (id.0 - 1, data.map(<[u8]>::to_vec))).collect();
    list.sort_by_key(|(index, _)| *index);
    list
}

fn numbers(n: i32, len: usize) -> Result<Vec<u8>, Failure> {
    Ok(n.to_le_bytes().repeat(len))
}

#[test]
fn samples_of_one_shape_share_a_call_and_broken_ones_fail() {
    let (source, library) = ragged();
    library.load(&[1, 2, 3, 4, 5, 3]);
    let feed = feed(&library, Answer::Output, 8);
    let mut answers = Answers::new();
    let calls = echo(&feed, &[3, 4, 5, 2, 1, 7], &mut answers);
    assert_eq!(calls, [[2, 2], [2, 1]]);
    let expected = [
        (1, numbers(1, 2)),
        (2, numbers(2, 1)),
        (3, numbers(3, 2)),
        (4, numbers(4, 1)),
        (5, Err(Failure::Rejected)),
        (7, Err(Failure::Rejected)),
    ];
    assert_eq!(answer_list(&answers), expected);
    assert_eq!(feed.failure_reason(), Some("sample 5 of ragged: 5.jpg: the image is cut off"));
    let mut read = source.read.lock().unwrap().clone();
    read.sort_unstable();
    assert_eq!(read, [0, 1, 2, 3, 4, 5], "each once, and sample 0 for the model's sake");
    assert_eq!((library.total_sample_count(), library.performance_sample_count()), (8, 4));
}

#[test]
fn samples_that_must_not_share_a_call_are_computed_alone() {
    let (_, library) = ragged();
    library.load(&[1, 3]);
    let input = ModelInput { name: "x".to_owned(), element: Element::I32, shape: vec![None, None] };
    let separate = Some("node `y` (Softmax) combines the samples of a call".to_owned());
    let options = EngineOptions { separate, ..EngineOptions::default() };
    let feed = Feed::new(&[input], &library, options).unwrap();
    let mut answers = Answers::new();
    assert_eq!(echo(&feed, &[1, 3], &mut answers), [[1, 2], [1, 2]]);
    assert_eq!(answer_list(&answers), [(1, numbers(1, 2)), (3, numbers(3, 2))]);
    assert_eq!(feed.largest_batch(), 1);
}

#[test]
fn unloaded_samples_are_gone() {
    let (_, library) = ragged();
    library.load(&[1, 2]);
    library.unload(&[1, 2, 2]);
    let feed = feed(&library, Answer::Output, 8);
    let mut answers = Answers::new();
    assert!(echo(&feed, &[1], &mut answers).is_empty());
    assert_eq!(feed.failure_reason(), Some("sample 1 of ragged is not loaded"));
    assert_eq!(answer_list(&answers), [(1, Err(Failure::Rejected))]);
}

#[test]
fn answers_are_made_of_all_outputs() {
    let (_, library) = ragged();
    library.load(&[1, 3]);
    // The second output does not have the shape of the batch.
    let count = |outputs: &Outputs<'_>, position: usize, bytes: &mut Vec<u8>| {
        let all = outputs.named("all")?.elements()?.len();
        let part = outputs.named("same")?.part(position)?;
        bytes.extend([
            all as u8,
            part.elements.len() as u8,
            part.elements.class().unwrap_or(0) as u8,
        ]);
        if part.elements.to_f64()[0] > 2.0 { Err("too great".into()) } else { Ok(7) }
    };
    let made = feed(&library, Answer::from_fn(count), 1);
    let mut answers = Answers::new();
    echo(&made, &[1, 3], &mut answers);
    let expected = [(1, Ok(vec![2, 2, 0])), (3, Err(Failure::Internal))];
    assert_eq!(answer_list(&answers), expected);
    assert_eq!(made.failure_reason(), Some("too great"));
    // The whole call fails, so the answer to its first sample is removed.
    let made = feed(&library, Answer::from_fn(count), 2);
    let mut answers = Answers::new();
    echo(&made, &[1, 3], &mut answers);
    let failed = [(1, Err(Failure::Internal)), (3, Err(Failure::Internal))];
    assert_eq!(answer_list(&answers), failed);
}

#[test]
fn answers_know_the_place_of_their_sample_in_the_data_set() {
    let (_, library) = ragged();
    library.load(&[1, 2, 3]);
    let index = |outputs: &Outputs<'_>, position: usize, bytes: &mut Vec<u8>| {
        bytes.push(outputs.index(position)? as u8);
        outputs.index(9).map_or(Ok(0), |index| Err(format!("sample {index} from nowhere")))
    };
    let made = feed(&library, Answer::from_fn(index), 8);
    let mut answers = Answers::new();
    // Samples 3 and 1 have the same shape and share a call. Sample 2 has its own call.
    echo(&made, &[3, 2, 1], &mut answers);
    let expected = [1, 2, 3].map(|index: u8| (u64::from(index), Ok(vec![index])));
    assert_eq!(answer_list(&answers), expected);
}

#[test]
fn the_same_sample_is_computed_anew_in_each_query_and_within_one() {
    let (_, library) = ragged();
    library.load(&[1, 3]);
    let feed = feed(&library, Answer::Output, 8);
    let (mut answers, mut computed) = (Answers::new(), 0_i32);
    // A model that counts the samples that it has computed.
    for _ in 0..2 {
        feed.answer(&query(&[3, 1, 3, 3]), &mut answers, &mut |_, samples, take| {
            let samples = samples.len();
            let numbers: Vec<i32> = (0..samples as i32).map(|at| computed + at).collect();
            computed += samples as i32;
            let elements = Ok(Elements::I32(Cow::Borrowed(&numbers)));
            let output = Output { name: "n", shape: vec![samples], elements, samples };
            take(&Outputs::new([output]))
        });
    }
    assert_eq!(computed, 8, "nothing is left out that was computed before");
    let list: Vec<_> = answers.iter().map(|(_, data)| data.unwrap().to_vec()).collect();
    let each: Vec<_> = (0..8_i32).map(|n| n.to_le_bytes().to_vec()).collect();
    assert_eq!(list, each, "each answer is a copy of its own call's");
}

#[test]
fn a_first_sample_that_cannot_be_prepared_is_told_when_the_library_is_made() {
    let source = RaggedSource { inputs: vec!["x".into(), "y".into()], read: Mutex::default() };
    let one = NonZero::<usize>::MIN;
    let error = TensorLibrary::from_source(Arc::new(source), one, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "sample 0 of ragged cannot be prepared: it has 1 inputs; expected x, y"
    );
}
