//! Scenarios of the tuner: the network is one of several that share an NPU. The objective is the throughput of all of
//! them, or the latency of their requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use dyno_loadgen::rng::{GOLDEN_RATIO, Mt19937, mix};
use dyno_loadgen::settings::similar;
use dyno_npu::mix::{Mix, MixError, MixLoad, MixResult, ServiceResult};
use dyno_npu::pass::Pass;
use dyno_npu::profile::Picos;
use dyno_npu::workload::Network as NpuNetwork;
use dyno_number::network::Layer;
use dyno_number::{BitsFunction, LayerBits, Network, Objective};
use serde_json::{Value, json};

use super::closed::sha256;
use crate::Failure;

/// What a scenario minimizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioGoal {
    /// The inverse of the system throughput (STP).
    Throughput,
    /// The 99th percentile of the latencies of the network that is closest to its limit, divided by this limit.
    Latency,
}

/// A tuned network on an NPU that it shares.
#[derive(Debug)]
pub struct Scenario {
    mix: Mix,
    goal: ScenarioGoal,
    load: Option<MixLoad>,
    layers: Vec<ScenarioLayer>,
    sizes: Vec<[u64; 2]>,
    figures: Mutex<HashMap<Vec<LayerBits>, ScenarioFigures>>,
}

/// A tuned layer with the layers of the NPU's network that share its formats.
#[derive(Debug)]
struct ScenarioLayer {
    /// Name of each, with its own bits for weights and inputs that have no format.
    parts: Vec<(String, [Option<u32>; 2])>,
}

/// Figures of a configuration in a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioFigures {
    /// Throughput with streams that never run dry. Its numbers have four decimals.
    pub throughput: MixResult,
    /// Result of each network under the scenario's requests; empty if it has none.
    pub service: Vec<ServiceResult>,
}

impl ScenarioFigures {
    /// Returns the largest p99 of all networks, divided by its limit.
    pub fn worst(&self) -> f64 {
        self.service.iter().map(|service| service.p99).fold(0.0, f64::max)
    }
}

/// Objective values have four decimals; below them, fewer bits decide between equal values. All bits of FLOAT 32 together
/// count as much as this.
const TIE: f64 = 1e-7;
/// Steps of an objective value.
const STEPS: f64 = 1e4;

fn rounded(value: f64) -> f64 {
    (value * STEPS).round() / STEPS
}

impl Scenario {
    /// Creates the scenario in which `network` is the first network of `mix`. The goal `Latency` needs requests.
    ///
    /// # Errors
    /// Layers that the first network of the mix lacks, or that cannot be simulated in FLOAT 32.
    pub fn new(
        network: &Network,
        mix: Mix,
        goal: ScenarioGoal,
        load: Option<MixLoad>,
    ) -> Result<Self, Failure> {
        let found: Vec<_> =
            network.layers.iter().map(|layer| ScenarioLayer::new(layer, mix.network())).collect();
        let unknown: Vec<String> =
            found.iter().flat_map(|layer| layer.as_ref().err()).flatten().cloned().collect();
        if !unknown.is_empty() {
            return Err(Failure::usages(unknown).hint(format!(
                "`dyno npu layers {}` prints the names of its layers; use them in `layer_name`",
                mix.network().name
            )));
        }
        let sizes = network.layers.iter().map(|layer| [layer.weight_size, layer.activation_size]);
        let scenario = Self {
            sizes: sizes.collect(),
            layers: found.into_iter().flatten().collect(),
            mix,
            goal,
            load,
            figures: Mutex::default(),
        };
        // No format has more bits.
        let whole = LayerBits { weight: 32, activation: 32 };
        let widest = vec![whole; scenario.layers.len()];
        scenario.simulated(|| scenario.bits(&widest)).map_err(Failure::usage)?;
        Ok(scenario)
    }

    /// Returns the networks on the NPU. The first one is tuned.
    pub fn mix(&self) -> &Mix {
        &self.mix
    }

    /// Returns what the scenario minimizes.
    pub fn goal(&self) -> ScenarioGoal {
        self.goal
    }

