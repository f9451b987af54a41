//! A plain BERT encoder (Devlin et al. 2018): matrix products in float32 without quantization or
//! fusion.
//!
//! It computes reference embeddings independently of any engine and of the graph that engines are
//! given. Weight names are those of the `transformers` library.

use std::collections::BTreeMap;

use dyno_metrics::parallel;
use dyno_onnx::Tensor;
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, Slice};
use thiserror::Error;

const EPSILON: f32 = 1e-12;

/// Texts whose tokens share matrix products.
const TEXTS_AT_ONCE: usize = 16;

/// The weights of the encoder.
#[derive(Debug)]
pub struct Encoder {
    words: Array2<f32>,
    positions: Array2<f32>,
    kinds: Array2<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    heads: usize,
}

#[derive(Debug)]
struct Linear {
    /// One row per output.
    weight: Array2<f32>,
    bias: Array1<f32>,
}

#[derive(Debug)]
struct Norm {
    scale: Array1<f32>,
    shift: Array1<f32>,
}

#[derive(Debug)]
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attended: Linear,
    attention_norm: Norm,
    inner: Linear,
    outer: Linear,
    norm: Norm,
}

/// Reason why weights are not an encoder's, or why a text cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncoderError {
    /// There is no float32 tensor of this name.
    #[error("expected weight '{0}' of float32, found none")]
    Missing(String),
    /// The shape of a tensor does not fit the others.
    #[error("weight '{name}': expected shape {expected:?}, found {found:?}")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// Expected shape; 0 is any size.
        expected: Vec<usize>,
        /// Shape of the tensor.
        found: Vec<usize>,
    },
    /// A text is empty or too long, or has an unknown token.
    #[error("text {at}: {why}")]
    Text {
        /// Position of the text.
        at: usize,
        /// The problem.
        why: String,
    },
}

/// Weights by their names.
struct WeightTable<'a>(&'a BTreeMap<String, Tensor>);

impl WeightTable<'_> {
    fn floats(&self, name: &str) -> Result<(&[usize], Vec<f32>), EncoderError> {
        let found = self.0.get(name).and_then(|tensor| Some((&tensor.shape[..], tensor.floats()?)));
        found.ok_or_else(|| EncoderError::Missing(name.to_owned()))
    }

    fn row(&self, name: &str, length: usize) -> Result<Array1<f32>, EncoderError> {
        let (shape, values) = self.floats(name)?;
        if shape != [length] || values.len() != length {
            return Err(misfit(name, &[length], shape));
        }
        Ok(values.into())
    }

    /// Returns a matrix; a size of 0 accepts any number of rows or columns.
    fn table(&self, name: &str, size: [usize; 2]) -> Result<Array2<f32>, EncoderError> {
        let (shape, values) = self.floats(name)?;
        let fits = shape.len() == 2 && size.iter().zip(shape).all(|(n, m)| *n == 0 || n == m);
        let table = match *shape {
            [rows, columns] if fits => Array2::from_shape_vec((rows, columns), values).ok(),
            _ => None,
        };
        table.filter(|table| !table.is_empty()).ok_or_else(|| misfit(name, &size, shape))
    }

    fn linear(&self, name: &str, size: [usize; 2]) -> Result<Linear, EncoderError> {
        let weight = self.table(&format!("{name}.weight"), size)?;
        let bias = self.row(&format!("{name}.bias"), weight.nrows())?;
        Ok(Linear { weight, bias })
    }

    fn norm(&self, name: &str, length: usize) -> Result<Norm, EncoderError> {
        let part = |part: &str| self.row(&format!("{name}.{part}"), length);
        Ok(Norm { scale: part("weight")?, shift: part("bias")? })
    }
}

fn misfit(name: &str, expected: &[usize], found: &[usize]) -> EncoderError {
    let expected = expected.to_vec();
    let found = found.to_vec();
    EncoderError::Shape { name: name.to_owned(), expected, found }
}

