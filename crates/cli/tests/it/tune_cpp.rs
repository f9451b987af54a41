//! A program in C++ (`crates/number-c/examples/lenet`) is tuned through its command line, and built anew with
//! the types that were found: no answer changes.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::program::{Folder, ProgramResult};

/// Images of the embedded digits that test.
const IMAGES: usize = 540;

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn source(name: &str) -> PathBuf {
    repository().join("crates/number-c/examples/lenet").join(name)
}

/// Returns the C++ compiler with its flags; `None`, with a note, if there is no compiler.
fn compiler() -> Option<Command> {
    let program = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    if Command::new(&program).arg("--version").output().is_err() {
        eprintln!("skipped: there is no compiler {}; set CXX", program.display());
        return None;
    }
    let mut command = Command::new(program);
    // Sums and products are rounded one by one, whatever a processor could join.
    command.args([
        "-std=c++14",
        "-O2",
        "-ffp-contract=off",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
    ]);
    Some(command)
}

/// The output of a program that must succeed.
fn said(command: &mut Command) -> String {
    let ran: ProgramResult = command.output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{command:?}\n{}\n{}", ran.stdout, ran.stderr);
    ran.stdout
}

/// The library that programs with Numbers are linked with. Nothing depends on its package, so that cargo
/// is asked for it, with the profile that this test was built with.
fn library() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--offline", "--package", "dyno-number-c", "--message-format", "json"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let built = said(command.current_dir(repository()));
    let messages = built.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let files =
        messages.flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
    let paths = files.filter_map(|file| file.as_str().map(PathBuf::from));
    let mut found = paths.filter(|path| path.ends_with("libdyno_number_c.a"));
    found.next_back().expect("cargo names the static library that it builds")
}

/// Weights, images, labels and the descriptor.
fn folder() -> Folder {
    let folder = Folder::new();
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    for digit in dyno_sut::digits::test_digits() {
        // 8 x 8 pixels as 24 x 24, with a border of 2.
        let place = |at: usize| (at.wrapping_sub(2) / 3 < 8).then(|| (at - 2) / 3);
        let ink = |y, x| Some(15 * digit.pixels[place(y)? * 8 + place(x)?]);
        images.extend((0..28 * 28).map(|at| ink(at / 28, at % 28).unwrap_or(0)));
        labels.push(digit.label);
    }
    assert_eq!(labels.len(), IMAGES);
    std::fs::write(folder.0.join("images"), images).unwrap();
    std::fs::write(folder.0.join("labels"), labels).unwrap();
    for file in ["digits.f32", "digits.toml"] {
        std::fs::copy(source(file), folder.0.join(file)).unwrap();
    }
    folder
}

/// The answers of a program to all images, and its output.
fn answers(folder: &Folder, program: &str, config: Option<&str>) -> (String, String) {
    let mut command = Command::new(folder.0.join(program));
    command.args(["digits.f32", "images", "labels", "0", &IMAGES.to_string()]).args(config);
    let printed = said(command.current_dir(&folder.0).env("LENET_ANSWERS", "answers"));
    let answers = folder.read("answers");
    assert_eq!(answers.lines().count(), IMAGES);
    (answers, printed)
}

