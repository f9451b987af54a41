//! `dyno npu sweep`: simulates networks that share an NPU, over a grid of the flags of `dyno npu run`.

mod axis;
mod grid;
mod heat;
mod point;
mod table;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::Args;
use dyno_experiment::Failure;
use dyno_loadgen::clock::Clock;
use dyno_metrics::parallel;
use dyno_results::write::to_named;

use self::axis::Axis;
use self::grid::Grid;
use self::point::{Metric, Point, PointOutcome};

use crate::exit::Exit;
use crate::tune_line::Line;
use crate::{output, terminal};

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, mut_arg("networks", |networks| networks.required(false)))]
pub struct Sweep {
    #[command(flatten)]
    point: Point,
    /// Axis of the rows: a flag of a point or networks, with values or ranges, such as
    /// seq=8..64:x2. + joins the networks of one value; semicolons separate values that contain
    /// commas
    #[arg(long, value_name = "KEY=VALUE,...")]
    rows: String,
    /// Axis of the columns
    #[arg(long, value_name = "KEY=VALUE,...")]
    columns: Option<String>,
    /// Metrics to show [default: all for one axis, stp for two]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    metric: Vec<Metric>,
    /// Draw heat maps of STP, of the utilization of both resources, and of the metrics of --metric
    #[arg(long, value_name = "FILE.svg")]
    heat: Option<PathBuf>,
    /// Write all metrics of all points as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Do not show the progress line on stderr
    #[arg(long)]
    no_progress: bool,
}

const AFTER_HELP: &str = "\
Axes are the flags from --npu to --passes, and networks. A point that cannot be simulated is listed below
the table and does not end the sweep. STP, ANTT, slowest and the bound are those of dyno npu run.
Exit codes: 0 all points were simulated, 1 some were not, 2 usage, or no point was simulated.
Examples:
  dyno npu sweep RN BB --rows seq=8,16,32,64 --columns mapping=kcp,kcp+1,kcpx+1
  dyno npu sweep --rows networks=RN+BB,MN+XL --columns scheduler=fair,layerweaver,balanced --seq 16
  dyno npu sweep RN BB --seq 16 --rows pes=4096..65536:x2 --columns weight-bits=4,8,16 --heat map.svg
  dyno npu sweep RN BB --seq 16 --blocks tile --rows block-time=1ms,300us,100us,30us";

/// Most points of a grid; more do not fit a page of heat maps.
const MOST_POINTS: usize = 10_000;

/// Most remarks that are shown.
const MOST_REMARKS: usize = 5;

impl Sweep {
    /// Simulates all points and prints the results.
    ///
    /// # Errors
    /// Unknown axes, no feasible point, or files that cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let axes = self.axes()?;
        let mut grid = Grid { axes, points: Vec::new() };
        if grid.len() > MOST_POINTS {
            let problem = format!("{} points exceed the maximum of {MOST_POINTS}", grid.len());
            return Err(Failure::usage(problem).hint("remove values of the axes"));
        }
        if self.point.sharing.networks.is_empty() != grid.varies("networks") {
            return Err(Failure::usage("expected networks either before the flags or as an axis")
                .hint(
                    "use, for example, dyno npu sweep RN BB --rows seq=8,16, or --rows \
                     networks=RN+BB,MN+XL",
                ));
        }
        let points = (0..grid.len()).map(|at| self.point.with(&grid.settings(at)));
        let points: Vec<Point> = points.collect::<Result<_, _>>().map_err(Failure::usage)?;
        // A change may apply to the networks of some points only.
        let mut checks = points.iter().map(|point| point.sharing.check());
        if let Some(Err(failure)) = checks.next()
            && !checks.any(|check| check.is_ok())
        {
            return Err(failure);
        }
        grid.points = play(&points, &Line::new(!self.no_progress));
        if grid.feasible().next().is_none() {
            return Err(Failure::usages(grid.failures().into_iter().map(|(why, _)| why).collect()));
        }
        let remarks = grid.remarks();
        for (remark, many) in remarks.iter().take(MOST_REMARKS) {
            output::say(format_args!("{remark} ({many} of {} points)", grid.len()));
        }
        if remarks.len() > MOST_REMARKS {
            let more = remarks.len() - MOST_REMARKS;
            output::say(format_args!("and {more} more such remarks; --json lists them by point"));
        }
        self.write(&grid)?;
        output::show(self.text(&grid))?;
        Ok(if grid.failures().is_empty() { Exit::Valid } else { Exit::Invalid })
    }

    fn axes(&self) -> Result<Vec<Axis>, Failure> {
        let mut axes: Vec<Axis> = Vec::new();
        let given = [("--rows", Some(&self.rows)), ("--columns", self.columns.as_ref())];
        for (flag, text) in given.into_iter().filter_map(|(flag, text)| Some((flag, text?))) {
            let axis = Axis::read(text, &self.point).map_err(|problem| {
                Failure::usage(format!("flag {flag}: {problem}"))
                    .hint(format!("axes are {}", point::keys().join(", ")))
            })?;
            if axes.iter().any(|other| other.key == axis.key) {
                let problem = format!("flag {flag}: `{}` already varies in --rows", axis.key);
                return Err(Failure::usage(problem));
            }
            axes.push(axis);
        }
        Ok(axes)
    }

    fn text(&self, grid: &Grid) -> String {
        if self.json {
            let document = table::document(grid);
            return serde_json::to_string_pretty(&document).expect("keys are texts") + "\n";
        }
        let metrics = match (&self.metric[..], &grid.axes[..]) {
            ([], [_]) => {
                let is_there = |metric: &Metric| grid.best(*metric).is_some();
                Metric::ALL.into_iter().filter(is_there).collect()
            }
            ([], _) => vec![Metric::Stp],
            (metrics, _) => metrics.to_vec(),
        };
        let columns = terminal::size().map_or(COLUMNS, |(columns, _)| columns.into());
        table::text(grid, &metrics, columns) + &self.point.fixed(grid) + "\n"
    }

    fn write(&self, grid: &Grid) -> Result<(), Failure> {
        let write = |path: &Path, text: String| {
            to_named(path, text).map_err(|error| Failure::unwritable(path, &error))
        };
        if let Some(path) = &self.csv {
            write(path, table::csv(grid))?;
        }
        if let Some(path) = &self.heat {
            let mut metrics = vec![Metric::Stp, Metric::Pes, Metric::Memory];
            let more = self.metric.iter().filter(|metric| !metrics.contains(metric));
            metrics.extend(more.copied().collect::<Vec<_>>());
            write(path, heat::svg(grid, &metrics, &self.point.fixed(grid)))?;
        }
        Ok(())
    }
}

/// Columns of a terminal of unknown size.
const COLUMNS: usize = 80;

/// Simulates points on all cores; results are in the order of the points.
fn play(points: &[Point], line: &Line) -> Vec<Result<PointOutcome, String>> {
    let clock = Clock::start();
    let done = Mutex::new(0);
    let found = parallel::map(points, |point| {
        let found = point.play().map_err(|failure| failure.problems().join("; "));
        let mut done = done.lock().expect("no thread panics while it holds it");
        *done += 1;
        line.count(*done, points.len(), clock.now());
        found
    });
    line.clear();
    found
}
