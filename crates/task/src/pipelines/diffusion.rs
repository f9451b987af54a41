//! Images of captions by a latent diffusion model: two encoders of text, a network that
//! finds the noise of an image, asked once a step, and the decoder of the last image.
//!
//! The four are the ONNX files that `optimum-cli export onnx --task text-to-image` writes.
//! What is computed between them is what `StableDiffusionXLPipeline` of diffusers does when
//! the reference's `backend_pytorch.py` calls it: the negative prompt is encoded for each
//! sample, and noise with and without the caption is found in one call.

use std::num::NonZero;
use std::path::Path;

use dyno_sut::engine::{Answers, Port};
use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{Callable, Fed, Kept};
use dyno_sut::tensors::{Element, Elements};
use half::{bf16, f16};
use serde::Deserialize;

use super::euler::{Schedule, guided};
use super::{Asked, Load, Open, Pipeline, has_rows};
use crate::data::clip::Clip;
use crate::files::{Files, OpenError};

/// What a card says of an image.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diffusion {
    /// Calls of the network that finds noise.
    pub steps: NonZero<usize>,
    /// How far from the negative prompt towards the caption, and beyond.
    pub guidance: f32,
    /// What images should not be.
    pub negative: String,
    /// Outputs of the encoders that the network looks at.
    pub hidden: [String; 2],
    /// Pixels along a side of an image; the network is told.
    pub side: usize,
    /// Latents are so many times what the decoder takes (`scaling_factor`).
    pub scaling: f32,
}

/// Reads what is beside the models; these are opened by what is returned.
///
/// # Errors
/// A tokenizer that does not read, a scheduler that is another, or more steps than there
/// are levels of noise.
pub(crate) fn open(files: &Files<'_>, config: &Diffusion) -> Result<Load, OpenError> {
    let folder = files.path("model")?;
    let schedule = Schedule::new(config.steps).map_err(|most| {
        OpenError::content(format!("expected at most {most} steps, found {}", config.steps))
    })?;
    super::euler::check(&folder.join("scheduler/scheduler_config.json"))?;
    let mut negative = Vec::new();
    for (name, input) in ["tokenizer", "tokenizer_2"].iter().zip(&files.card().data.inputs) {
        let clip = Clip::open(&folder.join(name)).map_err(OpenError::content)?;
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
            Encoder::new(first, open, hidden, None)?,
            Encoder::new(second, open, other, Some("text_embeds"))?,
        ];
        let decoder = Decoder::new(decoder, open, config.side)?;
        let denoiser = Denoiser::new(unet, open)?;
        // With and without the caption.
        let mut takes_one = has_rows(&denoiser.model, denoiser.of_rows(), 2)?;
        for encoder in &encoders {
            takes_one |= has_rows(&encoder.model, 0..1, 2)?;
        }
        has_rows(&decoder.model, 0..1, 1)?;
        Ok(Box::new(Painter { encoders, denoiser, decoder, negative, schedule, config, takes_one }))
    }))
}

/// Makes images.
struct Painter {
    encoders: [Encoder; 2],
    denoiser: Denoiser,
    decoder: Decoder,
    /// Tokens by both tokenizers.
    negative: Vec<Vec<i64>>,
    schedule: Schedule,
    config: Diffusion,
    takes_one: bool,
}

/// Rows of float32.
struct Rows {
    /// Of all rows.
    shape: Vec<usize>,
    values: Vec<f32>,
}

/// What the network looks at: rows of the negative prompt, then as many of the captions.
struct Wish {
    hidden: Rows,
    pooled: Rows,
}

impl Painter {
    /// Encodes the captions, each with the negative prompt.
    fn wish(&self, asked: &[Asked]) -> Result<Wish, String> {
        let mut found = Vec::with_capacity(self.encoders.len());
        for (at, (encoder, negative)) in self.encoders.iter().zip(&self.negative).enumerate() {
            let mut tokens = negative.repeat(asked.len());
            for one in asked {
                let caption =
                    one.inputs[at].elements.as_slice::<i64>().ok_or("captions are int64")?;
                tokens.extend_from_slice(caption);
            }
            found.push(encoder.encode(2 * asked.len(), negative.len(), tokens)?);
        }
        let second = found.pop().expect("there are two encoders");
        let first = found.pop().expect("there are two encoders");
        let pooled = second.pooled.ok_or("the second encoder has no vector of the whole")?;
        Ok(Wish { hidden: side_by_side(&first.hidden, &second.hidden)?, pooled })
    }

