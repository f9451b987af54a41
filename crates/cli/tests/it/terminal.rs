//! Output on a terminal during a run, and without a terminal.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use crate::program::{Folder, ignores_hang_up};
use crate::pty::OnTerminal;

/// Longer than any test waits.
const LONG: &str = "run --system null --scenario server --mode performance --qps 500 \
                    --duration 300s --out out";
const SHORT: &str = "run --system null --scenario server --mode performance --qps 500 \
                     --duration 600ms --out out";

const ALTERNATE_SCREEN: &str = "\x1b[?1049h";
const SCREEN_OF_BEFORE: &str = "\x1b[?1049l";
/// Longer than the interval at which keys are read.
const BETWEEN_READINGS: Duration = Duration::from_millis(100);
const CURSOR_SHOWN: &str = "\x1b[?25h";

fn on_terminal(folder: &Folder, arguments: &str, variables: &[(&str, &str)]) -> OnTerminal {
    let mut command = folder.command(arguments);
    command.envs(variables.iter().copied());
    OnTerminal::start(command, (90, 30))
}

#[test]
fn the_full_screen_follows_the_run_and_gives_the_terminal_back() {
    let folder = Folder::new();
    let mut run = on_terminal(&folder, &format!("{LONG} --tui"), &[]);
    run.wait_for(ALTERNATE_SCREEN);
    run.wait_for("Conditions");
    // A latency is there, so queries have been seen.
    run.wait_for("p99");
    run.press("?");
    run.wait_for("results.");
    run.resize((40, 12));
    run.press("?");
    run.press("q");
    let (status, shown, stdout) = run.end();
    assert_eq!(status.code(), Some(130), "{shown}");
    let (_, after) = shown.split_once(SCREEN_OF_BEFORE).unwrap();
    assert!(after.contains(CURSOR_SHOWN) && after.contains("report: "), "{after:?}");
    assert!(stdout.contains("INTERRUPTED") && !stdout.contains('\x1b'), "{stdout}");
}

/// The second key ends a run that does not end; a run that is about to end shows its results.
#[test]
fn a_second_key_does_not_keep_a_run_from_ending() {
    for keys in ["q", "\x03"] {
        let folder = Folder::new();
        let mut run = on_terminal(&folder, &format!("{LONG} --tui"), &[]);
        run.wait_for("Conditions");
        run.wait_for("p99");
        run.press(keys);
        // Two keys of one reading are one wish.
        std::thread::park_timeout(BETWEEN_READINGS);
        run.press(keys);
        let (status, shown, stdout) = run.end();
        assert_eq!(status.code(), Some(130), "{shown}");
        let (_, after) = shown.split_once(SCREEN_OF_BEFORE).unwrap();
        assert!(after.contains("report: "), "{after:?}");
        assert!(stdout.contains("Verdict: INTERRUPTED"), "{stdout}");
    }
}

#[test]
fn signals_give_the_terminal_back() {
    let ends = [("INT", Some(130), None), ("HUP", Some(130), None), ("QUIT", None, Some(3))];
    for (signal, code, number) in ends {
        if signal == "HUP" && ignores_hang_up() {
            eprintln!("skipped: the tests run under nohup");
            continue;
        }
        let folder = Folder::new();
        let mut run = on_terminal(&folder, &format!("{LONG} --tui"), &[]);
        run.wait_for("Conditions");
        let kill = ["-s", signal, &run.child.id().to_string()];
        assert!(Command::new("kill").args(kill).status().unwrap().success());
        let (status, shown, _) = run.end();
        assert_eq!((status.code(), status.signal()), (code, number), "{shown}");
        let (_, after) = shown.split_once(SCREEN_OF_BEFORE).unwrap();
        assert!(after.contains(CURSOR_SHOWN), "{signal}: {after:?}");
    }
}

#[test]
fn a_run_outlives_its_terminal_until_its_results_are_kept() {
    let folder = Folder::new();
    let has_setsid = Command::new("setsid").arg("--version").output();
    if ignores_hang_up() || !has_setsid.is_ok_and(|ran| ran.status.success()) {
        eprintln!("skipped: the tests run under nohup, or there is no setsid");
        return;
    }
    let dyno = folder.command(&format!("{LONG} --tui"));
    // Only the processes of the terminal's session get its signals.
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg(dyno.get_program()).args(dyno.get_args()).current_dir(&folder.0);
    let mut run = OnTerminal::start(command, (90, 30));
    run.wait_for("Conditions");
    // Keys are read.
    run.press("?");
    run.wait_for("results.");
    assert_eq!(run.hang_up().code(), Some(130));
    assert!(folder.0.join("out/summary.json").is_file());
}

