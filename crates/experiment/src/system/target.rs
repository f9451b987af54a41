//! Reads the argument that names what a command measures: a system, a model file or a server.

use std::path::Path;

use dyno_loadgen::settings::nearest;

use super::kind::{SYSTEMS, SystemKind};
use crate::failure::Failure;

/// What a command measures.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// Specification of a system, such as `onnx:model.onnx`.
    System(String),
    /// URL of a server whose kind is unknown, with its scheme; keys may follow.
    Server(String),
}

impl Target {
    /// Reads an argument such as `onnx:model.onnx`, `model.onnx` or `localhost:8000`.
    ///
    /// # Errors
    /// A file that no system loads as it is, or a system that does not exist; with what to write
    /// instead.
    pub fn read(argument: &str) -> Result<Self, Failure> {
        let server = || Ok(Self::Server(format!("http://{argument}")));
        let (name, operand) = argument.split_once(':').unwrap_or((argument, ""));
        if is_url(argument) {
            return Ok(Self::Server(argument.to_owned()));
        }
        // An address of IPv6 begins with a bracket.
        if is_port(operand) || argument.starts_with('[') {
            return server();
        }
        if SystemKind::named(name).is_some() {
            return Ok(Self::System(argument.to_owned()));
        }
        let file = file_of(argument);
        if extension(file).as_deref() == Some("onnx") && !argument.contains(':') {
            if Path::new(file).exists() {
                return Ok(Self::System(format!("onnx:{argument}")));
            }
            return Err(no_file(file));
        }
        if let Some(problem) = wrong_file(argument) {
            return Err(problem);
        }
        let is_path = argument.starts_with(['.', '/', '~']) || Path::new(file).is_file();
        if is_path || argument.is_empty() {
            let problem = Failure::usage(format!("{file} is not an ONNX model")).hint(TARGETS);
            return Err(if Path::new(file).exists() { problem } else { no_file(file) });
        }
        if operand.is_empty() {
            return server();
        }
        Err(Failure::usage(unknown_system(argument)).hint(systems()))
    }
}

/// Returns whether a text begins with the scheme of a URL, and not with the name of a system.
pub(super) fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.chars().all(|c| c.is_ascii_alphanumeric()) && SystemKind::named(scheme).is_none()
    })
}

/// What an argument may be, as a hint.
const TARGETS: &str = "dyno run MODEL.onnx measures a model, dyno run http://HOST:PORT a server";

fn no_file(file: &str) -> Failure {
    Failure::set_up(format!("file {file} does not exist")).hint(TARGETS)
}

/// Returns the names of all systems, as a hint.
pub(super) fn systems() -> String {
    let names: Vec<&str> = SYSTEMS.into_iter().map(|kind| kind.name).collect();
    format!("expected one of {}; see dyno info systems", names.join(", "))
}

/// Returns why a specification names no system, with the specification that was probably meant.
pub(super) fn unknown_system(spec: &str) -> String {
    let (name, operand) = spec.split_once(':').unwrap_or((spec, ""));
    if matches!(name, "http" | "https") {
        return format!(
            "`{spec}` is a URL, not a system; use openai:{spec} for a server of language models, \
             or dyno run {spec}, which identifies the server"
        );
    }
    if name == "tokens" {
        return "`tokens` is a system of dyno serve only; start dyno serve --system tokens:, then \
                dyno run http://127.0.0.1:8000"
            .into();
    }
    if extension(file_of(spec)).as_deref() == Some("onnx") && operand.is_empty() {
        return format!("`{spec}` is a file, not a system; use onnx:{spec}");
    }
    let near = nearest(name, SYSTEMS.into_iter().map(|kind| kind.name));
    let near = near.filter(|near| near.chars().next() == name.chars().next());
    match near {
        Some(near) if operand.is_empty() => {
            format!("unknown system `{name}`; the nearest is `{near}`")
        }
        Some(near) => format!("unknown system `{name}`; use {near}:{operand}"),
        None => format!("unknown system `{name}`"),
    }
}

