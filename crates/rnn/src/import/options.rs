//! Options of cells from the attributes of a node.

use dyno_kernels::Activation;
use dyno_onnx::{Attribute, Node};

use super::ImportError;

/// Returns the activations of all directions in order, or nothing if the attribute is absent.
///
/// Values of `activation_alpha` and `activation_beta` belong in order to the activations that have
/// such a parameter. Missing values are the defaults of the ONNX operator of that name. (ONNX
/// Runtime 1.32 uses 0 for the alpha of `ThresholdedRelu`, whose default is 1.)
pub(super) fn activations(node: &Node, name: &str) -> Result<Vec<Activation>, ImportError> {
    let Some(Attribute::Texts(names)) = node.attribute("activations") else {
        return Ok(Vec::new());
    };
    let numbers = |name: &str| match node.attribute(name) {
        Some(Attribute::Floats(numbers)) => numbers.clone(),
        _ => Vec::new(),
    };
    let mut alphas = numbers("activation_alpha").into_iter();
    let mut betas = numbers("activation_beta").into_iter();
    let mut one = |text: &String| {
        let mut alpha = |default: f32| alphas.next().unwrap_or(default);
        let mut beta = |default: f32| betas.next().unwrap_or(default);
        Ok(match text.to_ascii_lowercase().as_str() {
            "sigmoid" => Activation::Sigmoid,
            "tanh" => Activation::Tanh,
            "relu" => Activation::Relu,
            "affine" => Activation::Affine { alpha: alpha(1.0), beta: beta(0.0) },
            "leakyrelu" => Activation::LeakyRelu { alpha: alpha(0.01) },
            "thresholdedrelu" => Activation::ThresholdedRelu { alpha: alpha(1.0) },
            "scaledtanh" => Activation::ScaledTanh { alpha: alpha(1.0), beta: beta(1.0) },
            "hardsigmoid" => Activation::HardSigmoid { alpha: alpha(0.2), beta: beta(0.5) },
            "elu" => Activation::Elu { alpha: alpha(1.0) },
            "softsign" => Activation::Softsign,
            "softplus" => Activation::Softplus,
            _ => {
                let what = format!("activation {text}");
                return Err(ImportError::Option { node: name.into(), what });
            }
        })
    };
    names.iter().map(&mut one).collect()
}
