//! Formats that are tuned for an NPU which the network shares: `--objective stp` and `qos`.

use serde_json::Value;

use crate::program::Folder;
use crate::schema;
use crate::tune;

const HEAD: &str = "name,type,groups,m,cin_g,rs,cout_g,macs,weight_bytes,in_act_bytes,out_act_bytes,\
                    weights_scale_with_batch\n";
/// The layers of the program of `tune::folder`.
const TOY: &str = "conv1,conv,1,576,1,25,20,288000,1000,1568,23040,0\n\
                   conv2,conv,1,64,20,25,50,1600000,50000,5760,6400,0\n";
/// A network that computes for much longer than it fetches.
const OTHER: &str = "other,conv,1,100,16,25,100,4000000,80000,3200,20000,0\n";
const NPU: &str = "pes = 1000\nfrequency_mhz = 100\nmemory_gb_per_s = 1\nweight_buffer_mb = 1\n";
/// Products / PEs, so that every time follows from the table.
const SCENARIO: &str = "networks = [\"toy.csv\", \"other.csv\"]\nnpu = \"npu.toml\"\nmapping = \"peak\"\n\
                        scheduler = \"round-robin\"\narithmetic = \"bit-serial\"\npasses = 200\n";

fn folder(scenario: &str) -> Folder {
    let folder = tune::folder();
    folder.write("net/toy.csv", &format!("{HEAD}{TOY}"));
    folder.write("net/other.csv", &format!("{HEAD}{OTHER}"));
    folder.write("net/npu.toml", NPU);
    folder.write("net/shared.toml", scenario);
    folder
}

const RUN: &str = "tune run net/toy.toml --objective stp --scenario net/shared.toml";

fn row<'a>(told: &'a Value, name: &str) -> &'a Value {
    let rows = told["scenario"]["rows"].as_array().unwrap();
    let found = rows.iter().find(|row| row["configuration"] == name);
    found.unwrap_or_else(|| panic!("{name} in {rows:#?}"))
}

#[test]
fn formats_are_tuned_for_the_throughput_of_all_networks() {
    let folder = folder(SCENARIO);
    let ran = folder.dyno(&format!("{RUN} --out out")).exits(0);
    assert!(ran.stdout.lines().all(|line| line.chars().count() == 80), "{}", ran.stdout);
    let told = schema::keeps_to(&folder, "out", "tune");
    assert_eq!((&told["state"], &told["job"]["f_obj"]), (&"complete".into(), &"stp".into()));
    let stp = |name: &str| row(&told, name)["stp"].as_f64().unwrap();

    // Layers take turns, so the partner has two passes for one of the toy. In 16 bits they fetch for 2 x 80 + 51 us,
    // longer than they compute, and alone for 80 and 51 us: the STP is near 1.
    let command = "npu run net/toy.csv net/other.csv --npu net/npu.toml --mapping peak --scheduler round-robin \
                   --arithmetic bit-serial --passes 200 --json";
    let streams = folder.dyno(command).exits(0).json()["schedulers"][0]["stp"].as_f64().unwrap();
    assert!((stp("as in the table") - streams).abs() < 1e-4, "{streams}");
    assert!((streams - 1.0).abs() < 0.01, "{streams}");

    let [whole, bits, found] = ["FLOAT 32", "objective bits", "objective stp"].map(stp);
    assert!(whole < stp("as in the table") && found > 1.1 * whole && found >= bits, "{told}");
    let answer = told["answer"]["objective"].as_f64().unwrap();
    assert!((answer - 1.0 / found).abs() < 1e-4, "{answer} and {found}");
    assert!(
        ran.stdout.contains(&format!("STP {found:.3} instead of STP {whole:.3}")),
        "{}",
        ran.stdout
    );
    assert!(
        folder.read("out/opt_conf.txt").starts_with(&format!("# dyno tune toy: STP {found:.3}, "))
    );
    let page = folder.read("out/report.html");
    assert!(page.contains("<h2>The networks on the NPU</h2>") && page.contains("objective bits"));
}

#[test]
fn a_resumed_job_has_the_same_answer_and_keeps_to_its_scenario() {
    let folder = folder(SCENARIO);
    folder.dyno(&format!("{RUN} --out whole")).exits(0);
    let ended = folder.dyno(&format!("{RUN} --out out --max-evaluations 9")).exits(1);
    assert!(ended.stdout.contains("bits was not searched to its end"), "{}", ended.stdout);
    folder.dyno(&format!("{RUN} --out out --resume")).exits(0);
    let [whole, resumed] = ["whole", "out"].map(|out| {
        let told: Value = serde_json::from_str(&folder.read(&format!("{out}/tune.json"))).unwrap();
        (told["answer"].clone(), told["scenario"].clone())
    });
    assert_eq!(whole, resumed);
    folder.write("net/shared.toml", &SCENARIO.replace("bit-serial", "packed"));
    let refused = folder.dyno(&format!("{RUN} --out out --resume")).exits(2);
    assert!(refused.stderr.contains("journal of another job: scenario."), "{}", refused.stderr);
    assert!(refused.stderr.contains("scenario.parameters was \"Npu"), "{}", refused.stderr);
}

