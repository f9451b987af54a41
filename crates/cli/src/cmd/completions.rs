//! `dyno completions`: prints a shell completion script.

use clap::builder::{PossibleValuesParser, Str};
use clap::{Args, Command};
use clap_complete::Shell;
use dyno_experiment::Failure;
use dyno_experiment::options::{Mode, Profile};
use dyno_loadgen::settings::Scenario;

use super::command_line;

use crate::exit::Exit;
use crate::output;

/// For which shell.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const AFTER_HELP: &str = "\
For this session of bash:    source <(dyno completions bash)
For every one:               dyno completions bash > ~/.local/share/bash-completion/completions/dyno
zsh, in a folder of $fpath:  dyno completions zsh > ~/.zfunc/_dyno
fish:                        dyno completions fish > ~/.config/fish/completions/dyno.fish";

impl Completions {
    /// Prints the script.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        let mut command = with_values(command_line(), self.shell);
        clap_complete::generate(self.shell, &mut command, "dyno", &mut script);
        let script = String::from_utf8(script).expect("names and help are text");
        let names = scenarios().join(" ");
        let script = match self.shell {
            Shell::Bash => {
                script.replace("complete -F _dyno ", "complete -F _dyno_names ") + BASH_NAMES
            }
            Shell::Zsh => {
                script.replace(&format!("({LIST})"), &format!("_values -s , scenario {names}"))
            }
            Shell::Fish => {
                let list = format!("\"(__fish_complete_list , {LIST})\"");
                let function = format!("function {LIST}\n    printf '%s\\n' {names}\nend\n");
                function + &script.replace(&format!("\"{LIST}\\t''\""), &list)
            }
            _ => script,
        };
        output::print(script).map(|()| Exit::Valid)
    }
}

/// Stands for a list of scenarios in scripts of zsh and fish, which have functions for lists.
const LIST: &str = "__dyno_scenarios";

/// Completes names of scenarios in any letter case, and those after a comma.
const BASH_NAMES: &str = r#"
_dyno_names() {
    _dyno "$@"
    if [[ "$3" != --scenario || ${#COMPREPLY[@]} -ne 0 ]]; then
        return 0
    fi
    local name before="" names=() restore
    restore=$(shopt -p nocasematch)
    if [[ "$2" == *,* ]]; then
        before="${2%,*},"
    fi
    _dyno "$1" "" "$3"
    shopt -s nocasematch
    for name in "${COMPREPLY[@]}"; do
        if [[ "$name" == "${2##*,}"* ]]; then
            names+=("$before$name")
        fi
    done
    $restore
    COMPREPLY=("${names[@]}")
}
"#;

fn scenarios() -> Vec<&'static str> {
    Scenario::ALL.iter().map(|scenario| scenario.name()).collect()
}

/// Returns a command that knows the values of flags of a run, which a run parses itself.
fn with_values(command: Command, shell: Shell) -> Command {
    let command = command.mut_args(|arg| {
        let placeholder = arg.get_value_names().and_then(|names| names.first());
        let values: Vec<&'static str> = match placeholder.map(Str::as_str) {
            Some("MODE") => Mode::ALL.map(Mode::name).to_vec(),
            Some("PROFILE") => Profile::ALL.map(Profile::name).to_vec(),
            Some("SCENARIO,..") if matches!(shell, Shell::Zsh | Shell::Fish) => vec![LIST],
            Some("SCENARIO,.." | "SCENARIO") => scenarios(),
            _ => return arg,
        };
        arg.value_parser(PossibleValuesParser::new(values))
    });
    command.mut_subcommands(|command| with_values(command, shell))
}