impl Encoder {
    /// Builds an encoder from weights by name, with `heads` attention heads.
    ///
    /// # Errors
    /// A weight is missing or its shape does not fit the others.
    ///
    /// # Panics
    /// Panics if `heads` is 0.
    pub fn new(weights: &BTreeMap<String, Tensor>, heads: usize) -> Result<Self, EncoderError> {
        assert!(heads > 0, "attention has heads");
        let table = WeightTable(weights);
        let words = table.table("embeddings.word_embeddings.weight", [0, 0])?;
        let hidden = words.ncols();
        if !hidden.is_multiple_of(heads) {
            let expected = [words.nrows(), hidden.next_multiple_of(heads)];
            return Err(misfit("embeddings.word_embeddings.weight", &expected, words.shape()));
        }
        let mut layers = Vec::new();
        while weights.contains_key(&format!("encoder.layer.{}.output.dense.weight", layers.len())) {
            layers.push(Layer::new(&table, &format!("encoder.layer.{}", layers.len()), hidden)?);
        }
        Ok(Self {
            positions: table.table("embeddings.position_embeddings.weight", [0, hidden])?,
            kinds: table.table("embeddings.token_type_embeddings.weight", [0, hidden])?,
            norm: table.norm("embeddings.LayerNorm", hidden)?,
            words,
            layers,
            heads,
        })
    }

    /// Returns the size of an embedding.
    pub fn hidden(&self) -> usize {
        self.words.ncols()
    }

    /// Returns the embedding of each text: the mean of its token vectors, scaled to length 1.
    ///
    /// # Errors
    /// The first text that is empty, too long or has an unknown token.
    pub fn vectors(&self, texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, EncoderError> {
        for (at, text) in texts.iter().enumerate() {
            self.check(text).map_err(|why| EncoderError::Text { at, why })?;
        }
        let groups: Vec<&[Vec<u32>]> = texts.chunks(TEXTS_AT_ONCE).collect();
        let vectors = parallel::map(&groups, |group| self.group_vectors(group));
        Ok(vectors.into_iter().flatten().collect())
    }

    fn check(&self, text: &[u32]) -> Result<(), String> {
        let most = self.positions.nrows();
        if text.is_empty() || text.len() > most {
            return Err(format!("expected 1 to {most} tokens, found {}", text.len()));
        }
        match text.iter().find(|&&token| token as usize >= self.words.nrows()) {
            Some(token) => {
                Err(format!("expected tokens below {}, found {token}", self.words.nrows()))
            }
            None => Ok(()),
        }
    }

    fn group_vectors(&self, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
        let mut lengths = Vec::with_capacity(texts.len());
        let mut x = Array2::zeros((texts.iter().map(Vec::len).sum(), self.hidden()));
        let mut rows = x.axis_iter_mut(Axis(0));
        for text in texts {
            lengths.push(text.len());
            // The zip ends with the text and consumes no further row.
            for (position, (token, mut row)) in text.iter().zip(rows.by_ref()).enumerate() {
                row += &self.words.row(*token as usize);
                row += &self.positions.row(position);
                row += &self.kinds.row(0);
            }
        }
        self.norm.apply(x.view_mut());
        for layer in &self.layers {
            x = layer.apply(&x, &lengths, self.heads);
        }
        let of_text = parts(&lengths);
        of_text.map(|part| mean_of_length_1(&x.slice_axis(Axis(0), part))).collect()
    }
}

/// Returns the rows of each text.
fn parts(lengths: &[usize]) -> impl Iterator<Item = Slice> {
    lengths.iter().scan(0, |behind, length| {
        let start = *behind;
        *behind += length;
        Some(Slice::from(start..*behind))
    })
}

fn mean_of_length_1(tokens: &ArrayView2<f32>) -> Vec<f32> {
    let mut mean = tokens.sum_axis(Axis(0));
    let length = mean.iter().map(|value| value * value).sum::<f32>().sqrt();
    mean /= length;
    mean.to_vec()
}

impl Norm {
    fn apply(&self, mut x: ArrayViewMut2<f32>) {
        for mut row in x.axis_iter_mut(Axis(0)) {
            let mean = row.sum() / row.len() as f32;
            row -= mean;
            let variance = row.iter().map(|value| value * value).sum::<f32>() / row.len() as f32;
            row /= (variance + EPSILON).sqrt();
            row *= &self.scale;
            row += &self.shift;
        }
    }
}

impl Linear {
    fn apply(&self, x: &Array2<f32>) -> Array2<f32> {
        x.dot(&self.weight.t()) + &self.bias
    }
}

impl Layer {
    fn new(table: &WeightTable, name: &str, hidden: usize) -> Result<Self, EncoderError> {
        let linear = |part: &str, size| table.linear(&format!("{name}.{part}"), size);
        let norm = |part: &str| table.norm(&format!("{name}.{part}.LayerNorm"), hidden);
        let square = [hidden, hidden];
        let inner = linear("intermediate.dense", [0, hidden])?;
        Ok(Self {
            query: linear("attention.self.query", square)?,
            key: linear("attention.self.key", square)?,
            value: linear("attention.self.value", square)?,
            attended: linear("attention.output.dense", square)?,
            attention_norm: norm("attention.output")?,
            outer: linear("output.dense", [hidden, inner.weight.nrows()])?,
            inner,
            norm: norm("output")?,
        })
    }