    /// Returns what the figures depend on, for a journal.
    pub fn about(&self) -> Value {
        let network = |(name, pass): (&String, &Arc<Pass>)| {
            let blocks = sha256(format!("{:?}", pass.blocks).as_bytes());
            json!({"name": name, "alone_ps": pass.alone, "blocks_sha256": blocks})
        };
        let networks: Vec<Value> =
            self.mix.names().iter().zip(self.mix.passes()).map(network).collect();
        let first = self.mix.plan();
        let mut about = json!({
            "networks": networks,
            "npu": first.npu.name(),
            "parameters": format!("{:?}", first.npu.parameters()),
            "options": format!("{:?}", first.options),
            "mapping": first.mapping.to_string(),
            "scheduler": first.scheduler.to_string(),
            "duration_ps": self.mix.duration(),
        });
        if let Some(load) = &self.load {
            about["requests"] = about_requests(&load.arrivals);
            about["batching"] = format!("{:?}", load.batching).into();
            about["limits_ps"] = self.mix.limits().into();
        }
        about
    }

    /// Returns the bits of the layers of the NPU's network.
    fn bits<'a>(&'a self, bits: &'a [LayerBits]) -> impl Iterator<Item = (&'a str, [u32; 2])> {
        self.layers.iter().zip(bits).flat_map(|(layer, bits)| {
            layer.parts.iter().map(|(name, [weight, input])| {
                (name.as_str(), [weight.unwrap_or(bits.weight), input.unwrap_or(bits.activation)])
            })
        })
    }

    /// Returns the figures of layers with these bits. Equal bits are simulated once.
    ///
    /// # Panics
    /// There are more bits than in FLOAT 32.
    pub fn figures(&self, bits: &[LayerBits]) -> ScenarioFigures {
        let mut known = self.figures.lock().expect("no thread panics while it holds it");
        if let Some(found) = known.get(bits) {
            return found.clone();
        }
        let found = self.simulated(|| self.bits(bits));
        let found = found.expect("FLOAT 32 was simulated, and narrower formats fit as well");
        known.insert(bits.to_vec(), found.clone());
        found
    }

    /// Returns the figures of the network in the bits of its table. The STP is that of `dyno npu run`.
    ///
    /// # Panics
    /// Never: the mix was simulated before.
    pub fn untuned(&self) -> ScenarioFigures {
        self.simulated(std::iter::empty).expect("the plan was deployed")
    }

    fn simulated<'a, B: Iterator<Item = (&'a str, [u32; 2])>>(
        &self,
        bits: impl Fn() -> B,
    ) -> Result<ScenarioFigures, MixError> {
        let MixResult { stp, rates, busy } = self.mix.play(bits())?;
        let rates = rates.into_iter().map(rounded).collect();
        let throughput = MixResult { stp: rounded(stp), rates, busy };
        let service = match &self.load {
            Some(load) => self.mix.serve(bits(), load)?,
            None => Vec::new(),
        };
        Ok(ScenarioFigures { throughput, service })
    }

    /// Returns the value that the tuner minimizes.
    fn value(&self, bits: &[LayerBits]) -> f64 {
        let figures = self.figures(bits);
        let value = match self.goal {
            ScenarioGoal::Throughput => 1.0 / figures.throughput.stp.max(1.0 / STEPS),
            ScenarioGoal::Latency => rounded(figures.worst()).max(1.0 / STEPS),
        };
        let total = |of: &dyn Fn(&LayerBits) -> [u32; 2]| -> f64 {
            let each = bits.iter().zip(&self.sizes).map(|(bits, sizes)| {
                let [weight, activation] = of(bits).map(f64::from);
                weight * sizes[0] as f64 + activation * sizes[1] as f64
            });
            each.sum()
        };
        let share = total(&|bits| [bits.weight, bits.activation]) / total(&|_| [32, 32]).max(1.0);
        value + TIE * share
    }

    /// Returns the objective of the scenario.
    pub fn objective(self: &Arc<Self>) -> Objective {
        let scenario = Arc::clone(self);
        let (name, unit, text): (_, _, fn(f64) -> String) = match self.goal {
            ScenarioGoal::Throughput => {
                ("stp", "1/STP", |value| format!("STP {:.3}", rounded(1.0 / value)))
            }
            ScenarioGoal::Latency => ("qos", "p99/limit", |value| {
                format!("p99 {:.1} % of the limit", 100.0 * rounded(value))
            }),
        };
        let value = Arc::new(move |bits: &[LayerBits]| scenario.value(bits));
        Objective::Function(BitsFunction { name: name.into(), unit, value, text })
    }
}

