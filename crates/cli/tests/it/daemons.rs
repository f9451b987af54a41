//! Processes that outlive the program of a trial or the system of a point, and hold its output open.

#![cfg(target_os = "linux")]

use crate::engines::has;
use crate::program::Folder;
use crate::tune::changed;

#[test]
fn the_output_of_a_program_counts_although_a_process_holds_it_open() {
    if !has("setsid", "--version") {
        return;
    }
    let command = |set: &str| format!("cmd_{set}set = \"awk -f net.awk {{config}}\"");
    let leaving = command("small").replacen(
        "awk",
        "if mkdir once; then setsid sleep 20 & fi 2> /dev/null; awk",
        1,
    );
    let folder = changed(&[(&command("small"), &leaving)]);
    let ran = folder.dyno("tune run net/toy.toml --out out").exits(0);
    assert!(folder.0.join("net/once").is_dir(), "it was started");
    assert!(ran.stdout.contains("FLOAT 32 has 0.98, the limit is 0.97020"), "{}", ran.stdout);
}

#[test]
fn a_sweep_does_not_wait_for_what_others_print() {
    if !has("python3", "--version") || !has("setsid", "--version") {
        return;
    }
    let folder = Folder::new();
    let path = folder.0.display();
    // It prints for 20 s, or until it is stopped.
    let noise = format!(
        "i=0; while [ $i -lt 400 ] && [ ! -e {path}/stop ]; do echo noise >&2; sleep 0.05; \
         i=$((i + 1)); done; [ -e {path}/stop ] || touch {path}/waited"
    );
    let module = format!(
        "import subprocess\nsubprocess.Popen(['setsid', 'sh', '-c', '''{noise}'''])\n\
         def f(samples):\n    return samples\n"
    );
    folder.write("m.py", &module);
    let sweep = "sweep --system py:m.py:f --over seed=1,2 --scenario single-stream --mode performance \
                 --duration 100ms --out out";
    let ran = folder.dyno(sweep);
    folder.write("stop", "");
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    assert!(!folder.0.join("waited").exists(), "{}", ran.stderr);
}