    fn apply(&self, x: &Array2<f32>, lengths: &[usize], heads: usize) -> Array2<f32> {
        let attention = self.attention(x, lengths, heads);
        let mut x = self.attended.apply(&attention) + x;
        self.attention_norm.apply(x.view_mut());
        let mut inner = self.inner.apply(&x);
        inner.mapv_inplace(gelu);
        let mut x = self.outer.apply(&inner) + &x;
        self.norm.apply(x.view_mut());
        x
    }

    /// Multi-head attention in which each token attends to all tokens of its text.
    fn attention(&self, x: &Array2<f32>, lengths: &[usize], heads: usize) -> Array2<f32> {
        let [query, key, value] = [&self.query, &self.key, &self.value].map(|part| part.apply(x));
        let width = x.ncols() / heads;
        let mut all = Array2::zeros(x.raw_dim());
        for text in parts(lengths) {
            for head in 0..heads {
                let columns = Slice::from(head * width..(head + 1) * width);
                let columns_of = |all| part(all, text, columns);
                let mut shares =
                    columns_of(&query).dot(&columns_of(&key).t()) / (width as f32).sqrt();
                shares.axis_iter_mut(Axis(0)).for_each(softmax);
                let mut rows = all.slice_axis_mut(Axis(0), text);
                rows.slice_axis_mut(Axis(1), columns).assign(&shares.dot(&columns_of(&value)));
            }
        }
        all
    }
}

fn part(all: &Array2<f32>, rows: Slice, columns: Slice) -> ArrayView2<'_, f32> {
    let mut part = all.slice_axis(Axis(0), rows);
    part.slice_axis_inplace(Axis(1), columns);
    part
}

fn softmax(mut scores: ndarray::ArrayViewMut1<f32>) {
    let greatest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.mapv_inplace(|score| (score - greatest).exp());
    let sum = scores.sum();
    scores /= sum;
}

