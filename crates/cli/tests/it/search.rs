//! `dyno search`: its results, its files, and resumption.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::program::Folder;
use crate::schema::keeps_to_schemas;

/// A queue with one server of 2 ms: `P(T > t) = exp(-(500 - rate) t)`, so that
/// the p99 is 50 ms at 407.9 queries/s.
const QUEUE: &str = "search --system model:exponential=2ms --limit p99<=50ms --from 60";
const PEAK: f64 = 407.9;
/// Three times the default tolerance.
const WITHIN: f64 = 0.03;

fn assert_near(found: &serde_json::Value, expected: f64) {
    let found = found.as_f64().unwrap();
    assert!((found / expected - 1.0).abs() < WITHIN, "{found} against {expected}");
}

#[test]
fn the_peak_of_a_queue_is_found_and_confirmed_by_a_run_that_counts() {
    let folder = Folder::new();
    let found = folder.dyno(&format!("{QUEUE} --json --out found")).exits(0).json();
    assert_eq!(found["state"], "confirmed");
    assert_near(&found["peak"]["load"], PEAK);
    assert_near(&found["confirmed"]["load"], PEAK);
    assert_eq!(found["peak"]["binds"], "latency p99 <= 50.0 ms");
    assert_eq!(found["official"], false);

    let run = format!("found/{}/summary.json", found["confirmed"]["folder"].as_str().unwrap());
    let summary: serde_json::Value = serde_json::from_str(&folder.read(&run)).unwrap();
    assert_eq!(summary["verdict"], "VALID");
    let plan = &summary["tests"][0]["plan"];
    assert_eq!(plan["target_qps"], found["confirmed"]["load"]);
    assert_eq!(plan["latency_bound_ns"], 50_000_000);

    // If later full runs had missed a limit, the one that kept it would not be denied.
    let state = folder.read("found/search.json").replace("\"confirmed\",", "\"unconfirmed\",");
    folder.write("found/search.json", &state);
    folder.dyno("report found --out page.html").exits(0);
    let page = folder.read("page.html");
    assert!(page.contains("was VALID and kept every limit, but later ones did not"), "{page:.900}");

    let points = found["points"].as_array().unwrap();
    let throughput = |point: &serde_json::Value| point["throughput"].as_f64().unwrap();
    assert!(points.iter().all(|point| throughput(point) > 0.0), "a curve can be drawn of them");
}

#[test]
fn the_limit_that_binds_is_named() {
    let folder = Folder::new();
    // Half of the queries within 5 ms: 500 - ln 2 / 5 ms = 361.4.
    let two = format!("{QUEUE} --limit p50<=5ms --json --no-confirm");
    let found = folder.dyno(&two).exits(0).json();
    assert_near(&found["peak"]["load"], 361.4);
    assert_eq!(found["peak"]["binds"], "latency p50 <= 5.00 ms");
    assert_eq!(found["state"], "estimated");

    // A hundredth fails at any load, so that none keeps a thousandth.
    let failing = "search --system model:fixed=1ms,failed=0.01 --limit errors<=0.1% --from 1000 \
                   --out none";
    let ran = folder.dyno(failing).exits(1);
    assert!(ran.stdout.contains("No load keeps the limits, down to"), "{}", ran.stdout);
}

#[test]
fn whole_loads_are_searched_as_well() {
    let folder = Folder::new();
    // With four servers of 10 ms the fifth query in flight waits.
    let flight = "search --load concurrency --system model:fixed=10ms,servers=4 \
                  --limit p90<=15ms --no-confirm --json --to 64";
    let found = folder.dyno(flight).exits(0).json();
    assert_eq!(found["peak"]["load"], 4.0);
    // A query of n samples takes 2 ms and 1 ms a sample.
    let samples = "search --scenario MultiStream --system model:fixed=2ms,per-sample=1ms \
                   --workers 1 --batch 64 --limit p99<=20500us --no-confirm --json";
    let found = folder.dyno(samples).exits(0).json();
    assert_eq!(found["peak"]["load"], 18.0);
    // Whole loads have whole bounds.
    assert_eq!([&found["peak"]["low"], &found["peak"]["high"]], [18.0, 18.0]);
    assert_eq!(found["points"][0]["load"], 1.0);
    let named = samples.replace("--json", "--set multi_stream_samples_per_query=12 --json");
    let found = folder.dyno(&named).exits(0).json();
    assert_eq!([&found["points"][0]["load"], &found["peak"]["load"]], [12.0, 18.0]);
    let text = folder.dyno(&samples.replace("--json", "--out text")).exits(0).stdout;
    assert!(text.contains("with 95 % certainty 18 to 18 "), "{text}");
}

