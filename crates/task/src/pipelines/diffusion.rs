//! Text-to-image generation by latent diffusion: two text encoders, a denoiser that is called once
//! per step, and an image decoder.
//!
//! The four are the ONNX files that `optimum-cli export onnx --task text-to-image` writes. The
//! computation between them is that of `StableDiffusionXLPipeline` of diffusers when the
//! reference's `backend_pytorch.py` calls it: the negative prompt is encoded for each sample, and
//! one call computes the noise with and without the caption.

use std::path::Path;

use dyno_sut::engine::{Answers, Port};
use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{CallableModel, InputValue, OutputValue};
use dyno_sut::tensors::{Element, Elements};
use half::{bf16, f16};

use super::euler::{NoiseSchedule, guide};
use super::{LoadedSample, ModelOpener, Pipeline, PipelineLoader, has_rows};
use crate::data::clip::ClipTokenizer;
use crate::files::{Files, OpenError};
use crate::system::DiffusionSettings;

/// Reads the tokenizers and the scheduler; the returned loader opens the models.
///
/// # Errors
/// A tokenizer cannot be read, the scheduler differs, or there are more steps than noise levels.
pub(crate) fn open(
    files: &Files<'_>,
    config: &DiffusionSettings,
) -> Result<PipelineLoader, OpenError> {
    let folder = files.path("model")?;
    let schedule = NoiseSchedule::new(config.steps).map_err(|most| {
        OpenError::content(format!("expected at most {most} steps, found {}", config.steps))
    })?;
    super::euler::check(&folder.join("scheduler/scheduler_config.json"))?;
    let mut negative = Vec::new();
    for (name, input) in ["tokenizer", "tokenizer_2"].iter().zip(&files.card().data.inputs) {
        let clip = ClipTokenizer::open(&folder.join(name)).map_err(OpenError::content)?;
        negative.push(clip.tokens(&config.negative, input.shape[0]));
    }
    let names = ["text_encoder", "text_encoder_2", "unet", "vae_decoder"];
    let paths = names.map(|name| folder.join(name).join("model.onnx"));
    for path in &paths {
        std::fs::metadata(path).map_err(OpenError::io_at(path))?;
    }
    let config = config.clone();
    Ok(Box::new(move |open| {
        let [first, second, unet, decoder] = &paths;
        let [hidden, other] = &config.hidden;
        let encoders = [
            TextEncoder::new(first, open, hidden, None)?,
            TextEncoder::new(second, open, other, Some("text_embeds"))?,
        ];
        let decoder = ImageDecoder::new(decoder, open, config.side)?;
        let denoiser = Denoiser::new(unet, open)?;
        // Each image needs a row with the caption and one without.
        let mut takes_one = has_rows(&denoiser.model, denoiser.row_inputs(), 2)?;
        for encoder in &encoders {
            takes_one |= has_rows(&encoder.model, 0..1, 2)?;
        }
        has_rows(&decoder.model, 0..1, 1)?;
        Ok(Box::new(DiffusionPipeline {
            encoders,
            denoiser,
            decoder,
            negative,
            schedule,
            config,
            takes_one,
        }))
    }))
}

/// The pipeline that generates images.
struct DiffusionPipeline {
    encoders: [TextEncoder; 2],
    denoiser: Denoiser,
    decoder: ImageDecoder,
    /// Tokens of the negative prompt by both tokenizers.
    negative: Vec<Vec<i64>>,
    schedule: NoiseSchedule,
    config: DiffusionSettings,
    takes_one: bool,
}

/// Rows of float32.
struct FloatRows {
    /// Shape of all rows.
    shape: Vec<usize>,
    values: Vec<f32>,
}

/// Text conditioning of the denoiser: rows of the negative prompt, then as many of the captions.
struct Conditioning {
    hidden: FloatRows,
    pooled: FloatRows,
}

impl DiffusionPipeline {
    /// Encodes the captions, each with the negative prompt.
    fn conditioning(&self, batch: &[LoadedSample]) -> Result<Conditioning, String> {
        let mut found = Vec::with_capacity(self.encoders.len());
        for (at, (encoder, negative)) in self.encoders.iter().zip(&self.negative).enumerate() {
            let mut tokens = negative.repeat(batch.len());
            for one in batch {
                let caption =
                    one.inputs[at].elements.as_slice::<i64>().ok_or("captions are int64")?;
                tokens.extend_from_slice(caption);
            }
            found.push(encoder.encode(2 * batch.len(), negative.len(), tokens)?);
        }
        let second = found.pop().expect("there are two encoders");
        let first = found.pop().expect("there are two encoders");
        let pooled = second.pooled.ok_or("the second encoder has no vector of the whole")?;
        Ok(Conditioning { hidden: side_by_side(&first.hidden, &second.hidden)?, pooled })
    }

