//! Ctrl-C, and folders that vanish during a run.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::program::Folder;
#[cfg(target_os = "linux")]
use crate::program::ignores_hang_up;
use crate::schema::keeps_to_schemas;
use crate::tune;

/// Starts a run that lasts for minutes, and returns once its folder is there:
/// then it listens to signals. `-v` prints the plan right before the first test.
fn start(folder: &Folder, arguments: &str) -> Child {
    started(folder.command(arguments))
}

fn started(mut command: Command) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let last = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(" in total")));
    assert!(last.is_some(), "the plan is printed before the first test");
    child.stderr = None;
    // Keeps the pipe from closing under the program.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

fn interrupt(child: &Child) {
    send("-INT", child);
}

fn send(signal: &str, child: &Child) {
    let kill = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
}

const LONG: &str = "run -v --system null --scenario server --mode performance --qps 100 \
                    --duration 300s --out out";

#[test]
fn an_interrupted_run_leaves_a_readable_summary() {
    let folder = Folder::new();
    let mut child = start(&folder, LONG);
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let summary = keeps_to_schemas(&folder, "out");
    assert_eq!(summary["state"], "interrupted");
    assert_eq!(summary["verdict"], "INTERRUPTED");
    assert_eq!(summary["tests"][0]["state"], "interrupted");
    assert!(folder.0.join("out/Server/performance/mlperf_log_summary.txt").is_file());
    assert!(folder.0.join("out/report.html").is_file());
}

/// The soft limit on processor time leaves time to store the results, and the system repeats its signal. Batch
/// systems announce the end of a job with a signal of the user's choice.
#[test]
fn signals_that_announce_an_end_are_interrupts() {
    for signal in ["-XCPU", "-USR1", "-USR2", "-ALRM"] {
        let folder = Folder::new();
        let mut child = start(&folder, LONG);
        send(signal, &child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
        assert_eq!(keeps_to_schemas(&folder, "out")["state"], "interrupted", "{signal}");
    }
}

#[test]
fn an_interrupted_accuracy_test_has_a_reason() {
    let folder = Folder::new();
    let mut child = start(
        &folder,
        "run -v --system digits --scenario server --mode both --qps 1 --duration 300s --out out",
    );
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let summary = keeps_to_schemas(&folder, "out");
    let test = &summary["tests"][0];
    assert_eq!((&test["mode"], &test["verdict"]), (&"accuracy".into(), &"INTERRUPTED".into()));
    let reason = test["reasons"][0].as_str().unwrap();
    assert!(reason.starts_with("the run was stopped"), "{reason}");
}

#[test]
fn a_run_that_is_over_before_its_first_query_has_missed_no_bound() {
    let folder = Folder::new();
    // The first query is due after 1,000 s.
    let mut child = start(
        &folder,
        "run -v --system null --scenario multi-stream --mode peak --duration 300s --out out \
         --set multi_stream_target_qps=0.001 --set repetition=minimum:5",
    );
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let test = &keeps_to_schemas(&folder, "out")["tests"][0];
    assert_eq!(test["repeated"], 0, "it was searching");
    let reasons = test["reasons"].as_array().unwrap();
    assert!(
        reasons.len() == 1 && reasons[0].as_str().unwrap().contains("stopped before its end"),
        "{reasons:?}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_that_goes_away_is_an_interrupt_unless_it_may() {
    let folder = Folder::new();
    let mut child = start(&folder, LONG);
    if ignores_hang_up() {
        eprintln!("half of it is skipped: the tests run under nohup");
        send("-INT", &child);
    } else {
        send("-HUP", &child);
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(keeps_to_schemas(&folder, "out")["state"], "interrupted");

    // As nohup starts it.
    let folder = Folder::new();
    let mut command = Command::new("sh");
    let dyno = folder.command(LONG);
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(dyno.get_program());
    command.args(dyno.get_args()).current_dir(&folder.0);
    let mut child = started(command);
    send("-HUP", &child);
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130), "it went on until the interrupt");
    let status = keeps_to_schemas(&folder, "out");
    assert_eq!(status["state"], "interrupted");
}

#[test]
fn a_simulated_run_is_interrupted_as_well() {
    let folder = Folder::new();
    let mut child = start(
        &folder,
        "run -v --system model:fixed=1us --scenario server --mode performance --qps 250000 \
         --duration 20s --records none --out out",
    );
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let summary = keeps_to_schemas(&folder, "out");
    // State of the test itself, which a signal after its end would not change.
    assert_eq!(summary["tests"][0]["state"], "interrupted");
}

#[test]
fn the_runs_of_a_repetition_before_an_interrupt_are_told_and_kept() {
    let folder = Folder::new();
    // VALID on any machine.
    let long = LONG.replace("300s", "200ms")
        + " --records none --set repetition=minimum:100000 --set early_stopping=never --set \
           max_client_lag_ns=0 --set server_target_latency_ns=60000000000";
    let mut child = start(&folder, &long);
    // Wait for some runs; the state shows how many there were.
    let (_never, told) = std::sync::mpsc::channel::<()>();
    let _ = told.recv_timeout(std::time::Duration::from_millis(1_500));
    interrupt(&child);
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    let valid = |number: usize| {
        let run = folder.0.join(format!("out/Server/performance/run_{number}"));
        let summary = std::fs::read_to_string(run.join("mlperf_log_summary.txt")).ok()?;
        let detail = std::fs::read_to_string(run.join("mlperf_log_detail.txt")).unwrap();
        assert!(!detail.contains("ended before it was complete"), "{detail}");
        Some(summary.contains("Result is : VALID"))
    };
    let runs = (1..).map_while(valid).inspect(|is_valid| assert!(is_valid)).count();
    let notes = keeps_to_schemas(&folder, "out")["tests"][0]["notes"].clone();
    let told = match runs {
        0 => Value::Null,
        1 => "The run before this one is VALID; its folder is Server/performance/run_1.".into(),
        _ => format!(
            "The {runs} runs before this one are VALID; their folders are Server/performance/run_1 to \
             run_{runs}."
        )
        .into(),
    };
    assert_eq!(notes[0], told);
    assert!(runs < 2 || said.contains(&format!("The {runs} runs before this one")), "{said}");
}

#[test]
fn results_survive_the_loss_of_their_folder() {
    let folder = Folder::new();
    let rescue = folder.0.join("rescue");
    std::fs::create_dir(&rescue).unwrap();
    let mut command = folder.command(LONG);
    command.env("TMPDIR", &rescue);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains(" in total")), "the run begins");
    // A file in its place: not even the superuser can create folders in it.
    let partial = folder.0.join(".out.partial");
    std::fs::remove_dir_all(&partial).unwrap();
    std::fs::write(&partial, "").unwrap();
    interrupt(&child);
    let said: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
    assert!(said.iter().any(|line| line.contains("instead")), "{said:?}");
    let rescued = |name: &str| Path::new(&rescue).join("dyno-out").join(name);
    assert!(rescued("summary.json").is_file(), "{said:?}");
    assert!(rescued("Server/performance/mlperf_log_detail.txt").is_file(), "{said:?}");
}

