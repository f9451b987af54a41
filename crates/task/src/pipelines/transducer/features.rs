//! Input features of RNN-T: logarithms of the power in 80 mel bands, three windows stacked, each
//! feature normalized to mean 0 and deviation 1 in the utterance.
//!
//! Source: `pytorch/parts/features.py` of the reference's benchmark RNN-T with `[input_eval]` of
//! its `configs/rnnt.toml`: windows of 20 ms (Hann) every 10 ms, a transform of 512, 80 bands, and
//! `dither` 1e-5, which is replaced by its expected power. The bands are those of librosa's
//! `filters.mel` in Slaney's form. Each utterance is prepared alone in float32, as in the
//! reference.

use std::f64::consts::PI;
use std::fmt;
use std::sync::Arc;

use rustfft::num_complex::Complex32;
use rustfft::{Fft, FftPlanner};

/// Features of a frame.
pub(crate) const FEATURES: usize = JOINED * BANDS;
const RATE: usize = 16_000;
const BANDS: usize = 80;
/// Distance between windows, in samples.
const HOP: usize = 160;
/// Length of a window, in samples.
const WINDOW: usize = 320;
/// Length of the transform, in whose middle the window lies.
const SPECTRUM: usize = 512;
/// Windows that are stacked to a frame.
const JOINED: usize = 3;
/// Share of the previous sample that pre-emphasis subtracts.
const EMPHASIS: f32 = 0.97;
/// Expected power of dither of 1e-5.
const DITHER: f32 = 1e-10;
/// Added to avoid the logarithm of zero and division by zero.
const LEAST_POWER: f32 = 1e-20;
const LEAST_DEVIATION: f64 = 1e-5;
/// Minimum number of samples; fewer give one frame, which has no deviation.
pub(crate) const SHORTEST: usize = JOINED * HOP + 1;

/// Error: an utterance has too few samples, which it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShortUtterance(usize);

impl fmt::Display for ShortUtterance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected an utterance of at least {SHORTEST} values, found {}", self.0)
    }
}

/// Transform, window and mel bands, which all utterances share.
pub(crate) struct FilterBank {
    transform: Arc<dyn Fft<f32>>,
    window: Vec<f32>,
    bands: Vec<Band>,
}

/// A mel band: its weights from the frequency bin `first` on.
struct Band {
    first: usize,
    weights: Vec<f32>,
}

impl FilterBank {
    pub(crate) fn new() -> Self {
        let turn = |at: usize| 2.0 * PI * at as f64 / (WINDOW - 1) as f64;
        Self {
            transform: FftPlanner::new().plan_fft_forward(SPECTRUM),
            window: (0..WINDOW).map(|at| (0.5 - 0.5 * turn(at).cos()) as f32).collect(),
            bands: bands(),
        }
    }

    /// Returns the frames of a waveform, [`FEATURES`] numbers each.
    pub(crate) fn frames(&self, waveform: &[f32]) -> Result<Vec<f32>, ShortUtterance> {
        if waveform.len() < SHORTEST {
            return Err(ShortUtterance(waveform.len()));
        }
        let windows = self.windows(waveform);
        let frames = waveform.len().div_ceil(HOP).div_ceil(JOINED);
        // The last frame is padded with zeros.
        let mut frames: Vec<f32> = windows.into_iter().take(frames * FEATURES).collect();
        frames.resize(frames.len().next_multiple_of(FEATURES), 0.0);
        normalize(&mut frames);
        Ok(frames)
    }

    /// Returns the logarithms of the bands of every window.
    fn windows(&self, waveform: &[f32]) -> Vec<f32> {
        let before = [waveform[0]].into_iter();
        let emphasized: Vec<f32> =
            before.chain(waveform.windows(2).map(|pair| pair[1] - EMPHASIS * pair[0])).collect();
        let last = emphasized.len() - 1;
        // Both ends are mirrored; windows are centered at multiples of the hop.
        let value = |at: usize| match at.checked_sub(WINDOW / 2) {
            None => emphasized[WINDOW / 2 - at],
            Some(at) if at > last => emphasized[2 * last - at],
            Some(at) => emphasized[at],
        };
        let mut spectrum = vec![Complex32::ZERO; SPECTRUM];
        let mut scratch = vec![Complex32::ZERO; self.transform.get_inplace_scratch_len()];
        let mut powers = [0.0; SPECTRUM / 2 + 1];
        let mut all = Vec::new();
        for start in (0..=waveform.len()).step_by(HOP) {
            spectrum.fill(Complex32::ZERO);
            // The position of the window in the transform does not change the power.
            for (at, (to, weight)) in spectrum.iter_mut().zip(&self.window).enumerate() {
                to.re = weight * value(start + at);
            }
            self.transform.process_with_scratch(&mut spectrum, &mut scratch);
            for (power, bin) in powers.iter_mut().zip(&spectrum) {
                *power = bin.norm_sqr() + DITHER;
            }
            all.extend(self.bands.iter().map(|band| {
                let weighed = band.weights.iter().zip(&powers[band.first..]);
                let energy: f32 = weighed.map(|(weight, power)| weight * power).sum();
                (energy + LEAST_POWER).ln()
            }));
        }
        all
    }
}

