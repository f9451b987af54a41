//! Euler's method for the ordinary differential equation of a diffusion model: from noise to an
//! image in a few steps, each of which calls the network for the remaining noise.
//!
//! Source: T. Karras et al., Elucidating the Design Space of Diffusion-Based Generative
//! Models (2022), algorithm 2 without churn, with the noise levels of J. Ho et al. (2020) as
//! Stable Diffusion XL was trained with them. Numbers are float32 and in the order of
//! `EulerDiscreteScheduler` of diffusers, whose configuration is that of the reference's
//! `checkpoint_scheduler`.

use std::num::NonZero;
use std::path::Path;

use dyno_tensors::files;
use serde_json::{Value, json};

use crate::files::OpenError;

/// Number of noise levels in training.
const LEVELS: usize = 1000;
/// Variance that the first and the last level add.
const ADDED: [f64; 2] = [0.00085, 0.012];
/// Added to the indices of levels (`steps_offset`).
const OFFSET: usize = 1;

/// The noise levels of the steps, the greatest first.
///
/// ```
/// use std::num::NonZero;
///
/// use dyno_task::pipelines::euler::NoiseSchedule;
///
/// let schedule = NoiseSchedule::new(NonZero::new(20).unwrap()).unwrap();
/// assert_eq!((schedule.steps(), schedule.level(0), schedule.level(19)), (20, 951, 1));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseSchedule {
    levels: Vec<usize>,
    /// Standard deviation of the noise at each level, and 0 at the end.
    sigmas: Vec<f32>,
}

impl NoiseSchedule {
    /// Creates a schedule of equidistant steps (`leading`), which includes the least noise.
    ///
    /// # Errors
    /// The maximum number of steps, if `steps` is greater.
    pub fn new(steps: NonZero<usize>) -> Result<Self, usize> {
        let apart = LEVELS / steps;
        if apart == 0 {
            return Err(LEVELS);
        }
        let all = sigmas();
        let levels: Vec<usize> = (0..steps.get()).rev().map(|at| at * apart + OFFSET).collect();
        let of_levels = levels.iter().map(|level| all[(*level).min(LEVELS - 1)]);
        let sigmas = of_levels.chain([0.0]).collect();
        Ok(Self { levels, sigmas })
    }

    /// Returns the number of steps.
    pub fn steps(&self) -> usize {
        self.levels.len()
    }

    /// Returns the index of a step's level, which is an input of the network.
    pub fn level(&self, step: usize) -> usize {
        self.levels[step]
    }

    /// Scales noise of variance 1 to that of the first step.
    pub(crate) fn scale_initial(&self, noise: &mut [f32]) {
        let scale = noisy_deviation(self.sigmas[0]);
        noise.iter_mut().for_each(|value| *value *= scale);
    }

    /// Returns the network's input at a step, scaled to a variance of about 1.
    pub(crate) fn network_input(&self, step: usize, noisy: &[f32]) -> Vec<f32> {
        let scale = noisy_deviation(self.sigmas[step]);
        noisy.iter().map(|value| value / scale).collect()
    }

    /// Applies a step with the noise that the network estimated.
    ///
    /// # Panics
    /// Panics if the lengths differ.
    pub fn step(&self, step: usize, noisy: &mut [f32], noise: &[f32]) {
        assert_eq!(noisy.len(), noise.len(), "noise is of each number");
        let sigma = self.sigmas[step];
        let next = self.sigmas[step + 1];
        let far = next - sigma;
        for (value, noise) in noisy.iter_mut().zip(noise) {
            let clean = *value - sigma * noise;
            let slope = (*value - clean) / sigma;
            *value += slope * far;
        }
    }
}

/// Compares the configuration of a scheduler with this implementation; the file may be missing.
///
/// # Errors
/// The first setting that differs.
pub(crate) fn check(path: &Path) -> Result<(), OpenError> {
    if !path.is_file() {
        return Ok(());
    }
    let bytes = files::read(path).map_err(OpenError::io_at(path))?;
    let refused = |what: String| OpenError::content(format!("{}: {what}", path.display()));
    let found: Value = serde_json::from_slice(&bytes)
        .map_err(|error| refused(format!("expected the configuration of a scheduler: {error}")))?;
    let [first, last] = ADDED;
    for (key, expected) in [
        ("_class_name", json!("EulerDiscreteScheduler")),
        ("beta_start", json!(first)),
        ("beta_end", json!(last)),
        ("beta_schedule", json!("scaled_linear")),
        ("num_train_timesteps", json!(LEVELS)),
        ("prediction_type", json!("epsilon")),
        ("steps_offset", json!(OFFSET)),
        ("timestep_spacing", json!("leading")),
        ("interpolation_type", json!("linear")),
        ("trained_betas", Value::Null),
        ("use_karras_sigmas", json!(false)),
    ] {
        if let Some(found) = found.get(key).filter(|found| **found != expected) {
            return Err(refused(format!(
                "expected {key} {expected} as in the reference, found {found}"
            )));
        }
    }
    Ok(())
}

/// Classifier-free guidance: extrapolates from the unwanted noise beyond the wanted.
///
/// # Panics
/// Panics if the lengths differ.
pub(crate) fn guide(unwanted: &[f32], wanted: &[f32], guidance: f32) -> Vec<f32> {
    assert_eq!(unwanted.len(), wanted.len(), "noise with and without what is wanted");
    unwanted.iter().zip(wanted).map(|(not, is)| not + guidance * (is - not)).collect()
}

/// Returns the standard deviation of an image of variance 1 with noise.
fn noisy_deviation(sigma: f32) -> f32 {
    (sigma * sigma + 1.0).sqrt()
}

