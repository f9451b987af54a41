//! The denoiser of Stable Diffusion XL (Podell et al. 2023) for images of 1024x1024. Each of the
//! benchmark's 20 steps evaluates it twice, with the prompt and without. Names are those of the
//! `diffusers` library.

mod layers;

use dyno_onnx::{BuildError, Builder, Dim, Element, Model, Name, Weights};

use layers::{Resnet, conv, linear, normalize_groups, silu, waves};

/// Side of the latents, an eighth of that of the image.
const SIDE: usize = 128;
const LATENT: usize = 4;
/// Channels of each level, and transformers after each of its residual blocks.
const LEVELS: [(usize, usize); 3] = [(320, 0), (640, 2), (1280, 10)];
const BLOCKS: usize = 2;
/// Size of the step embedding.
const STEP: usize = 1280;
/// Tokens of the prompt. The sizes of their vectors and of the pooled vector follow.
const TOKENS: usize = 77;
const TOKEN: usize = 2048;
const PROMPT: usize = 1280;
/// Numbers of the size conditioning. The size of each embedding follows.
const SIZES: usize = 6;
const SIZE_WAVES: usize = 256;

/// Builds the denoiser: the noise `[N, 4, 128, 128]` of noisy latents.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn sdxl_unet(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("sdxl-unet", weights);
    let batch = Dim::symbol("N");
    let mut input = |name: &str, shape: &[usize]| {
        let dims = shape.iter().map(|&n| Dim::Fixed(n));
        let shape: Vec<Dim> = [batch.clone()].into_iter().chain(dims).collect();
        net.input(name, Element::F32, &shape)
    };
    let sample = input("sample", &[LATENT, SIDE, SIDE]);
    let step = input("timestep", &[1]);
    let tokens = input("encoder_hidden_states", &[TOKENS, TOKEN]);
    let prompt = input("text_embeds", &[PROMPT]);
    let sizes = input("time_ids", &[SIZES]);
    let step = embed(&mut net, [&step, &prompt, &sizes])?;
    let mut net = Denoiser { net, step, tokens };
    let x = conv(&mut net.net, &sample, "conv_in", LEVELS[0].0, 3, 1)?;
    let (x, skips) = net.down(x)?;
    let x = net.middle(&x)?;
    let x = net.up(x, skips)?;
    let Denoiser { mut net, .. } = net;
    let x = normalize_groups(&mut net, &x, "conv_norm_out", 1e-5)?;
    let x = silu(&mut net, &x)?;
    let noise = conv(&mut net, &x, "conv_out", LATENT, 3, 1)?;
    net.output("out_sample", &noise)?;
    Ok(net.finish())
}

/// Returns the embedding of step, pooled prompt and sizes, in 1280 numbers.
fn embed(net: &mut Builder, [step, prompt, sizes]: [&Name; 3]) -> Result<Name, BuildError> {
    let two = |net: &mut Builder, x: &Name, name: &str, inputs: usize| {
        let y = linear(net, x, &format!("{name}.linear_1"), [inputs, STEP], true)?;
        let y = silu(net, &y)?;
        linear(net, &y, &format!("{name}.linear_2"), [STEP, STEP], true)
    };
    let first = LEVELS[0].0;
    let step = waves(net, step, first)?;
    let step = two(net, &step, "time_embedding", first)?;
    let last = net.integers(&[2]);
    let sizes = net.node("Unsqueeze", &[sizes, &last], &[])?;
    let sizes = waves(net, &sizes, SIZE_WAVES)?;
    let flat = net.integers(&[0, (SIZES * SIZE_WAVES) as i64]);
    let sizes = net.node("Reshape", &[&sizes, &flat], &[])?;
    let both = net.node("Concat", &[prompt, &sizes], &[("axis", 1.into())])?;
    let more = two(net, &both, "add_embedding", PROMPT + SIZES * SIZE_WAVES)?;
    net.node("Add", &[&step, &more], &[])
}

/// The graph, and the values that all blocks use.
struct Denoiser {
    net: Builder,
    step: Name,
    tokens: Name,
}

impl Denoiser {
    fn resnet(&mut self, x: &Name, name: &str, channels: usize) -> Result<Name, BuildError> {
        let resnet = Resnet { name, channels, step: &self.step, steps: STEP };
        resnet.add(&mut self.net, x)
    }

    /// A residual block, followed by transformers if the level has them.
    fn pair(&mut self, x: &Name, name: &str, at: usize, level: usize) -> Result<Name, BuildError> {
        let (channels, depth) = LEVELS[level];
        let y = self.resnet(x, &format!("{name}.resnets.{at}"), channels)?;
        if depth == 0 {
            return Ok(y);
        }
        layers::transformers(
            &mut self.net,
            &y,
            &self.tokens,
            &format!("{name}.attentions.{at}"),
            depth,
        )
    }

    /// Downward path with half the size at each level; also returns the output of each block.
    fn down(&mut self, x: Name) -> Result<(Name, Vec<Name>), BuildError> {
        let (mut x, mut seen) = (x.clone(), vec![x]);
        for (level, (channels, _)) in LEVELS.into_iter().enumerate() {
            let name = format!("down_blocks.{level}");
            for at in 0..BLOCKS {
                x = self.pair(&x, &name, at, level)?;
                seen.push(x.clone());
            }
            if level + 1 < LEVELS.len() {
                let name = format!("{name}.downsamplers.0.conv");
                x = conv(&mut self.net, &x, &name, channels, 3, 2)?;
                seen.push(x.clone());
            }
        }
        Ok((x, seen))
    }

    fn middle(&mut self, x: &Name) -> Result<Name, BuildError> {
        let (channels, depth) = LEVELS[LEVELS.len() - 1];
        let x = self.resnet(x, "mid_block.resnets.0", channels)?;
        let name = "mid_block.attentions.0";
        let x = layers::transformers(&mut self.net, &x, &self.tokens, name, depth)?;
        self.resnet(&x, "mid_block.resnets.1", channels)
    }

    /// Upward path with twice the size at each level; each block also takes an output of the
    /// downward path.
    fn up(&mut self, x: Name, mut seen: Vec<Name>) -> Result<Name, BuildError> {
        let mut x = x;
        for (block, level) in (0..LEVELS.len()).rev().enumerate() {
            let name = format!("up_blocks.{block}");
            for at in 0..=BLOCKS {
                let skip = seen.pop().expect("each level saw as much as it is asked for");
                x = self.net.node("Concat", &[&x, &skip], &[("axis", 1.into())])?;
                x = self.pair(&x, &name, at, level)?;
            }
            if level > 0 {
                let net = &mut self.net;
                let none = Name::NONE;
                let factors = net.numbers(&[1.0, 1.0, 2.0, 2.0]);
                x = net.node("Resize", &[&x, &none, &factors], &[("mode", "nearest".into())])?;
                let name = format!("{name}.upsamplers.0.conv");
                x = conv(net, &x, &name, LEVELS[level].0, 3, 1)?;
            }
        }
        Ok(x)
    }
}
