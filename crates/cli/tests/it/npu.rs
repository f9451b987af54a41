//! Networks on a model of accelerators, from the command line.

use crate::program::Folder;

#[test]
fn layers_of_a_network_add_up() {
    let folder = Folder::new();
    let told = folder.dyno("npu layers RN --json").json();
    let layers = told["layers"].as_array().unwrap();
    assert_eq!((layers.len(), told["blocks"].as_u64()), (54, Some(54)));
    let sum = |key: &str| layers.iter().map(|layer| layer[key].as_f64().unwrap()).sum::<f64>();
    // The thesis' memory-centric NPU under MAESTRO's mapping: 1.696 ms.
    assert!((told["compute_us"].as_f64().unwrap() - 1696.0).abs() < 1.0, "{told}");
    assert!((told["compute_us"].as_f64().unwrap() - sum("compute_us")).abs() < 1e-3);
    assert!((told["fetch_us"].as_f64().unwrap() - sum("fetch_us")).abs() < 1e-3);
    assert_eq!(told["waits_for"], "compute");
}

/// A network with 73 layers that are larger than the weight buffer has no line for each of them.
#[test]
fn split_layers_are_named_in_a_few_lines() {
    let folder = Folder::new();
    let table = folder.dyno("npu layers BB --weight-buffer-mb 1").stdout;
    assert_eq!(table.matches("split: ").count(), 5, "{table}");
    assert!(table.contains("and 68 more such remarks"), "{table}");
    let told = folder.dyno("npu layers BB --weight-buffer-mb 1 --json").json();
    assert_eq!(told["split"].as_array().unwrap().len(), 73);
    let ran = folder.dyno("npu run BB --weight-buffer-mb 1 --passes 2");
    assert_eq!(ran.stderr.lines().count(), 6, "{}", ran.stderr);
}

#[test]
fn a_table_that_was_printed_is_read_again() {
    let folder = Folder::new();
    folder.write("bert.csv", &folder.dyno("npu layers BB --seq 16 --weight-bits 8 --csv").stdout);
    let times = |command: &str| folder.dyno(command).stdout;
    let direct = times("npu layers BB --seq 16 --weight-bits 8 --batch 4 --times");
    assert_eq!(times("npu layers bert.csv --batch 4 --times"), direct);
    // Its head, and 75 units.
    assert_eq!(direct.lines().count(), 76);
}

/// Both phases of a decoder begin with the same letters.
#[test]
fn columns_have_the_names_of_their_networks() {
    let folder = Folder::new();
    let ran = folder.dyno("npu run gptj-6b-prefill gptj-6b-decode --seq 16 --passes 2").exits(0);
    let head = ran.stdout.lines().next().unwrap();
    assert!(head.ends_with(" gptj-6b-prefill gptj-6b-decode"), "{}", ran.stdout);
    let row = ran.stdout.lines().nth(1).unwrap();
    assert_eq!(row.chars().count(), head.chars().count(), "{}", ran.stdout);
}

#[test]
fn an_npu_may_be_described() {
    let folder = Folder::new();
    folder.write("half.toml", "base = \"memory-centric\"\nmemory_gb_per_s = 112.5\n");
    let fetched = |npu: &str| {
        let told = folder.dyno(&format!("npu layers RN --npu {npu} --json")).json();
        told["fetch_us"].as_f64().unwrap()
    };
    let ratio = fetched("half.toml") / fetched("memory-centric");
    assert!((ratio - 2.0).abs() < 1e-3, "{ratio}");
}

#[test]
fn what_makes_no_sense_is_told_with_its_place() {
    let folder = Folder::new();
    folder.write("npu.toml", "base = \"tpu-v1\"\n\npess = 3\n");
    folder.write("bad.csv", "name,type,groups\nconv1,conv,-1\n");
    for (command, expected) in [
        ("RN --npu npu.toml", "npu.toml: line 3: `pess`: unknown key; the nearest is `pes`"),
        ("bad.csv", "bad.csv:1: `macs`: is missing"),
        ("RM", "unknown network `RM`; the nearest is `RN`"),
        ("RN --mapping kpc", "unknown mapping `kpc`"),
        ("RN --batch 0", "batch of 0 samples"),
        ("RN --seq 3", "network `RN` has no sequence length"),
    ] {
        let ran = folder.dyno(&format!("npu layers {command}"));
        assert_eq!(ran.code, Some(2), "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{command}: {}", ran.stderr);
    }
}