/// Returns the standard deviation of the noise at each level, of an image whose variance stays 1.
fn sigmas() -> Vec<f32> {
    let [first, last] = ADDED.map(|added| added.sqrt() as f32);
    let step = (last - first) / (LEVELS - 1) as f32;
    let mut remaining = 1.0;
    let sigma = |at: usize| {
        // Computed from the nearer end, as in PyTorch.
        let root = if at < LEVELS / 2 {
            first + step * at as f32
        } else {
            last - step * (LEVELS - 1 - at) as f32
        };
        remaining *= f64::from(1.0 - root * root);
        let image = remaining as f32;
        ((1.0 - image) / image).sqrt()
    };
    (0..LEVELS).map(sigma).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative tolerance: the last bits of PyTorch's `linspace` depend on the vector width of the
    /// machine.
    const TOLERANCE: f32 = 1e-6;

    #[track_caller]
    fn assert_near(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (one, other) in found.iter().zip(expected) {
            assert!((one - other).abs() <= TOLERANCE * other.abs(), "{one} instead of {other}");
        }
    }

    fn schedule(steps: usize) -> NoiseSchedule {
        NoiseSchedule::new(NonZero::new(steps).unwrap()).unwrap()
    }

    /// Values are those of `EulerDiscreteScheduler` of diffusers 0.21.2 on PyTorch 1.13,
    /// with `beta_schedule="scaled_linear"`, `steps_offset=1`, `timestep_spacing="leading"`.
    #[test]
    fn levels_and_noise_are_those_of_diffusers() {
        let twenty = schedule(20);
        assert_eq!((twenty.steps(), twenty.level(0), twenty.level(19)), (20, 951, 1));
        assert!((0..20).all(|step| twenty.level(step) == 951 - 50 * step));
        let expected = [
            11.028_335,
            8.390_687,
            6.506_399_6,
            5.134_433_3,
            4.116_698,
            3.347_764_5,
            2.756_196_7,
            2.292_854_8,
            1.923_444,
            1.623_692_9,
            1.376_179_5,
            1.168_216_5,
            0.990_409_3,
            0.835_653_25,
            0.698_398_6,
            0.574_050_7,
            0.458_333_13,
            0.346_187_3,
            0.228_147_3,
            0.041_314_48,
            0.0,
        ];
        assert_near(&twenty.sigmas, &expected);
        let seven = schedule(7);
        let levels: Vec<usize> = (0..7).map(|step| seven.level(step)).collect();
        assert_eq!(levels, [853, 711, 569, 427, 285, 143, 1]);
        assert_near(&seven.sigmas[..2], &[6.570_651, 3.485_456]);
        let mut one = [1.0];
        seven.scale_initial(&mut one);
        assert_near(&one, &[6.646_311_3]);
        assert_eq!(NoiseSchedule::new(NonZero::new(1001).unwrap()), Err(1000));
        assert_eq!(schedule(1000).level(0), 1000);
    }

    /// Values are those of the same scheduler, with noise that is a linear function of the
    /// network's input.
    #[test]
    fn steps_are_those_of_diffusers() {
        let schedule = schedule(20);
        let mut noisy = [0.5, -1.25, 2.0, 0.0];
        schedule.scale_initial(&mut noisy);
        assert_near(&noisy, &[5.536_79, -13.841_974, 22.147_16, 0.0]);
        let mut fed = Vec::new();
        for step in 0..20 {
            fed = schedule.network_input(step, &noisy);
            let line = |(value, [by, add]): (&f32, [f32; 2])| by * value + add;
            let lines = [[0.9, 0.1], [0.5, 0.0], [-0.25, 0.2], [1.0, -0.3]];
            let noise: Vec<f32> = fed.iter().zip(lines).map(line).collect();
            schedule.step(step, &mut noisy, &noise);
            if step == 0 {
                assert_near(&noisy, &[4.086_083_4, -12.193_444, 22.938_454, 0.791_294_34]);
            }
        }
        assert_near(&fed, &[0.124_517_66, -3.145_000_5, 40.813_778, 0.578_795_1]);
        assert_near(&noisy, &[0.115_862_49, -3.082_716_5, 41.261_883, 0.567_770_54]);
    }

    #[test]
    fn a_scheduler_with_other_settings_is_rejected() {
        let path = std::env::temp_dir().join(format!("dyno-scheduler-{}.json", std::process::id()));
        assert!(check(&path).is_ok());
        let found = |text: &str| {
            std::fs::write(&path, text).unwrap();
            check(&path).map_err(|error| error.to_string())
        };
        let official = r#"{"_class_name": "EulerDiscreteScheduler", "beta_end": 0.012,
            "beta_schedule": "scaled_linear", "beta_start": 0.00085, "num_train_timesteps": 1000,
            "prediction_type": "epsilon", "steps_offset": 1, "timestep_spacing": "leading"}"#;
        assert_eq!(found(official), Ok(()));
        let error = found(r#"{"prediction_type": "v_prediction"}"#).unwrap_err();
        assert!(
            error.ends_with(
                "expected prediction_type \"epsilon\" as in the reference, found \"v_prediction\""
            ),
            "{error}"
        );
        let other = found(r#"{"_class_name": "DPMSolverMultistepScheduler"}"#).unwrap_err();
        assert!(other.contains("expected _class_name \"EulerDiscreteScheduler\""), "{other}");
        assert!(found("{").unwrap_err().contains("the configuration of a scheduler"));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn guidance_goes_beyond_what_is_wanted() {
        assert_eq!(guide(&[1.0, 2.0], &[2.0, 1.5], 8.0), [9.0, -2.0]);
        assert_eq!(guide(&[1.0], &[2.0], 1.0), [2.0]);
    }
}