#[test]
fn a_program_in_cpp_is_tuned_and_its_types_change_no_answer() {
    let Some(mut float) = compiler() else { return };
    let folder = folder();
    said(float.arg(source("lenet_float.cc")).arg("-o").arg(folder.0.join("lenet_float")));
    let include = repository().join("crates/number-c/include");
    let libraries = if cfg!(target_os = "linux") { "-lpthread -ldl -lm" } else { "-lpthread -lm" };
    let Some(mut emulated) = compiler() else { return };
    emulated.arg("-I").arg(include).arg(source("lenet_number.cc")).arg(library());
    said(emulated.args(libraries.split(' ')).arg("-o").arg(folder.0.join("lenet")));

    let (of_float, printed) = answers(&folder, "lenet_float", None);
    assert_eq!(answers(&folder, "lenet", None).0, of_float, "FLOAT 32 is float");
    let told = folder.dyno("tune run digits.toml --out tuned --json").exits(0).json();
    let baseline = told["baselines"]["full"]["accuracy"].as_f64().unwrap();
    assert!(printed.contains(&format!("accuracy: {baseline:.6}\n")), "{printed} {baseline}");
    assert!(baseline > 0.9, "{baseline}");

    folder.dyno("tune emit tuned/opt_conf.txt --out types.hpp").exits(0);
    let Some(mut typed) = compiler() else { return };
    // Neither a library nor its headers.
    typed
        .arg("-I")
        .arg(&folder.0)
        .arg("-DLENET_TYPES=\"types.hpp\"")
        .arg(source("lenet_number.cc"));
    said(typed.arg("-o").arg(folder.0.join("lenet_tuned")));
    let (emulated, printed) = answers(&folder, "lenet", Some("tuned/opt_conf.txt"));
    let (typed, _) = answers(&folder, "lenet_tuned", None);
    assert!(typed == emulated, "types answer as Numbers do");
    assert!(emulated != of_float, "formats of few bits answer some otherwise");
    let answer = &told["answer"];
    let accuracy = answer["accuracy"].as_f64().unwrap();
    assert!(printed.contains(&format!("accuracy: {accuracy:.6}\n")), "{printed} {accuracy}");
    let (bits, of_f32) = (answer["objective"].as_f64(), told["base_objective"].as_f64());
    assert!(6.0 * bits.unwrap() < of_f32.unwrap(), "{bits:?} of {of_f32:?}");

    // The types read no file, and report that.
    let mut refused = Command::new(folder.0.join("lenet_tuned"));
    refused.args(["digits.f32", "images", "labels", "0", "1", "tuned/opt_conf.txt"]);
    let refused: ProgramResult = refused.current_dir(&folder.0).output().unwrap().into();
    assert!(refused.stderr.contains("opt_conf.txt is not read: formats are compiled in"));
}

/// How many lines of one text stand in the other as well, in the same order.
fn common(one: &[&str], other: &[&str]) -> usize {
    let mut longest = vec![0; other.len() + 1];
    for line in one {
        let mut before = 0;
        for at in 0..other.len() {
            let here = longest[at + 1];
            longest[at + 1] = if *line == other[at] { before + 1 } else { here.max(longest[at]) };
            before = here;
        }
    }
    longest[other.len()]
}

#[test]
fn few_lines_of_a_program_change_for_numbers() {
    let [float, number] = ["lenet_float.cc", "lenet_number.cc"]
        .map(|name| std::fs::read_to_string(source(name)).unwrap());
    let [float, number] = [&float, &number].map(|text| text.lines().collect::<Vec<_>>());
    let common = common(&float, &number);
    let (changed, new) = (float.len() - common, number.len() - float.len());
    println!("{changed} of {} lines are changed, {new} are new", float.len());
    let page = std::fs::read_to_string(repository().join("docs/tasks/tune-cpp.md")).unwrap();
    let told = format!("Of its {} lines, {changed} change and {new} are added", float.len());
    assert!(page.contains(&told), "docs/tasks/tune-cpp.md does not say: {told}");
}

#[test]
fn what_cannot_be_emitted_is_said() {
    let folder = Folder::new();
    folder.write("bad.txt", "a.b FIXED 8\nc.d FIXED 40\n");
    let ran = folder.dyno("tune emit bad.txt").exits(2);
    assert!(ran.stderr.contains("bad.txt: line 2: c.d: expected 1 to 32 bits"), "{}", ran.stderr);
    folder.write("good.txt", "a.b FIXED 8\n");
    let ran = folder.dyno("tune emit good.txt --namespace class").exits(2);
    assert!(ran.stderr.contains("expected a word of C++ other than dyno and std, found class"));
    let ran = folder.dyno("tune emit good.txt --objects c.d").exits(0);
    assert!(ran.stdout.contains("using a_b = dyno::Typed<1, 0, 7, 0>;"), "{}", ran.stdout);
    assert!(ran.stdout.contains("using c_d = dyno::Typed<1, 8, 23, 127, dyno::Special::Ieee>;"));
    let ran = folder.dyno("tune emit good.txt --out none/types.hpp").exits(3);
    assert!(ran.stderr.contains("cannot write none/types.hpp"), "{}", ran.stderr);
}
