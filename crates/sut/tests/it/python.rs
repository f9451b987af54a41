//! Functions of Python as systems under test: what they may do without breaking a run.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use dyno_loadgen::clock::Clock;
use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, ResponseId};
use dyno_sut::engine::{Answers, Engine};
use dyno_sut::python::{Place, PythonEngine, PythonError, PythonFunction, SampleForm};
use dyno_sut::tensors::{Elements, SampleTensor, Source, Tensor, TensorLibrary};
use dyno_sut::top1;

const SECOND: u64 = 1_000_000_000;

/// A folder with `engine.py`; removed at the end.
struct Code(PathBuf);

impl Code {
    /// Returns `None`, and says so, where there is no Python.
    fn new(name: &str, text: &str) -> Option<Self> {
        if !Command::new("python3").arg("-V").output().is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: there is no python3");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("dyno-py-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("engine.py"), text).unwrap();
        Some(Self(folder))
    }

    fn function(&self, name: &str) -> PythonFunction {
        PythonFunction::new("python3", Place::File(self.0.join("engine.py")), name)
    }

    fn start(&self, name: &str) -> Result<PythonEngine, PythonError> {
        PythonEngine::start(self.function(name), &numbers())
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn numbers() -> Arc<TensorLibrary> {
    Arc::new(TensorLibrary::numbers(10.try_into().unwrap()))
}

fn answered(engine: &dyn Engine, indices: &[u64]) -> Vec<Result<Vec<u8>, Failure>> {
    let sample = |(id, index): (u64, &u64)| QuerySample { id: ResponseId(id), index: *index };
    let samples: Vec<_> = (1..).zip(indices).map(sample).collect();
    let mut answers = Answers::new();
    engine.answer(&samples, &mut answers);
    answers.iter().map(|(_, answer)| answer.map(<[u8]>::to_vec)).collect()
}

fn texts(engine: &dyn Engine, indices: &[u64]) -> Vec<String> {
    let text = |answer: Result<Vec<u8>, Failure>| String::from_utf8(answer.unwrap()).unwrap();
    answered(engine, indices).into_iter().map(text).collect()
}

/// Checks that a call fails with these words, and that later calls work.
fn check_fails(name: &str, body: &str, expected: &str) {
    let text =
        format!("def f(samples):\n    if samples[0] == 5:\n        {body}\n    return samples\n");
    let Some(code) = Code::new(name, &text) else { return };
    let engine = code.start("f").unwrap();
    assert_eq!(
        answered(&engine, &[5, 6]),
        [Err(Failure::Internal), Err(Failure::Internal)],
        "{name}"
    );
    let why = engine.failure_reason().unwrap();
    assert!(why.contains("engine.py:f: ") && why.contains(expected), "{name}: {why}");
    assert_eq!(answered(&engine, &[7]), [Ok(7_i64.to_le_bytes().to_vec())], "{name}");
}

#[test]
fn outputs_are_numbers_bytes_text_or_json() {
    let text = "def f(samples):
    kinds = [1, 2.5, b'ab', 'é', {'a': [1, None]}, [1, 2], True, ValueError('odd')]
    return [kinds[number] for number in samples]
";
    let Some(code) = Code::new("kinds", text) else { return };
    let engine = code.start("f").unwrap();
    let found = answered(&engine, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let expected: [&[u8]; 7] = [
        &1_i64.to_le_bytes(),
        &2.5_f64.to_le_bytes(),
        b"ab",
        "é".as_bytes(),
        br#"{"a": [1, null]}"#,
        b"[1, 2]",
        b"true",
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.as_deref(), Ok(expected));
    }
    assert_eq!(found[7], Err(Failure::Internal));
    assert!(engine.failure_reason().unwrap().ends_with("ValueError: odd"));
    let info = engine.info();
    assert!(info.runtime.unwrap().starts_with("Python 3."));
    assert_eq!(info.outputs[0].element, "int64");
}

/// A table has as many rows as its length states, and consists of columns.
#[test]
fn outputs_are_counted_one_by_one() {
    let table = "type('Table', (), {'__len__': lambda _: 2, '__iter__': lambda _: iter('abc')})()";
    check_fails("table", &format!("return {table}"), "returned 3 outputs for 2 samples");
}

/// The names of a table of pandas would be outputs if it had as many columns as samples.
#[test]
fn mappings_and_tables_are_no_lists_of_outputs() {
    let names = "'__len__': lambda _: 2, '__iter__': lambda _: iter('ab')";
    let table = format!("return type('Table', (), {{{names}, 'columns': 'ab'}})()");
    check_fails("columns", &table, "returned Table; expected a list");
    let mapping = "return __import__('types').MappingProxyType({3: 4, 5: 6})";
    check_fails("mapping", mapping, "returned mappingproxy; expected a list");
}

#[test]
fn tensors_of_types_that_numpy_lacks_are_widened() {
    let text = "class Tensor:
    dtype = 'torch.bfloat16'
    def detach(self): return self
    def cpu(self): return self
    def float(self): return 2.5
def f(samples):
    return [Tensor() for _ in samples]
";
    let Some(code) = Code::new("widened", text) else { return };
    let engine = code.start("f").unwrap();
    assert_eq!(answered(&engine, &[1]), [Ok(2.5_f64.to_le_bytes().to_vec())]);
}

#[test]
fn a_class_is_instantiated_once_and_keeps_its_state() {
    let text = "import helper
class Counter:
    def __init__(self):
        self.calls = helper.START
    def __call__(self, samples):
        self.calls += 1
        return ['%d of %d' % (self.calls, len(samples))] * len(samples)
";
    let Some(code) = Code::new("class", text) else { return };
    std::fs::write(code.0.join("helper.py"), "START = 10\n").unwrap();
    let function =
        PythonFunction { largest_batch: 2.try_into().unwrap(), ..code.function("Counter") };
    let engine = PythonEngine::start(function, &numbers()).unwrap();
    // The first call was the trial. A call has at most two samples.
    assert_eq!(texts(&engine, &[0, 1, 2]), ["12 of 2", "12 of 2", "13 of 1"]);
}

#[test]
fn exceptions_and_wrong_outputs_fail_the_samples_of_their_call() {
    check_fails("raises", "raise KeyError('no weight')", "KeyError: 'no weight'");
    check_fails("raises-line", "raise KeyError('x')", "engine.py, line 3)");
    check_fails("exits", "import sys; sys.exit(3)", "ended Python with exit(3)");
    check_fails("few", "return [1]", "returned 1 outputs for 2 samples");
    check_fails("none", "return None", "returned NoneType; expected a list");
    check_fails("text", "return 'ab'", "returned str; expected a list");
    check_fails("object", "return [object(), object()]", "is not JSON serializable");
    check_fails("wide", "return [2**63, -2**63 - 1]", "an output is outside of int64");
    check_fails("nan", "return [[float('nan')], {'a': float('-inf')}]", "which JSON lacks");
    // Functions that forget to return, and outputs without an order, are no measurement.
    check_fails("nothing", "return [None] * len(samples)", "an output is None");
    check_fails("set", "return {3, 4}", "returned set; expected a list");
    check_fails("deep", "return f(samples)", "RecursionError");
}

#[test]
fn a_dead_process_is_named_and_not_called_again() {
    for (name, body, expected) in [
        ("exit", "os._exit(7)", "ended: exit code 7"),
        ("kill", "os.kill(os.getpid(), 9)", "signal 9 (killed"),
        ("crash", "os.kill(os.getpid(), 11)", "signal 11 (segmentation fault)"),
        // A child that holds the socket open.
        ("fork", "os.fork() == 0 and time.sleep(20) or os._exit(4)", "ended: exit code 4"),
    ] {
        let text = format!(
            "import os, time\ndef f(samples):\n    if samples[0] == 5:\n        {body}\n    return samples\n"
        );
        let Some(code) = Code::new(name, &text) else { return };
        let engine = code.start("f").unwrap();
        assert!(answered(&engine, &[1])[0].is_ok(), "{name}");
        let clock = Clock::start();
        assert_eq!(answered(&engine, &[5]), [Err(Failure::Internal)], "{name}");
        assert_eq!(answered(&engine, &[1]), [Err(Failure::Internal)], "{name}");
        let why = engine.failure_reason().unwrap().to_owned();
        assert!(why.contains(expected), "{name}: {why}");
        drop(engine);
        assert!(clock.now() < 10 * SECOND, "{name}");
    }
}

/// A child has the socket and the rest of the driver. Its answer came before that of the parent, which
/// then counted as that of the next call.
#[test]
fn a_forked_child_answers_nothing() {
    for (name, end) in [
        ("child-exits", "sys.exit(3)"),
        ("child-raises", "raise KeyError('child')"),
        ("child-returns", "return ['child'] * len(samples)"),
    ] {
        let text = format!(
            "import os, sys\ndef f(samples):\n    child = os.fork()\n    if child == 0:\n        {end}\n    \
             code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n    \
             return ['%d after %d' % (number, code) for number in samples]\n"
        );
        let Some(code) = Code::new(name, &text) else { return };
        let engine = code.start("f").unwrap();
        let status = match name {
            "child-exits" => 3,
            "child-raises" => 1,
            _ => 0,
        };
        for number in [4, 5, 6] {
            assert_eq!(texts(&engine, &[number]), [format!("{number} after {status}")], "{name}");
        }
    }
}

#[test]
fn output_and_input_of_the_code_do_not_meet_the_frames() {
    let text = "import os, subprocess, sys
print('imported')
os.write(1, b'noise ' * 10)
def f(samples):
    print('called', flush=True)
    os.write(1, b'noise ' * 10)
    subprocess.run(['echo', 'from a program'])
    return ['read %r' % sys.stdin.read()] * len(samples)
";
    let Some(code) = Code::new("prints", text) else { return };
    let engine = code.start("f").unwrap();
    assert_eq!(texts(&engine, &[1, 2]), ["read ''"; 2]);
}

#[test]
fn a_silent_function_is_ended_at_its_limit() {
    let text =
        "import time\ndef f(samples):\n    samples[0] and time.sleep(60)\n    return samples\n";
    let Some(code) = Code::new("silent", text) else { return };
    let function = PythonFunction { timeout: SECOND / 2, ..code.function("f") };
    let engine = PythonEngine::start(function, &numbers()).unwrap();
    let clock = Clock::start();
    assert_eq!(answered(&engine, &[1]), [Err(Failure::Internal)]);
    let why = engine.failure_reason().unwrap();
    assert!(why.contains("did not return within 0.5 s"), "{why}");
    drop(engine);
    assert!(clock.now() < 10 * SECOND);
}

#[test]
fn code_that_never_ends_does_not_keep_the_run_from_ending() {
    let text = "import threading, time
threading.Thread(target=lambda: time.sleep(60)).start()
def f(samples):
    return samples
";
    let Some(code) = Code::new("endless", text) else { return };
    let engine = code.start("f").unwrap();
    let clock = Clock::start();
    drop(engine);
    assert!(clock.now() < 10 * SECOND);
}

#[test]
fn mistakes_in_names_and_code_are_reported_before_a_run() {
    let text = "def f(samples):\n    return 1 / 0\nnumber = 1\n";
    let Some(code) = Code::new("mistakes", text) else { return };
    let error = |name: &str| code.start(name).unwrap_err().to_string();
    assert!(error("g").contains("has no attribute 'g'"), "{}", error("g"));
    assert!(error("number").contains("number is not a function, but int"), "{}", error("number"));
    let trial = error("f");
    assert!(trial.contains("fails on sample 0: ZeroDivisionError"), "{trial}");
    assert!(trial.contains("engine.py, line 2)"), "{trial}");
    let module = |name: &str| PythonFunction::new("python3", Place::Module(name.into()), "f");
    let error = PythonEngine::start(module("no_such_module"), &numbers()).unwrap_err().to_string();
    assert!(error.contains("No module named 'no_such_module'"), "{error}");
    let nowhere = PythonFunction::new("/no/python", Place::Module("m".into()), "f");
    let error = PythonEngine::start(nowhere, &numbers()).unwrap_err().to_string();
    assert!(error.contains("/no/python") && error.contains("python=PATH"), "{error}");
    let syntax = Code::new("syntax", "def f(:\n").unwrap();
    let error = syntax.start("f").unwrap_err().to_string();
    assert!(error.contains("SyntaxError"), "{error}");
}

#[test]
fn labels_make_classes_of_scores() {
    let text = "def f(samples):
    return {0: [[0, 3, 1]], 1: [4], 2: ['6'], 3: ['cat'], 4: [True], 5: [0.7]}[samples[0]]
";
    let Some(code) = Code::new("classes", text) else { return };
    let function = PythonFunction { is_classifier: true, ..code.function("f") };
    let engine = PythonEngine::start(function, &numbers()).unwrap();
    let class = |index| Ok(top1::encode(index).to_vec());
    assert_eq!(answered(&engine, &[0]), [class(1)]);
    assert_eq!(answered(&engine, &[1]), [class(4)]);
    assert_eq!(answered(&engine, &[2]), [class(6)]);
    assert_eq!(answered(&engine, &[3]), [Err(Failure::Internal)]);
    assert!(engine.failure_reason().unwrap().contains("`cat` is not a class"));
    assert_eq!(answered(&engine, &[4]), [class(1)], "a boolean is a class");
    assert_eq!(answered(&engine, &[5]), [Err(Failure::Internal)], "a single score is none");
}

/// Two samples of text.
#[derive(Debug)]
struct Texts(Vec<String>);

impl Source for Texts {
    fn name(&self) -> &str {
        "texts"
    }

    fn count(&self) -> usize {
        2
    }

    fn inputs(&self) -> &[String] {
        &self.0
    }

    fn sample(&self, index: u32) -> Result<Vec<SampleTensor>, String> {
        let bytes = [r#"{"é": 1}"#, "[]"][index as usize].as_bytes();
        let elements = Elements::U8(bytes.to_vec().into());
        Ok(vec![SampleTensor { shape: vec![bytes.len()], elements }])
    }
}

#[test]
fn samples_are_text_json_or_bytes_by_input() {
    let text = "def f(samples):\n    return [repr(sample) for sample in samples]\n";
    let Some(code) = Code::new("forms", text) else { return };
    let both = 2.try_into().unwrap();
    let texts_of = |form| {
        let source = Arc::new(Texts(vec!["text".into()]));
        let library = Arc::new(TensorLibrary::from_source(source, both, None).unwrap());
        dyno_loadgen::qsl::SampleLibrary::load(&*library, &[0, 1]);
        let function = PythonFunction { form, ..code.function("f") };
        texts(&PythonEngine::start(function, &library).unwrap(), &[0, 1])
    };
    assert_eq!(texts_of(SampleForm::Text), [r#"'{"é": 1}'"#, "'[]'"]);
    assert_eq!(texts_of(SampleForm::Json), ["{'é': 1}", "[]"]);
    // NumPy is hidden, so that this test does not depend on what is installed.
    let hides = "import sys\nmain = sys.modules['__main__']\nmain.numpy = None\n";
    std::fs::write(code.0.join("engine.py"), format!("{hides}{text}")).unwrap();
    let tensor =
        |name: &str, elements| Tensor { name: name.into(), sample_shape: vec![2], elements };
    let a = tensor("a", Elements::U8(vec![1, 2, 3, 4].into()));
    let b = tensor("b", Elements::F32(vec![1.0; 4].into()));
    let library = Arc::new(TensorLibrary::new("pairs", vec![a, b], None).unwrap());
    let engine = PythonEngine::start(code.function("f"), &library).unwrap();
    let ones = r"\x00\x00\x80?\x00\x00\x80?";
    let expected = format!(r"{{'a': b'\x03\x04', 'b': b'{ones}'}}");
    assert_eq!(texts(&engine, &[1]), [expected]);
}

#[test]
fn arrays_of_numpy_go_and_come_with_type_and_shape() {
    let text = "import numpy
def f(samples):
    found = []
    for x in samples:
        x += 1  # arrays belong to the function
        found.append('%s %s %s' % (x.dtype, x.shape, x.tolist()))
    return found
def g(samples):
    return numpy.stack(samples).astype('>f4') * 2
def h(samples):
    return [numpy.float16(3), numpy.uint32(7)][: len(samples)]
def lists(samples):
    return [[numpy.float32(0.5), numpy.int64(7)], {'a': numpy.ones(2)}][: len(samples)]
def scores(samples):
    return [list(numpy.float32([0, 2, 1])) for _ in samples]
def complex_scores(samples):
    return [[numpy.complex64(1), numpy.complex64(2j)] for _ in samples]
def word_scores(samples):
    return [[numpy.str_('1'), numpy.str_('2')] for _ in samples]
def odd(samples):
    wide = numpy.longdouble(3) if samples[0].flat[0] == 0 else numpy.uint64([1, 2**63, 3])
    return [wide for _ in samples]
";
    let Some(code) = Code::new("numpy", text) else { return };
    let has_numpy = Command::new("python3").args(["-c", "import numpy"]).output();
    if !has_numpy.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: there is no NumPy");
        return;
    }
    let elements = Elements::I32((0..12).collect());
    let tensor = Tensor { name: "x".into(), sample_shape: vec![1, 3], elements };
    let library = Arc::new(TensorLibrary::new("x", vec![tensor], None).unwrap());
    let engine = |name| PythonEngine::start(code.function(name), &library).unwrap();
    let found = texts(&engine("f"), &[3, 0]);
    assert_eq!(found, ["int32 (1, 3) [[10, 11, 12]]", "int32 (1, 3) [[1, 2, 3]]"]);
    let doubled = [6_f32, 8.0, 10.0].map(f32::to_le_bytes).concat();
    assert_eq!(answered(&engine("g"), &[1]), [Ok(doubled)]);
    let both = answered(&engine("h"), &[0, 1]);
    assert_eq!(both, [Ok(vec![0x00, 0x42]), Ok(7_i64.to_le_bytes().to_vec())]);
    assert_eq!(texts(&engine("lists"), &[0, 1]), ["[0.5, 7]", r#"{"a": [1.0, 1.0]}"#]);
    let classifier = |name| {
        let function = PythonFunction { is_classifier: true, ..code.function(name) };
        PythonEngine::start(function, &library)
    };
    assert_eq!(answered(&classifier("scores").unwrap(), &[1]), [Ok(top1::encode(1).to_vec())]);
    for (name, expected) in
        [("complex_scores", "is not JSON serializable"), ("word_scores", "is not a class")]
    {
        let error = classifier(name).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
    // Numbers above every int64 would be negative.
    let odd = engine("odd");
    assert_eq!(answered(&odd, &[0]), [Ok(3_f64.to_le_bytes().to_vec())]);
    assert_eq!(answered(&odd, &[1]), [Err(Failure::Internal)]);
    assert!(odd.failure_reason().unwrap().contains("an output has 9223372036854775808"));
}

#[test]
fn several_processes_compute_at_the_same_time() {
    // Each call waits for the other process.
    let text = "import os, time
folder = os.path.dirname(os.path.abspath(__file__))
def f(samples):
    name = '%d.pid' % os.getpid()
    if samples[0] == 0:
        return [name]
    open(os.path.join(folder, name), 'w').close()
    while sum(other.endswith('.pid') for other in os.listdir(folder)) < 2:
        time.sleep(0.002)
    return [name]
";
    let Some(code) = Code::new("processes", text) else { return };
    let function = PythonFunction { processes: 2.try_into().unwrap(), ..code.function("f") };
    let engine = PythonEngine::start(function, &numbers()).unwrap();
    let mut seen: Vec<String> = std::thread::scope(|scope| {
        let call = || texts(&engine, &[1]).remove(0);
        let calls = [scope.spawn(call), scope.spawn(call)];
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    seen.dedup();
    assert_eq!(seen.len(), 2);
}
