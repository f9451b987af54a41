//! The grammar of `rnn:MODEL`.

use std::ops::RangeInclusive;
use std::time::Duration;

use dyno_loadgen::settings::known_keys;
use dyno_results::units::parse_duration;
use dyno_rnn::Precision;
use dyno_sut::batch::LengthClasses;
use dyno_sut::cores::Cores;

/// Grammar for help texts.
pub const GRAMMAR: &str = "recurrent networks in Dyno's own engine: MODEL is FILE.onnx, a whole \
     model with its own inputs and outputs (,verify=off skips the comparison with an independent \
     evaluator, ,output=NAME scores another output than the first one), or layers: \
     FILE.onnx,as=layers if they follow one another, FILE.safetensors, one of the layers as FILE#LAYER, FILE?nonlinearity=relu for options that weights do not \
     determine, a layer by its shape such as lstm:256x256x1x100 (inputs, units, rows, steps), or \
     one of the networks of DeepCPU, text-similarity, reader or bidaf, whose samples are random \
     words; several models with + between them, each on its own cores as MODEL@0-3. Then any of \
     ,precision=f32|bf16|int8, ,lengths=N-M (of random samples), ,near=RATIO (of lengths that \
     share a batch), ,documents=N (of a query) and ,tune=TIME; in dyno serve also ,outputs=last+Y+Y_h+Y_c (of \
     layers) and ,states=INPUT:OUTPUT+... (of a whole model, carried from request to request of a \
     sequence). Layers take --data FILE.npy \
     [samples, steps, inputs] and --data lengths=FILE.npy; their answers are last states, \
     compared with the layers in double precision or with --with reference=FILE.npy";

const KEYS: [&str; 10] = [
    "precision",
    "lengths",
    "near",
    "documents",
    "tune",
    "as",
    "verify",
    "output",
    "outputs",
    "states",
];

/// A parsed specification of recurrent models.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Names of models, each with its processors.
    pub models: Vec<(String, Option<Cores>)>,
    pub precision: Precision,
    /// Whether an ONNX file is read as a chain of layers instead of as a whole model.
    pub as_layers: bool,
    /// Whether a whole model is compared with an independent evaluator.
    pub verify: bool,
    /// Output of a whole model of which answers are made; the first one by default.
    pub output: Option<String>,
    pub lengths: Option<RangeInclusive<usize>>,
    /// Lengths that share a batch; `None` is the default.
    pub near: Option<LengthClasses>,
    /// Documents that a query of a network is compared with, instead of the number in the paper.
    pub documents: Option<usize>,
    /// How long plans are timed, for each layer and size of a batch.
    pub tune: Option<Duration>,
    /// Outputs of served layers, instead of the last states alone.
    pub outputs: Vec<String>,
    /// Inputs of a served model that start from an output of the request before.
    pub states: Vec<(String, String)>,
}

/// Default time for plans: a start of about a second for a layer and batches of up to 32.
pub const TUNE_DEFAULT: Duration = Duration::from_millis(50);

/// Maximum number of documents of a query. More would need tensors of gigabytes.
const MOST_DOCUMENTS: usize = 10_000;

/// Parses the operand of `rnn:`.
///
/// # Errors
/// A sentence fragment that begins with "expected" or names an unknown key.
pub fn parse(text: &str) -> Result<Spec, String> {
    let mut spec = Spec {
        models: Vec::new(),
        precision: Precision::F32,
        as_layers: false,
        verify: true,
        output: None,
        lengths: None,
        near: None,
        documents: None,
        tune: None,
        outputs: Vec::new(),
        states: Vec::new(),
    };
    let mut models = text;
    // Lists of processors also contain commas.
    while let Some((before, last)) = models.rsplit_once(',')
        && let Some((key, value)) = last.split_once('=')
    {
        option(&mut spec, key, value)?;
        models = before;
    }
    // Without a model there are only options.
    if let Some((key, value)) = models.split_once('=')
        && KEYS.contains(&key)
    {
        option(&mut spec, key, value)?;
        models = "";
    }
    for model in models.split('+') {
        let bound = model.rsplit_once('@').map(|(model, cores)| (model, cores.parse::<Cores>()));
        spec.models.push(match bound {
            Some((model, Ok(cores))) => (model.to_owned(), Some(cores)),
            Some((_, Err(error))) => return Err(error.to_string()),
            None => (model.to_owned(), None),
        });
    }
    Ok(spec)
}