#[test]
fn a_repetition_counts_by_its_lowest_run_and_takes_its_time() {
    let folder = Folder::new();
    let five = format!("{QUEUE} --set repetition=minimum:5");
    let plan = folder.dyno(&format!("{five} --dry-run")).exits(0).stdout;
    assert!(plan.contains("by 5 full runs, each of at least"), "{plan}");
    let found = folder.dyno(&format!("{five} --tolerance 4% --out five --json")).exits(0).json();
    let confirmed = found["points"].as_array().unwrap().last().unwrap();
    let confirm = format!("five/{}", confirmed["folder"].as_str().unwrap());
    let result = keeps_to_schemas(&folder, &confirm)["tests"][0]["result"]["value"].clone();
    assert_eq!(confirmed["throughput"], result);
    let rates = (1..=5).map(|run| {
        let log = format!("{confirm}/Server/performance/run_{run}/mlperf_log_summary.txt");
        let log = folder.read(&log);
        let rate = log.lines().find_map(|line| line.strip_prefix("Completed samples per second"));
        rate.unwrap().trim_start_matches([' ', ':']).parse::<f64>().unwrap()
    });
    let rates: Vec<f64> = rates.collect();
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(rates.iter().any(|rate| *rate > lowest), "{rates:?}");
    assert!((result.as_f64().unwrap() - lowest).abs() < 0.01, "{rates:?}: {result}");
    let [took, lasts] = ["took_ns", "duration_ns"].map(|key| confirmed[key].as_u64().unwrap());
    assert!(took >= 5 * lasts, "{took} of five of {lasts}");
}

#[test]
fn a_search_that_was_cut_short_goes_on_to_the_same_end() {
    let folder = Folder::new();
    let whole = format!("{QUEUE} --tolerance 2% --json --out whole");
    let whole = folder.dyno(&whole).exits(0).json();

    let cut = format!("{QUEUE} --tolerance 2% --json --max-time 40s --out cut");
    let cut = folder.dyno(&cut).exits(1).json();
    assert_eq!(cut["state"], "out_of_time");
    let spent = |found: &serde_json::Value| {
        let points = found["points"].as_array().unwrap().iter();
        points.map(|point| point["took_ns"].as_u64().unwrap()).sum::<u64>()
    };
    assert!(spent(&cut) < 41_000_000_000, "{}", spent(&cut));
    let again = folder.dyno("search --resume cut --max-time 40s").exits(1).stdout;
    assert!(again.contains("Out of time: no further run fits into 40.0 s"), "{again}");

    let early = folder.dyno(&format!("{QUEUE} --max-time 7s --out early")).exits(1).stdout;
    assert!(early.contains("Loads so far: the highest that kept the limits is"), "{early}");
    let page = folder.read("early/report.html");
    assert!(page.contains("<dt>Runs</dt><dd>3 in ") && page.contains("of virtual time</dd>"));
    // A screen reader reads the head of each column.
    assert!(
        page.contains("<th scope=\"col\">verdict</th>") && !page.contains("\"></th>"),
        "{page}"
    );

    let gone_on = folder.dyno("search --resume cut --max-time 48h --json").exits(0).json();
    assert_eq!(gone_on["points"], whole["points"]);
    assert_eq!(gone_on["confirmed"], whole["confirmed"]);
}