/// Also of several networks, of which each may leave out what it has not.
#[test]
fn what_applies_to_no_network_is_rejected() {
    let folder = Folder::new();
    for (command, expected) in [
        ("run RN RN --seq 5", "seq 5 has no effect: RN, RN has no sequences"),
        ("explain RN --seq 5", "seq 5 has no effect"),
        ("sweep RN MN --seq 5 --rows batch=1,2", "seq 5 has no effect"),
        ("sweep RN MN --rows seq=5,6", "seq 5 has no effect"),
        ("run RN BB --bind foo=7", "bind foo=7 has no effect: RN, BB has no dynamic dimension"),
        ("layers RN --bind foo=7", "bind foo=7 has no effect"),
        ("run resnet50 --bind foo=7", "bind foo=7 has no effect"),
        ("explain RN BB --mac-pj 1", "--mac-pj has no effect: dyno npu explain computes no energy"),
        ("explain RN BB --static-w 1", "--static-w has no effect"),
    ] {
        let ran = folder.dyno(&format!("npu {command}")).exits(2);
        assert!(ran.stderr.contains(expected), "{command}: {}", ran.stderr);
    }
    let system = "run --system npu:networks=RN+MN,seq=5 --scenario offline --out out";
    let ran = folder.dyno(system).exits(2);
    assert!(ran.stderr.contains("seq 5 has no effect"), "{}", ran.stderr);
    folder.dyno("npu run RN BB --seq 8 --passes 5").exits(0);
    // Of these points, the first has no sequences.
    folder.dyno("npu sweep --rows networks=RN+MN,RN+BB --seq 8 --passes 5").exits(0);
}

/// A pass of one network: its MACs at 2 pJ, and its bytes at 100 pJ, whatever the scheduler.
#[test]
fn energy_of_a_run_is_that_of_its_passes() {
    let folder = Folder::new();
    let run = "npu run RN RN --scheduler fair --passes 50";
    let figures = "--mac-pj 2 --memory-byte-pj 100";
    let layers = folder.dyno(&format!("npu layers RN {figures} --json")).json();
    let expected = 1e3 * layers["joules"].as_f64().unwrap();
    let told = folder.dyno(&format!("{run} {figures} --json")).exits(0).json();
    let found = told["schedulers"][0]["energy"].as_f64().unwrap();
    // The last passes are incomplete.
    assert!((found / expected - 1.0).abs() < 0.05, "{found} mJ, {expected} mJ of one pass");
    let text = folder.dyno(&format!("{run} {figures}")).stdout;
    assert!(text.contains("energy, fair: ") && text.contains("mJ per pass"), "{text}");
    assert!(!folder.dyno(run).stdout.contains("energy"));
}

#[test]
fn bits_change_computation_where_the_arithmetic_says_so() {
    let folder = Folder::new();
    let computed = |flags: &str| {
        let told = folder
            .dyno(&format!("npu layers RN --weight-bits 8 --activation-bits 8 {flags} --json"));
        told.exits(0).json()["compute_us"].as_f64().unwrap()
    };
    let (fixed, packed) = (computed(""), computed("--arithmetic packed"));
    assert!((packed / fixed - 0.5).abs() < 1e-3, "{packed} of {fixed} us");
    let ran = folder.dyno("npu layers RN --arithmetic serial").exits(2);
    assert!(ran.stderr.contains("expected one of fixed, packed, bit-serial"), "{}", ran.stderr);
}

#[test]
fn readings_of_a_paper_are_options_of_a_scheduler() {
    let folder = Folder::new();
    let setting = "RN BB --seq 16 --mapping kcpx+1:128 --passes 20";
    let told = folder
        .dyno(&format!("npu run {setting} --scheduler fair,layerweaver:ties=oldest,fetch=partial,balanced --json"))
        .exits(0)
        .json();
    let names: Vec<_> =
        told["schedulers"].as_array().unwrap().iter().map(|one| &one["scheduler"]).collect();
    assert_eq!(names, ["fair", "layerweaver:ties=oldest,fetch=partial", "balanced"]);
    let swept = folder
        .dyno(&format!("npu sweep {setting} --rows scheduler=layerweaver,layerweaver:ties=printed,fetch=partial --json"))
        .exits(0);
    assert!(swept.stdout.contains("layerweaver:ties=printed,fetch=partial"), "{}", swept.stdout);
    for (command, expected) in [
        (
            "run RN BB --scheduler layerweaver:ties=first",
            "must be one of memory-first, oldest, printed",
        ),
        ("run RN BB --scheduler layerweaver:tie=oldest", "the nearest is `ties`"),
        ("explain RN BB --scheduler ai-mt:merge=no", "`merge` must be one of on, off, found `no`"),
    ] {
        let ran = folder.dyno(&format!("npu {command}"));
        assert!(ran.code != Some(0) && ran.stderr.contains(expected), "{command}: {}", ran.stderr);
    }
}