/// Returns the failure for a file of a format that no system loads as it is.
fn wrong_file(argument: &str) -> Option<Failure> {
    let file = file_of(argument);
    let hint = match extension(file)?.as_str() {
        "toml" => format!("dyno run --config {file} runs a configuration"),
        "pt" | "pth" | "ckpt" | "bin" | "safetensors" => {
            "convert it to ONNX with torch.onnx.export, then dyno run MODEL.onnx".into()
        }
        "gguf" => format!("start llama-server --model {file}, then dyno run http://127.0.0.1:8080"),
        "tflite" | "pb" | "h5" | "keras" => {
            "convert it to ONNX with tf2onnx, then dyno run MODEL.onnx".into()
        }
        "engine" | "plan" => {
            "serve it with Triton Inference Server, then dyno run http://HOST:8000".into()
        }
        "jsonl" | "json" | "csv" | "npy" | "npz" => format!("use --data {file} to pass samples"),
        _ => return None,
    };
    Some(Failure::usage(format!("{file} is not a system that Dyno measures")).hint(hint))
}

/// Returns the file of a specification without a name, before keys such as `,threads=1`.
fn file_of(argument: &str) -> &str {
    argument.split(',').next().unwrap_or(argument)
}

fn extension(file: &str) -> Option<String> {
    let extension = Path::new(file).extension()?.to_str()?;
    Some(extension.to_ascii_lowercase())
}

/// Returns whether what follows the first colon is a port, and perhaps a path or keys.
fn is_port(operand: &str) -> bool {
    let digits = operand.bytes().take_while(u8::is_ascii_digit).count();
    let (port, rest) = operand.split_at(digits);
    port.parse::<u16>().is_ok() && (rest.is_empty() || rest.starts_with(['/', ',', '?']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(argument: &str) -> Target {
        Target::read(argument).unwrap()
    }

    fn problem(argument: &str) -> String {
        let failure = Target::read(argument).unwrap_err();
        format!("{} {}", failure.problems().join(" "), failure.hints().join(" "))
    }

    #[test]
    fn systems_and_servers_are_told_apart() {
        for server in ["http://localhost:8000", "https://a/v1,model=m"] {
            assert_eq!(read(server), Target::Server(server.into()), "{server}");
        }
        for server in [
            "localhost",
            "localhost:8000",
            "localhost:8000,proxy=http://p:1",
            "model:8000",
            "task:80/v1,model=m",
            "10.0.0.1:8000",
            "[::1]:9",
            "gpu-3",
        ] {
            assert_eq!(read(server), Target::Server(format!("http://{server}")), "{server}");
        }
        for system in [
            "digits",
            "null",
            "onnx:a.onnx,threads=1",
            "model:exponential=2ms",
            "rnn:a.onnx",
            "openai:http://h:1/v1,model=m",
        ] {
            assert_eq!(read(system), Target::System(system.into()), "{system}");
        }
    }

    #[test]
    fn an_onnx_file_is_a_system() {
        let file = std::env::temp_dir().join(format!("dyno-target-{}.ONNX", std::process::id()));
        std::fs::write(&file, "").unwrap();
        let path = file.display().to_string();
        assert_eq!(read(&path), Target::System(format!("onnx:{path}")));
        let keyed = format!("{path},ep=cpu");
        assert_eq!(read(&keyed), Target::System(format!("onnx:{keyed}")));
        std::fs::remove_file(file).unwrap();
        assert!(problem(&path).contains("does not exist"), "{}", problem(&path));
    }

    #[test]
    fn mistakes_name_what_was_meant() {
        for (argument, expected) in [
            ("onx:a.onnx", "use onnx:a.onnx"),
            ("opneai:https//x", "use openai:"),
            ("opneai:https://x", "use openai:https://x"),
            ("m.gguf", "llama-server"),
            ("m.pt", "torch.onnx.export"),
            ("dyno.toml", "--config dyno.toml"),
            ("tokens:first=1ms", "dyno serve --system tokens:"),
        ] {
            let problem = problem(argument);
            assert!(problem.contains(expected), "{argument}: {problem}");
        }
        assert_eq!(
            unknown_system("conv.onnx"),
            "`conv.onnx` is a file, not a system; use onnx:conv.onnx"
        );
        assert_eq!(unknown_system("llama"), "unknown system `llama`");
    }
}