#[test]
fn formats_are_tuned_for_latencies() {
    let requests = "rate = [5000, 3000]\nlimit = [\"200us\", \"300us\"]\nduration = \"200ms\"\n";
    let folder = folder(&format!("{SCENARIO}{requests}"));
    let run = RUN.replace("stp", "qos");
    let ran = folder.dyno(&format!("{run} --out out")).exits(0);
    let told = schema::keeps_to(&folder, "out", "tune");
    let worst = |name: &str| {
        let all = row(&told, name)["p99"].as_array().unwrap();
        all.iter().map(|p99| p99.as_f64().unwrap()).fold(0.0, f64::max)
    };
    let [whole, bits, found] = ["FLOAT 32", "objective bits", "objective qos"].map(worst);
    assert!(found < whole && found <= bits, "{told}");
    assert_eq!(row(&told, "objective qos")["late"].as_array().unwrap().len(), 2);
    let (_, shown) = ran.stdout.split_once("│ p99 ").unwrap();
    let shown: f64 = shown.split(' ').next().unwrap().parse().unwrap();
    // The objective has four decimals, of which one of a percent is shown.
    assert!((shown - 100.0 * found).abs() < 0.0551, "{found}: {}", ran.stdout);
}

/// The search of the objective `bits` gets the doubts of the first one.
#[test]
fn a_program_that_ignores_its_formats_confirms_no_row() {
    let folder = folder(SCENARIO);
    folder.write("net/net.awk", "END { print \"accuracy = 0.98000\" }\n");
    folder.dyno(&format!("{RUN} --out out")).exits(1);
    let told = schema::keeps_to(&folder, "out", "tune");
    let sentence = told["scenario"]["sentence"].as_str().unwrap();
    for name in ["objective bits", "objective stp"] {
        assert_eq!(row(&told, name)["verdict"], "UNDECIDED", "{name}");
        let doubt = format!("; the margin of the {name} is UNDECIDED");
        assert!(sentence.contains(&doubt), "{sentence}");
    }
}

#[test]
fn what_is_wrong_with_a_scenario_is_told_before_the_search() {
    let check = |scenario: &str, arguments: &str, expected: &[&str]| {
        let folder = folder(scenario);
        let refused = folder.dyno(&format!("tune run net/toy.toml --out out {arguments}")).exits(2);
        for text in expected {
            assert!(refused.stderr.contains(text), "{arguments}: {}", refused.stderr);
        }
        assert!(!folder.0.join("out").exists(), "nothing was searched");
    };
    const WITH: &str = "--objective stp --scenario net/shared.toml";
    let other = SCENARIO.replace("\"toy.csv\", ", "");
    let expected = [
        "layer `conv1` is not a layer of network `other.csv`\n",
        "layer `conv2` is not a layer of network `other.csv`",
        "`dyno npu layers other.csv` prints the names of its layers",
    ];
    check(&other, WITH, &expected);
    let doubled = folder(SCENARIO);
    doubled.write("net/toy.csv", &format!("{HEAD}{TOY}{TOY}"));
    let refused = doubled.dyno(&format!("{RUN} --out out")).exits(2);
    let twice = "network `toy.csv` has 2 layers of the name `conv1`";
    assert!(refused.stderr.contains(twice), "{}", refused.stderr);
    check(SCENARIO, "--objective stp", &["--objective stp needs --scenario FILE"]);
    check(
        SCENARIO,
        "--scenario net/shared.toml",
        &["--scenario has no effect without --objective stp or qos"],
    );
    check(
        SCENARIO,
        &WITH.replace("stp", "qos"),
        &["--objective qos needs `rate` and `limit` in net/shared.toml"],
    );
    let one = format!("{SCENARIO}rate = [1, 2, 3]\nlimit = \"1ms\"\n");
    check(&one, WITH, &["`rate` has 3 values for 2 networks"]);
    check(
        &format!("{SCENARIO}rate = [0, 3000]\nlimit = \"1ms\"\n"),
        WITH,
        &["`rate` and `duration` make no request to the tuned network"],
    );
    check(
        &format!("{SCENARIO}rate = 1\n"),
        WITH,
        &["`rate` and `limit` have no effect without each other"],
    );
    check(
        &format!("{SCENARIO}rate = 1\nlimit = \"5m\"\n"),
        WITH,
        &["expected the unit ms or min, found `5m`; write 5ms or 5min"],
    );
    check(
        SCENARIO,
        "--objective stp --scenario /dev/zero",
        &["cannot read /dev/zero: it is a device"],
    );
    check(
        "networks = \"toy.csv\"\nmaping = \"kcp\"\n",
        WITH,
        &["net/shared.toml:2: `maping`: unknown key; the nearest is `mapping`"],
    );
    check(
        &SCENARIO.replace("passes = 200", "passes = 100_000_000"),
        WITH,
        &["a search simulates them for each candidate"],
    );
}