#[test]
fn a_run_that_is_not_over_in_time_is_ended_and_says_nothing() {
    let folder = Folder::new();
    // Issues for 10 s, and the last answer comes 3 s later.
    let slow =
        "search --system model:fixed=3s,servers=64 --limit p99<=5s --from 10 --short 10s --json";
    let cut = folder.dyno(&format!("{slow} --max-time 11s --out cut")).exits(1);
    assert!(cut.stderr.contains("the run at 10.00 queries/s does not count"), "{}", cut.stderr);
    let cut = cut.json();
    assert_eq!((&cut["state"], &cut["points"]), (&"out_of_time".into(), &serde_json::json!([])));
    assert_eq!(cut["unfinished"][0]["took_ns"], 11_000_000_000_u64);
    // Its time is spent, and with more of it the same run is made again.
    let further = folder.dyno("search --resume cut --max-time 30s --json").exits(1).json();
    assert_eq!(further["points"].as_array().unwrap().len(), 1);
    assert_eq!(further["points"][0]["load"], 10.0);
}

#[test]
fn a_search_that_was_interrupted_within_a_run_goes_on_to_the_same_end() {
    let folder = Folder::new();
    let whole = folder.dyno(&format!("{QUEUE} --tolerance 2% --json --out whole")).exits(0).json();
    let arguments = format!("{QUEUE} --tolerance 2% --out cut");
    let mut child =
        folder.command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains(" bracket ")), "a run is over");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let said: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
    assert!(folder.read("cut/search.json").contains("\"interrupted\""));
    let gone_on = folder.dyno("search --resume cut --json").exits(0).json();
    assert_eq!(gone_on["points"], whole["points"]);
    assert_eq!(gone_on["confirmed"], whole["confirmed"]);
}

#[test]
fn what_was_only_estimated_can_be_confirmed_later() {
    let folder = Folder::new();
    let begun = folder.dyno(&format!("{QUEUE} --tolerance 5% --no-confirm --json --out s"));
    assert_eq!(begun.exits(0).json()["state"], "estimated");
    assert_eq!(folder.dyno("search --resume s --json").exits(0).json()["state"], "estimated");
    let confirmed = folder.dyno("search --resume s --confirm --json").exits(0).json();
    assert_eq!(confirmed["state"], "confirmed");
    let exact = folder.dyno("search --resume s --confirm --tolerance 2% --json").exits(0).json();
    assert!(
        exact["points"].as_array().unwrap().len() > confirmed["points"].as_array().unwrap().len()
    );
    assert_eq!(exact["confirmed"]["folder"], "confirm-3");
}

#[test]
fn another_search_is_not_resumed() {
    let folder = Folder::new();
    folder.dyno(&format!("{QUEUE} --max-time 20s --out cut")).exits(1);
    let other = "search --system model:exponential=3ms --limit p99<=50ms --from 60 --resume cut";
    let ran = folder.dyno(other).exits(2);
    let difference = "`system` was \"model:exponential=2ms\" and is \"model:exponential=3ms\"";
    assert!(ran.stderr.contains(difference), "{}", ran.stderr);
    let ran = folder.dyno(&format!("{QUEUE} --set min_query_count=7 --resume cut")).exits(2);
    assert!(ran.stderr.contains("`full_queries` was"), "{}", ran.stderr);

    let state = folder.read("cut/search.json");
    let at = state.find("\"took_ns\": ").unwrap() + "\"took_ns\": ".len();
    let end = at + state[at..].find(',').unwrap();
    folder.write("cut/search.json", &format!("{}{}{}", &state[..at], u64::MAX, &state[end..]));
    let ran = folder.dyno("search --resume cut").exits(3);
    assert!(ran.stderr.contains("point 1: 18446744073709551615 ns is not"), "{}", ran.stderr);

    let ran = folder.dyno("search --resume nowhere").exits(3);
    assert!(ran.stderr.contains("search.json is missing"), "{}", ran.stderr);
    folder.write("cut/search.json", "{\"schema\": \"dyno.search\"");
    let ran = folder.dyno("search --resume cut").exits(3);
    assert!(ran.stderr.contains("search.json"), "{}", ran.stderr);
}