/// Normalizes each feature by its mean and sample deviation.
fn normalize(frames: &mut [f32]) {
    let count = (frames.len() / FEATURES) as f64;
    for feature in 0..FEATURES {
        let each = || frames.iter().skip(feature).step_by(FEATURES).map(|value| f64::from(*value));
        let mean = each().sum::<f64>() / count;
        let squares: f64 = each().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (count - 1.0)).sqrt() + LEAST_DEVIATION;
        for value in frames.iter_mut().skip(feature).step_by(FEATURES) {
            *value = ((f64::from(*value) - mean) / deviation) as f32;
        }
    }
}

/// Returns triangles of equal width in mels from 0 to half the rate, each of the same area.
fn bands() -> Vec<Band> {
    let top = mels(RATE as f64 / 2.0);
    let edges: Vec<f64> =
        (0..BANDS + 2).map(|at| hertz(top * at as f64 / (BANDS + 1) as f64)).collect();
    let band = |edges: &[f64]| {
        let [low, middle, high] = edges else { unreachable!("windows of three edges") };
        let weight = |bin: usize| {
            let at = bin as f64 * RATE as f64 / SPECTRUM as f64;
            let rising = (at - low) / (middle - low);
            let falling = (high - at) / (high - middle);
            (rising.min(falling).max(0.0) * 2.0 / (high - low)) as f32
        };
        let weights: Vec<f32> = (0..=SPECTRUM / 2).map(weight).collect();
        let first = weights.iter().position(|weight| *weight > 0.0).unwrap_or(0);
        let end = weights.iter().rposition(|weight| *weight > 0.0).map_or(first, |last| last + 1);
        Band { first, weights: weights[first..end].to_vec() }
    };
    edges.windows(3).map(band).collect()
}

/// Frequency in hertz up to which Slaney's scale is linear; it is logarithmic above.
const EVEN_TO: f64 = 1000.0;
/// Hertz per mel in the linear part.
const EVEN: f64 = 200.0 / 3.0;

/// Returns the logarithm of the frequency ratio per mel in the logarithmic part.
fn step() -> f64 {
    6.4_f64.ln() / 27.0
}

fn mels(hertz: f64) -> f64 {
    if hertz < EVEN_TO { hertz / EVEN } else { EVEN_TO / EVEN + (hertz / EVEN_TO).ln() / step() }
}

fn hertz(mels: f64) -> f64 {
    let even = EVEN_TO / EVEN;
    if mels < even { mels * EVEN } else { EVEN_TO * ((mels - even) * step()).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tolerance between float32 and the float64 of the program below.
    const ROUNDING: f32 = 2e-4;

    /// Noise and a sawtooth with rising pitch, of integers only.
    fn waveform(values: usize) -> Vec<f32> {
        let mut state = 1_u64;
        let mut value = |at: usize| {
            state = (state * 1_103_515_245 + 12_345) % (1 << 31);
            let noise = (state >> 16) as i64 % 2001 - 1000;
            let saw = ((at * at / 50) % 400) as i64 - 200;
            (noise + 8 * saw) as f32 / 32_768.0
        };
        (0..values).map(&mut value).collect()
    }

    #[test]
    fn features_are_those_of_the_reference() {
        // Expected values are from a program of NumPy 2.4 and librosa 0.11 in float64:
        // `librosa.stft` with `numpy.hanning(320)`, `librosa.filters.mel`, and the definitions
        // above.
        let expected = [
            (4000, 9, [2.07084, -0.09410, -0.35164, -0.24877, -0.90905, 2.54544], 1535.897),
            (4001, 9, [2.07084, -0.09410, -0.35530, -0.24877, -0.00183, 2.54544], 1536.152),
            (1279, 3, [1.07262, 0.55231, 0.39169, -0.43134, 1.04208, 1.11531], 531.234),
        ];
        let filters = FilterBank::new();
        for (values, count, some, sum) in expected {
            let frames = filters.frames(&waveform(values)).unwrap();
            assert_eq!(frames.len(), count * FEATURES, "{values}");
            let last = count - 1;
            let places = [(0, 0), (0, 79), (0, 80), (count / 2, 160), (last, 120), (last, 239)];
            for ((frame, feature), expected) in places.into_iter().zip(some) {
                let found = frames[frame * FEATURES + feature];
                assert!(
                    (found - expected).abs() < ROUNDING,
                    "{values}: expected {expected}, \
                     found {found}"
                );
            }
            let found: f32 = frames.iter().map(|value| value.abs()).sum();
            assert!((found / sum - 1.0).abs() < ROUNDING, "{values}: {found} is no {sum}");
        }
    }

    #[test]
    fn silence_has_features_and_short_utterances_are_rejected() {
        let filters = FilterBank::new();
        let silence = filters.frames(&[0.0; 16_000]).unwrap();
        assert!(silence.iter().all(|value| value.is_finite()));
        assert_eq!(filters.frames(&[0.5; 480]).unwrap_err(), ShortUtterance(480));
        assert_eq!(filters.frames(&[]).unwrap_err(), ShortUtterance(0));
    }
}
