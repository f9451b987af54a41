//! Audits of published submissions: Dyno writes the same texts as the official scripts.

use dyno_loadgen::settings::Scenario;
use dyno_submission::audit::{AuditTest, Element, Evidence, RunFolder, plan, verify};

use super::round;
use crate::shared;

#[test]
fn scores_of_published_audits_are_judged_and_written_as_they_were() {
    let Some(tree) = shared::find("reference/submissions/tree") else { return };
    let mut compared = 0;
    for (system, scenarios) in [
        (
            "Lenovo/{}/SE100_RTX2000E_Ada_16GBx1_TRT/resnet50",
            ["SingleStream", "MultiStream", "Offline"].as_slice(),
        ),
        ("The_Stage/{}/h100_x8/stable-diffusion-xl", &["offline", "server"]),
    ] {
        for scenario in scenarios {
            let below = |kind| tree.join("closed").join(system.replace("{}", kind)).join(scenario);
            let reference = RunFolder::new(below("results").join("performance/run_1"));
            for test in [AuditTest::Test01, AuditTest::Test04] {
                let audit = below("compliance").join(test.name());
                let of = Scenario::ALL.iter().find(|of| of.name().eq_ignore_ascii_case(scenario));
                let benchmark = system.rsplit('/').next();
                let plan = plan(test, round("v5.1"), benchmark, *of.unwrap()).unwrap();
                let audited = RunFolder::new(audit.join("performance/run_1"));
                let mut evidence = Evidence::new(vec![audited], Element::I8);
                evidence.performance = Some(reference.clone());
                let result = verify(&plan, &evidence);
                let part = result.parts.iter().find(|part| part.name == "score").unwrap();
                assert!(part.official.is_passed(), "{scenario} {test}: {part:?}");
                assert!(part.corrected.is_passed(), "{scenario} {test}: {part:?}");
                let published = std::fs::read_to_string(audit.join("verify_performance.txt"));
                // The summaries that TEST04 reads contain rates as text.
                let plain = |text: &str| text.replace(".0\n", "\n");
                assert_eq!(
                    plain(&part.file.as_ref().unwrap().text),
                    plain(&published.unwrap()),
                    "{scenario} {test}"
                );
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 10);
}