    /// Returns the guided noise of a step.
    fn noise(
        &self,
        step: usize,
        latents: &FloatRows,
        conditioning: &Conditioning,
    ) -> Result<Vec<f32>, String> {
        let one = self.schedule.network_input(step, &latents.values);
        let mut shape = latents.shape.clone();
        shape[0] *= 2;
        let twice = FloatRows { shape, values: one.repeat(2) };
        let found = self.denoiser.noise(
            &twice,
            self.schedule.level(step),
            conditioning,
            self.config.side,
        )?;
        let (unwanted, wanted) = found.split_at(found.len() / 2);
        Ok(guide(unwanted, wanted, self.config.guidance))
    }

    /// Returns the initial latents, one row per sample.
    fn initial_latents(&self, batch: &[LoadedSample]) -> Result<FloatRows, String> {
        let mut shape = vec![batch.len()];
        shape.extend(&batch[0].inputs[2].shape);
        let mut values = Vec::with_capacity(shape.iter().product());
        for one in batch {
            values
                .extend_from_slice(one.inputs[2].elements.as_slice().ok_or("latents are float32")?);
        }
        self.schedule.scale_initial(&mut values);
        Ok(FloatRows { shape, values })
    }

    fn image(&self, latents: &FloatRows, at: usize) -> Result<Vec<u8>, String> {
        let length = latents.values.len() / latents.shape[0];
        let row = &latents.values[at * length..(at + 1) * length];
        let mut shape = latents.shape.clone();
        shape[0] = 1;
        let values = row.iter().map(|value| value / self.config.scaling).collect();
        self.decoder.image(&FloatRows { shape, values })
    }
}

impl Pipeline for DiffusionPipeline {
    fn models(&self) -> Vec<&CallableModel> {
        let [first, second] = &self.encoders;
        vec![&self.denoiser.model, &first.model, &second.model, &self.decoder.model]
    }

    fn answer(&self, batch: &[LoadedSample], answers: &mut Answers) -> Result<(), String> {
        let conditioning = self.conditioning(batch)?;
        let mut latents = self.initial_latents(batch)?;
        for step in 0..self.schedule.steps() {
            let noise = self.noise(step, &latents, &conditioning)?;
            self.schedule.step(step, &mut latents.values, &noise);
        }
        for (at, one) in batch.iter().enumerate() {
            answers.push(one.sample.id, &self.image(&latents, at)?);
        }
        Ok(())
    }

    fn try_out(&self, first: &LoadedSample) -> Result<(), String> {
        let batch = std::slice::from_ref(first);
        let conditioning = self.conditioning(batch)?;
        let latents = self.initial_latents(batch)?;
        self.noise(0, &latents, &conditioning)?;
        self.image(&latents, 0).map(drop)
    }

    fn takes_one(&self) -> bool {
        self.takes_one
    }
}

/// A text encoder.
struct TextEncoder {
    model: CallableModel,
    element: Element,
    hidden: usize,
    pooled: Option<usize>,
}

struct EncodedText {
    hidden: FloatRows,
    pooled: Option<FloatRows>,
}

impl TextEncoder {
    fn new(
        path: &Path,
        open: &ModelOpener<'_>,
        hidden: &str,
        pooled: Option<&str>,
    ) -> Result<Self, OnnxError> {
        let model = open(path)?.into_callable();
        let element = only_inputs(&model, ["input_ids"])?[0].1;
        if !matches!(element, Element::I64 | Element::I32) {
            return Err(model.unfit(format!("expected int64 or int32 tokens, found {element}")));
        }
        let hidden = model.output(hidden)?;
        let pooled = pooled.map(|name| model.output(name)).transpose()?;
        Ok(Self { model, element, hidden, pooled })
    }

    fn encode(&self, rows: usize, length: usize, tokens: Vec<i64>) -> Result<EncodedText, String> {
        let tokens = match self.element {
            Element::I32 => {
                let narrow = tokens.iter().map(|token| i32::try_from(*token));
                let narrow: Result<Vec<i32>, _> = narrow.collect();
                Elements::I32(narrow.map_err(|_| "tokens are beyond int32")?.into())
            }
            _ => Elements::I64(tokens.into()),
        };
        let found = self.model.call(&[InputValue::Elements(&[rows, length], tokens)])?;
        let output_rows = |at: usize, dims: usize| {
            let found = self::rows(&self.model, at, &found[at], rows)?;
            if found.shape.len() == dims && (dims < 3 || found.shape[1] == length) {
                Ok(found)
            } else {
                Err(self.mismatch(at, &found.shape, rows, length))
            }
        };
        let hidden = output_rows(self.hidden, 3)?;
        Ok(EncodedText { hidden, pooled: self.pooled.map(|at| output_rows(at, 2)).transpose()? })
    }