    /// The noise that the network finds at a step, guided.
    fn noise(&self, step: usize, latents: &Rows, wish: &Wish) -> Result<Vec<f32>, String> {
        let one = self.schedule.fed(step, &latents.values);
        let mut shape = latents.shape.clone();
        shape[0] *= 2;
        let twice = Rows { shape, values: one.repeat(2) };
        let found =
            self.denoiser.noise(&twice, self.schedule.level(step), wish, self.config.side)?;
        let (unwanted, wanted) = found.split_at(found.len() / 2);
        Ok(guided(unwanted, wanted, self.config.guidance))
    }

    /// What all images start from, a row a sample.
    fn begin(&self, asked: &[Asked]) -> Result<Rows, String> {
        let mut shape = vec![asked.len()];
        shape.extend(&asked[0].inputs[2].shape);
        let mut values = Vec::with_capacity(shape.iter().product());
        for one in asked {
            values
                .extend_from_slice(one.inputs[2].elements.as_slice().ok_or("latents are float32")?);
        }
        self.schedule.begin(&mut values);
        Ok(Rows { shape, values })
    }

    fn image(&self, latents: &Rows, at: usize) -> Result<Vec<u8>, String> {
        let length = latents.values.len() / latents.shape[0];
        let row = &latents.values[at * length..(at + 1) * length];
        let mut shape = latents.shape.clone();
        shape[0] = 1;
        let values = row.iter().map(|value| value / self.config.scaling).collect();
        self.decoder.image(&Rows { shape, values })
    }
}

impl Pipeline for Painter {
    fn models(&self) -> Vec<&Callable> {
        let [first, second] = &self.encoders;
        vec![&self.denoiser.model, &first.model, &second.model, &self.decoder.model]
    }

    fn answer(&self, asked: &[Asked], answers: &mut Answers) -> Result<(), String> {
        let wish = self.wish(asked)?;
        let mut latents = self.begin(asked)?;
        for step in 0..self.schedule.steps() {
            let noise = self.noise(step, &latents, &wish)?;
            self.schedule.step(step, &mut latents.values, &noise);
        }
        for (at, one) in asked.iter().enumerate() {
            answers.push(one.sample.id, &self.image(&latents, at)?);
        }
        Ok(())
    }

    fn try_out(&self, first: &Asked) -> Result<(), String> {
        let asked = std::slice::from_ref(first);
        let (wish, latents) = (self.wish(asked)?, self.begin(asked)?);
        self.noise(0, &latents, &wish)?;
        self.image(&latents, 0).map(drop)
    }

    fn takes_one(&self) -> bool {
        self.takes_one
    }
}

/// A network that makes vectors of tokens.
struct Encoder {
    model: Callable,
    element: Element,
    hidden: usize,
    pooled: Option<usize>,
}

struct Encoded {
    hidden: Rows,
    pooled: Option<Rows>,
}

impl Encoder {
    fn new(
        path: &Path,
        open: &Open<'_>,
        hidden: &str,
        pooled: Option<&str>,
    ) -> Result<Self, OnnxError> {
        let model = open(path)?.callable();
        let element = only_inputs(&model, ["input_ids"])?[0].1;
        if !matches!(element, Element::I64 | Element::I32) {
            return Err(model.unfit(format!("it takes tokens as {element}, not int64 or int32")));
        }
        let hidden = model.output(hidden)?;
        let pooled = pooled.map(|name| model.output(name)).transpose()?;
        Ok(Self { model, element, hidden, pooled })
    }