impl ScenarioLayer {
    /// Returns the layers of `npu` that have the formats of `layer`, or a sentence for each that is missing.
    fn new(layer: &Layer, npu: &NpuNetwork) -> Result<Self, Vec<String>> {
        let mut unknown = Vec::new();
        let mut parts = Vec::new();
        for part in &layer.parts {
            let Some(found) = npu.layers.iter().find(|other| other.name == *part) else {
                let names = npu.layers.iter().map(|other| other.name.as_str());
                let near = similar(part, names);
                let near =
                    near.map_or_else(String::new, |near| format!("; the nearest is `{near}`"));
                unknown
                    .push(format!("layer `{part}` is not a layer of network `{}`{near}", npu.name));
                continue;
            };
            let count = npu.layers.iter().filter(|other| other.name == *part).count();
            if count > 1 {
                unknown.push(format!(
                    "network `{}` has {count} layers of the name `{part}`; give each its own",
                    npu.name
                ));
            }
            let [weight, input, _] = found.bits;
            let own = |size: u64, bits| (size == 0).then_some(bits);
            let bits = [own(layer.weight_size, weight), own(layer.activation_size, input)];
            parts.push((found.name.clone(), bits));
        }
        if unknown.is_empty() { Ok(Self { parts }) } else { Err(unknown) }
    }
}

/// Returns the number of requests, and a hash of their times and networks.
fn about_requests(arrivals: &[(Picos, usize)]) -> Value {
    let lines: String = arrivals.iter().map(|(at, network)| format!("{at} {network}\n")).collect();
    json!({"count": arrivals.len(), "sha256": sha256(lines.as_bytes())})
}

/// Returns requests that arrive at random (Poisson) at these rates per second, one rate for each network. No two
/// networks have the same arrivals, not even with neighboring seeds.
pub fn arrivals(rates: &[f64], duration: Picos, seed: u64) -> Vec<(Picos, usize)> {
    const PICOS_PER_SECOND: f64 = 1e12;
    let mut all = Vec::new();
    for (network, rate) in rates.iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
        let own = seed.wrapping_add((network as u64).wrapping_mul(GOLDEN_RATIO));
        let mut random = Mt19937::new(mix(own));
        let mut at = random.exponential(*rate) * PICOS_PER_SECOND;
        while at < duration as f64 {
            all.push((at as Picos, network));
            at += random.exponential(*rate) * PICOS_PER_SECOND;
        }
    }
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// With the seed plus the number of the network, network 1 had the arrivals of network 0 with the next seed.
    #[test]
    fn networks_share_no_arrivals_with_those_of_neighboring_seeds() {
        let second = 1_000_000_000_000;
        let mut seen = BTreeSet::new();
        for seed in 0..4 {
            let requests = arrivals(&[500.0; 3], second, seed);
            // 1,500 expected, and five standard deviations of 39.
            assert!((1_300..1_700).contains(&requests.len()), "{}", requests.len());
            assert!(requests.iter().all(|(at, _)| seen.insert(*at)), "seed {seed}");
        }
    }

    /// Another seed or other rates are another job, even with as many requests.
    #[test]
    fn requests_are_described_by_their_times_and_networks() {
        let first = about_requests(&[(5, 0), (9, 1)]);
        assert_eq!(first["count"], 2);
        assert_eq!(first, about_requests(&[(5, 0), (9, 1)]));
        for other in [[(5, 0), (8, 1)], [(5, 1), (9, 1)]] {
            assert_ne!(first, about_requests(&other));
        }
    }
}
