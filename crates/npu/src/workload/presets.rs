//! Networks of the thesis, by code.

use thiserror::Error;

use super::Network;
use crate::nearest::alternatives;

/// A network with a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkPreset {
    /// Code, as in the thesis.
    pub code: &'static str,
    /// Full name.
    pub title: &'static str,
    text: &'static str,
}

macro_rules! table {
    ($name:literal) => {
        include_str!(concat!("../../tables/", $name, ".csv"))
    };
}

/// All networks. Dyno's own tables, at 16 bits. Those of transformers are for 64 tokens, because the thesis does not
/// state a length.
pub const PRESETS: &[NetworkPreset] = &[
    NetworkPreset { code: "IC", title: "Inception v3", text: table!("inception-v3") },
    NetworkPreset { code: "MN", title: "MobileNet v2", text: table!("mobilenet-v2") },
    NetworkPreset { code: "RN", title: "ResNet-50", text: table!("resnet50") },
    NetworkPreset { code: "RX", title: "ResNeXt-50 32x4d", text: table!("resnext50-32x4d") },
    NetworkPreset { code: "BB", title: "BERT base", text: table!("bert-base") },
    NetworkPreset { code: "BL", title: "BERT large", text: table!("bert-large") },
    NetworkPreset { code: "XL", title: "XLNet large", text: table!("xlnet-large") },
    NetworkPreset { code: "NCF", title: "Neural collaborative filtering", text: table!("ncf") },
    NetworkPreset {
        code: "NCFW",
        title: "Four layers of 2048 x 256 that stand for NCF: an estimate that matches the 4.7 us \
                of the thesis",
        text: table!("ncf-wide"),
    },
];

/// Error: no network has this code.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown network `{code}`{}",
    alternatives(code, PRESETS.iter().map(|preset| preset.code))
)]
pub struct UnknownNetwork {
    /// The requested code.
    pub code: String,
}

impl Network {
    /// Returns a network of [`PRESETS`].
    ///
    /// # Errors
    /// Fails if no network has this code.
    pub fn preset(code: &str) -> Result<Self, UnknownNetwork> {
        let found = PRESETS.iter().find(|preset| preset.code == code);
        let Some(preset) = found else {
            return Err(UnknownNetwork { code: code.to_owned() });
        };
        Ok(Self::from_csv(preset.code, preset.text).expect("the tables of this crate read"))
    }
}
