//! `cheat:TRICK`: a system that an audit should catch.

use dyno_loadgen::plan::{Plan, Seeds};
use dyno_rules::Round;
use dyno_sut::cheat::{Cheat, Form, Images, Told, Trick};

use crate::failure::Failure;

/// What `cheat:` can be told, for people.
pub const GRAMMAR: &str = "the digits in virtual time, computed by a system that cheats: caching, \
    coalescing, skipping, foreseeing, memorising or stale; or by an honest one: honest. In \
    tokens: padding or curtailing; honest: writing. In rankings: guessing; honest: ranking. \
    ,data=specked gives it images that it has never seen. dyno audit catches each";

/// A trick, and the images it is played with.
#[derive(Debug, Clone, Copy)]
pub struct CheatSpec {
    trick: Trick,
    /// Its data set.
    pub images: Images,
}

impl CheatSpec {
    /// Reads what stands behind `cheat:` in `spec`.
    ///
    /// # Errors
    /// A trick or data set that there is none of.
    pub fn read(spec: &str, argument: &str) -> Result<Self, Failure> {
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
        Ok(Self { trick, images })
    }

    /// What its answers are.
    pub fn form(self) -> Form {
        self.trick.form()
    }

    /// The system for one test.
    pub fn system(self, plan: &Plan, seed: u64) -> Cheat {
        let of = |name: &&str| Round::named(name).ok().map(|round| round.seeds);
        let names = Round::names();
        let seeds = names.iter().filter_map(of).map(|seeds| Seeds {
            qsl: seeds.qsl,
            sample_index: seeds.sample_index,
            schedule: seeds.schedule,
            accuracy_log: 0,
        });
        let published: Vec<Seeds> = seeds.collect();
        Cheat::new(self.trick, self.images, Told { plan, published: &published, seed })
    }
}
