//! The grammar of `npu:KEY=VALUE,...`: networks on a simulated NPU, on the command line.

pub mod networks;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::plan::Plan as LoadPlan;
use dyno_loadgen::settings::known_keys;
use dyno_loadgen::sut::SimulatedSystem;
use dyno_npu::deploy::{Deployment, DeploymentPlan, Tenant, VersionOffer, first_remarks};
use dyno_npu::fleet::{Balancer, UnknownBalancer};
use dyno_npu::lowering::{Granularity, LoweringOptions};
use dyno_npu::profile::Picos;
use dyno_npu::schedule::SchedulerSpec;
use dyno_npu::serve::{BatchingPolicy, ServedNetwork};
use dyno_npu::spatial::{PartitionPolicy, Partitions};
use dyno_npu::workload::Network;
use dyno_results::units::{parse_bound, parse_duration};
use dyno_sut::npu::{NpuObservation, NpuSetup, NpuSystem, ObservationSlot};

use super::kind::{Drive, OpenedSystem, Resources, Simulation, SystemKind, WorkerPool};
use super::model::SIMULATED;
use super::{Numbers, SAMPLES_DEFAULT};
use crate::failure::Failure;
use networks::{Changes, Hardware};

pub(super) const KIND: SystemKind = SystemKind {
    name: "npu",
    operand: "networks=NAMES",
    help: "networks on a simulated NPU in virtual time, one per tenant: networks=RN+BB, then any \
           of npu=NAME, mapping=NAME, scheduler=NAME[:KEY=VALUE,...], seq=N, limit=TIME+TIME \
           (deadlines of the scheduler), batch=N, window=TIME, active=N, wake=TIME, tile=TIME, \
           npus=N, balancer=NAME, split=A:B, apart=always, version=NETWORK:BITS:ACCURACY, \
           floor=ACCURACY+ACCURACY; see dyno npu",
    accepts: &[],
    resources: Resources::nothing,
    check: None,
    open: |request| {
        let npu = NpuSpec::read(request.spec, request.operand)?;
        let library = Numbers::new(request.run.samples_or_of_round(SAMPLES_DEFAULT));
        let remarks = npu.deployment.remarks.clone();
        let drive = Drive::Virtual(Box::new(npu));
        Ok(OpenedSystem { remarks, caution: Some(SIMULATED), ..OpenedSystem::new(drive, library) })
    },
};

const KEYS: [&str; 17] = [
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
    "npus",
    "balancer",
    "split",
    "apart",
    "version",
    "floor",
];

const PICOS_PER_NANO: Picos = 1_000;

/// A parsed and checked specification.
#[derive(Debug, Clone)]
pub struct NpuSpec {
    deployment: Deployment,
    npus: NpuSetup,
    batching: BatchingPolicy,
    seen: ObservationSlot,
}

/// The values of a specification before they are checked.
struct ParsedSpec<'a> {
    networks: Vec<&'a str>,
    limits: Vec<Nanos>,
    hardware: Hardware,
    changes: Changes,
    scheduler: String,
    options: LoweringOptions,
    npus: usize,
    balancer: Balancer,
    split: Vec<u64>,
    apart: PartitionPolicy,
    /// Versions of networks, such as `RN:8:75.9`.
    versions: Vec<&'a str>,
    floors: Vec<f64>,
    batching: BatchingPolicy,
}

impl NpuSpec {
    /// Parses the operand of `npu:`.
    ///
    /// # Errors
    /// An unknown key, an invalid value, or networks that do not fit the NPU.
    pub fn read(spec: &str, argument: &str) -> Result<Self, Failure> {
        let written = ParsedSpec::read(argument).map_err(|expected| {
            Failure::usage(format!("system `{spec}`: {expected}"))
                .hint("for example npu:networks=RN+BB,npu=chapter-v,mapping=kcp+1:128,seq=16,limit=15ms+130ms")
        })?;
        let (npu, mapping) = written.hardware.read()?;
        let mut tenants = Vec::new();
        let networks = written.changes.networks(&written.networks)?;
        for (at, network) in networks.into_iter().enumerate() {
            // A single limit applies to all networks.
            let limit = written.limits.get(at).or(written.limits.first());
            let limit = limit.map_or(Picos::MAX, |limit| limit.saturating_mul(PICOS_PER_NANO));
            tenants.push(Tenant { network, limit });
        }
        let scheduler: SchedulerSpec = written.scheduler.parse().map_err(Failure::usage)?;
        let plan = DeploymentPlan { npu, mapping, options: written.options, tenants, scheduler };
        let mut deployment = Deployment::new(&plan).map_err(Failure::usage)?;
        written.offer(&plan, &mut deployment)?;
        deployment.remarks = first_remarks(deployment.remarks);
        if written.versions.is_empty() {
            let remarks = unreachable_limits(&deployment);
            deployment.remarks.extend(remarks);
        }
        let npus = match &written.split[..] {
            [] => NpuSetup::Fleet { count: written.npus, balancer: written.balancer },
            proportion => {
                let parts = Partitions::new(&plan, proportion).map_err(Failure::usage)?;
                NpuSetup::Split(Box::new(parts), written.apart)
            }
        };
        Ok(Self { deployment, npus, batching: written.batching, seen: ObservationSlot::default() })
    }

