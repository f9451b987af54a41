//! Lists of what tidy accepts, each entry with its reason. An entry is a decision.

/// A dependency of one of our crates on another: from, to, reason.
/// Folder names below `crates/`.
pub type Edge = (&'static str, &'static str, &'static str);

/// All edges; the tree has exactly these.
pub const EDGES: &[Edge] = &[
    ("cli", "equivalence", "tells whether a model is the reference's"),
    ("cli", "experiment", "makes what a command asks for"),
    ("cli", "loadgen", "shows settings, plans and glances at a run"),
    ("cli", "metrics", "scores the answers of a run"),
    ("cli", "net", "loads servers, serves systems, and divides a load among workers"),
    ("cli", "npu", "plays networks and schedules on a model of an accelerator"),
    ("cli", "number", "tunes the formats of a network"),
    ("cli", "onnx", "tells what models cost"),
    ("cli", "report", "writes pages of results, formats and studies"),
    ("cli", "results", "reads, shows and exports documents"),
    ("cli", "rnn", "tells how layers are run"),
    ("cli", "rules", "takes settings from a round"),
    ("cli", "submission", "checks, audits and packs what runs left"),
    ("cli", "sut", "picks the system under test that a run measures"),
    ("cli", "task", "names a task as a system, with its samples and its figure of quality"),
    ("equivalence", "loadgen", "in tests: draws random weights"),
    ("equivalence", "onnx", "compares weights and graphs of models"),
    ("experiment", "equivalence", "checks whether a model is that of the reference"),
    ("experiment", "graph", "verifies whole models by the oracle"),
    ("experiment", "loadgen", "wires a run together: settings, plan, driver, logs"),
    ("experiment", "metrics", "scores the answers of a run"),
    ("experiment", "net", "loads servers, and divides a load among workers"),
    ("experiment", "npu", "simulates networks on an accelerator"),
    ("experiment", "number", "tunes the formats of a network"),
    ("experiment", "onnx", "counts what models cost"),
    ("experiment", "plugin", "loads engines that users write in C"),
    ("experiment", "report", "writes the page of a run into its directory"),
    ("experiment", "results", "what was found are documents"),
    ("experiment", "rnn", "runs recurrent networks"),
    ("experiment", "rules", "takes settings from a round"),
    ("experiment", "submission", "audits what runs left"),
    ("experiment", "sut", "picks the system under test that a run measures"),
    ("experiment", "task", "names a task as a system, with its samples and its figure of quality"),
    ("experiment", "tensors", "reads samples of files, and writes reference vectors"),
    ("graph", "kernels", "multiplies with packed weights, and activates by vectors"),
    ("graph", "onnx", "reads the models that it runs"),
    ("graph", "oracle", "is verified by an evaluator that shares nothing with it"),
    ("graph", "rnn", "runs recurrent nodes"),
    ("graph", "tensors", "names the elements of values, and converts them at the borders"),
    ("hardening", "loadgen", "plays sessions of Dyno against faulty systems"),
    ("hardening", "net", "parses answers that are cut at any byte"),
    ("hardening", "results", "stores results in directories that fail"),
    ("loadgen-c", "c-border", "looks at what C programs pass, and keeps panics from them"),
    ("loadgen-c", "loadgen", "gives the load generator to C programs"),
    ("loadgen-py", "loadgen", "gives the load generator to Python programs"),
    ("metrics", "loadgen", "reads accuracy logs with the code that writes them"),
    ("metrics", "rules", "in tests: reads what it prints as the checker does"),
    ("metrics", "tensors", "names the elements of answers, and reads headers of references"),
    ("net", "loadgen", "a client is a system under test"),
    ("net", "rnn", "in tests: layers whose states go on from request to request"),
    ("net", "sut", "serves the engines that are measured in this process"),
    ("net", "tensors", "names the elements of tensors as the protocol does"),
    ("npu", "onnx", "derives tables of layers from models"),
    ("number-c", "c-border", "looks at what C programs pass, and keeps panics from them"),
    ("number-c", "number", "gives number formats to C and C++ programs"),
    ("number", "kernels", "converts slices and multiplies by vectors of the processor"),
    ("number", "loadgen", "judges a margin by tails of the same distributions"),
    ("number", "onnx", "reads the networks that it evaluates"),
    ("number", "oracle", "compares exported models with an evaluator that shares nothing with it"),
    ("onnx", "tensors", "names the elements of tensors"),
    ("plugin", "loadgen", "a plug-in is a system under test"),
    ("plugin", "sut", "takes samples from libraries of tensors"),
    ("report", "loadgen", "names scenarios, and the arithmetic of early stopping"),
    ("report", "results", "pages are functions of documents"),
    ("results", "loadgen", "documents hold what a run recorded; reads its logs"),
    ("rnn", "kernels", "runs its plans"),
    ("rnn", "onnx", "reads layers out of models"),
    ("rnn", "tensors", "reads weights of NPZ and safetensors files"),
    ("rnn-c", "kernels", "in tests: a worker of its thread team panics"),
    ("rnn-c", "c-border", "looks at what C programs pass, and keeps panics from them"),
    ("rnn-c", "rnn", "gives the engine of recurrent networks to C programs"),
    ("rnn-py", "graph", "gives whole models to Python programs"),
    ("rnn-py", "onnx", "reads whole models"),
    ("rnn-py", "rnn", "gives the engine of recurrent networks to Python programs"),
    ("rnn-py", "tensors", "names the elements of arrays"),
    ("rules", "loadgen", "names settings and scenarios"),
    ("studies", "experiment", "names networks and NPUs as commands do"),
    ("studies", "loadgen", "plays simulated accelerators"),
    ("studies", "npu", "simulates networks on an accelerator"),
    ("studies", "report", "draws the page of a study"),
    ("studies", "results", "writes numbers with units"),
    ("studies", "rnn", "measures the engine of recurrent networks"),
    ("studies", "sut", "serves requests on simulated accelerators"),
    ("submission", "loadgen", "reads the logs with the code that writes them"),
    ("submission", "metrics", "reads tensors that accuracy logs hold, and spreads work over cores"),
    ("submission", "rules", "judges by the rules of a round"),
    ("submission", "tensors", "names the elements of answers"),
    ("sut", "graph", "runs whole models"),
    ("sut", "kernels", "multiplies on cores that networks share block by block"),
    ("sut", "loadgen", "adapts engines to the traits of what is measured"),
    ("sut", "npu", "puts a simulated accelerator behind the instrument"),
    ("sut", "number", "feeds samples to networks in formats of few bits"),
    ("sut", "onnx", "reads whole models"),
    ("sut", "rnn", "feeds batches of sequences to recurrent networks, the built-in one included"),
    ("sut", "tensors", "holds samples as typed arrays, and reads them from NPY files"),
    ("task", "loadgen", "names samples and scenarios"),
    ("task", "metrics", "scores answers by the metrics of the benchmarks"),
    ("task", "onnx", "builds the graphs of the benchmarks"),
    ("task", "rules", "in tests: holds the cards against the rules"),
    ("task", "sut", "gives its samples to engines, and what is done to their outputs"),
    ("task", "tensors", "reads weights and data of NPY, NPZ, safetensors and pickle files"),
    ("xtask", "peers", "runs benchmarks and comparisons, and builds as they do"),
];

/// Crates whose dependencies from other projects are listed, too: crate, allowed packages.
pub const OUTSIDE: &[(&str, &[&str])] = &[
    // The instrument must stay small enough to trust: clocks and thread waits.
    ("loadgen", &["rustix"]),
    // C programs link only what they ask for.
    ("c-border", &[]),
    ("loadgen-c", &[]),
    // Python programs import only the instrument and its binding.
    ("loadgen-py", &["pyo3"]),
    ("number-c", &[]),
    // It judges engines, so it shares nothing with them: no crate of ours, and only the file format.
    ("oracle", &["prost", "thiserror"]),
    ("rnn-c", &[]),
    ("rnn-py", &["pyo3"]),
];

/// Crates that may contain unsafe code, each with its reason. All others forbid it.
pub const UNSAFE_CRATES: &[&str] = &[
    // Pointers that C programs pass to any of the libraries.
    "c-border",
    // Pointers that C programs pass.
    "loadgen-c",
    // Vectors, packed memory, and workers that share it; programs are proven before they run.
    "kernels",
    // Addresses and buffers that Python programs pass, and classes built on Python's C interface.
    "loadgen-py",
    // Pointers that C programs pass.
    "number-c",
    // Functions and pointers of engines that users write in C.
    "plugin",
    // Pointers that C programs pass.
    "rnn-c",
];

/// Packages for asynchronous functions, on which one crate alone may depend: package, crate.
pub const FENCED: &[(&str, &str)] = &[
    ("h2", "net"),
    ("hyper", "net"),
    ("hyper-util", "net"),
    ("tokio", "net"),
    ("tokio-rustls", "net"),
];
