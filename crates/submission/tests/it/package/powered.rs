//! Packaging of runs with power measurements.

use std::fs;
use std::path::Path;

use dyno_rules::{OneFileChecker, Round};
use dyno_submission::check::{Options, Program, Skip, check};
use dyno_submission::package::{Infer, PackageRequest, capture, package};
use dyno_submission::table::Column;

use super::trees::{files, open, single_stream};
use crate::made::folder::Folder;
use crate::made::power::PowerFiles;
use crate::made::submission::description;

/// Moves the run that counts to where the power director writes it: next to `power` and
/// `ranging`.
fn as_the_director(performance: &Path) {
    let run = performance.join("run_1");
    fs::create_dir(&run).unwrap();
    for entry in fs::read_dir(performance).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            fs::rename(entry.path(), run.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn a_measured_run_is_packaged_with_its_power_in_both_layouts() {
    for (round, is_directors) in [("v5.1", true), ("v5.1", false), ("v6.0", true), ("v6.0", false)]
    {
        let round = Round::named(round).unwrap();
        let scratch = Folder::new(&format!("power-{}-{is_directors}", round.version));
        let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
        single_stream(round, 43, &run);
        let performance = run.join("performance");
        PowerFiles { folder: &performance, run: "", round: "v5.1" }.make();
        if is_directors {
            as_the_director(&performance);
        }
        for note in ["analyzer_table.md", "power_settings.md"] {
            fs::write(performance.join(note), "made").unwrap();
        }
        let asked = PackageRequest {
            stands_for: Some("3d-unet-99".into()),
            infer: Infer::Missing,
            captured: capture(&run),
            description: description(&[]),
            ..open(round, &run)
        };
        let packaged = package(&asked, &out).unwrap();
        assert_eq!((packaged.missing_fields, packaged.doubts), (vec![], vec![]));
        let found = files(&out);
        for scenario in ["SingleStream", "Offline"] {
            let result = format!("open/Us/results/box/own/{scenario}/performance");
            for file in ["power/client.json", "power/server.json", "power/ptd_logs.txt"] {
                assert!(found.contains(&format!("{result}/{file}")), "{file}: {found:#?}");
            }
            for run in ["run_1", "ranging"] {
                let spl = format!("{result}/{run}/spl.txt");
                assert!(found.contains(&spl), "{spl}: {found:#?}");
            }
        }
        for program in [Program::Strict, Program::Mono, Program::Modular] {
            // The single-file checker supports only the first layout.
            if program == Program::Mono && round.version.to_string() != "v5.1" {
                continue;
            }
            let checked = check(&out, round, &Options::new(program)).unwrap();
            // The runs of this test are simulated.
            let found = checked.findings.iter().filter(|found| found.check != "log.simulated");
            let found: Vec<String> = found.map(ToString::to_string).collect();
            assert_eq!((checked.valid(), found), (2, vec![]), "{program:?} {}", round.version);
            // Each result has one row, and another for its power.
            let powered = checked.rows.iter().filter(|row| row.get(Column::HasPower) == "True");
            assert_eq!((checked.rows.len(), powered.count()), (4, 4), "{program:?}");
        }
    }
}

/// v5.0.1:1979 leaves out the row of the result.
#[test]
fn a_system_for_power_only_has_rows_of_its_results_before_v5_0() {
    for (tag, rows) in [("v4.1", 4), ("v5.1", 2)] {
        let round = Round::named(tag).unwrap();
        let scratch = Folder::new(&format!("power-only-{tag}"));
        let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
        single_stream(round, 43, &run);
        let performance = run.join("performance");
        PowerFiles { folder: &performance, run: "", round: "v5.1" }.make();
        for note in ["analyzer_table.md", "power_settings.md"] {
            fs::write(performance.join(note), "made").unwrap();
        }
        let asked = PackageRequest {
            stands_for: Some("3d-unet-99".into()),
            infer: Infer::Missing,
            captured: capture(&run),
            description: description(&[("system_power_only", "true")]),
            ..open(round, &run)
        };
        package(&asked, &out).unwrap();
        for scenario in ["SingleStream", "Offline"] {
            // The program of v4.1 asks for these settings.
            let described = out.join("open/Us/measurements/box/own").join(scenario);
            fs::write(described.join("mlperf.conf"), "# made\n").unwrap();
        }
        let program = Program::Tag(OneFileChecker::new(tag.parse().unwrap()));
        let options = Options { skip: vec![Skip::Power], ..Options::new(program) };
        let checked = check(&out, round, &options).unwrap();
        assert_eq!((checked.valid(), checked.rows.len()), (2, rows), "{:#?}", checked.findings);
    }
}
