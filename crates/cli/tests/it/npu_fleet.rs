//! Several NPUs, versions of networks, split arrays, and what a run leaves of them.

use serde_json::Value;

use crate::program::Folder;

/// A run of two networks with these rates a second and bounds in ms, on `npu:` with this behind it.
fn run(folder: &Folder, of: &str, tenants: [(&str, u32, u32); 2], out: &str) -> Value {
    let tenant = |(name, qps, limit): (&str, u32, u32)| {
        format!(
            "[[tenants]]\nname = \"{name}\"\n[tenants.settings]\nserver_target_qps = {qps}\n\
             server_target_latency_ns = \"{limit}ms\"\n"
        )
    };
    let [(a, _, of_a), (b, _, of_b)] = tenants;
    let seq = if [a, b].contains(&"BB") { "seq=16," } else { "" };
    let run = format!(
        "version = 1\n[run]\nsystem = \"npu:networks={a}+{b},npu=chapter-v,mapping=kcp+1:128,{seq}\
         limit={of_a}ms+{of_b}ms,batch=4,active=16,wake=500us,{of}\"\nscenario = \"Server\"\n\
         mode = \"performance\"\nduration = \"3s\"\n"
    );
    let [a, b] = tenants.map(tenant);
    folder.write("dyno.toml", &format!("{run}{a}{b}"));
    folder.dyno(&format!("run --config dyno.toml --json --out {out}")).json()
}

fn over(told: &Value) -> Vec<u64> {
    let networks = told["accelerators"][0]["networks"].as_array().unwrap();
    networks.iter().map(|network| network["violations"].as_u64().unwrap()).collect()
}

#[test]
fn two_npus_serve_what_is_too_much_for_one() {
    let folder = Folder::new();
    let tenants = [("RN", 1200, 15), ("BB", 300, 130)];
    let one = run(&folder, "npus=1", tenants, "one");
    let two = run(&folder, "npus=2", tenants, "two");
    assert!(over(&one).iter().sum::<u64>() > 1000, "{one}");
    assert_eq!(over(&two), [0, 0], "{two}");
    let of = |key: &str| two["accelerators"][0][key].as_f64().unwrap();
    assert_eq!((of("npus"), two["accelerators"][0]["mode"].as_str()), (2.0, Some("performance")));
    assert!(of("stp") <= of("stp_bound") && of("over_bound") >= 1.0, "{two}");
    assert!(of("pe_busy") > 0.5 && of("pe_busy") <= 1.0 && of("memory_busy") <= 1.0, "{two}");
}

/// Without tenants, all requests go to the first network.
#[test]
fn a_network_without_requests_is_named() {
    let folder = Folder::new();
    let system =
        "run --system npu:networks=NCF+MN --scenario Server --request-rate 100 --duration 1s";
    let told = folder.dyno(&format!("{system} --json --out out")).json();
    let remarks = told["remarks"].as_array().unwrap();
    let of_npu = remarks.iter().filter_map(Value::as_str).find(|remark| remark.contains("NPU: "));
    assert!(of_npu.is_some_and(|remark| remark.ends_with("; MN without requests.")), "{told}");
}

#[test]
fn a_mean_accuracy_is_never_below_its_floor() {
    let folder = Folder::new();
    let of = "version=BL:16:90.9,version=BL:8:90.7,version=BL:4:88,floor=90.8";
    let tenants = [("BL", 520, 40), ("BB", 650, 20)];
    let plain = run(&folder, "npus=1", tenants, "plain");
    let told = run(&folder, of, tenants, "out");
    assert!(over(&told)[0] < over(&plain)[0] / 2, "{plain} {told}");
    let bl = &told["accelerators"][0]["networks"][0];
    let accuracy = bl["accuracy"].as_f64().unwrap();
    assert!((90.8..90.9).contains(&accuracy), "{bl}");
    let versions = bl["versions"].as_array().unwrap();
    let requests = |at: usize| versions[at]["requests"].as_u64().unwrap();
    assert_eq!(requests(0) + requests(1) + requests(2), bl["requests"].as_u64().unwrap(), "{bl}");
    assert_eq!(told["accelerators"][0]["networks"][1]["accuracy"], Value::Null);
    // All three of it together, for people.
    let remarks = told["remarks"].to_string();
    assert!(remarks.contains("STP") && remarks.contains(", accuracy 90."), "{remarks}");
}

#[test]
fn a_report_shows_what_the_accelerator_did() {
    let folder = Folder::new();
    let told = run(&folder, "split=1:1,apart=always", [("RN", 400, 15), ("IC", 300, 15)], "out");
    assert_eq!(told["accelerators"].as_array().unwrap().len(), 1);
    let distance = told["accelerators"][0]["over_bound"].as_f64().unwrap();
    assert!(distance >= 1.0, "{told}");
    let report = folder.read("out/report.html");
    assert!(report.contains("<h2>Accelerator</h2>"), "it has a section");
    assert!(
        report.contains("system throughput (STP)") && report.contains("distance"),
        "it has bounds"
    );
    let series: Value = serde_json::from_str(&folder.read("out/series.json")).unwrap();
    let blocks = series["timelines"][0]["blocks"].as_array().unwrap();
    assert!(blocks.len() > 50 && blocks.iter().all(|block| block["part"] == block["network"]));
    assert!(report.matches("<title>").count() >= 2 * blocks.len(), "both resources are drawn");
    assert!(!report.contains("http://") && !report.contains("NaN"), "it stands alone");
    // Rebuilt from its files it is equal.
    folder.dyno("report out --out again.html");
    let section =
        |text: &str| text.split("<h2>Accelerator</h2>").nth(1).map(|rest| rest[..5_000].to_owned());
    assert_eq!(section(&folder.read("again.html")), section(&report));
    // Systems of other kinds have no such section.
    let plain =
        folder.dyno("run --system model:fixed=1ms --duration 100ms --json --out plain").json();
    assert_eq!(plain["accelerators"], Value::Null);
}

#[test]
fn the_best_split_stands_beside_schedulers() {
    let folder = Folder::new();
    let told = folder
        .dyno("npu run RN BB --seq 16 --mapping kcpx+1:128 --passes 30 --scheduler balanced --spatial --json")
        .json();
    let split = &told["schedulers"][1];
    assert!(split["scheduler"].as_str().unwrap().starts_with("spatial "), "{told}");
    assert!(split["stp"].as_f64().unwrap() > 0.5 && split["memory_busy"].as_f64().unwrap() <= 1.0);
    let three = folder.dyno("npu run RN BB MN --spatial");
    assert_eq!(three.code, Some(2));
    assert!(three.stderr.contains("--spatial needs two networks"), "{}", three.stderr);
}
