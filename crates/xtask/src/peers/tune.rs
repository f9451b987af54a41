//! A program in C++, LeNet on MNIST, tuned through its command line and built anew with the types that were
//! found. The data come from PyPI, the compiler is the user's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Bench, Named, Outcome, built};
use crate::install_c::Compiler;
use crate::release::shell;
use crate::tune::mnist;

const NAME: &str = "LeNet in C++ on MNIST, tuned by its command line: types answer as Numbers do";
/// What all programs are compiled with: vectors of this machine, and sums rounded one by one.
const FLAGS: [&str; 4] = ["-std=c++14", "-O3", "-march=native", "-ffp-contract=off"];
/// Objects of the program that are not tuned.
const OTHERS: &str = "ip1.input,ip1.weight,ip2.input,ip2.weight";
/// The paper's result at 7 %, and the least of formats of 2 bits and more.
const LEAST_BITS: f64 = 58_328.0;

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let outcome = match Compiler::find() {
        Err(missing) => Outcome::Skipped(missing.to_string()),
        Ok(compiler) => match mnist(bench.root, &bench.folder)? {
            Err(missing) => Outcome::Skipped(missing),
            Ok(()) => compare(bench, &compiler)?,
        },
    };
    Ok(vec![(NAME, outcome)])
}

fn compare(bench: &Bench, compiler: &Compiler) -> Result<Outcome> {
    let folder = &bench.folder;
    let mut build = shell::tool("CARGO", "cargo", bench.root);
    shell::said(build.args(["build", "--package", "dyno-number-c"]))?;
    let built = built(bench.root)?;
    let mut train = Command::new(built.join("examples/train_lenet"));
    train.arg(folder).arg("--mnist").args(bench.quick.then_some("8000"));
    let layers = shell::said(&mut train)?;
    let lenet = Lenet { root: bench.root, folder, compiler };
    lenet.compile("float", "lenet_float.cc", &[])?;
    let library = built.join("libdyno_number_c.a");
    let library = library.to_str().context("the target folder's path is no UTF-8")?;
    lenet.compile("number", "lenet_number.cc", &[library, "-lpthread", "-ldl", "-lm"])?;
    let [few, count] = if bench.quick { [300, 1_000] } else { [1_000, 10_000] };
    fs::write(folder.join("lenet.toml"), descriptor(&layers, few, count))?;
    let dyno = || {
        let mut dyno = Command::new(built.join("dyno"));
        dyno.current_dir(folder);
        dyno
    };
    let _ = fs::remove_dir_all(folder.join("tuned"));
    let told = shell::said(dyno().args(["tune", "run", "lenet.toml", "--out", "tuned", "--json"]))?;
    let told: Value = serde_json::from_str(&told).context("tune.json")?;
    let emit = ["tune", "emit", "tuned/opt_conf.txt", "--objects", OTHERS, "--out", "types.hpp"];
    shell::said(dyno().args(emit))?;
    lenet.compile("typed", "lenet_number.cc", &["-I", ".", "-DLENET_TYPES=\"types.hpp\""])?;
    let float = lenet.answers("float", count, None)?;
    let number = lenet.answers("number", count, Some("tuned/opt_conf.txt"))?;
    let typed = lenet.answers("typed", count, None)?;
    let bits = told["answer"]["objective"].as_f64().context("an answer has its bits")?;
    for (name, Answers { milliseconds, right, .. }) in
        [("float", &float), ("Number", &number), ("types", &typed)]
    {
        println!("{name}: {right} of {count} right, {milliseconds:.3} ms an image");
    }
    let evaluations = &told["evaluations"];
    println!("{bits} bits, evaluations {evaluations}, answer {}", told["answer"]["layers"]);
    Ok(if number.labels != typed.labels {
        Outcome::Failed("types answer otherwise than Numbers".into())
    } else if bits > LEAST_BITS && !bench.quick {
        Outcome::Failed(format!("{bits} bits, and {LEAST_BITS} are possible"))
    } else {
        Outcome::Passed
    })
}

fn descriptor(layers: &str, few: u32, count: u32) -> String {
    let command = |count| {
        format!("./number lenet.f32 mnist-test-images mnist-test-labels 0 {count} {{config}}")
    };
    format!(
        "name = \"lenet\"\n{layers}\nerr_margin = 0.07\ncmd_smallset = {:?}\ncmd_fullset = {:?}\n\
         get_result_regex = 'accuracy: ([0-9.]+)'\nsamples_smallset = {few}\nsamples_fullset = {count}\n",
        command(few),
        command(count)
    )
}

/// Where its programs are.
struct Lenet<'a> {
    root: &'a Path,
    folder: &'a Path,
    compiler: &'a Compiler,
}

/// What a program answers to all images.
struct Answers {
    labels: String,
    right: u32,
    milliseconds: f64,
}

impl Lenet<'_> {
    fn compile(&self, name: &str, source: &str, arguments: &[&str]) -> Result<()> {
        let folder: PathBuf = self.root.join("crates/number-c");
        let mut command = self.compiler.command();
        command.current_dir(self.folder).args(FLAGS).arg("-I").arg(folder.join("include"));
        command.arg(folder.join("examples/lenet").join(source)).args(arguments).args(["-o", name]);
        shell::said(&mut command).map(drop)
    }

    fn answers(&self, program: &str, count: u32, config: Option<&str>) -> Result<Answers> {
        let mut command = Command::new(self.folder.join(program));
        command.args(["lenet.f32", "mnist-test-images", "mnist-test-labels", "0"]);
        command.arg(count.to_string()).args(config).current_dir(self.folder);
        let printed = shell::said(command.env("LENET_ANSWERS", "answers"))?;
        let labels = fs::read_to_string(self.folder.join("answers"))?;
        ensure!(labels.lines().count() == count as usize, "{program} answers too little");
        let (right, rest) = printed.split_once(" of ").context("how many are right")?;
        let time = rest.lines().nth(1).and_then(|line| line.split(' ').next());
        let milliseconds = time.context("the time of an image")?.parse()?;
        Ok(Answers { labels, right: right.parse()?, milliseconds })
    }
}
