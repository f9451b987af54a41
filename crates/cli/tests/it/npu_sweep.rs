//! Grids of settings under which networks share an NPU, from the command line.

use serde_json::Value;

use crate::program::Folder;

const SMALL: &str = "npu sweep IC BB --mapping kcpx+1:128 --passes 20";

fn points(told: &Value) -> &Vec<Value> {
    told["points"].as_array().unwrap()
}

#[test]
fn a_point_is_what_the_run_with_its_settings_has() {
    let folder = Folder::new();
    let told = folder
        .dyno(&format!("{SMALL} --rows seq=16,64 --columns batch=1,2 --json --no-progress"))
        .json();
    assert_eq!(points(&told).len(), 4);
    for point in points(&told) {
        let (seq, batch) = (&point["at"]["seq"], &point["at"]["batch"]);
        let run = folder
            .dyno(&format!(
                "npu run IC BB --mapping kcpx+1:128 --passes 20 --seq {} --batch {} --scheduler fair,balanced --json",
                seq.as_str().unwrap(),
                batch.as_str().unwrap()
            ))
            .json();
        let [fair, balanced] = [0, 1].map(|at| &run["schedulers"][at]);
        for key in ["stp", "stp_bound", "antt", "max_slowdown", "pe_busy", "memory_busy", "streams"]
        {
            assert_eq!(point[key], balanced[key], "{key} of {point}");
        }
        assert_eq!(point["baseline"]["stp"], fair["stp"]);
        let gain = point["stp"].as_f64().unwrap() / fair["stp"].as_f64().unwrap() - 1.0;
        assert!((point["gain"].as_f64().unwrap() - gain).abs() < 1e-12);
    }
}

