//! Completions and manual pages, as read by bash and man.

use std::process::{Command, Stdio};

use crate::program::Folder;

/// Whether this machine has a program; prints a note if not.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    let has = found.is_ok_and(|status| status.success());
    if !has {
        println!("skipped: there is no {program}");
    }
    has
}

/// What bash proposes for the last of these words.
fn proposed(words: &str) -> Vec<String> {
    let script = format!(
        "source <(dyno completions bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
         complete=$(complete -p dyno | grep -o '_dyno[a-z_]*'); \
         $complete dyno \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_dyno")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&path));
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &script]).env("PATH", std::env::join_paths(path).unwrap());
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    if !has("bash") {
        return;
    }
    assert_eq!(proposed("dyno selft"), ["selftest"]);
    assert_eq!(proposed("dyno run --accuracy-t"), ["--accuracy-target"]);
    assert_eq!(proposed("dyno info exit"), ["exit-codes"]);
    assert!(proposed("dyno completions ''").contains(&"fish".to_string()));
    assert_eq!(proposed("dyno run --mode p"), ["performance", "peak"]);
    assert_eq!(proposed("dyno run --scenario Off"), ["Offline"]);
    assert_eq!(proposed("dyno run --scenario s"), ["SingleStream", "Server"]);
    assert_eq!(proposed("dyno run --scenario server,off"), ["server,Offline"]);
    assert_eq!(proposed("dyno sweep --profile q"), ["quick"]);
}

#[test]
fn every_shell_gets_a_script() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = folder.dyno(&format!("completions {shell}")).exits(0).stdout;
        assert!(script.contains("selftest"), "{shell}");
    }
    for (shell, list) in [
        ("zsh", ":SCENARIO,..:_values -s , scenario SingleStream MultiStream Server Offline'"),
        ("fish", " -a \"(__fish_complete_list , __dyno_scenarios)\""),
        ("fish", "    printf '%s\\n' SingleStream MultiStream Server Offline\n"),
    ] {
        let script = folder.dyno(&format!("completions {shell}")).exits(0).stdout;
        assert!(
            script.contains(list) && !script.contains("__dyno_scenarios\\t"),
            "{list}: {script}"
        );
    }
    let ran = folder.dyno("completions tcsh").exits(2);
    assert!(ran.stderr.contains("possible values: bash"), "{}", ran.stderr);
}

#[test]
fn each_command_has_a_manual_page_that_renders() {
    let folder = Folder::new();
    folder.dyno("man pages").exits(0);
    let mut pages: Vec<_> = std::fs::read_dir(folder.0.join("pages"))
        .unwrap()
        .map(|page| page.unwrap().path())
        .collect();
    pages.sort();
    let help = folder.dyno("--help").stdout;
    let commands = help.lines().take_while(|line| *line != "Options:");
    let commands = commands.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    let commands: Vec<&str> = commands.collect();
    assert!(commands.contains(&"run"), "{help}");
    let below = |command: &str| {
        let help = folder.dyno(&format!("{command} --help")).stdout;
        let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let below = below.take_while(|line| !line.is_empty()).count();
        assert!(below > 0, "{help}");
        below
    };
    let below = below("audit") + below("task") + below("rnn") + below("tune") + below("npu");
    // `dyno` itself has a page, too.
    assert_eq!(pages.len(), 1 + commands.len() + below, "{pages:?}");
    assert_eq!(folder.dyno("man").exits(0).stdout, folder.read("pages/dyno.1"));
    let run = folder.read("pages/dyno-run.1");
    for section in ["NAME", "SYNOPSIS", "OPTIONS", "NOTES", "EXIT STATUS", "ENVIRONMENT", "FILES"] {
        let quoted = format!(".SH \"{section}\"");
        assert!(run.contains(&format!(".SH {section}\n")) || run.contains(&quoted), "{section}");
    }
    if !has("groff") {
        return;
    }
    for page in pages {
        let mut groff = Command::new("groff");
        let rendered = groff.args(["-ww", "-man", "-Tutf8"]).arg(&page).output().unwrap();
        let said = String::from_utf8(rendered.stderr).unwrap();
        assert_eq!(said, "", "{}", page.display());
    }
}
