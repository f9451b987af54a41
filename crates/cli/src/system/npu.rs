//! The grammar of `npu:KEY=VALUE,...`: networks on a simulated NPU, on the command line.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::settings::nearest;
use dyno_npu::deploy::{Deployment, Plan, Tenant};
use dyno_npu::profile::{Granularity, Options, Picos};
use dyno_npu::schedule::Named;
use dyno_npu::serve::Batching;
use dyno_sut::npu::Npu;

use crate::cmd::npu::{Changes, Hardware};
use crate::exit::Failure;
use crate::render::parse_duration;

/// For help texts.
pub const GRAMMAR: &str = "networks on a simulated NPU in virtual time, one a tenant: networks=RN+BB, then \
     any of npu=NAME, mapping=NAME, scheduler=NAME, seq=N, limit=TIME+TIME (what deadlines the scheduler \
     keeps), batch=N, window=TIME, active=N, wake=TIME, tile=TIME; see dyno npu";

const KEYS: [&str; 11] = [
    "networks",
    "npu",
    "mapping",
    "scheduler",
    "seq",
    "limit",
    "batch",
    "window",
    "active",
    "wake",
    "tile",
];

const PICOS_PER_NANO: Picos = 1_000;

/// What is read of it, and checked.
#[derive(Debug, Clone)]
pub struct NpuSpec {
    deployment: Deployment,
    batching: Batching,
}

/// As it is written.
struct Written<'a> {
    networks: Vec<&'a str>,
    limits: Vec<Nanos>,
    hardware: Hardware,
    changes: Changes,
    scheduler: &'a str,
    options: Options,
    batching: Batching,
}

impl NpuSpec {
    /// Reads what stands behind `npu:`.
    ///
    /// # Errors
    /// A key or a value that there is not; networks that do not fit the NPU.
    pub fn read(spec: &str, argument: &str) -> Result<Self, Failure> {
        let written = Written::read(argument).map_err(|expected| {
            Failure::usage(format!("system `{spec}`: {expected}"))
                .hint("for example npu:networks=RN+BB,npu=chapter-v,mapping=kcp+1:128,seq=16,limit=15ms+130ms")
        })?;
        let (npu, mapping) = written.hardware.read()?;
        let mut tenants = Vec::new();
        for (at, name) in written.networks.iter().enumerate() {
            let network = written.changes.network_of_several(name)?;
            // One limit is everybody's.
            let limit = written.limits.get(at).or(written.limits.first());
            let limit = limit.map_or(Picos::MAX, |limit| limit.saturating_mul(PICOS_PER_NANO));
            tenants.push(Tenant { network, limit });
        }
        let scheduler = Named::find(written.scheduler).map_err(Failure::usage)?;
        let plan = Plan { npu, mapping, options: written.options, tenants, scheduler };
        let deployment = Deployment::new(&plan).map_err(Failure::usage)?;
        Ok(Self { deployment, batching: written.batching })
    }

    /// What had to be done to networks.
    pub fn remarks(&self) -> Vec<String> {
        self.deployment.remarks.clone()
    }

    /// An idle NPU.
    pub fn system(&self) -> Npu {
        Npu::new(self.deployment.clone(), self.batching)
    }
}

impl<'a> Written<'a> {
    fn read(argument: &'a str) -> Result<Self, String> {
        let mut written = Self {
            networks: Vec::new(),
            limits: Vec::new(),
            hardware: Hardware::default(),
            changes: Changes::default(),
            scheduler: "balanced",
            options: Options::default(),
            batching: Batching { window: 0, active: 4, wake: Picos::MAX },
        };
        for part in argument.split(',') {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("expected key=value, found `{part}`"))?;
            written.set(key, value)?;
        }
        if written.networks.is_empty() {
            return Err("expected networks=NAME+NAME, such as networks=RN+BB".into());
        }
        let limits = written.limits.len();
        if limits > 1 && limits != written.networks.len() {
            return Err(format!(
                "expected a limit for each of {} networks, found {limits}",
                written.networks.len()
            ));
        }
        Ok(written)
    }

    fn set(&mut self, key: &str, value: &'a str) -> Result<(), String> {
        let picos = || parse_duration(value).map(|ns| ns.saturating_mul(PICOS_PER_NANO));
        match key {
            "networks" => self.networks = value.split('+').collect(),
            "npu" => self.hardware.npu = value.to_owned(),
            "mapping" => self.hardware.mapping = value.to_owned(),
            "scheduler" => self.scheduler = value,
            "seq" => self.changes.seq = Some(at_least_one(key, value)?),
            "limit" => {
                self.limits = value.split('+').map(parse_duration).collect::<Result<_, _>>()?;
            }
            "batch" => self.options.batch = at_least_one(key, value)?,
            "window" => self.batching.window = picos()?,
            "active" => {
                self.batching.active =
                    usize::try_from(at_least_one(key, value)?).unwrap_or(usize::MAX);
            }
            "wake" => self.batching.wake = picos()?,
            "tile" => {
                let time = picos()?;
                if time == 0 {
                    return Err("expected a time of more than nothing for `tile`".into());
                }
                self.options.granularity = Granularity::Tile { bytes: u64::MAX, time };
            }
            _ => {
                let near = nearest(key, KEYS.into_iter()).unwrap_or("networks");
                return Err(format!("unknown key `{key}`; the nearest key is `{near}`"));
            }
        }
        Ok(())
    }
}

/// Batches and the like: none is so large, and each batch has a profile of its own.
const MOST: u64 = 1 << 16;

fn at_least_one(key: &str, value: &str) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("expected a number from 1 to {MOST} for `{key}`, found `{value}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(argument: &str) -> String {
        NpuSpec::read(&format!("npu:{argument}"), argument).unwrap_err().problems().join("\n")
    }

    #[test]
    fn networks_limits_and_blocks_are_read() {
        let argument = "networks=RN+BB,npu=chapter-v,mapping=kcp+1:128,seq=16,limit=15ms+130ms,batch=2,tile=100us";
        let spec = NpuSpec::read("npu", argument).expect("it reads");
        assert_eq!(spec.deployment.names, ["RN", "BB"]);
        let limits: Vec<Picos> = spec.deployment.served.iter().map(|served| served.limit).collect();
        assert_eq!(limits, [15_000_000_000, 130_000_000_000]);
        let pass = &spec.deployment.served[0].passes[1];
        assert!(pass.blocks.iter().all(|block| block.compute <= 100_000_000));
    }

    #[test]
    fn what_does_not_read_is_told_with_what_is_near() {
        let cases = [
            ("network=RN", "unknown key `network`; the nearest key is `networks`"),
            ("networks=RN,scheduler=layerweave", "there is no scheduler `layerweave`"),
            ("networks=RM", "there is no network `RM`"),
            (
                "networks=RN+BB,limit=1ms+2ms+3ms",
                "expected a limit for each of 2 networks, found 3",
            ),
            ("npu=chapter-v", "expected networks=NAME+NAME"),
            ("networks=RN,batch=0", "expected a number from 1 to 65536 for `batch`, found `0`"),
        ];
        for (argument, expected) in cases {
            let told = problem(argument);
            assert!(told.contains(expected), "{argument}: {told}");
        }
    }
}