#[test]
fn networks_share_an_npu_and_both_resources_are_drawn() {
    let folder = Folder::new();
    let told = folder
        .dyno(
            "npu run IC BB --seq 16 --mapping kcpx+1:128 --passes 50 --scheduler fair,layerweaver,balanced \
             --timeline t.svg --trace t.json --json",
        )
        .json();
    let stp = |at: usize| told["schedulers"][at]["stp"].as_f64().unwrap();
    let bound = told["schedulers"][0]["stp_bound"].as_f64().unwrap();
    assert!(stp(0) < 1.2 && 1.4 < stp(1) && stp(1) < stp(2) && stp(2) <= bound, "{told}");
    assert!(stp(2) > 0.99 * bound, "ours is at the bound of both resources: {told}");
    assert!(folder.read("t.svg").contains("<title>BB l0_q"));
    let trace: serde_json::Value = serde_json::from_str(&folder.read("t.json")).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 200);
    let whole = folder.dyno("npu run RN BB --seq 16 --mapping kcpx+1:128 --passes 20").stdout;
    assert!(whole.contains("without splitting blocks"), "{whole}");
}

#[test]
fn times_that_were_measured_are_played_in_place_of_layers() {
    let folder = Folder::new();
    let setting = "--mapping kcpx+1:128";
    let times = folder.dyno(&format!("npu layers BB --seq 16 {setting} --times"));
    folder.write("bb.csv", &times.stdout);
    let stp = |networks: &str| {
        let command =
            format!("npu run {networks} {setting} --passes 20 --scheduler balanced --json");
        folder.dyno(&command).exits(0).json()["schedulers"][0]["stp"].as_f64().unwrap()
    };
    // A model's times read as measured ones are the model.
    assert_eq!(stp("RN bb.csv"), stp("RN BB --seq 16"));
    folder.write("still.csv", "name,compute_us,fetch_us,bytes\na,0,0,0\n");
    folder.write("tiny.csv", "name,compute_us,fetch_us,bytes\na,0.000001,0,0\n");
    for (command, expected) in [
        ("layers bb.csv", "bb.csv contains measured times, not layers"),
        ("run RN bb.csv --batch 4", "`bb.csv` contains measured times, which have a fixed batch"),
        ("run RN bb.csv --weight-bits 8", "so its number of bits cannot be changed"),
        ("run RN tiny.csv", "in which the fastest network could run more than 1e9 blocks"),
        ("explain RN tiny.csv", "too many for such short blocks"),
        ("run RN still.csv", "no layer of network `still.csv` takes any time"),
        ("run RN bb.csv --spatial", "`bb.csv` contains times measured on a whole array"),
    ] {
        let ran = folder.dyno(&format!("npu {command}")).exits(2);
        assert!(ran.stderr.contains(expected), "{command}: {}", ran.stderr);
    }
}

/// Bounds are those of the rates that stand beside them, and of the times that were measured.
#[test]
fn bounds_are_those_of_the_rates_in_the_table() {
    let folder = Folder::new();
    // 0.2 bytes a nanosecond, whatever the memory of the NPU could transfer.
    folder.write("a.csv", "name,compute_us,fetch_us,bytes\nl,20,10,2000\n");
    folder.write("b.csv", "name,compute_us,fetch_us,bytes\nl,1,20,4000\n");
    let command = "npu run a.csv b.csv --weight-buffer-mb 0.01 --scheduler all --json";
    let told = folder.dyno(command).exits(0).json();
    for scheduler in told["schedulers"].as_array().unwrap() {
        let number = |key: &str| scheduler[key].as_f64().unwrap();
        assert!(number("stp") <= number("stp_bound_of_blocks") + 1e-9, "{scheduler}");
        assert!(number("stp_bound_of_blocks") <= number("stp_bound"), "{scheduler}");
    }
    // With two blocks in the buffer, a network alone is slower, so that shares of its rate are larger.
    let both = "npu run RN BB --seq 16 --mapping kcpx+1:128 --passes 20 --scheduler ";
    let told = folder.dyno(&format!("{both}fair,double-buffer")).exits(0).stdout;
    assert!(
        told.contains("double-buffer: its rates are relative to those alone under it"),
        "{told}"
    );
    let told = folder.dyno(&format!("{both}fair,balanced")).exits(0).stdout;
    assert!(!told.contains("its rates are relative"), "{told}");
}