    fn mismatch(&self, at: usize, found: &[usize], rows: usize, length: usize) -> String {
        let Port { name, .. } = &self.model.outputs()[at];
        let model = self.model.name();
        format!(
            "{model}: expected of {rows} texts of {length} tokens a vector each, found {name} {found:?}"
        )
    }
}

/// The network that estimates noise.
struct Denoiser {
    model: CallableModel,
    /// Index and type of the inputs for the image, the step, the text, the pooled text, and the
    /// sizes.
    inputs: [(usize, Element); 5],
    /// Number of dimensions of the step.
    step: usize,
    output: usize,
}

impl Denoiser {
    fn new(path: &Path, open: &ModelOpener<'_>) -> Result<Self, OnnxError> {
        let model = open(path)?.into_callable();
        let names = ["sample", "timestep", "encoder_hidden_states", "text_embeds", "time_ids"];
        let inputs = only_inputs(&model, names)?;
        let step = model.inputs()[inputs[1].0].shape.len();
        if step > 1 {
            return Err(model.unfit("expected a timestep of at most one dimension".to_owned()));
        }
        Ok(Self { output: model.output("out_sample")?, model, inputs, step })
    }

    /// Returns the inputs that have a row for each image: all but the step.
    fn row_inputs(&self) -> impl Iterator<Item = usize> {
        let [image, _, rest @ ..] = self.inputs;
        [image].into_iter().chain(rest).map(|(at, _)| at)
    }

    fn noise(
        &self,
        image: &FloatRows,
        level: usize,
        conditioning: &Conditioning,
        side: usize,
    ) -> Result<Vec<f32>, String> {
        let rows = image.shape[0];
        let level = level as f32;
        let side = side as f32;
        // Original size, crop offset and target size.
        let sizes = [side, side, 0.0, 0.0, side, side].repeat(rows);
        let step = &[1][..self.step];
        let fed: [(&[usize], &[f32]); 5] = [
            (&image.shape, &image.values),
            (step, &[level]),
            (&conditioning.hidden.shape, &conditioning.hidden.values),
            (&conditioning.pooled.shape, &conditioning.pooled.values),
            (&[rows, 6], &sizes),
        ];
        let mut inputs = Vec::with_capacity(fed.len());
        for ((place, element), (shape, values)) in self.inputs.iter().zip(fed) {
            inputs.push((*place, InputValue::Elements(shape, to_elements(*element, values)?)));
        }
        inputs.sort_by_key(|(place, _)| *place);
        let inputs: Vec<InputValue<'_>> = inputs.into_iter().map(|(_, fed)| fed).collect();
        let found = self.model.call(&inputs)?;
        let found = self::rows(&self.model, self.output, &found[self.output], rows)?;
        if found.shape != image.shape {
            let model_name = self.model.name();
            let expected = &image.shape;
            return Err(format!(
                "{model_name}: expected noise of {expected:?}, found {:?}",
                found.shape
            ));
        }
        Ok(found.values)
    }
}

/// The network that decodes latents to an image.
struct ImageDecoder {
    model: CallableModel,
    element: Element,
    output: usize,
    side: usize,
}

impl ImageDecoder {
    fn new(path: &Path, open: &ModelOpener<'_>, side: usize) -> Result<Self, OnnxError> {
        let model = open(path)?.into_callable();
        let element = only_inputs(&model, ["latent_sample"])?[0].1;
        Ok(Self { output: model.output("sample")?, model, element, side })
    }

    /// Returns the bytes of red, green and blue, pixel by pixel.
    fn image(&self, latents: &FloatRows) -> Result<Vec<u8>, String> {
        let fed = InputValue::Elements(&latents.shape, to_elements(self.element, &latents.values)?);
        let found = self.model.call(&[fed])?;
        let found = rows(&self.model, self.output, &found[self.output], 1)?;
        let expected = [1, 3, self.side, self.side];
        if found.shape != expected {
            let model_name = self.model.name();
            let found = &found.shape;
            return Err(format!(
                "{model_name}: expected an image of {expected:?}, found {found:?}"
            ));
        }
        pixels(&found.values, self.side * self.side).ok_or_else(|| {
            format!("{}: the image has values that are not numbers", self.model.name())
        })
    }
}