    fn encode(&self, rows: usize, length: usize, tokens: Vec<i64>) -> Result<Encoded, String> {
        let tokens = match self.element {
            Element::I32 => {
                let narrow = tokens.iter().map(|token| i32::try_from(*token));
                let narrow: Result<Vec<i32>, _> = narrow.collect();
                Elements::I32(narrow.map_err(|_| "tokens are beyond int32")?.into())
            }
            _ => Elements::I64(tokens.into()),
        };
        let found = self.model.call(&[Fed::Elements(&[rows, length], tokens)])?;
        let told = |at: usize, dims: usize| {
            let found = self::rows(&self.model, at, &found[at], rows)?;
            match found.shape.len() == dims && (dims < 3 || found.shape[1] == length) {
                true => Ok(found),
                false => Err(self.other(at, &found.shape, rows, length)),
            }
        };
        let hidden = told(self.hidden, 3)?;
        Ok(Encoded { hidden, pooled: self.pooled.map(|at| told(at, 2)).transpose()? })
    }

    fn other(&self, at: usize, found: &[usize], rows: usize, length: usize) -> String {
        let Port { name, .. } = &self.model.outputs()[at];
        let of = self.model.name();
        format!(
            "{of}: expected of {rows} texts of {length} tokens a vector each, found {name} {found:?}"
        )
    }
}

/// The network that finds noise.
struct Denoiser {
    model: Callable,
    /// Image, step, text, text as a whole, sizes: place and type of each.
    inputs: [(usize, Element); 5],
    /// Dimensions of the step.
    step: usize,
    output: usize,
}

impl Denoiser {
    fn new(path: &Path, open: &Open<'_>) -> Result<Self, OnnxError> {
        let model = open(path)?.callable();
        let names = ["sample", "timestep", "encoder_hidden_states", "text_embeds", "time_ids"];
        let inputs = only_inputs(&model, names)?;
        let step = model.inputs()[inputs[1].0].shape.len();
        if step > 1 {
            return Err(model.unfit("it takes a timestep of more than one dimension".to_owned()));
        }
        Ok(Self { output: model.output("out_sample")?, model, inputs, step })
    }

    /// The inputs that have a row for each image: all but the step.
    fn of_rows(&self) -> impl Iterator<Item = usize> {
        let [image, _, rest @ ..] = self.inputs;
        [image].into_iter().chain(rest).map(|(at, _)| at)
    }

    fn noise(
        &self,
        image: &Rows,
        level: usize,
        wish: &Wish,
        side: usize,
    ) -> Result<Vec<f32>, String> {
        let rows = image.shape[0];
        let (level, side) = (level as f32, side as f32);
        // What the image is cut from, from where, and to what.
        let sizes = [side, side, 0.0, 0.0, side, side].repeat(rows);
        let step = &[1][..self.step];
        let fed: [(&[usize], &[f32]); 5] = [
            (&image.shape, &image.values),
            (step, &[level]),
            (&wish.hidden.shape, &wish.hidden.values),
            (&wish.pooled.shape, &wish.pooled.values),
            (&[rows, 6], &sizes),
        ];
        let mut inputs = Vec::with_capacity(fed.len());
        for ((place, element), (shape, values)) in self.inputs.iter().zip(fed) {
            inputs.push((*place, Fed::Elements(shape, of_type(*element, values)?)));
        }
        inputs.sort_by_key(|(place, _)| *place);
        let inputs: Vec<Fed<'_>> = inputs.into_iter().map(|(_, fed)| fed).collect();
        let found = self.model.call(&inputs)?;
        let found = self::rows(&self.model, self.output, &found[self.output], rows)?;
        if found.shape != image.shape {
            let (of, expected) = (self.model.name(), &image.shape);
            return Err(format!("{of}: expected noise of {expected:?}, found {:?}", found.shape));
        }
        Ok(found.values)
    }
}

/// The network that makes an image of latents.
struct Decoder {
    model: Callable,
    element: Element,
    output: usize,
    side: usize,
}

impl Decoder {
    fn new(path: &Path, open: &Open<'_>, side: usize) -> Result<Self, OnnxError> {
        let model = open(path)?.callable();
        let element = only_inputs(&model, ["latent_sample"])?[0].1;
        Ok(Self { output: model.output("sample")?, model, element, side })
    }

