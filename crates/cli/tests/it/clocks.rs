//! Clocks that are set during a run.

use crate::program::{Folder, preloaded};

/// Sets the wall clock of a program back by a day, between one and two seconds after its start.
const SET_BACK: &str = "\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
static time_t start;
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    struct timespec now;
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, \"clock_gettime\");
    int code = real(id, at);
    real(CLOCK_MONOTONIC, &now);
    if (!start) start = now.tv_sec;
    if (id == CLOCK_REALTIME && now.tv_sec > start + 1) at->tv_sec -= 86400;
    return code;
}
";

#[test]
fn a_clock_that_is_set_back_does_not_change_the_duration_of_a_run() {
    let folder = Folder::new();
    let run = "run --system null --scenario server --mode performance --qps 100 --duration 3s \
               --no-progress --out out";
    let Some(ran) = preloaded(&folder, SET_BACK, run) else { return };
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    let summary: serde_json::Value =
        serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let duration = summary["duration_ns"].as_u64().unwrap();
    assert!((3_000_000_000..600_000_000_000).contains(&duration), "{duration}");
    let [started, finished] =
        ["started_at", "finished_at"].map(|key| summary[key].as_str().unwrap());
    assert!(started < finished, "{started:?} {finished:?}");
}