/// Converts planes of values from -1 to 1 to interleaved bytes; halves are rounded to even. `None`
/// if a value is NaN.
fn pixels(planes: &[f32], length: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(planes.len());
    for pixel in 0..length {
        for plane in planes.chunks_exact(length) {
            let value = (plane[pixel] / 2.0 + 0.5).clamp(0.0, 1.0);
            if value.is_nan() {
                return None;
            }
            bytes.push((value * 255.0).round_ties_even() as u8);
        }
    }
    Some(bytes)
}

/// Returns the index and the type of each of these inputs.
///
/// # Errors
/// An input is missing, or the model has others.
fn only_inputs<const N: usize>(
    model: &CallableModel,
    names: [&str; N],
) -> Result<[(usize, Element); N], OnnxError> {
    let other = model.inputs().iter().find(|input| !names.contains(&&input.name[..]));
    if let Some(other) = other {
        let why = format!("it needs '{}' in addition to {}", other.name, names.join(", "));
        return Err(model.unfit(why));
    }
    let mut found = [(0, Element::F32); N];
    for (to, name) in found.iter_mut().zip(names) {
        let at = model.input(name)?;
        *to = (at, model.inputs()[at].element);
    }
    Ok(found)
}

/// Converts numbers to the type of an input.
fn to_elements(element: Element, values: &[f32]) -> Result<Elements<'_>, String> {
    Ok(match element {
        Element::F32 => Elements::F32(values.into()),
        Element::F16 => Elements::F16(values.iter().map(|x| f16::from_f32(*x)).collect()),
        Element::BF16 => Elements::BF16(values.iter().map(|x| bf16::from_f32(*x)).collect()),
        Element::F64 => Elements::F64(values.iter().map(|x| f64::from(*x)).collect()),
        Element::I64 => Elements::I64(values.iter().map(|x| *x as i64).collect()),
        Element::I32 => Elements::I32(values.iter().map(|x| *x as i32).collect()),
        other => return Err(format!("a model takes {other}, which images are not")),
    })
}

/// Returns an output of `rows` rows.
fn rows(
    model: &CallableModel,
    at: usize,
    output: &OutputValue,
    rows: usize,
) -> Result<FloatRows, String> {
    let (shape, elements) = output.read()?;
    if shape.first() != Some(&rows) {
        let model_name = model.name();
        let name = &model.outputs()[at].name;
        return Err(format!("{model_name}: expected {rows} rows of {name}, found {shape:?}"));
    }
    Ok(FloatRows { shape, values: elements.to_f32().into_owned() })
}

/// Concatenates the vectors of both encoders for each token.
fn side_by_side(first: &FloatRows, second: &FloatRows) -> Result<FloatRows, String> {
    let ([rows, tokens, one], [.., other]) = (&first.shape[..], &second.shape[..]) else {
        return Err("encoders have vectors of tokens".to_owned());
    };
    let pairs =
        first.values.chunks_exact((*one).max(1)).zip(second.values.chunks_exact((*other).max(1)));
    let values = pairs.flat_map(|(one, other)| [one, other]).flatten().copied().collect();
    Ok(FloatRows { shape: vec![*rows, *tokens, one + other], values })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values are NumPy's: `((x / 2 + 0.5).clip(0, 1) * 255).round().astype("uint8")`,
    /// transposed.
    #[test]
    fn images_are_bytes_pixel_by_pixel() {
        let planes = [-1.0, 1.0, -2.0, 0.0, 0.5, 3.0];
        assert_eq!(pixels(&planes, 2), Some(vec![0, 0, 191, 255, 128, 255]));
        assert_eq!(pixels(&[f32::NAN, 0.0, 0.0], 1), None);
        assert_eq!(pixels(&[f32::INFINITY, f32::NEG_INFINITY, 0.0], 1), Some(vec![255, 0, 128]));
    }

    #[test]
    fn vectors_of_both_encoders_stand_side_by_side() {
        let rows = |shape: &[usize], values: &[f32]| FloatRows {
            shape: shape.into(),
            values: values.into(),
        };
        let both =
            side_by_side(&rows(&[1, 2, 1], &[1.0, 2.0]), &rows(&[1, 2, 2], &[3.0, 4.0, 5.0, 6.0]));
        let both = both.unwrap();
        assert_eq!(
            (&both.shape[..], &both.values[..]),
            (&[1, 2, 3][..], &[1.0, 3.0, 4.0, 2.0, 5.0, 6.0][..])
        );
    }
}