    /// Bytes of red, green and blue, pixel by pixel.
    fn image(&self, latents: &Rows) -> Result<Vec<u8>, String> {
        let fed = Fed::Elements(&latents.shape, of_type(self.element, &latents.values)?);
        let found = self.model.call(&[fed])?;
        let found = rows(&self.model, self.output, &found[self.output], 1)?;
        let expected = [1, 3, self.side, self.side];
        if found.shape != expected {
            let (of, found) = (self.model.name(), &found.shape);
            return Err(format!("{of}: expected an image of {expected:?}, found {found:?}"));
        }
        pixels(&found.values, self.side * self.side).ok_or_else(|| {
            format!("{}: the image has values that are no numbers", self.model.name())
        })
    }
}

/// From -1 to 1, channel by channel, to bytes, pixel by pixel; halves go to even numbers.
/// None where a value is no number.
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

/// Place and type of each of these inputs.
///
/// # Errors
/// One that the model does not have, or another that it has.
fn only_inputs<const N: usize>(
    model: &Callable,
    names: [&str; N],
) -> Result<[(usize, Element); N], OnnxError> {
    let other = model.inputs().iter().find(|input| !names.contains(&&input.name[..]));
    if let Some(other) = other {
        let why = format!("it takes '{}' besides {}", other.name, names.join(", "));
        return Err(model.unfit(why));
    }
    let mut found = [(0, Element::F32); N];
    for (to, name) in found.iter_mut().zip(names) {
        let at = model.input(name)?;
        *to = (at, model.inputs()[at].element);
    }
    Ok(found)
}

/// Numbers as the type that a model takes.
fn of_type(element: Element, values: &[f32]) -> Result<Elements<'_>, String> {
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

/// An output of so many rows.
fn rows(model: &Callable, at: usize, kept: &Kept, rows: usize) -> Result<Rows, String> {
    let (shape, elements) = kept.read()?;
    if shape.first() != Some(&rows) {
        let (of, name) = (model.name(), &model.outputs()[at].name);
        return Err(format!("{of}: expected {rows} rows of {name}, found {shape:?}"));
    }
    Ok(Rows { shape, values: elements.to_f32().into_owned() })
}

/// The vectors of each token by both encoders, behind each other.
fn side_by_side(first: &Rows, second: &Rows) -> Result<Rows, String> {
    let ([rows, tokens, one], [.., other]) = (&first.shape[..], &second.shape[..]) else {
        return Err("encoders have vectors of tokens".to_owned());
    };
    let pairs =
        first.values.chunks_exact((*one).max(1)).zip(second.values.chunks_exact((*other).max(1)));
    let values = pairs.flat_map(|(one, other)| [one, other]).flatten().copied().collect();
    Ok(Rows { shape: vec![*rows, *tokens, one + other], values })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By NumPy: `((x / 2 + 0.5).clip(0, 1) * 255).round().astype("uint8")`, whose halves
    /// are even, transposed.
    #[test]
    fn images_are_bytes_pixel_by_pixel() {
        let planes = [-1.0, 1.0, -2.0, 0.0, 0.5, 3.0];
        assert_eq!(pixels(&planes, 2), Some(vec![0, 0, 191, 255, 128, 255]));
        assert_eq!(pixels(&[f32::NAN, 0.0, 0.0], 1), None);
        assert_eq!(pixels(&[f32::INFINITY, f32::NEG_INFINITY, 0.0], 1), Some(vec![255, 0, 128]));
    }

    #[test]
    fn vectors_of_both_encoders_stand_side_by_side() {
        let rows =
            |shape: &[usize], values: &[f32]| Rows { shape: shape.into(), values: values.into() };
        let both =
            side_by_side(&rows(&[1, 2, 1], &[1.0, 2.0]), &rows(&[1, 2, 2], &[3.0, 4.0, 5.0, 6.0]));
        let both = both.unwrap();
        assert_eq!(
            (&both.shape[..], &both.values[..]),
            (&[1, 2, 3][..], &[1.0, 3.0, 4.0, 2.0, 5.0, 6.0][..])
        );
    }
}