/// Another user of a shared folder can put it there.
#[cfg(unix)]
#[test]
fn a_link_in_place_of_the_folder_of_a_run_is_not_followed() {
    let folder = Folder::new();
    let [rescue, other] = ["rescue", "other"].map(|name| folder.0.join(name));
    std::fs::create_dir(&rescue).unwrap();
    std::fs::create_dir(&other).unwrap();
    folder.write("other/summary.json", "kept");
    let mut command = folder.command(LONG);
    command.env("TMPDIR", &rescue);
    let mut child = started(command);
    let partial = folder.0.join(".out.partial");
    std::fs::rename(&partial, folder.0.join("moved")).unwrap();
    std::os::unix::fs::symlink(&other, &partial).unwrap();
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(folder.read("other/summary.json"), "kept");
    assert_eq!(std::fs::read_dir(&other).unwrap().count(), 1);
    let rescued = rescue.join("dyno-out/Server/performance/mlperf_log_detail.txt");
    assert!(rescued.is_file() && !folder.0.join("out").exists());
}

mod real_time {
    //! Ends of runs that would take a minute, or for ever.

    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::mpsc::{self, Receiver};
    use std::time::Duration;

    use super::*;

    /// Time that a busy machine may take for two seconds of work.
    const SOON: Duration = Duration::from_secs(20);

    /// The exit code and stderr of a program that ends soon.
    struct ExitReport {
        code: Option<i32>,
        stderr: String,
    }

    fn ends_soon(mut child: Child) -> ExitReport {
        let (ended, wait) = mpsc::channel();
        let id = child.id().to_string();
        let stderr = child.stderr.take();
        std::thread::spawn(move || {
            let mut said = String::new();
            if let Some(mut stderr) = stderr {
                stderr.read_to_string(&mut said).unwrap();
            }
            let _ = ended.send((child.wait().unwrap().code(), said));
        });
        let found = wait.recv_timeout(SOON);
        if found.is_err() {
            let _ = Command::new("kill").args(["-KILL", &id]).status();
        }
        let (code, stderr) = found.expect("it ends soon");
        ExitReport { code, stderr }
    }

    fn pause(time: Duration) {
        let (_never, nothing) = mpsc::channel::<()>();
        let _ = nothing.recv_timeout(time);
    }

