//! Random samples for models, and the ranges of their integers.

use std::collections::BTreeMap;
use std::num::NonZero;

use dyno_loadgen::rng::Mt19937;
use half::{bf16, f16};

use super::{Element, Elements, ModelInput, Scalar, Tensor, TensorError, TensorLibrary};

/// Range of the random integers in some elements of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Number of elements of a sample, in row-major order. The last span covers all remaining
    /// elements.
    pub elements: usize,
    /// Minimum.
    pub from: i64,
    /// Maximum plus one.
    pub to: i64,
}

/// Spans of the inputs, by name. The spans of an input cover all elements of a sample.
pub type Spans<'a> = BTreeMap<&'a str, &'a [Span]>;

impl Span {
    /// Returns a span of numbers from 0 to below `to` in all elements.
    pub const fn below(to: i64) -> Self {
        Self { elements: usize::MAX, from: 0, to }
    }

    /// Returns a span with the same number in all elements.
    pub const fn always(number: i64) -> Self {
        Self { elements: usize::MAX, from: number, to: number + 1 }
    }

    /// Returns the span of an element of a sample.
    fn find(spans: &[Self], element: usize) -> Self {
        let mut left = element;
        for span in spans {
            match left.checked_sub(span.elements) {
                Some(rest) => left = rest,
                None => return *span,
            }
        }
        spans.last().copied().unwrap_or(Self::below(2))
    }
}

impl TensorLibrary {
    /// Returns a library whose samples are their numbers, from 0.
    pub fn numbers(count: NonZero<usize>) -> Self {
        let elements = Elements::I64((0..count.get() as i64).collect());
        let tensor = Tensor { name: "number".into(), sample_shape: Vec::new(), elements };
        Self::new("numbers", vec![tensor], None).expect("there is a number for each sample")
    }

    /// Returns the bytes of a random sample of a model; at least 1.
    pub fn random_sample_bytes(inputs: &[ModelInput], dynamic: usize) -> usize {
        let bytes = |input: &ModelInput| {
            // A dynamic first dimension is the batch.
            let open = input.shape.iter().skip(1).map(|n| n.unwrap_or(dynamic));
            let first = input.shape.first().copied().flatten().unwrap_or(1);
            open.fold(first, usize::saturating_mul).saturating_mul(input.element.size())
        };
        inputs.iter().map(bytes).fold(0, usize::saturating_add).max(1)
    }

    /// Returns random samples for a model, without labels. They measure speed, not accuracy.
    ///
    /// - Floats are uniform in [0, 1).
    /// - Integers of eight bits use their whole range.
    /// - Other integers use the span of the input in `spans`. The default is 0 and 1, which are
    ///   valid positions in any table.
    /// - Booleans are random.
    /// - Attention masks without a span are 1, because a random mask would hide parts of each
    ///   sample.
    ///
    /// A dynamic first dimension is the batch. Other dynamic dimensions become `dynamic`.
    ///
    /// # Errors
    /// [`TensorError::Empty`] if `samples` is 0 or the model has no inputs, and
    /// [`TensorError::Memory`].
    ///
    /// ```
    /// use dyno_loadgen::qsl::SampleLibrary;
    /// use dyno_sut::tensors::{Element, ModelInput, Span, Spans, TensorLibrary};
    ///
    /// let shape = vec![None, None];
    /// let input = ModelInput { name: "tokens".into(), element: Element::I64, shape };
    /// let vocabulary = [Span::below(1_000)];
    /// let spans = Spans::from([("tokens", &vocabulary[..])]);
    /// let library = TensorLibrary::synthetic(&[input], 8, 16, &spans, 42)?;
    /// assert_eq!(library.total_sample_count(), 8);
    /// assert_eq!(library.sample(0).expect("it exists")[0].1.shape, [16]);
    /// # Ok::<(), dyno_sut::tensors::TensorError>(())
    /// ```
    pub fn synthetic(
        inputs: &[ModelInput],
        samples: usize,
        dynamic: usize,
        spans: &Spans<'_>,
        seed: u64,
    ) -> Result<Self, TensorError> {
        let bytes = samples.saturating_mul(Self::random_sample_bytes(inputs, dynamic));
        if Vec::<u8>::new().try_reserve_exact(bytes).is_err() {
            return Err(TensorError::Memory { samples, bytes });
        }
        let mut rng = Mt19937::new(seed);
        let tensor = |input: &ModelInput| {
            let fixed = |dimension: &Option<usize>| dimension.unwrap_or(dynamic);
            let shape = match input.shape.split_first() {
                Some((None | Some(1), rest)) => rest,
                _ => &input.shape,
            };
            let sample_shape: Vec<usize> = shape.iter().map(fixed).collect();
            let each = sample_shape.iter().product::<usize>();
            let total = samples * each;
            let spans = spans.get(input.name.as_str()).copied();
            if spans.is_none() && is_mask(input) {
                let elements = ones(input.element, total);
                return Tensor { name: input.name.clone(), sample_shape, elements };
            }
            let spans = spans.unwrap_or_default();
            let mut below = |n: f64| (rng.canonical() * n).floor();
            let integer = |n: usize, below: &mut dyn FnMut(f64) -> f64| {
                let Span { from, to, .. } = Span::find(spans, n % each.max(1));
                from + below((to - from).max(1) as f64) as i64
            };
            let mut at = 0..total;
            let mut next = || at.next().unwrap_or_default();
            let elements = match input.element {
                Element::I64 => filled(total, || integer(next(), &mut below)),
                Element::I32 => filled(total, || integer(next(), &mut below) as i32),
                Element::I8 => filled(total, || (below(256.0) - 128.0) as i8),
                Element::U8 => filled(total, || below(256.0) as u8),
                Element::Bool => filled(total, || below(2.0) > 0.0),
                real => {
                    let mut float = || below(16_777_216.0) / 16_777_216.0;
                    match real {
                        Element::F16 => filled(total, || f16::from_f64(float())),
                        Element::BF16 => filled(total, || bf16::from_f64(float())),
                        Element::F64 => filled(total, float),
                        Element::F32 => filled(total, || float() as f32),
                        other => unreachable!("no input of a model is of type {other}"),
                    }
                }
            };
            Tensor { name: input.name.clone(), sample_shape, elements }
        };
        let tensors = inputs.iter().map(tensor).collect();
        Self::new("synthetic", tensors, None)
    }
}

/// Returns whether an input selects elements of a sample: `attention_mask` of any type, and
/// integers or booleans with "mask" in their name.
fn is_mask(input: &ModelInput) -> bool {
    let name = input.name.to_ascii_lowercase();
    let is_whole = matches!(
        input.element,
        Element::I64 | Element::I32 | Element::I8 | Element::U8 | Element::Bool
    );
    name == "attention_mask" || is_whole && name.contains("mask")
}

/// Returns ones of a type.
pub(crate) fn ones(element: Element, count: usize) -> Elements<'static> {
    match element {
        Element::F32 => filled(count, || 1.0_f32),
        Element::F64 => filled(count, || 1.0_f64),
        Element::F16 => filled(count, || f16::ONE),
        Element::BF16 => filled(count, || bf16::ONE),
        Element::I64 => filled(count, || 1_i64),
        Element::I32 => filled(count, || 1_i32),
        Element::I8 => filled(count, || 1_i8),
        Element::U8 => filled(count, || 1_u8),
        Element::Bool => filled(count, || true),
        other => unreachable!("no input of a model is of type {other}"),
    }
}

fn filled<T: Scalar>(count: usize, mut element: impl FnMut() -> T) -> Elements<'static> {
    T::wrap((0..count).map(|_| element()).collect())
}