/// GELU: x times the probability that a standard normal variable is below x.
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + libm::erff(x / std::f32::consts::SQRT_2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_onnx::Values;

    const TOLERANCE: f32 = 2e-6;

    /// Weights by the rule that the values in `expected` were computed with: for the k-th
    /// number of a tensor, sin(k + length of its name), halved; scales are 1 more.
    fn tensor(name: &str, shape: &[usize]) -> (String, Tensor) {
        let value = |k: usize| {
            let base = ((k + name.len()) as f64).sin() / 2.0;
            (if name.ends_with("LayerNorm.weight") { base + 1.0 } else { base }) as f32
        };
        let values: Vec<f32> = (0..shape.iter().product()).map(value).collect();
        (name.to_owned(), Tensor::from_f32(name, shape, &values))
    }

    /// Five words, hidden 4, inner 6, one layer, positions for three.
    fn weights() -> BTreeMap<String, Tensor> {
        let mut all = vec![
            tensor("embeddings.word_embeddings.weight", &[5, 4]),
            tensor("embeddings.position_embeddings.weight", &[3, 4]),
            tensor("embeddings.token_type_embeddings.weight", &[2, 4]),
            tensor("embeddings.LayerNorm.weight", &[4]),
            tensor("embeddings.LayerNorm.bias", &[4]),
        ];
        let layer = |part: &str| format!("encoder.layer.0.{part}");
        for (part, outputs, inputs) in [
            ("attention.self.query", 4, 4),
            ("attention.self.key", 4, 4),
            ("attention.self.value", 4, 4),
            ("attention.output.dense", 4, 4),
            ("intermediate.dense", 6, 4),
            ("output.dense", 4, 6),
        ] {
            all.push(tensor(&format!("{}.weight", layer(part)), &[outputs, inputs]));
            all.push(tensor(&format!("{}.bias", layer(part)), &[outputs]));
        }
        for part in ["attention.output", "output"] {
            for kind in ["weight", "bias"] {
                all.push(tensor(&format!("{}.LayerNorm.{kind}", layer(part)), &[4]));
            }
        }
        all.into_iter().collect()
    }

    #[test]
    fn vectors_are_those_of_pytorch_alone_and_beside_others() {
        let encoder = Encoder::new(&weights(), 2).unwrap();
        let texts = [vec![1, 4, 2], vec![0], vec![3, 3]];
        let vectors = encoder.vectors(&texts).unwrap();
        // Values of PyTorch 1.13 with the operators of transformers' BertModel.
        let expected = [
            [-0.247_737_3, -0.117_670_7, 0.956_598_2, 0.098_488_1],
            [0.209_588_4, 0.892_148_3, 0.291_648_2, -0.274_016_9],
            [0.333_134_6, 0.872_432_4, 0.239_872_3, -0.265_224_8],
        ];
        for (at, (found, expected)) in vectors.iter().zip(expected).enumerate() {
            let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < TOLERANCE);
            assert!(near, "text {at}: {found:?}");
            assert_eq!(encoder.vectors(&texts[at..=at]).unwrap()[0].len(), 4);
        }
        // More texts than share products; this changes no vector.
        let many: Vec<Vec<u32>> = (0..40).map(|at| texts[at % 3].clone()).collect();
        for (at, found) in encoder.vectors(&many).unwrap().iter().enumerate() {
            let near = found.iter().zip(expected[at % 3]).all(|(a, b)| (a - b).abs() < TOLERANCE);
            assert!(near, "text {at} of many: {found:?}");
        }
    }

    #[test]
    fn errors_name_missing_weights_and_unfit_texts() {
        let encoder = Encoder::new(&weights(), 2).unwrap();
        let error =
            |text: &[u32]| encoder.vectors(&[vec![1], text.to_vec()]).unwrap_err().to_string();
        assert_eq!(error(&[]), "text 1: expected 1 to 3 tokens, found 0");
        assert_eq!(error(&[1; 4]), "text 1: expected 1 to 3 tokens, found 4");
        assert_eq!(error(&[5]), "text 1: expected tokens below 5, found 5");
        assert_eq!(encoder.vectors(&[]), Ok(Vec::new()));
        let mut without = weights();
        let name = "encoder.layer.0.output.dense.bias";
        without.remove(name);
        let error = Encoder::new(&without, 2).unwrap_err();
        assert_eq!(error, EncoderError::Missing(name.to_owned()));
        let mut other = weights();
        other.insert(name.to_owned(), Tensor::from_f32(name, &[5], &[0.0; 5]));
        let error = Encoder::new(&other, 2).unwrap_err().to_string();
        assert_eq!(error, format!("weight '{name}': expected shape [4], found [5]"));
        // A shape with more elements than there are values.
        let short = Values::Bytes(vec![0; 4]);
        other
            .insert(name.to_owned(), Tensor { values: short, ..Tensor::from_f32(name, &[4], &[]) });
        assert!(matches!(Encoder::new(&other, 2), Err(EncoderError::Shape { .. })));
        assert!(matches!(Encoder::new(&weights(), 3), Err(EncoderError::Shape { .. })));
        assert!(matches!(Encoder::new(&BTreeMap::new(), 1), Err(EncoderError::Missing(_))));
    }
}