    /// Returns the networks on the NPU.
    pub fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Takes the observations of its last system, which must be dropped.
    pub fn seen(&self) -> Option<NpuObservation> {
        self.seen.take()
    }
}

impl Simulation for NpuSpec {
    fn name(&self) -> &'static str {
        "a simulated NPU"
    }

    fn system(&self, _: &LoadPlan, _: u64, _: Option<WorkerPool>) -> Box<dyn SimulatedSystem> {
        let npus = self.npus.clone();
        let npu = NpuSystem::new(self.deployment.clone(), npus, self.batching);
        Box::new(npu.with_observation(self.seen.clone()))
    }

    fn npu(&self) -> Option<&NpuSpec> {
        Some(self)
    }
}

impl<'a> ParsedSpec<'a> {
    fn read(argument: &'a str) -> Result<Self, String> {
        let mut written = Self {
            networks: Vec::new(),
            limits: Vec::new(),
            hardware: Hardware::default(),
            changes: Changes::default(),
            scheduler: "balanced".to_owned(),
            options: LoweringOptions::default(),
            npus: 1,
            balancer: Balancer::LeastWork,
            split: Vec::new(),
            apart: PartitionPolicy::WhileShared,
            versions: Vec::new(),
            floors: Vec::new(),
            batching: BatchingPolicy { window: 0, active: 4, wake: Picos::MAX },
        };
        let mut before = "";
        let mut seen: Vec<&str> = Vec::new();
        for part in argument.split(',') {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("expected key=value, found `{part}`"))?;
            // Options of a scheduler are separated by commas, as keys are; no option has the name of a key.
            let has_options = before == "scheduler" && written.scheduler.contains(':');
            if has_options && !KEYS.contains(&key) {
                written.scheduler = format!("{},{part}", written.scheduler);
            } else {
                if key != "version" && seen.contains(&key) {
                    return Err(format!("`{key}` is given twice"));
                }
                written.set(key, value)?;
                before = key;
                seen.push(key);
            }
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
        let floors = written.floors.len();
        if floors > 1 && floors != written.networks.len() {
            return Err(format!(
                "expected a floor for each of {} networks, found {floors}",
                written.networks.len()
            ));
        }
        if !written.versions.is_empty() && floors == 0 {
            return Err("expected floor=ACCURACY, the minimum mean accuracy of the versions".into());
        }
        if !written.split.is_empty() && (written.npus > 1 || !written.versions.is_empty()) {
            return Err("`split` cannot be combined with `npus` or `version`".into());
        }
        if written.versions.is_empty() && floors > 0 {
            return Err("`floor` has no effect without `version`".into());
        }
        if written.split.is_empty() && seen.contains(&"apart") {
            return Err("`apart` has no effect without `split`".into());
        }
        Ok(written)
    }

    /// Adds the versions of each network to the deployment.
    fn offer(&self, plan: &DeploymentPlan, deployment: &mut Deployment) -> Result<(), Failure> {
        let mut known = 0;
        for (stream, name) in self.networks.iter().enumerate() {
            let mut offers = Vec::new();
            let own = self
                .versions
                .iter()
                .filter_map(|version| version.strip_prefix(name)?.strip_prefix(':'));
            for version in own {
                offers.push(self.version(&plan.tenants[stream].network, version)?);
            }
            known += offers.len();
            let floor = self.floors.get(stream).or(self.floors.first());
            if let (false, Some(&floor)) = (offers.is_empty(), floor) {
                deployment.offer(plan, stream, &offers, floor).map_err(Failure::usage)?;
            }
        }
        if known < self.versions.len() {
            Err(Failure::usage(format!(
                "a version belongs to none of the networks {}: {}",
                self.networks.join(", "),
                self.versions.join(", ")
            ))
            .hint("use version=NETWORK:BITS:ACCURACY, such as version=RN:8:75.9"))
        } else {
            Ok(())
        }
    }

