//! Tunes number formats of networks: evaluation of trials, and documents of results.

mod built_in;
mod closed;
mod compare;
mod cpp;
mod data;
mod document;
mod evaluations;
mod evaluator;
mod external;
mod frontier;
mod plot;
mod runs;
mod scaled;
mod scenario;
mod scenario_report;
mod speed;
mod summary;

pub use built_in::{Engine, check_files, hashes, model_hash};
pub use closed::{ClosedRules, Provenance, Target};
pub use compare::{ComparedModel, Comparison};
pub use cpp::cpp_types;
pub use data::{CalibrationSplit, Data, HeldOut, fed};
pub use document::{Document, SCHEMA_VERSION, document};
pub use evaluations::SharedEvaluations;
pub use evaluator::Evaluator;
pub use external::{Program, TrialPolicy, program, program_hashes};
pub use frontier::{Frontier, FrontierPoint, frontier};
pub use plot::{Curve, Histogram, PLOT_SCHEMA_VERSION, Plot, histogram, plot};
pub use runs::Runs;
pub use scaled::{ScaleChoice, ScaleSearch, ScaleVerdict};
pub use scenario::{Scenario, ScenarioFigures, ScenarioGoal, arrivals};
pub use scenario_report::{ScenarioReport, ScenarioRow};
pub use summary::{
    best_file, bound_percent, evaluated, margin_percent, margin_verdict, metric_text,
    objective_text, remarks,
};
