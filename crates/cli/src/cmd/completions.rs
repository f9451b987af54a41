//! `dyno completions`: prints a shell completion script.

use clap::Args;
use clap_complete::Shell;
use dyno_experiment::Failure;

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
        clap_complete::generate(self.shell, &mut command_line(), "dyno", &mut script);
        output::print(script).map(|()| Exit::Valid)
    }
}
