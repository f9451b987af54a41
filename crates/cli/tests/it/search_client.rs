//! Searches whose runs are disturbed by the client: they are repeated, and the peak of the client
//! is not reported as the system's. Searches of servers that end.

mod real_time {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;

    use serde_json::Value;

    use crate::program::Folder;
    use crate::serve::ServerProcess;

    /// No clock issues within a nanosecond, so that every run is disturbed.
    const LATE: &str = "search --system null --limit p99<=10s --limit lag.p99<=1ns --from 1000 \
                        --short 100ms --max-time 5m";

    fn count(found: &Value, key: &str) -> usize {
        found[key].as_array().unwrap().len()
    }

    #[test]
    fn a_server_that_ends_ends_the_search() {
        check_end_with_server("");
    }

    #[test]
    fn a_server_that_ends_ends_the_search_of_remote_workers() {
        check_end_with_server("launch --on local --workers 1 -- ");
    }

    /// Every load fails then, so that the search would go down until its time limit.
    fn check_end_with_server(launch: &str) {
        let folder = Folder::new();
        let server = ServerProcess::start(&folder, "--system null");
        let search = format!(
            "{launch}search --system oip:http://{}/null --shape input=1x1 --scenario server \
             --limit p99<=10s --from 50 --to 5000 --short 1s --set max_client_lag_ns=0 --out out",
            server.address()
        );
        let mut command = folder.command(&search);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(" 1 bracket ")), "the first run is over");
        drop(server);
        let said = lines.collect::<Vec<String>>().join("\n");
        assert_eq!(child.wait().unwrap().code(), Some(4), "{said}");
        assert!(said.contains("cannot be reached"), "{said}");
        assert!(said.contains("dyno search --resume out"), "{said}");
        let state: Value = serde_json::from_str(&folder.read("out/search.json")).unwrap();
        assert_eq!(state["state"], "aborted");
    }

    #[test]
    fn a_client_that_is_the_limit_ends_the_search_without_a_peak() {
        let folder = Folder::new();
        let found = folder.dyno(&format!("{LATE} --json --out late")).exits(1).json();
        assert_eq!(found["state"], "client_limited");
        assert_eq!([&found["peak"], &found["confirmed"]], [&Value::Null; 2]);
        // The first run and three repeats, none of which measured the system.
        assert_eq!((count(&found, "disturbed"), count(&found, "points")), (4, 0));
        assert_eq!(found["disturbed"][0]["cause"], "client");
        assert_eq!(found["disturbed"][3]["load"], 1000.0);
        let page = folder.read("late/report.html");
        assert!(page.contains("This client is too slow to measure that"), "the page says so");
        // The search continues with another try.
        let again = folder.dyno("search --resume late --repeat-disturbed 1 --json").exits(1).json();
        assert_eq!((&again["state"], count(&again, "disturbed")), (&"client_limited".into(), 6));
    }

    #[test]
    fn each_repeat_is_announced_and_advice_is_given() {
        let folder = Folder::new();
        let ran = folder.dyno(&format!("{LATE} --repeat-disturbed 1 --out late")).exits(1);
        let repeat = "the run at 1,000 queries/s does not count: ";
        assert!(ran.stderr.contains(repeat), "{}", ran.stderr);
        assert!(ran.stderr.contains("repeat 1 of 1"), "{}", ran.stderr);
        let text = ran.stdout.replace(" │\n│ ", " ").replace("  ", " ");
        assert!(
            text.contains("This client is too slow to measure that: at 1,000 queries/s"),
            "{text}"
        );
        assert!(text.contains("To measure higher loads: reserve a core for Dyno"), "{text}");
        assert!(!text.contains("Peak:"), "{text}");
    }

    #[test]
    fn a_system_that_misses_its_limit_without_the_lag_is_told_to_miss_it() {
        let folder = Folder::new();
        // Nothing is answered within a nanosecond of its issue either.
        let slow = LATE.replace("p99<=10s", "p99<=1ns");
        let found = folder.dyno(&format!("{slow} --repeat-disturbed 0 --json --out slow"));
        let found = found.exits(1).json();
        assert_eq!(found["state"], "nothing_passes");
        assert!(count(&found, "points") > 0 && count(&found, "disturbed") == 0, "{found}");
    }
}
