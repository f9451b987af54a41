//! A mix of two networks of one layer each, by hand.
//!
//! The NPU has one PE, computes a product per ps and fetches a byte per ps. In 16 bits, the first network fetches for
//! 80 ps and computes for 40 ps. The partner fetches for 20 ps and computes for 80 ps. Both take 80 ps alone. The
//! scheduler takes turns, so a pair of passes takes as long as its busier resource, and the STP is 160 ps over that time.

use super::*;
use crate::arithmetic::Arithmetic;
use crate::deploy::Tenant;
use crate::hardware::{Npu, NpuParameters};
use crate::lowering::LoweringOptions;
use crate::mapping::Mapping;

const HEAD: &str = "name,type,groups,m,cin_g,rs,cout_g,macs,weight_bytes,in_act_bytes,out_act_bytes,\
                    weights_scale_with_batch\n";

fn tenant(row: &str) -> Tenant {
    let network = Network::from_csv("one.csv", &format!("{HEAD}{row}\n")).expect("it is a table");
    Tenant { network, limit: Picos::MAX }
}

fn plan(arithmetic: Arithmetic) -> DeploymentPlan {
    const PER_PICO: u64 = 1_000_000_000_000;
    let parameters = NpuParameters {
        pes: 1,
        hertz: PER_PICO,
        bytes_per_second: PER_PICO,
        weight_buffer: 1_000,
        activation_buffer: None,
        switch: 0,
        energy: None,
        arithmetic,
    };
    DeploymentPlan {
        npu: Npu::new("by hand", parameters).expect("nothing is 0"),
        mapping: Mapping::Peak,
        options: LoweringOptions::default(),
        tenants: vec![
            tenant("fc,fc,1,1,10,1,4,40,80,20,8,0"),
            tenant("other,fc,1,8,10,1,1,80,20,160,16,0"),
        ],
        scheduler: "round-robin".parse().expect("it is a scheduler"),
    }
}

#[track_caller]
fn check(arithmetic: Arithmetic, bits: [u32; 2], time_of_pair: f64) {
    let mix = Mix::new(plan(arithmetic), 1_000).expect("it fits");
    let found = mix.play([("fc", bits)]).expect("it has the layer");
    let expected = 160.0 / time_of_pair;
    let stp = found.stp;
    assert!(
        (stp / expected - 1.0).abs() < 2e-3,
        "{arithmetic:?} {bits:?}: {stp}, expected {expected}"
    );
    assert!((found.rates[0] - found.rates[1]).abs() < 2e-3, "they take turns: {found:?}");
}

#[test]
fn a_pair_takes_as_long_as_its_busier_resource() {
    // Fetches of 80 + 20 ps, computations of 40 + 80 ps. The memory gains nothing from fewer bits.
    check(Arithmetic::Fixed, [16, 16], 120.0);
    check(Arithmetic::Fixed, [4, 4], 120.0);
    // In 32 bits, fetches take 160 + 20 ps.
    check(Arithmetic::Fixed, [32, 32], 180.0);
    // Both operands must have 8 bits: 20 + 80 ps.
    check(Arithmetic::Packed, [8, 16], 120.0);
    check(Arithmetic::Packed, [8, 5], 100.0);
    // The input alone counts: 10 + 80 ps, but fetches of 80 + 20 ps are longer; of 20 + 20 ps, shorter.
    check(Arithmetic::BitSerial, [16, 4], 100.0);
    check(Arithmetic::BitSerial, [4, 4], 90.0);
}

#[test]
fn in_the_bits_of_the_plan_the_stp_is_that_of_streams() {
    let plan = plan(Arithmetic::Packed);
    let deployment = Deployment::for_streams(&plan).expect("it fits");
    let passes = deployment.largest();
    let mix = Mix::new(plan, 50).expect("it fits");
    let scheduler = &mut deployment.scheduler();
    let streams = simulate(&passes, deployment.limits, scheduler.as_mut(), mix.duration());
    let found = mix.play([]).expect("nothing is changed");
    assert_eq!(found.stp, streams.stp(&passes));
    assert_eq!(found, mix.play([("fc", [16, 16])]).expect("it has the layer"));
    assert_eq!((mix.names().len(), mix.passes()[0].alone, mix.duration()), (2, 80, 50 * 80));
}

/// Serves 100 requests to each network, one each at a time, 1000 ps apart.
fn serve(bits: [u32; 2], limit: Picos) -> [ServiceResult; 2] {
    let mut plan = plan(Arithmetic::Packed);
    plan.scheduler = "fifo".parse().expect("it is a scheduler");
    plan.tenants.iter_mut().for_each(|tenant| tenant.limit = limit);
    let mix = Mix::new(plan, 10).expect("it fits");
    let arrivals = (0..100).flat_map(|at| [(1_000 * at, 0), (1_000 * at, 1)]).collect();
    let batching = BatchingPolicy { window: 0, active: 4, wake: Picos::MAX };
    let load = MixLoad { arrivals, batching };
    mix.serve([("fc", bits)], &load).expect("it has the layer").try_into().expect("two networks")
}

#[test]
fn latencies_are_those_of_a_fetch_and_the_computations_before() {
    // Fetched for 80 ps, computed for 40; the other is fetched meanwhile, and is computed for 80 after that.
    let expected = |late: [f64; 2], p99: [f64; 2]| {
        [0, 1].map(|at| ServiceResult { late: late[at], p99: p99[at] })
    };
    assert_eq!(serve([16, 16], 200), expected([0.0, 0.0], [0.6, 1.0]));
    assert_eq!(serve([16, 16], 160), expected([0.0, 1.0], [0.75, 1.25]));
    // In 8 bits, 40 and 20 ps; the other ends at 40 + 20 + 80 ps.
    assert_eq!(serve([8, 8], 160), expected([0.0, 0.0], [60.0 / 160.0, 140.0 / 160.0]));
    // Without a limit nothing is late.
    assert_eq!(serve([8, 8], Picos::MAX), expected([0.0, 0.0], [0.0, 0.0]));
}

#[test]
fn the_percentile_is_that_of_the_nearest_rank() {
    let result = |count: u64| ServiceResult::new(&mut (1..=count).rev().collect::<Vec<_>>(), 100);
    assert_eq!(result(0), ServiceResult { late: 0.0, p99: 0.0 });
    assert_eq!(result(1), ServiceResult { late: 0.0, p99: 0.01 });
    assert_eq!(result(200), ServiceResult { late: 0.5, p99: 1.98 });
}

#[test]
fn what_cannot_be_simulated_is_an_error() {
    let mix = Mix::new(plan(Arithmetic::Fixed), 10).expect("it fits");
    let error = |bits| mix.play(bits).expect_err("it is none").to_string();
    assert!(error([("fb", [8, 8])]).contains("unknown layer `fb`; the nearest is `fc`"));
    assert!(error([("fc", [0, 8])]).contains("expected 1 to 64 bits, found 0"));
    let long =
        Mix::new(plan(Arithmetic::Fixed), 10_000_000).expect_err("it takes a second").to_string();
    assert!(long.starts_with("10000000 passes of the slowest network are 2e7 blocks"), "{long}");
    let empty = DeploymentPlan { tenants: Vec::new(), ..plan(Arithmetic::Fixed) };
    assert_eq!(Mix::new(empty, 1).unwrap_err(), MixError::Deploy(DeployError::NoNetworks));
}
