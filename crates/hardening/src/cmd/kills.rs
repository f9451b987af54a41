//! `dyno-hardening kills`.

use std::path::PathBuf;

use clap::Args;
use dyno_hardening::kills::{JOBS, Reference, Stop};
use dyno_hardening::rng::Stream;

use super::simulate::print_findings;
use super::{Cases, print_figure, timed};

/// Flags of `kills`.
#[derive(Debug, Args)]
pub struct Kills {
    /// The program, such as target/release/dyno
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    #[command(flatten)]
    cases: Cases,
}

impl Kills {
    /// Stops the commands; returns whether nothing was lost.
    pub fn execute(&self) -> bool {
        match self.stop_all() {
            Ok(is_clean) => is_clean,
            Err(problem) => {
                eprintln!("error: {problem}");
                false
            }
        }
    }

    fn stop_all(&self) -> Result<bool, String> {
        let program = std::path::absolute(&self.program).map_err(|error| error.to_string())?;
        let references = JOBS.iter().map(|job| Reference::play(&program, job));
        let references: Vec<Reference> = references.collect::<Result<_, _>>()?;
        let numbers = self.cases.numbers(2_000);
        let runs = numbers.end - numbers.start;
        let (mut counts, mut failing) = ([[0_u64; Stop::ALL.len()]; JOBS.len()], 0_u64);
        let (seconds, played) = timed(|| {
            for index in numbers {
                let mut stream = Stream::new(self.cases.seed, index, 0);
                let number = stream.below(references.len() as u64) as usize;
                let stop = stream.pick(&Stop::ALL);
                let stopped = references[number].stop(number, stop, &mut stream)?;
                counts[number][stop as usize] += u64::from(stopped.was_running);
                if !stopped.findings.is_empty() {
                    failing += 1;
                    println!(
                        "dyno-hardening kills --program {} --seed {} --only {index}   # {} of {}",
                        self.program.display(),
                        self.cases.seed,
                        stop.name(),
                        references[number].job.name
                    );
                    print_findings(&stopped.findings);
                }
            }
            Ok::<(), String>(())
        });
        played?;
        if self.cases.json {
            print_figure("hardening.kills_survived", (runs - failing) as f64, "commands");
            print_figure("hardening.kills_with_findings", failing as f64, "commands");
            return Ok(failing == 0);
        }
        println!("{:12} {:>8} {:>8} {:>8}   stopped while they ran", "", "INT", "TERM", "KILL");
        for (reference, [interrupted, terminated, killed]) in references.iter().zip(counts) {
            println!("{:12} {interrupted:>8} {terminated:>8} {killed:>8}", reference.job.name);
        }
        println!("{runs} commands, {failing} with findings, {seconds:.0} s");
        Ok(failing == 0)
    }
}
