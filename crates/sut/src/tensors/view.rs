//! Samples whose data stay where they are.

use std::sync::Arc;

use super::{Elements, SampleTensor, Store, Tensor, TensorLibrary};

/// A loaded sample, not copied.
///
/// ```
/// use dyno_sut::tensors::{Elements, Tensor, TensorLibrary};
///
/// let elements = Elements::F32(vec![0.1, 0.2, 0.3, 0.4].into());
/// let tensor = Tensor { name: "x".into(), sample_shape: vec![2], elements };
/// let library = TensorLibrary::new("pairs", vec![tensor], None)?;
/// let sample = library.view(1).expect("there are two samples");
/// let (shape, elements) = sample.input(0).expect("there is one input");
/// assert_eq!((shape, &*elements.to_f32()), (&[2][..], &[0.3, 0.4][..]));
/// # Ok::<(), dyno_sut::tensors::TensorError>(())
/// ```
#[derive(Debug, Clone)]
pub enum SampleView<'a> {
    /// The sample of this number in tensors of all samples.
    Memory(&'a [Tensor], usize),
    /// A sample that was prepared when it was loaded.
    Loaded(Arc<[SampleTensor]>),
}

impl SampleView<'_> {
    /// Returns shape and elements of an input, in the order of the library.
    pub fn input(&self, at: usize) -> Option<(&[usize], Elements<'_>)> {
        match self {
            Self::Memory(tensors, index) => {
                let tensor = tensors.get(at)?;
                let length = tensor.sample_len();
                let elements = tensor.elements.slice(index * length..(index + 1) * length);
                Some((&tensor.sample_shape, elements))
            }
            Self::Loaded(inputs) => {
                let input = inputs.get(at)?;
                Some((&input.shape, input.elements.slice(0..input.elements.len())))
            }
        }
    }

    /// Returns what keeps the data alive, if it is not the library.
    pub fn into_owner(self) -> Option<Arc<[SampleTensor]>> {
        match self {
            Self::Memory(..) => None,
            Self::Loaded(inputs) => Some(inputs),
        }
    }
}

impl TensorLibrary {
    /// Returns a loaded sample without a copy. Nothing is prepared, because the clock may be running.
    ///
    /// # Errors
    /// The reason why it could not be prepared, or that it is not loaded or does not exist.
    pub fn view(&self, index: u64) -> Result<SampleView<'_>, String> {
        let valid = u32::try_from(index).ok().filter(|index| (*index as usize) < self.samples);
        let index = valid.ok_or_else(|| self.no_such_sample(index))?;
        match &self.store {
            Store::Memory(tensors) => Ok(SampleView::Memory(tensors, index as usize)),
            Store::Source(loaded) => loaded.loaded(index).map(SampleView::Loaded),
        }
    }
}