#[test]
fn a_grid_is_the_same_each_time_on_a_screen_and_in_files() {
    let folder = Folder::new();
    let command =
        format!("{SMALL} --rows seq=8..32:x2 --columns scheduler=fair,balanced --metric gain,pes");
    let first = folder.dyno(&format!("{command} --heat a.svg --csv a.csv"));
    let second = folder.dyno(&format!("{command} --heat b.svg --csv b.csv"));
    assert_eq!((first.code, &first.stdout), (Some(0), &second.stdout), "{}", first.stderr);
    assert_eq!(folder.read("a.svg"), folder.read("b.svg"));
    assert_eq!(folder.read("a.csv"), folder.read("b.csv"));
    assert!(first.stdout.lines().all(|line| line.chars().count() <= 80), "{}", first.stdout);
    assert!(first.stdout.contains("gain in STP over the baseline"), "{}", first.stdout);
    assert!(first.stdout.contains("\nseq \\ scheduler"), "{}", first.stdout);
    // Over itself the baseline gains nothing.
    assert_eq!(first.stdout.matches("+0.0 %").count(), 3, "{}", first.stdout);
    let csv = folder.read("a.csv");
    assert!(csv.starts_with("seq,scheduler,stp,of_bound,antt,max_slowdown,pe_busy,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 6);
    let svg = folder.read("a.svg");
    // STP and both resources, and the gain that was asked for besides.
    assert_eq!(svg.matches("<title>").count(), 4 * 6);
    assert!(svg.contains("<title>seq=8, scheduler=fair: memory busy "), "{svg}");
    assert!(svg.contains("prefers-color-scheme:dark"), "{svg}");
}

#[test]
fn whatever_a_run_is_given_may_vary() {
    let folder = Folder::new();
    for (axis, count) in [
        ("networks=IC+BB,MN+XL+NCF", 2),
        ("npu=memory-centric,tpu-v4i", 2),
        ("memory-gb-per-s=100..400:x2", 3),
        ("pes=16384,65536", 2),
        ("weight-buffer-mb=12.5,48", 2),
        ("frequency_mhz=350,700", 2),
        ("switch-us=0,5", 2),
        ("weight-bits=8,16", 2),
        ("blocks=fused,layer,tile", 3),
        ("block-time=1ms,100us", 2),
        ("spill=false,true", 2),
        ("scheduler=layerweaver,balanced", 2),
        ("baseline=fair,round-robin", 2),
    ] {
        let networks = if axis.starts_with("networks") { "" } else { "IC BB" };
        let blocks = if axis.starts_with("block-time") { "--blocks tile" } else { "" };
        let command =
            format!("npu sweep {networks} --seq 16 --passes 5 {blocks} --rows {axis} --json");
        let ran = folder.dyno(&command);
        assert_eq!(ran.code, Some(0), "{command}: {}", ran.stderr);
        let told = ran.json();
        let found = points(&told);
        assert_eq!(found.len(), count, "{command}");
        // Each value is another point, and no other setting is lost.
        let documents: Vec<String> = found
            .iter()
            .map(|point| {
                let mut point = point.clone();
                point.as_object_mut().unwrap().remove("at");
                point.to_string()
            })
            .collect();
        if !axis.starts_with("spill") {
            assert!(
                documents.windows(2).all(|pair| pair[0] != pair[1]),
                "{command}: {documents:?}"
            );
        }
    }
}

#[test]
fn flags_that_stand_alone_stay_where_another_setting_varies() {
    let folder = Folder::new();
    let blocks = |flags: &str| {
        let told = folder.dyno(&format!("npu sweep BB --passes 5 {flags} --json")).json();
        points(&told).iter().map(|point| point["blocks"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let apart = blocks("--apart --rows seq=16");
    assert_eq!(apart, blocks("--seq 16 --rows apart=true"));
    assert!(apart[0] > blocks("--rows seq=16")[0], "{apart:?}");
}

#[test]
fn layers_that_had_to_be_split_are_told_in_a_few_lines() {
    let folder = Folder::new();
    let ran = folder.dyno("npu sweep BB --seq 8 --passes 2 --rows weight-buffer-mb=1,48 --json");
    assert!(ran.stderr.contains("is split into 3 parts (1 of 2 points)"), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 6, "{}", ran.stderr);
    let told = ran.json();
    let remarks = |at: usize| points(&told)[at]["remarks"].as_array().unwrap().len();
    assert!(remarks(0) > 50 && remarks(1) == 0, "{told}");
}

#[test]
fn energies_are_told_where_the_npu_has_them() {
    let folder = Folder::new();
    let power = |flags: &str| {
        let told = folder
            .dyno(&format!("npu sweep RN --passes 20 --rows static-w=0,2 {flags} --json"))
            .json();
        let of = |point: &Value| ["power_w", "pass_mj"].map(|key| point[key].as_f64().unwrap());
        [of(&points(&told)[0]), of(&points(&told)[1])]
    };
    let [[watts, of_a_pass], [more, _]] = power("--mac-pj 0.5 --memory-byte-pj 100");
    assert!((more - watts - 2.0).abs() < 1e-9, "{watts} and {more} W");
    // ResNet-50 has 4.09 billion products and 25.5 million weights of two bytes.
    let expected = (4.09e9 * 0.5 + 25.5e6 * 2.0 * 100.0) / 1e9;
    assert!((of_a_pass / expected - 1.0).abs() < 0.02, "{of_a_pass} mJ, expected {expected}");
    let none = folder.dyno("npu sweep RN --passes 20 --rows batch=1,2").stdout;
    assert!(!none.contains("power") && none.contains("memory"), "{none}");
}

#[test]
fn a_point_that_cannot_be_had_is_told_and_the_others_are_there() {
    let folder = Folder::new();
    let command = "npu sweep --seq 16 --passes 5 --rows networks=RN+BB,RM+BB --columns mapping=kcp+1,kpc,kcp:99999999 \
                   --heat map.svg --csv map.csv";
    let ran = folder.dyno(command);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    for expected in [
        "(1) networks=RN+BB, mapping=kpc and 1 more: unknown mapping `kpc`",
        "(2) networks=RN+BB, mapping=kcp:99999999 and 1 more: mapping `kcp:99999999` needs",
        "(3) networks=RM+BB, mapping=kcp+1: unknown network `RM`; the nearest is `RN`",
    ] {
        assert!(ran.stdout.contains(expected), "{expected}: {}", ran.stdout);
    }
    assert!(ran.stdout.contains("\nbest: "), "{}", ran.stdout);
    let csv = folder.read("map.csv");
    assert_eq!((csv.lines().count(), csv.matches("unknown ").count()), (1 + 6, 3), "{csv}");
    let fields = |line: &str| line.split(',').count();
    let lines: Vec<&str> = csv.lines().take(2).collect();
    assert_eq!(fields(lines[0]), fields(lines[1]), "{csv}");
    assert_eq!(folder.read("map.svg").matches("class=\"hole\"").count(), 3 * 5);
    let none = folder.dyno("npu sweep RM BB --rows seq=8,16");
    assert_eq!(none.code, Some(2), "{}", none.stderr);
    assert_eq!(none.stderr.matches("unknown network `RM`").count(), 1, "{}", none.stderr);
}

#[test]
fn axes_that_make_no_sense_are_told_before_anything_is_played() {
    let folder = Folder::new();
    for (axes, expected) in [
        ("--rows sqe=8", "flag --rows: unknown axis `sqe`; the nearest is `seq`"),
        ("--rows seq", "expected KEY=VALUE,VALUE"),
        ("--rows seq=", "`seq` has an empty value"),
        ("--rows seq=8,,16", "`seq` has an empty value"),
        ("--rows seq=8,16,8", "`seq` has the value `8` twice"),
        ("--rows seq=8 --columns seq=16", "flag --columns: `seq` already varies in --rows"),
        ("--rows batch=1 --columns seq=8,x", "`seq=x`: invalid value 'x' for '--seq <N>'"),
        ("--rows blocks=laye", "`blocks=laye`: invalid value 'laye'"),
        ("--rows memory-gb-per-s=-1", "`memory-gb-per-s=-1`: invalid value '-1'"),
        ("--rows seq=1..9999:1", "more than 1000 values"),
        (
            "--rows seq=1..500:1 --columns batch=1..500:1",
            "250000 points exceed the maximum of 10000",
        ),
        ("--rows networks=RN+BB", "expected networks either before the flags or as an axis"),
        ("--rows seq=8 --metric stq", "invalid value 'stq'"),
        ("--rows batch=0", "batch of 0 samples"),
        ("--rows batch=4294967296", "take longer than 213 days"),
    ] {
        let ran = folder.dyno(&format!("npu sweep RN BB {axes}"));
        assert_eq!(ran.code, Some(2), "{axes}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{axes}: {}", ran.stderr);
    }
    let nobody = folder.dyno("npu sweep --rows seq=8,16");
    assert!(nobody.stderr.contains("or as an axis"), "{}", nobody.stderr);
    let full = folder.dyno("npu sweep BB --rows seq=8 --passes 5 --heat no/such/folder.svg");
    assert_eq!(full.code, Some(3), "{}", full.stderr);
    assert!(full.stderr.contains("cannot write no/such/folder.svg"), "{}", full.stderr);
}