    /// Parses a version: `BITS:ACCURACY`, or another network in place of bits.
    fn version(&self, network: &Network, text: &str) -> Result<VersionOffer, Failure> {
        let read = || {
            let (what, accuracy) = text.rsplit_once(':')?;
            Some((what, accuracy.parse::<f64>().ok().filter(|accuracy| accuracy.is_finite())?))
        };
        let (what, accuracy) = read().ok_or_else(|| {
            Failure::usage(format!("version `{text}`: expected BITS:ACCURACY or NETWORK:ACCURACY"))
                .hint("for example version=RN:8:75.9")
        })?;
        let (name, network) = match what.parse::<u32>() {
            Ok(bits) => {
                let network = network.in_bits(Some(bits), None).map_err(Failure::usage)?;
                (format!("{bits} bits"), network)
            }
            Err(_) => (what.to_owned(), self.changes.network_of_several(what)?),
        };
        Ok(VersionOffer { name, network, accuracy })
    }

    fn set(&mut self, key: &str, value: &'a str) -> Result<(), String> {
        let picos = || parse_duration(value).map(|ns| ns.saturating_mul(PICOS_PER_NANO));
        match key {
            "networks" => self.networks = value.split('+').collect(),
            "npu" => self.hardware.npu = value.to_owned(),
            "mapping" => self.hardware.mapping = value.to_owned(),
            "scheduler" => self.scheduler = value.to_owned(),
            "seq" => self.changes.seq = Some(at_least_one(key, value)?),
            "limit" => {
                self.limits = value.split('+').map(parse_bound).collect::<Result<_, _>>()?;
                if self.limits.contains(&0) {
                    return Err("expected latencies above 0 for `limit`".into());
                }
            }
            "batch" => self.options.batch = at_least_one(key, value)?,
            "window" => self.batching.window = picos()?,
            "active" => self.batching.active = small(at_least_one(key, value)?),
            "npus" => self.npus = small(at_most(MOST_NPUS, key, value)?),
            "balancer" => {
                let found = value.parse();
                self.balancer = found.map_err(|error: UnknownBalancer| error.to_string())?;
            }
            "split" => self.split = split(value)?,
            "apart" => {
                self.apart = match value {
                    "always" => PartitionPolicy::Always,
                    "shared" => PartitionPolicy::WhileShared,
                    _ => {
                        return Err(format!(
                            "expected always or shared for `apart`, found `{value}`"
                        ));
                    }
                };
            }
            "version" => self.versions.push(value),
            "floor" => {
                let floor = |text: &str| text.parse().ok().filter(|floor: &f64| floor.is_finite());
                let floors: Option<_> = value.split('+').map(floor).collect();
                self.floors = floors.ok_or_else(|| {
                    format!("expected accuracies for `floor`, such as 75.5+90, found `{value}`")
                })?;
            }
            "wake" => self.batching.wake = picos()?,
            "tile" => {
                let time = picos()?;
                if time == 0 {
                    return Err("expected a time above 0 for `tile`".into());
                }
                self.options.granularity = Granularity::Tile { bytes: u64::MAX, time };
            }
            _ => {
                let known = known_keys(key, KEYS.into_iter());
                return Err(format!("unknown key `{key}`; {known}"));
            }
        }
        Ok(())
    }
}

/// Returns a remark for each network that takes longer than its limit even if it is alone on the NPU.
fn unreachable_limits(deployment: &Deployment) -> Vec<String> {
    let of = |(name, served): (&String, &ServedNetwork)| {
        let fastest = served.passes.iter().map(|pass| pass.compute.max(pass.fetch)).min()?;
        let ms = |picos: Picos| picos as f64 / 1e9;
        (fastest > served.limit).then(|| {
            format!(
                "{name} takes at least {:.3} ms alone on the NPU: no request meets its limit of {:.3} ms",
                ms(fastest),
                ms(served.limit)
            )
        })
    };
    deployment.names.iter().zip(&deployment.served).filter_map(of).collect()
}

/// Upper bound on batches and similar numbers. Each batch has its own profile.
const MOST: u64 = 1 << 16;

/// Maximum number of NPUs. Each request examines all of them.
const MOST_NPUS: u64 = 1 << 10;

fn at_least_one(key: &str, value: &str) -> Result<u64, String> {
    at_most(MOST, key, value)
}

/// Parses numbers separated by `:`.
fn split(text: &str) -> Result<Vec<u64>, String> {
    let numbers: Option<Vec<u64>> = text.split(':').map(|part| part.parse().ok()).collect();
    numbers.ok_or_else(|| {
        format!("expected parts of the array for `split`, such as 3:5, found `{text}`")
    })
}

/// Parses a number from 1 to `most`.
fn at_most(most: u64, key: &str, value: &str) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("expected a number from 1 to {most} for `{key}`, found `{value}`"))
}

