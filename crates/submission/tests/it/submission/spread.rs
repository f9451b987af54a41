//! Submissions of several, whose results differ.

use dyno_rules::{Round, RuleScenario};
use dyno_submission::check::{Options, Program, check};
use dyno_submission::package::{PackageRequest, package};
use dyno_submission::results::{Ids, Results, SheetKind};

use crate::made::folder::Folder;
use crate::made::played::{STEADY, SteadySystem};
use crate::made::power;
use crate::made::submission::{EDGE, Model, Power, RESNET, RETINANET, asked, description, run};

struct Entrant {
    submitter: &'static str,
    system: &'static str,
    speed: SteadySystem,
    power: Power,
    models: &'static [Model],
    fields: &'static [(&'static str, &'static str)],
}

/// So many times as slow as the fastest.
const fn slower(times: u64) -> SteadySystem {
    SteadySystem { first_ns: STEADY.first_ns * times, next_ns: STEADY.next_ns * times }
}

const ENTRANTS: [Entrant; 3] = [
    Entrant {
        submitter: "acme",
        system: "card",
        speed: slower(2),
        power: Power::Unmeasured,
        models: &[RESNET, RETINANET],
        fields: &[
            ("system_name", "A card"),
            ("accelerator_model_name", "Some GPU"),
            ("framework", "TensorRT 10.8"),
        ],
    },
    Entrant {
        submitter: "zenith",
        system: "two-cards",
        speed: STEADY,
        power: Power::Unmeasured,
        models: &[RESNET],
        fields: &[
            ("system_name", "Two cards"),
            ("accelerator_model_name", "Some GPU"),
            ("accelerators_per_node", "2"),
            ("framework", "TensorRT 10.8"),
        ],
    },
    Entrant {
        submitter: "zenith",
        system: "processor",
        speed: slower(8),
        power: Power::Measured,
        models: &[RESNET, RETINANET],
        fields: &[
            ("system_name", "A processor"),
            ("accelerator_model_name", "N/A"),
            ("accelerators_per_node", "0"),
            ("framework", "OpenVINO 2025.1"),
        ],
    },
];

fn enter(round: &Round, entrant: &Entrant, folder: &Folder) {
    let mut fields = entrant.fields.to_vec();
    if entrant.power == Power::Measured {
        fields.extend(power::FIELDS);
    }
    for model in entrant.models {
        let runs = folder.path().join("runs").join(entrant.system).join(model.name);
        run(round, model, &EDGE, entrant.speed, entrant.power, &runs);
        let asked = PackageRequest {
            submitter: entrant.submitter.to_owned(),
            system: entrant.system.to_owned(),
            description: description(&fields),
            ..asked(round, model, runs)
        };
        package(&asked, &folder.path().join("tree")).unwrap();
    }
}

#[test]
fn a_round_of_several_is_told_by_model_and_by_spread_and_never_as_one_score() {
    let round = Round::named("v5.1").unwrap();
    let folder = Folder::new("spread");
    for entrant in &ENTRANTS {
        enter(round, entrant, &folder);
    }
    let tree = folder.path().join("tree");
    let checked =
        check(&tree, round, &Options { forensic: true, ..Options::new(Program::Strict) }).unwrap();
    assert!(checked.is_valid(), "{:#?}", checked.findings);
    let results = Results::from_rows(&checked.rows, round, &mut Ids::new());

    let spreads = &results.statistics.spreads;
    let ratios: Vec<_> = spreads
        .iter()
        .map(|spread| (spread.model.as_str(), spread.scenario, spread.ratio().round()))
        .collect();
    let of = |model, times| {
        [RuleScenario::SingleStream, RuleScenario::MultiStream, RuleScenario::Offline]
            .map(|scenario| (model, scenario, times))
    };
    assert_eq!(ratios, [of("resnet", 8.0), of("retinanet", 4.0)].concat());
    assert_eq!(results.statistics.scenarios.total(), 15);
    let kinds: Vec<_> = results.sheets.iter().map(|sheet| sheet.kind).collect();
    assert_eq!(kinds, [SheetKind::Performance, SheetKind::Power]);
}
