//! A `.conf` of the reference's grammar, and the plan that it leads to: every
//! scenario resolves or says what is wrong.
#![no_main]

use std::path::Path;

use dyno_loadgen::config::{Conf, ConfType};
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::settings::{Scenario, Settings};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Ok(conf) = Conf::parse(&text, Path::new("user.conf")) else { return };
    for &scenario in Scenario::ALL {
        let mut settings = Settings::default();
        settings.values.scenario = scenario;
        conf.apply(&mut settings, "resnet50", scenario.name(), ConfType::User);
        conf.apply_audit(&mut settings);
        let library = Library { total: 1_024, performance: 64 };
        if let Err(errors) = Plan::resolve(&settings.values, library) {
            assert!(!errors.to_string().is_empty());
        }
        let _ = Plan::resolve_as_reference(&settings.values, library);
    }
});
