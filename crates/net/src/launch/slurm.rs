//! Slurm batch script: one job, whose task 0 is the coordinator.

use super::{Placement, quoted};

/// Returns the script for `sbatch`.
pub fn script(placement: &Placement) -> String {
    let Placement { name, program, workers, port, .. } = placement;
    let (tasks, coordinator, program) = (workers + 1, placement.coordinator(), quoted(program));
    let flags = placement.worker_flags();
    format!(
        r#"#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --ntasks={tasks}
#SBATCH --spread-job
#SBATCH --output={name}-%j.txt

# Task 0 coordinates; the others join it and share the load. Workers with --stay end --within after
# the last run. Ask for nodes, cores and time with more lines like those above, or with flags of sbatch.
set -euo pipefail

# Known to the tasks of this job alone, unless it is set already.
DYNO_WORKER_TOKEN="${{DYNO_WORKER_TOKEN:-$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')}}"
DYNO_COORDINATOR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)"
export DYNO_WORKER_TOKEN DYNO_COORDINATOR

task() {{
    if [ "$SLURM_PROCID" -eq 0 ]; then
        exec {coordinator}
    fi
    exec {program} worker --join "$DYNO_COORDINATOR:{port}" --seat "$SLURM_PROCID" {flags}
}}
export -f task

srun --kill-on-bad-exit=1 bash -c task
"#
    )
}