#[test]
fn a_dry_run_tells_the_plan_and_how_long_it_takes() {
    let folder = Folder::new();
    let ran = folder.dyno(
        "search --system openai:http://127.0.0.1:1,model=m --limit ttft.p99<=200ms --goodput tpot:50 \
         --limit errors<=0.1% --from 10 --profile rules --dry-run",
    );
    let ran = ran.exits(0);
    for text in [
        "TTFT p99 <= 200 ms, errors <= 0.1 %, TPOT p99 <= 50.0 ms, client lag p99 <= 20.0 ms",
        "from       10.00 queries/s",
        "time       at least",
        "at most 2.0 h",
    ] {
        assert!(ran.stdout.contains(text), "expected {text:?} in:\n{}", ran.stdout);
    }
    for (known, from) in [("--load concurrency", "1 in flight"), ("--qps 1", "1.000 queries/s")] {
        let ran = folder.dyno(&format!("search {known} --dry-run")).exits(0);
        assert!(ran.stdout.contains(&format!("from       {from}")), "{}", ran.stdout);
    }
    let ran = folder.dyno("search --dry-run").exits(0);
    assert!(ran.stdout.contains("determined by a short probe"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("too short to finish"), "{}", ran.stdout);
    // A bound of the settings is a limit, also if answers come in parts.
    let streams = "--system openai:http://127.0.0.1:1,model=m --from 10 --dry-run";
    let bound = "--set server_target_latency_ns=200ms";
    let ran = folder.dyno(&format!("search {streams} {bound}")).exits(0);
    assert!(ran.stdout.contains("latency p99 <= 200 ms"), "{}", ran.stdout);
    // However long the search takes.
    let ran = folder.dyno("search --from 1e-5 --short 300000h --dry-run").exits(0);
    assert!(ran.stdout.contains("too short to finish"), "{}", ran.stdout);
    assert!(!folder.0.join("runs").exists(), "nothing ran");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    let folder = Folder::new();
    for (arguments, expected) in [
        ("--limit p99>=5ms", "all limits are upper limits"),
        ("--limit tftt<=5ms", "the nearest is `ttft`"),
        ("--limit p99<=5ms --limit p99<=6ms", "two limits of the same"),
        ("--from 0", "flag --from: expected a load above 0"),
        ("--short 0s", "expected --short above 0"),
        ("--from 9 --to 8", "is not below"),
        ("--tolerance 90%", "from 0.1% to 20%"),
        ("--tolerance 0.1", "write 10% if it is a fraction, 0.1% if not"),
        ("--limit errors<=0.5", "write 50% if it is a fraction, 0.5% if not"),
        ("--scenario offline", "a search raises the qps of Server"),
        ("--scenario MultiStream", "MultiStream has no default limit"),
        ("--mode accuracy", "runs only performance tests"),
        (
            "--from 9 --limit tpot.p99<=1s",
            "TPOT p99 <= 1.00 s is not measured: the system reports no",
        ),
        (
            "--from 9 --limit p99<=5ms --set server_target_latency_ns=1ms",
            "--set server_target_latency_ns has no effect: the limits of the search replace it",
        ),
        ("--from 9 --set server_tpot_latency=1ms", "no effect: use_token_latencies is false"),
        (
            "--from 9 --set server_arrivals=concurrency:4",
            "which a fixed concurrency (server_arrivals) has not",
        ),
    ] {
        let ran = folder.dyno(&format!("search {arguments}")).exits(2);
        assert!(ran.stderr.contains(expected), "expected {expected:?} in:\n{}", ran.stderr);
    }
    assert!(!folder.0.join("runs").exists(), "nothing ran");
}

/// Each answer of two tokens takes 30 ms per token, at any load. Half of the answers have one token.
#[test]
fn a_limit_on_tpot_is_judged_by_answers_with_several_tokens() {
    let folder = Folder::new();
    let search = |tokens: &str, limit: &str| {
        let system = format!("model:fixed=2ms,servers=8,tokens={tokens},per-token=30ms");
        format!("search --system {system} --profile llm --limit {limit} --from 100 --short 1s")
    };
    let missed = folder.dyno(&search("1-2", "tpot.p40<=20ms --out missed")).exits(1);
    assert!(missed.stdout.contains("No load keeps the limits"), "{}", missed.stdout);
    let none = search("1-1", "tpot.p99<=20ms --out none");
    // Each of these runs has so few answers that they may lack the time by chance.
    let few = search("1-1", "tpot.p99<=20ms --to 10 --out few").replace("--from 100", "--from 5");
    let expected = "the limit TPOT p99 <= 20.0 ms is not measured: no answer has several tokens";
    for unmeasured in [none, few] {
        let ran = folder.dyno(&unmeasured).exits(2);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        assert!(!ran.stdout.contains("keeps the limits"), "{}", ran.stdout);
    }
}

#[test]
fn a_system_that_stops_answering_is_told_as_such() {
    let folder = Folder::new();
    let silent = "search --system model:fixed=1ms,unanswered=1 --from 100 --deadline 5s --out s";
    let ran = folder.dyno(silent).exits(4);
    assert!(
        ran.stderr.contains("the system stopped answering at 100.0 queries/s"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("dyno search --resume s"), "{}", ran.stderr);
    assert!(folder.read("s/search.json").contains("\"aborted\""));
}

/// 0.99^298 is above 5 %, and 0.99^299 is below: with fewer queries, a system that just misses a limit on
/// p99 keeps it too often by chance.
#[test]
fn a_load_is_confirmed_by_enough_queries_or_is_not_certain() {
    assert!(0.99_f64.powi(298) > 0.05 && 0.99_f64.powi(299) < 0.05);
    let folder = Folder::new();
    let search = "search --system model:exponential=1ms --profile llm --limit p99<=50ms --from 400 \
                  --tolerance 10%";
    folder.dyno(&format!("{search} --duration 100ms --out enough")).exits(0);
    let read =
        |path: &str| -> serde_json::Value { serde_json::from_str(&folder.read(path)).unwrap() };
    let confirmed = read("enough/search.json")["confirmed"]["folder"].clone();
    let run = read(&format!("enough/{}/summary.json", confirmed.as_str().unwrap()));
    let queries = run["tests"][0]["metrics"]["query_count"].as_u64().unwrap();
    assert!(queries >= 299, "{queries}");
    let few = folder.dyno(&format!("{search} --num-prompts 5 --out few")).exits(1);
    let text = few.stdout.replace("│\n│", "").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Not certain: "), "{}", few.stdout);
    assert!(text.contains("its 5 queries are too few"), "{}", few.stdout);
    assert!(text.contains("at least 299 are needed"), "{}", few.stdout);
}

/// A server of 100 queries/s. In the short runs no query waits for longer than the limit, even at
/// several times this rate.
#[test]
fn a_rate_at_which_queries_pile_up_does_not_pass_a_short_run() {
    let folder = Folder::new();
    let search = "search --system model:fixed=10ms --limit p99<=60s --from 300 --short 10s \
                  --no-confirm --max-time 300s --tolerance 10% --json";
    let ran = folder.dyno(search);
    assert!(ran.stderr.contains("The backlog still grew when the run ended"), "{}", ran.stderr);
    let found = ran.json();
    let points = found["points"].as_array().unwrap();
    assert_eq!(points[0]["overloaded"], true, "{found}");
    let passed = points.iter().filter(|point| point["passed"] == true);
    let highest = passed.map(|point| point["load"].as_f64().unwrap()).fold(0.0, f64::max);
    assert!(highest < 150.0, "{highest}: {found}");
}

#[test]
fn the_first_load_of_a_server_profile_is_probed() {
    let folder = Folder::new();
    // One query at a time has 100 a second.
    let search = "search --system model:fixed=10ms --profile llm --limit p99<=50ms --duration 1s \
                  --tolerance 10% --out out";
    folder.dyno(search);
    let state: serde_json::Value = serde_json::from_str(&folder.read("out/search.json")).unwrap();
    let first = state["points"][0]["load"].as_f64().unwrap();
    assert!((10.0..=100.0).contains(&first), "{first}");
}

#[test]
fn a_rate_is_not_searched_if_the_times_are_fixed() {
    let folder = Folder::new();
    let search = "search --system model:fixed=10ms --stages 2s@3 --limit p99<=50ms --out out";
    let told = folder.dyno(search).exits(2);
    assert!(told.stderr.contains("fixed by a recorded trace or by --stages"), "{}", told.stderr);
}

/// A fixed share of failures does not depend on the load, so that there is no peak to state.
#[test]
fn an_unclear_search_states_no_peak_and_names_the_limit() {
    let folder = Folder::new();
    let search =
        "search --system model:exponential=2ms,failed=0.05 --limit errors<=1% --out unclear";
    let ran = folder.dyno(search).exits(1);
    let text = ran.stdout.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!text.contains("Peak:") && !text.contains("Binds:"), "{text}");
    assert!(text.contains("No load keeps the limits") && text.contains("errors <= 1 %"), "{text}");
    let found: serde_json::Value =
        serde_json::from_str(&folder.read("unclear/search.json")).unwrap();
    assert_eq!(found["peak"], serde_json::Value::Null);
}

/// P(T > 1 s) = exp(-(100 - rate)) is 1 % at 95.4 queries/s, of a capacity of 100. In 5 s, a queue reaches
/// this limit only at 120 queries/s.
#[test]
fn no_load_above_the_capacity_is_confirmed() {
    let folder = Folder::new();
    for limit in ["p99<=1s", "p99<=10min"] {
        let search = format!(
            "search --system model:exponential=10ms --limit {limit} --from 40 --tolerance 5% --json"
        );
        let found = folder.dyno(&search).exits(0).json();
        assert_eq!(found["state"], "confirmed");
        let confirmed = found["confirmed"]["load"].as_f64().unwrap();
        assert!((70.0..100.0).contains(&confirmed), "{limit}: {confirmed}");
        let peak = found["peak"]["load"].as_f64().unwrap();
        assert!((85.0..106.0).contains(&peak), "{limit}: {peak}");
    }
}

/// A server of 10 queries/s has its p99 at 500 ms at about 5.61 queries/s. 5 s have 28 queries at that rate.
#[test]
fn the_peak_of_a_slow_system_is_confirmed() {
    let folder = Folder::new();
    let search = "search --system model:fixed=100ms,servers=1 --limit p99<=500ms --from 3 \
                  --tolerance 5% --json --out slow";
    let found = folder.dyno(search).exits(0).json();
    let peak = found["peak"]["load"].as_f64().unwrap();
    assert!((peak / 5.61 - 1.0).abs() < 0.1, "{peak}");
    let folder_of_run = found["confirmed"]["folder"].as_str().unwrap();
    let run: serde_json::Value =
        serde_json::from_str(&folder.read(&format!("slow/{folder_of_run}/summary.json"))).unwrap();
    let queries = run["tests"][0]["metrics"]["query_count"].as_u64().unwrap();
    assert!(queries > 1_000, "{queries}");
}

#[test]
fn a_folder_that_cannot_be_written_is_no_folder_to_resume() {
    let folder = Folder::new();
    folder.write("file", "");
    let sweep =
        "sweep --system null --scenario server --mode performance --duration 1s --over qps=1,2";
    for command in [QUEUE, sweep] {
        let ran = folder.dyno(&format!("{command} --out file/new")).exits(3);
        assert!(ran.stderr.contains("cannot write to file/new: "), "{}", ran.stderr);
        assert!(!ran.stderr.contains("--resume"), "{}", ran.stderr);
    }
}