    /// A server that reads and never answers; reports each connection with a request.
    fn hanging() -> (SocketAddr, Receiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, told) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, asked): (TcpStream, _) = (stream.unwrap(), asked.clone());
                std::thread::spawn(move || {
                    let mut buffer = [0; 1_024];
                    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
                        let _ = asked.send(());
                    }
                });
            }
        });
        (address, told)
    }

    const SIGNALS: [&str; 2] = ["-INT", "-TERM"];

    #[test]
    fn an_offline_query_that_waits_for_slow_workers_is_dropped() {
        for (workers, signal) in ["--workers 2", "--workers 0 --batch 8"].into_iter().zip(SIGNALS) {
            let folder = Folder::new();
            let mut child = started(folder.command(&format!(
                "run -v --system rnn:lstm:256x512x1x200 --samples 16 --scenario offline \
                 --mode performance --duration 600s --set offline_expected_qps=500 {workers} \
                 --out out"
            )));
            // Wait for some samples: complete ones are kept.
            pause(Duration::from_secs(3));
            send(signal, &child);
            let stdout = child.stdout.take();
            let ended = ends_soon(child);
            assert_eq!(ended.code, Some(130));
            let mut said = String::new();
            stdout.unwrap().read_to_string(&mut said).unwrap();
            assert!(said.contains("INTERRUPTED"), "{said}");
            let test = keeps_to_schemas(&folder, "out")["tests"][0].clone();
            assert_eq!(test["verdict"], "INTERRUPTED");
            let answered = test["metrics"]["sample_count"].as_u64().unwrap();
            assert!((1..300_000).contains(&answered), "{answered}");
            assert!(test["result"]["value"].as_f64().unwrap() > 0.0, "{}", test["result"]);
            assert!(folder.0.join("out/Offline/performance/records.bin").is_file());
            let reasons = test["reasons"].as_array().unwrap();
            assert_eq!(reasons.len(), 1, "what is missing follows from the end: {reasons:?}");
        }
    }

    #[test]
    fn a_server_that_hangs_does_not_hold_the_end() {
        let scenarios = [
            "single-stream",
            "multi-stream",
            "server --qps 50",
            "offline --set \
                         offline_expected_qps=10000",
        ];
        for (scenario, signal) in scenarios.into_iter().zip(SIGNALS.into_iter().cycle()) {
            let ((address, asked), folder) = (hanging(), Folder::new());
            let mut command = folder.command(&format!(
                "run --system raw:http://{address}/x --scenario {scenario} --mode performance \
                 --duration 600s --out out"
            ));
            let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            asked.recv_timeout(SOON).expect("a request comes");
            send(signal, &child);
            let ended = ends_soon(child);
            assert_eq!(ended.code, Some(130), "{scenario}: {}", ended.stderr);
            assert!(ended.stderr.contains("interrupted"), "{scenario}: {}", ended.stderr);
            let summary = keeps_to_schemas(&folder, "out");
            assert_eq!(summary["state"], "interrupted", "{scenario}");
        }
    }

    #[test]
    fn a_probe_and_a_set_up_are_interrupted() {
        // The probe of a server that hangs, and the request for its model's name.
        for system in ["raw:http://ADDRESS/x", "oip:http://ADDRESS/m"] {
            let ((address, asked), folder) = (hanging(), Folder::new());
            let system = system.replace("ADDRESS", &address.to_string());
            let mut command = folder.command(&format!(
                "run --system {system} --scenario offline --mode performance --out out"
            ));
            let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            asked.recv_timeout(SOON).expect("a request comes");
            interrupt(&child);
            let ended = ends_soon(child);
            assert_eq!(ended.code, Some(130), "{system}: {}", ended.stderr);
            assert!(ended.stderr.contains("interrupted"), "{system}: {}", ended.stderr);
            assert!(!folder.0.join("out").exists(), "{system}: nothing was measured");
        }
    }

    #[test]
    fn a_second_signal_ends_a_run_and_keeps_what_it_can() {
        let folder = Folder::new();
        let child = start(&folder, LONG);
        interrupt(&child);
        interrupt(&child);
        let ended = ends_soon(child);
        assert_eq!(ended.code, Some(130));
        // There was time enough to write it.
        assert_eq!(keeps_to_schemas(&folder, "out")["state"], "interrupted");
    }
}

/// No handler runs on SIGKILL, and none is installed for SIGABRT.
#[test]
fn a_program_does_not_outlive_a_killed_search() {
    // The search reads the output, which no pipe holds as a whole, after it has registered the program.
    let program = "cmd_smallset = \"head -c 2000000 /dev/zero; exec 3>pipe; : {config}; echo begun >&3; sleep 20; \
                   echo ended >&3\"";
    let folder = tune::changed(&[("cmd_smallset = \"awk -f net.awk {config}\"", program)]);
    for signal in ["-KILL", "-ABRT"] {
        let pipe = folder.0.join("net/pipe");
        let _ = std::fs::remove_file(&pipe);
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let mut command = folder.command(&format!("tune run net/toy.toml --out out{signal}"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut search = command.spawn().unwrap();
        // Opens once the program does, and ends once all that it started has ended.
        let mut pipe = File::open(&pipe).unwrap();
        let mut begun = [0; 6];
        pipe.read_exact(&mut begun).unwrap();
        assert_eq!(&begun, b"begun\n");
        send(signal, &search);
        assert!(!search.wait().unwrap().success());
        let mut rest = String::new();
        pipe.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "{signal}: the program went on");
    }
}