#[test]
fn the_full_screen_needs_a_terminal() {
    let folder = Folder::new();
    let ran = folder.dyno(&format!("{SHORT} --tui")).exits(2);
    assert!(ran.stderr.contains("--tui needs a terminal"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint:") && ran.stdout.is_empty());
    let run = on_terminal(&folder, &format!("{SHORT} --tui"), &[("TERM", "dumb")]);
    let (status, shown, _) = run.end();
    assert_eq!(status.code(), Some(2), "{shown}");
    assert!(!folder.0.join("out").exists(), "nothing ran");
}

#[test]
fn the_progress_line_is_drawn_over_on_terminals_alone() {
    let folder = Folder::new();
    let lines = |arguments: &str, variables: &[(&str, &str)]| {
        let run = on_terminal(&folder, arguments, variables);
        let (status, shown, _) = run.end();
        // On a machine that is busy the client lags, which makes the run invalid.
        assert!(matches!(status.code(), Some(0 | 1)), "{status}: {shown}");
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
        shown
    };
    let shown = lines(SHORT, &[]);
    let drawn: Vec<&str> =
        shown.split('\r').filter(|line| line.starts_with("1/1 Server performance")).collect();
    assert!(drawn.len() >= 2, "{shown:?}");
    let last = drawn.last().unwrap();
    assert!(last.contains("/s  p50 ") && last.contains("/0.6 s  "), "{last:?}");
    // Closed before any output.
    assert!(shown.contains("\r\x1b[2Kreport: "), "{shown:?}");
    for (arguments, variables) in [
        (format!("{SHORT} --no-progress"), &[][..]),
        (format!("{SHORT} --quiet"), &[]),
        (SHORT.to_string(), &[("TERM", "dumb")]),
    ] {
        let shown = lines(&arguments, variables);
        assert!(!shown.contains("Server") && !shown.contains('\x1b'), "{shown:?}");
    }
    let ran = folder.dyno(SHORT);
    assert!(!ran.stderr.contains("Server"), "{}", ran.stderr);
    std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    let ran = folder.dyno(&format!("{SHORT} --verbose"));
    let titles = ran.stderr.lines().filter(|line| *line == "1/1 Server performance");
    assert_eq!(titles.count(), 1, "{}", ran.stderr);
}

#[test]
fn colors_are_for_terminals_and_for_those_who_ask() {
    let folder = Folder::new();
    let colored = |variables: &[(&str, &str)]| {
        let mut command = folder.command(SHORT);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        let out = command.envs(variables.iter().copied()).output().unwrap();
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
        String::from_utf8(out.stdout).unwrap().contains('\x1b')
    };
    assert!(!colored(&[]), "stdout is a pipe");
    assert!(colored(&[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));

    // The cyan of the charts, as the full screen writes it.
    let cyan = |variables: &[(&str, &str)]| {
        let mut run = on_terminal(&folder, &format!("{LONG} --tui"), variables);
        run.wait_for("█");
        run.press("q");
        let (_, shown, _) = run.end();
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
        shown.contains("\x1b[38;5;6")
    };
    assert!(cyan(&[]));
    assert!(!cyan(&[("NO_COLOR", "1")]));
}

#[test]
fn a_simulated_run_on_the_full_screen_gives_the_terminal_back() {
    let folder = Folder::new();
    let arguments = "run --system model:exponential=1ms,servers=2 --scenario server --qps 1000 \
                     --mode performance --tui --out out";
    let (status, shown, stdout) = on_terminal(&folder, arguments, &[]).end();
    assert_eq!(status.code(), Some(0), "{shown}\n{stdout}");
    assert!(shown.contains("virtual") && shown.contains(SCREEN_OF_BEFORE), "{shown:?}");
}

#[test]
fn a_terminal_that_claims_to_be_huge_does_not_take_the_memory() {
    let folder = Folder::new();
    let arguments = "run --system model:fixed=1ms --scenario server --qps 100 --duration 1s \
                     --mode performance --tui --out out";
    let run = OnTerminal::start(folder.command(arguments), (u16::MAX, u16::MAX));
    let (status, shown, stdout) = run.end();
    assert!(status.code().is_some(), "{status}: {:.2000}", shown.escape_debug());
    assert!(shown.contains(SCREEN_OF_BEFORE) && stdout.contains("Verdict"), "{stdout}");
}

#[test]
fn the_summary_tells_what_an_issue_needs() {
    let folder = Folder::new();
    let ran = folder
        .dyno(
            "run --system model:exponential=2ms,tokens=5-50,per-token=1ms --scenario server \
             --qps 10 --duration 60s --mode performance --set use_token_latencies=true \
             --set server_ttft_latency=2000000000 --out out",
        )
        .exits(0);
    let widths = ran.stdout.lines().map(|line| line.chars().count());
    assert!(widths.clone().all(|columns| columns == 80), "{}", ran.stdout);
    let text = ran.stdout.replace(" │\n│ ", "\n");
    for expected in [
        "dyno 0.2.0, model:exponent…, profile quick",
        "/s (target 10.00/s), poisson, completed ",
        "TTFT 0 of ",
        "Server: TTFT p50 ",
        " tokens/s",
        "The system is simulated: the figures describe a model.",
        "$ dyno run --system model:exponential=2ms,tokens=5-50,per-token=1ms",
        "Verdict: VALID",
    ] {
        assert!(text.contains(expected), "expected {expected:?} in:\n{}", ran.stdout);
    }
    assert!(!text.contains(" build"), "in virtual time the machine plays no part");
    let real = Folder::new().dyno(SHORT);
    assert!(real.stdout.contains(" core") && real.stdout.contains(" build"), "{}", real.stdout);
    // Two times are estimated from tokens, each with its label.
    let single = folder
        .dyno(
            "run --system model:exponential=2ms,tokens=5-50,per-token=1ms --duration 60s \
             --scenario single-stream --mode performance --set use_token_latencies=true --out one",
        )
        .exits(0);
    let words: Vec<&str> = single.stdout.split_whitespace().filter(|word| *word != "│").collect();
    let text = words.join(" ");
    for expected in ["SingleStream: TTFT p90 at most ", "; TPOT p90 at most "] {
        assert!(text.contains(expected), "expected {expected:?} in:\n{}", single.stdout);
    }
    // With late answers the message shows by how much early stopping fails.
    let late = folder
        .dyno(
            "run --system model:fixed=20ms --scenario server --qps 20 --duration 30s \
             --mode performance --set server_target_latency_ns=10000000 --out late",
        )
        .exits(1);
    assert!(late.stdout.contains("of 601 over 10.0 ms, "), "{}", late.stdout);
    assert!(late.stdout.contains("Server performance INVALID:"), "{}", late.stdout);
}

#[test]
fn quiet_prints_nothing_but_errors() {
    let folder = Folder::new();
    folder.write("user.conf", "*.Server.target_qps = 50\n*.Server.target_qps = 200\n");
    let arguments = "run --system model:fixed=1ms --scenario server --mode performance";
    let told = folder.dyno(&format!("{arguments} --conf user.conf --out told")).exits(0);
    assert!(told.stderr.contains("warning: user.conf:1"), "{}", told.stderr);
    let arguments = format!("{arguments} --quiet --out out");
    let ran = folder.dyno(&format!("{arguments} --conf user.conf")).exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    let ran = folder.dyno(&format!("{arguments} --conf missing.conf")).exits(3);
    assert!(ran.stderr.contains("error:") && ran.stdout.is_empty(), "{}", ran.stderr);
}

#[test]
fn no_progress_hides_the_lines_of_runs() {
    let folder = Folder::new();
    let model = "system = \"model:exponential=8ms,servers=4\"\nscenario = \"Server\"\n";
    let load = "mode = \"performance\"\nqps = 300\nduration = \"5s\"\n";
    folder.write("a.toml", &format!("version = 1\n[run]\n{model}{load}"));
    for (name, arguments, line) in [
        ("sweep", "--config a.toml --over seed=1,2", "point 1/2"),
        ("compare", "--interleave 2 a.toml a.toml", "run 1 of 4"),
    ] {
        let run = |flags: &str, out: &str| {
            folder.dyno(&format!("{name} {arguments} {flags} --out {name}-{out}")).exits(0)
        };
        let shown = run("", "shown").stderr;
        assert!(shown.contains(line), "{shown}");
        let hidden = run("--no-progress", "hidden").stderr;
        assert!(!hidden.contains(line), "{hidden}");
        let quiet = run("--quiet", "quiet");
        assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    }
}