#[test]
fn an_npu_is_a_system_with_a_network_for_each_tenant() {
    let folder = Folder::new();
    let tenant = |name: &str, qps: u32, limit: &str| {
        format!(
            "[[tenants]]\nname = \"{name}\"\n[tenants.settings]\nserver_target_qps = {qps}\n\
             server_target_latency_ns = \"{limit}\"\n"
        )
    };
    let run = "version = 1\n[run]\nsystem = \"npu:networks=MN+BB,npu=chapter-v,mapping=kcp+1:128,seq=16,limit=15ms+130ms,\
               batch=4,wake=500us,scheduler=SCHEDULER\"\nscenario = \"Server\"\nmode = \"performance\"\nduration = \"10s\"\n";
    let (a, b) = (tenant("MN", 1500, "15ms"), tenant("BB", 200, "130ms"));
    folder.write("dyno.toml", &format!("{run}{a}{b}").replace("SCHEDULER", "balanced"));
    let told = folder.dyno("run --config dyno.toml --json --out out").json();
    assert_eq!((&told["verdict"], &told["time"]), (&"VALID".into(), &"virtual".into()), "{told}");
    let wrong = folder.dyno("run --system npu:networks=RN,schedulers=fifo --out wrong");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("the nearest key is `scheduler`"), "{}", wrong.stderr);
}

#[test]
fn a_decision_is_explained_by_what_each_candidate_lets_stand_still() {
    let folder = Folder::new();
    let command = "npu explain RN BB --seq 16 --mapping kcpx+1:128 --from 2 --decisions 30";
    let told = folder.dyno(&format!("{command} --json")).json();
    let decisions = told["decisions"].as_array().unwrap();
    assert_eq!((decisions.len(), &decisions[0]["number"]), (30, &2.into()));
    let idle = |candidate: &serde_json::Value| {
        candidate["pe_idle_us"].as_f64().unwrap() + candidate["memory_idle_us"].as_f64().unwrap()
    };
    let mut taken_for_it = 0;
    for decision in decisions {
        let candidates = decision["candidates"].as_array().unwrap();
        let taken = &candidates[decision["taken"].as_u64().unwrap() as usize];
        if decision["why"] == "least idle time" {
            taken_for_it += 1;
            assert!(candidates.iter().all(|other| idle(taken) <= idle(other)), "{decision}");
        }
    }
    assert!(taken_for_it > 0, "{told}");
    let text = folder.dyno(command).stdout;
    assert_eq!(text.matches("\n> ").count(), 30, "{text}");
    assert!(text.contains("decision 31 at "), "{text}");
    assert_eq!(folder.dyno("npu explain RN --decisions 0").code, Some(2));
}

/// Layerweaver compares only the work of blocks, which is equal in both streams of a network.
#[test]
fn decisions_between_streams_of_one_network_alternate() {
    let folder = Folder::new();
    folder.write("compute.csv", "name,compute_us,fetch_us,bytes\na,10,1,1000\n");
    folder.write("memory.csv", "name,compute_us,fetch_us,bytes\nb,1,10,1000\n");
    let command = "npu explain compute.csv memory.csv memory.csv --decisions 40 --json";
    let explained = folder.dyno(command).exits(0).json();
    let decisions = explained["decisions"].as_array().unwrap();
    let taken = decisions.iter().map(|decision| decision["taken"].as_u64().unwrap());
    let memory: Vec<u64> = taken.filter(|stream| *stream > 0).collect();
    assert!(memory.len() > 10, "{memory:?}");
    let mut in_turn = memory.iter().zip([1, 2].into_iter().cycle());
    assert!(in_turn.all(|(found, expected)| *found == expected), "{memory:?}");
}