fn option(spec: &mut Spec, key: &str, value: &str) -> Result<(), String> {
    match key {
        "precision" => {
            spec.precision = match value {
                "f32" => Precision::F32,
                "bf16" => Precision::Bf16,
                "int8" => Precision::Int8,
                _ => return Err(format!("expected f32, bf16 or int8, found `{value}`")),
            }
        }
        "near" => {
            let near = value.parse().ok().and_then(LengthClasses::new);
            spec.near = Some(
                near.ok_or_else(|| format!("expected a ratio of 1.05 or more, found `{value}`"))?,
            );
        }
        "documents" => {
            let documents =
                value.parse().ok().filter(|number| (1..=MOST_DOCUMENTS).contains(number));
            spec.documents = Some(documents.ok_or_else(|| {
                format!("expected documents from 1 to {MOST_DOCUMENTS}, found `{value}`")
            })?);
        }
        "tune" => spec.tune = Some(Duration::from_nanos(parse_duration(value)?)),
        "output" if value.is_empty() => {
            return Err("expected output=NAME, found no name".to_owned());
        }
        "output" => spec.output = Some(value.to_owned()),
        "outputs" => {
            spec.outputs = value.split('+').map(str::to_owned).collect();
            if value.is_empty() {
                return Err("expected outputs such as Y+Y_h, found none".to_owned());
            }
        }
        "states" => {
            let pair = |pair: &str| {
                let pair = pair.split_once(':').filter(|(a, b)| !a.is_empty() && !b.is_empty());
                let (input, output) = pair.ok_or_else(|| {
                    format!("expected states such as h:hn+c:cn (INPUT:OUTPUT), found `{value}`")
                })?;
                Ok((input.to_owned(), output.to_owned()))
            };
            spec.states = value.split('+').map(pair).collect::<Result<_, String>>()?;
        }
        "as" if value == "layers" => spec.as_layers = true,
        "as" => return Err(format!("expected as=layers, found `as={value}`")),
        "verify" if value == "off" => spec.verify = false,
        "verify" => return Err(format!("expected verify=off, found `verify={value}`")),
        "lengths" => {
            let (least, most) = value.split_once('-').unwrap_or((value, value));
            let wrong = || format!("expected lengths such as 5-40, from 1 on, found `{value}`");
            let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
            let (least, most) = (number(least)?, number(most)?);
            if least == 0 || least > most {
                return Err(wrong());
            }
            spec.lengths = Some(least..=most);
        }
        _ => {
            let known = known_keys(key, KEYS.into_iter());
            return Err(format!("unknown key `{key}`; {known}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_processors_and_options_of_all() {
        let spec =
            parse("a.onnx#x@0,2-3+lstm:4x8,precision=int8,lengths=2-9,near=2,tune=0s").unwrap();
        let cores = "0,2-3".parse().ok();
        let models = [("a.onnx#x".to_owned(), cores), ("lstm:4x8".to_owned(), None)];
        assert_eq!((&spec.models[..], spec.precision), (&models[..], Precision::Int8));
        assert_eq!((spec.lengths, spec.tune), (Some(2..=9), Some(Duration::ZERO)));
        let served = parse("a.onnx,outputs=Y+Y_c,states=h:hn+c:cn").unwrap();
        assert_eq!(
            (&served.outputs[..], served.states.len()),
            (&["Y".into(), "Y_c".into()][..], 2)
        );
        assert_eq!(served.states[1], ("c".to_owned(), "cn".to_owned()));
        assert_eq!(parse("precision=bf16").unwrap().models, [(String::new(), None)]);
    }

    #[test]
    fn what_does_not_read_is_told() {
        for (text, expected) in [
            ("a,precison=f32", "unknown key `precison`; the nearest key is `precision`"),
            ("a,precision=f16", "expected f32, bf16 or int8, found `f16`"),
            ("a,lengths=0-3", "expected lengths such as 5-40, from 1 on, found `0-3`"),
            ("a,lengths=9-3", "expected lengths such as 5-40, from 1 on, found `9-3`"),
            ("a,documents=0", "expected documents from 1 to 10000, found `0`"),
            ("a,as=chain", "expected as=layers, found `as=chain`"),
            ("a,verify=on", "expected verify=off, found `verify=on`"),
            ("a,output=", "expected output=NAME, found no name"),
            ("a,outputs=", "expected outputs such as Y+Y_h, found none"),
            ("a,states=h", "expected states such as h:hn+c:cn (INPUT:OUTPUT), found `h`"),
            ("a,near=1", "expected a ratio of 1.05 or more, found `1`"),
            ("a@x", "expected numbers of processors such as 0-3,6, found `x`"),
        ] {
            assert_eq!(parse(text), Err(expected.to_owned()), "{text}");
        }
    }
}