fn small(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(argument: &str) -> String {
        NpuSpec::read(&format!("npu:{argument}"), argument).unwrap_err().problems().join("\n")
    }

    #[test]
    fn versions_are_offered_to_the_networks_that_they_are_of() {
        let argument = "networks=RN+BB,seq=16,version=BB:8:90.1,version=BB:16:90.9,version=RN:MN:71.9,version=RN:16:76.1,floor=75+90";
        let spec = NpuSpec::read("npu", argument).expect("it reads");
        let server = spec.deployment.server(spec.batching);
        let of = |stream: usize| {
            let versions = server.versions(stream).expect("it has some");
            let all = versions
                .answers()
                .map(|(version, _)| (version.name.clone(), version.passes[0].fetch));
            all.collect::<Vec<_>>()
        };
        let (rn, bb) = (of(0), of(1));
        assert_eq!(
            [&*rn[0].0, &*rn[1].0, &*bb[0].0, &*bb[1].0],
            ["16 bits", "MN", "16 bits", "8 bits"]
        );
        // What is read of tables of words is places, whose bits stay.
        let half = bb[1].1 as f64 / bb[0].1 as f64;
        assert!((half - 0.5).abs() < 1e-3, "{half}");
        assert!(rn[1].1 < rn[0].1 / 5, "{rn:?}");
    }

    #[test]
    fn options_of_a_scheduler_stand_behind_it() {
        let argument =
            "networks=RN+BB,scheduler=layerweaver:ties=oldest,fetch=partial,seq=16,limit=15ms";
        let spec = NpuSpec::read("npu", argument).expect("it reads");
        assert_eq!(spec.deployment.limits.fetch, dyno_npu::machine::FetchStart::Partial);
        let expected =
            "`ties` must be one of memory-first, oldest, printed, memory-idle, found `first`";
        let found = problem("networks=RN,scheduler=layerweaver:fetch=partial,ties=first");
        assert!(found.contains(expected), "{found}");
        assert!(problem("networks=RN,scheduler=fifo,ties=oldest").contains("unknown key `ties`"));
        for scheduler in dyno_npu::schedule::SCHEDULERS {
            assert!(scheduler.options.iter().all(|option| !KEYS.contains(&option.key)));
        }
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

    /// ResNet-50 has 3.9e9 products, and 16,384 PEs at 700 MHz do 1.1e13 in a second.
    #[test]
    fn limits_that_no_request_meets_are_remarked() {
        let remarks = |argument: &str| {
            let spec = NpuSpec::read("npu", argument).expect("it reads");
            spec.deployment.remarks
        };
        let found = remarks("networks=RN,npu=memory-centric,limit=300us");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("RN takes at least ") && found[0].ends_with("of 0.300 ms"));
        assert!(remarks("networks=RN,npu=memory-centric,limit=15ms").is_empty());
        assert!(remarks("networks=RN,npu=memory-centric").is_empty());
    }

    #[test]
    fn what_does_not_read_is_told_with_what_is_near() {
        let cases = [
            ("network=RN", "unknown key `network`; the nearest key is `networks`"),
            ("networks=RN,scheduler=layerweave", "unknown scheduler `layerweave`"),
            ("networks=RM", "unknown network `RM`"),
            (
                "networks=RN+BB,limit=1ms+2ms+3ms",
                "expected a limit for each of 2 networks, found 3",
            ),
            ("npu=chapter-v", "expected networks=NAME+NAME"),
            ("networks=RN,npus=0", "expected a number from 1 to 1024 for `npus`, found `0`"),
            ("networks=RN,balancer=random", "unknown balancer `random`"),
            ("networks=RN,floor=x", "expected accuracies for `floor`"),
            ("networks=RN,version=RN:8:75", "expected floor=ACCURACY"),
            (
                "networks=RN,version=BB:8:75,floor=70",
                "a version belongs to none of the networks RN",
            ),
            ("networks=RN,version=RN:8,floor=70", "version `8`: expected BITS:ACCURACY"),
            ("networks=RN,version=RN:8:75,floor=76", "the most accurate has 75; lower the floor"),
            ("networks=RN,version=RN:80:75,floor=70", "bits"),
            ("networks=RN,split=1:1", "expected a part for each of 1 networks, found 2"),
            ("networks=RN+BB,split=1:0", "a part of the array"),
            ("networks=RN+BB,split=1:x", "expected parts of the array for `split`"),
            ("networks=RN+BB,split=1:1,npus=2", "`split` cannot be combined with `npus`"),
            ("networks=RN+BB,apart=never", "expected always or shared for `apart`"),
            ("networks=RN+BB,apart=always", "`apart` has no effect without `split`"),
            ("networks=RN,floor=70", "`floor` has no effect without `version`"),
            ("networks=RN,networks=BB", "`networks` is given twice"),
            ("networks=RN,limit=0s", "expected latencies above 0 for `limit`"),
            ("networks=RN,limit=15m", "write 15ms or 15min"),
            ("networks=RN,batch=0", "expected a number from 1 to 65536 for `batch`, found `0`"),
        ];
        for (argument, expected) in cases {
            let told = problem(argument);
            assert!(told.contains(expected), "{argument}: {told}");
        }
    }
}
