//! `cheat:TRICK`: a system that an audit should catch.

use std::sync::Arc;

use dyno_loadgen::plan::{Plan, Seeds};
use dyno_loadgen::sut::SimulatedSystem;
use dyno_rules::Round;
use dyno_sut::cheat::{Cheat, Form, Images, TestContext, Trick};
use dyno_sut::digits;

use super::digits::TARGET;
use super::kind::{Drive, OpenedSystem, Resources, Simulation, SystemKind, WorkerPool, repeated};
use crate::failure::Failure;
use crate::options::RandomStream;

pub(super) const KIND: SystemKind = SystemKind {
    name: "cheat",
    operand: "TRICK",
    help: "the digits in virtual time, computed by a system that cheats: caching, coalescing, \
         skipping, foreseeing, memorising or stale; honest does not cheat. With tokens: padding \
         or curtailing; writing is honest. With rankings: guessing; ranking is honest. \
         ,data=specked selects unseen images. dyno audit detects every cheat",
    accepts: &[],
    resources: Resources::nothing,
    check: None,
    open: |request| {
        let cheat = CheatSpec::read(
            request.spec,
            request.operand,
            request.run.seed_of(RandomStream::System),
        )?;
        let is_class = cheat.trick.form() == Form::Class;
        let images = Arc::new(cheat.images);
        Ok(OpenedSystem {
            labels: is_class.then(digits::labels),
            target: is_class.then_some(TARGET),
            caution: Some("The system is simulated, to test audits."),
            ..OpenedSystem::new(Drive::Virtual(Box::new(cheat)), images)
        })
    },
};

/// A trick with its images.
#[derive(Debug, Clone, Copy)]
struct CheatSpec {
    trick: Trick,
    /// Data set.
    images: Images,
    /// Seed of the latencies.
    seed: u64,
}

impl CheatSpec {
    /// Parses the operand of `cheat:` in `spec`.
    ///
    /// # Errors
    /// An unknown trick or data set.
    fn read(spec: &str, argument: &str, seed: u64) -> Result<Self, Failure> {
        let (name, data) = argument.split_once(',').unwrap_or((argument, ""));
        let refused = |expected: String| {
            Failure::usage(format!("system `{spec}`: {expected}"))
                .hint("for example cheat:caching, or cheat:memorising,data=specked")
        };
        let trick = Trick::named(name).map_err(refused)?;
        let images = match data {
            "" | "data=reference" => Images::Reference,
            "data=specked" => Images::Specked,
            other => {
                let expected = "expected data=reference or data=specked";
                return Err(refused(format!("{expected}, found `{other}`")));
            }
        };
        Ok(Self { trick, images, seed })
    }
}

impl Simulation for CheatSpec {
    fn name(&self) -> &'static str {
        "one server"
    }

    fn reports_tokens(&self) -> bool {
        self.trick.form() == Form::Text
    }

    fn system(&self, plan: &Plan, repeat: u64, _: Option<WorkerPool>) -> Box<dyn SimulatedSystem> {
        let names = Round::names();
        let rounds = names.iter().filter_map(|name| Round::named(name).ok());
        let seeds = rounds.map(|round| Seeds {
            qsl: round.seeds.qsl,
            sample_index: round.seeds.sample_index,
            schedule: round.seeds.schedule,
            accuracy_log: 0,
        });
        let published: Vec<Seeds> = seeds.collect();
        let seed = repeated(self.seed, repeat);
        let seed = RandomStream::System.apart_from(seed, &plan.seeds);
        Box::new(Cheat::new(
            self.trick,
            self.images,
            TestContext { plan, published_seeds: &published, seed },
        ))
    }
}
