#!/usr/bin/env python3
"""witness.py DYNO RUNS SEED [--from I] [--only I] [--disturbance NAME] [--scenario NAME] [--keep]

Written by someone who had not seen the code of dyno or of the first witness.

Disturbs dyno while it measures a server whose times are known by the server's own clock, and compares. Run I depends on
SEED and I alone (--only I repeats it). Needs root (SCHED_FIFO, cgroup v1 or v2). One run takes 3 to 6 s.

Truth of a request: the server's write of the last token (TTFT: of the first) - the kernel's time of arrival of the
request's last byte at the server. Service times do not depend on load (no queue), so that is what a client at rest
would see, up to 60-150 us of loopback. Percentiles by dyno's documented rule, sorted[floor(n*q)].

  far           p50, p90 or p99 of latency (or TTFT of streams) differs from truth by more than max(5 %, 200 us)
  WRONG_VALID   VALID and far
  WRONG_INVALID INVALID, cause `client`, not far, and SIGSTOP took <= 4 % of the run
  inv_stopped   the same, but SIGSTOP took > 4 % (allowed)
  undec_*       UNDECIDED with cause client / other (early stopping, too few queries); undec_other_far: of the latter
                those that are far, so that more queries would have made them WRONG_VALID (no error by itself)
  excluded      the server was late itself, samples failed, counts do not match, dyno gave no summary
margin = |figure - truth| / bound, the largest of all figures; a wrong run with a margin near 1 is a border case.
"""
import argparse, collections, json, math, os, random, shutil, signal, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
# Programs, folders of runs and results.
FOLDER = os.environ.get("WITNESS_FOLDER", HERE)


def print(*texts, flush=True):
    """Progress and tables; stdout is for figures."""
    sys.stderr.write(" ".join(map(str, texts)) + "\n")

QS = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
KINDS = {"stream": 0, "whole": 1, "raw": 2}
# Server excluded if more than 2 % of its answers had a write >= 1 ms after it was due, or more than 0.5 % a send() >=
# 200 us. (Being late does not falsify the truth, which is when the write began; send() is what bounds its error.)
LATE_NS, LATE_SHARE, SEND_NS, SEND_SHARE = 1_000_000, 0.02, 200_000, 0.005


def build():
    for n in ("server", "disturb"):
        src, exe = f"{HERE}/{n}.c", f"{FOLDER}/{n}"
        if not os.path.exists(exe) or os.path.getmtime(exe) < os.path.getmtime(src):
            subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", exe, src, "-lm"], check=True)


def logu(r, a, b):
    return math.exp(r.uniform(math.log(a), math.log(b)))


# ---------------------------------------------------------------- what a run is

def plan(seed, i, want_d=None, want_s=None):
    r = random.Random(f"witness2-{seed}-{i}")
    p = {"i": i, "seed": seed}
    p["scenario"] = r.choices(["single", "poisson", "concurrency"], [35, 35, 30])[0]
    d = r.choices(["none", "stop", "quota", "neighbor", "nice"], [18, 36, 13, 20, 13])[0]
    if want_s: p["scenario"] = want_s
    if want_d: d = want_d
    p["disturbance"] = d
    p["kind"] = r.choices(["stream", "whole", "raw"], [60, 15, 25])[0]
    p["chat"] = r.random() < 0.6
    total = logu(r, 2, 30) / 1e3
    p["duration"] = round(r.uniform(2, 4), 2)
    tokens = r.randint(3, 12) if p["kind"] == "stream" else 1
    writes = 2500                                  # per second at most, so that the server stays a few % of a core
    tokens = max(1, min(tokens, int(writes * total)))
    first = total * (r.uniform(0.3, 0.8) if tokens > 1 else 1)
    gap = (total - first) / (tokens - 1) if tokens > 1 else 0
    dist = lambda: r.choices(["fixed", "exp", "two"], [35, 45, 20])[0]
    p["server"] = dict(seed=r.randrange(1 << 40), tokens=tokens, fd=dist(), first=int(first * 1e6), gd=dist(),
                       gap=int(gap * 1e6), role=int(r.random() < 0.5), tail=r.choice([0, 0, 1500]))
    p["qps"] = round(logu(r, 60, min(400, writes / (tokens + 2))), 1)
    p["n"] = r.randint(2, max(2, min(16, int(writes * total / (tokens + 2)))))
    p["dyno_seed"] = r.randrange(1, 1 << 31)
    p["no_early"] = r.random() < 0.7               # early stopping off: more verdicts than UNDECIDED
    p["wide"] = r.random() < 0.8                   # latency bound 10 s instead of 200 ms (client's budget is a tenth)
    p["trigger"] = "first" if r.random() < 0.75 else "start"
    p["pin"] = r.choice([None, 0, 1]) if d in ("none", "stop", "quota") else None
    if d == "stop":
        on, duty = logu(r, 0.001, 0.3), logu(r, 0.003, 0.15)
        off = on * (1 / duty - 1)
        shape = r.choice(["even", "jitter", "wild", "wild"])
        if off > p["duration"] * 0.7 or r.random() < 0.1:
            shape, off = "once", r.uniform(0, p["duration"] * 0.9)
        p["stop"] = dict(seed=r.randrange(1 << 40), shape=shape, on_us=int(on * 1e6), off_us=int(off * 1e6))
    if d == "quota":
        period = r.choice([20, 50, 100, 200]) * 1000         # dyno needs 1-3 % of a core in a run, far more to start
        lo, hi = (0.1, 0.3) if p["trigger"] == "start" else (0.007, 0.12)
        p["quota"] = dict(period_us=period, quota_us=max(1000, int(period * logu(r, lo, hi))))
    if d in ("neighbor", "nice"):
        p["nice"] = r.randint(5, 19) if d == "nice" else 0
        where = r.choice(["none", "same", "all"] if d == "nice" else ["same", "same", "all"])
        if where != "all": p["pin"] = r.randint(0, 1)
        cores = [] if where == "none" else [p["pin"]] if where == "same" else list(range(os.cpu_count()))
        k = r.choice([1, 1, 2, 3]) if where == "same" else 1
        burst = r.random() < 0.5
        p["spin"] = [dict(core=c, seed=r.randrange(1 << 40), on_us=int(logu(r, 1, 60) * 1e3) if burst else 1000000,
                          off_us=int(logu(r, 5, 300) * 1e3) if burst else 0) for c in cores for _ in range(k)]
    return p


# ---------------------------------------------------------------- running it

def cgroup_make(name):
    v1 = "/sys/fs/cgroup/cpu"
    base = v1 if os.path.exists(v1 + "/cpu.shares") or os.path.exists(v1 + "/cgroup.procs") else "/sys/fs/cgroup"
    g = f"{base}/{name}"
    os.makedirs(g, exist_ok=True)
    return g


def cgroup_limit(g, q):
    if os.path.exists(g + "/cpu.cfs_quota_us"):
        open(g + "/cpu.cfs_period_us", "w").write(str(q["period_us"]))
        open(g + "/cpu.cfs_quota_us", "w").write(str(q["quota_us"]))
    else:
        open(g + "/cpu.max", "w").write(f"{q['quota_us']} {q['period_us']}")


def cgroup_stat(g):
    return dict((a, int(b)) for a, b in (l.split() for l in open(g + "/cpu.stat") if len(l.split()) == 2))


def steal():
    return int(open("/proc/stat").readline().split()[8])


def dyno_command(dyno, p, port, out):
    # a lone host for raw; the servers of texts get a model, so that none has to be looked up
    host = f"http://127.0.0.1:{port}"
    if p["kind"] == "raw":
        system = f"raw:{host}/predict"
    else:
        system = f"openai:{host}/v1,model=m,chat={'true' if p['chat'] else 'false'}"
        if p["kind"] == "whole": system += ",stream=false"
    c = [dyno, "run", "--system", system, "--mode", "performance", "--duration", f"{p['duration']}s",
         "--seed", str(p["dyno_seed"]), "--out", out, "--records", "all", "--no-progress", "--fail-fast", "off"]
    if p["kind"] == "raw":
        body = os.path.dirname(out) + "/body.json"
        open(body, "w").write('{"x":{x}}')
        data = os.path.dirname(out) + "/rows.jsonl"
        open(data, "w").write("".join(f'{{"x":{k}}}\n' for k in range(64)))
        c[3] += f",body=@{body}"
        c += ["--data", data]
    c += ["--scenario", "SingleStream" if p["scenario"] == "single" else "Server"]
    if p["scenario"] == "poisson": c += ["--qps", str(p["qps"])]
    if p["scenario"] == "concurrency": c += ["--set", f"server_arrivals=concurrency:{p['n']}"]
    if p["no_early"]: c += ["--set", "early_stopping=never"]
    if p["scenario"] != "single":
        b = "10s" if p["wide"] else "200ms"
        c += ["--set", f"server_target_latency_ns={b}"]
        if p["kind"] == "stream": c += ["--set", f"server_ttft_latency={b}", "--set", f"server_tpot_latency={b}"]
    return c


def run(dyno, p, folder):
    """Runs it; returns what was observed from outside."""
    o = {"error": None, "throttled_ns": None}
    s, spins, stopper, proc, g = p["server"], [], None, None, None
    srv = subprocess.Popen([f"{FOLDER}/server", folder + "/server.csv", *map(str, (s["seed"], s["tokens"], s["fd"], s["first"],
                            s["gd"], s["gap"], s["role"], s["tail"]))], stdout=subprocess.PIPE, bufsize=0)
    steal0, o["load"] = steal(), os.getloadavg()[0]
    try:
        port = int(srv.stdout.readline().split()[1])
        cmd = dyno_command(dyno, p, port, folder + "/out")
        o["command"] = cmd
        if p["pin"] is not None: os.sched_setaffinity(srv.pid, {c for c in range(os.cpu_count()) if c != p["pin"]} or {0})
        if p["disturbance"] == "quota": g = cgroup_make(f"w2-{os.getpid()}-{p['i']}")

        def child():
            if p["pin"] is not None: os.sched_setaffinity(0, {p["pin"]})
            if p.get("nice"): os.nice(p["nice"])
            if g: open(g + "/cgroup.procs", "w").write(str(os.getpid()))

        proc = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=open(folder + "/stdout", "w"),
                                stderr=open(folder + "/stderr", "w"), preexec_fn=child, cwd=folder)
        fd = os.pidfd_open(proc.pid)
        if p["trigger"] == "first":
            os.set_blocking(srv.stdout.fileno(), False)
            t = time.monotonic()
            while time.monotonic() < t + 30 and not (srv.stdout.read(1) or b""):
                if os.waitid(os.P_PID, proc.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT): break
                time.sleep(0.002)
        for x in p.get("spin", []):
            spins.append(subprocess.Popen([f"{FOLDER}/disturb", "spin", str(x["seed"]), str(x["on_us"]), str(x["off_us"])],
                                          preexec_fn=lambda c=x["core"]: os.sched_setaffinity(0, {c})))
        if g: cgroup_limit(g, p["quota"])
        if "stop" in p:
            x = p["stop"]
            stopper = subprocess.Popen([f"{FOLDER}/disturb", "stop", str(fd), folder + "/stops", str(x["seed"]), x["shape"],
                                        str(x["on_us"]), str(x["off_us"])], pass_fds=[fd])
        t = time.monotonic()
        while not os.waitid(os.P_PID, proc.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if time.monotonic() > t + 60:
                o["error"] = "dyno took more than 60 s"
                proc.kill()
            time.sleep(0.02)
    finally:
        for q in [stopper, *spins]:
            if q: q.terminate(); q.wait()
        if proc:
            if proc.poll() is None: proc.kill()   # only after an exception in here
            proc.wait(); os.close(fd)
            o["rc"] = proc.returncode
        srv.terminate(); srv.wait(); srv.stdout.close()
        if g:
            st = cgroup_stat(g)
            o["throttled_ns"] = st.get("throttled_time", st.get("throttled_usec", 0) * 1000)
            for _ in range(50):
                try: os.rmdir(g); break
                except OSError: time.sleep(0.02)
    o["steal_ms"] = (steal() - steal0) * 10
    return o


# ---------------------------------------------------------------- reading it

def records(path):
    b = open(path, "rb").read()
    at = b.index(b"\n") + 1
    n = int.from_bytes(b[at:at + 4], "little")
    h = json.loads(b[at + 4:at + 4 + n]); at += 4 + n
    cols = {}
    for c in h["columns"]:
        raw = b[at:at + c["bytes"]]; at += c["bytes"]
        out, v, sh, last = [], 0, 0, 0
        for x in raw:
            v |= (x & 127) << sh; sh += 7
            if x < 128:
                z = v >> 1 if not v & 1 else -(v >> 1) - 1
                if c["difference"]: z += last; last = z
                out.append(z); v = sh = 0
        cols[c["name"]] = out
    return cols


def server_log(path):
    lines = open(path).read().splitlines()
    meta = dict(x.split("=") for x in lines[0][2:].split())
    keys = lines[1].split(",")
    return {k: int(v) for k, v in meta.items()}, [dict(zip(keys, map(int, l.split(",")))) for l in lines[2:]]


def judge(p, o, folder):
    j = {"class": "excluded", "why": None, "margin": None, "figures": {}, "notes": []}
    def out(why): j["why"] = why; return j
    if o["error"]: return out(o["error"])
    if not os.path.exists(folder + "/out/summary.json"):
        return out("no summary, rc %s: %s" % (o["rc"], open(folder + "/stderr").read().strip().replace("\n", " | ")[:300]))
    s = json.load(open(folder + "/out/summary.json"))
    t = s["tests"][0]; m = t["metrics"]
    j["verdict"], j["causes"] = t["verdict"], t["causes"]
    ob = (s.get("observers") or [None])[0]
    j["observer"] = ob and {k: ob.get(k) for k in ("lasted_ns", "lost_ns", "pauses", "brief_stops", "brief_stops_ns",
                            "throttled_ns", "stolen_ns", "run_delay_ns", "delayed", "longest_delay_ns", "figures")}
    meta, rq = server_log(folder + "/server.csv")
    j["server"] = meta
    if not m: return out("no metrics, state %s" % t["state"])
    n = m["query_count"]
    j["n"] = n
    if t["state"] != "complete": return out("state %s" % t["state"])
    if sum(m["failed"].values()) or m["missing"]: return out(f"failed {m['failed']} missing {m['missing']}")
    if meta["no_stamp"] or meta["strange"] or meta["broken"] or not meta["fifo"]: return out(f"server: {meta}")
    if len(rq) < n: return out(f"{len(rq)} requests at the server, {n} queries")
    if len(rq) > n: j["notes"].append(f"{len(rq) - n} requests before the run left out")
    rq.sort(key=lambda r: r["arrival"])
    rq = rq[len(rq) - n:]
    if any(r["kind"] != KINDS[p["kind"]] or not r["done"] for r in rq): return out("requests of another kind, or not done")

    # where the run lies on the server's clock: a request cannot arrive before it was issued
    rec = records(f"{folder}/out/{t['folder']}/records.bin")
    iss = sorted(a + b for a, b in zip(rec["scheduled_ns"], rec["issue_delay_ns"]))
    if len(iss) != n: return out(f"{len(iss)} records, {n} queries")
    begin = min(r["arrival"] - i for r, i in zip(rq, iss))
    end = begin + m["lasted_ns"]
    d = sorted(r["arrival"] - i - begin for r, i in zip(rq, iss))
    j["late_sends"] = {"p50_us": d[n // 2] // 1000, "p99_us": d[int(n * .99)] // 1000, "max_us": d[-1] // 1000}
    stops = []
    if os.path.exists(folder + "/stops"):
        stops = [tuple(map(int, l.split())) for l in open(folder + "/stops")]
    inside = [max(0, min(b, end) - max(a, begin)) for a, b in stops]
    j["stopped"] = sum(inside) / max(1, m["lasted_ns"])
    j["stops"] = sum(x > 0 for x in inside)
    j["lasted_s"] = m["lasted_ns"] / 1e9

    # was the server late itself, in answering or within send()?
    late, slow = sum(r["late"] >= LATE_NS for r in rq) / n, sum(r["send"] >= SEND_NS for r in rq) / n
    j["server_late"] = {"share": round(late, 4), "send_share": round(slow, 4), "p99_us": sorted(r["late"] for r in rq)[int(n * .99)] // 1000,
                        "max_us": max(r["late"] for r in rq) // 1000, "max_send_us": max(r["send"] for r in rq) // 1000}

    kinds = [("latency", "latency_ns", "last")]
    if p["kind"] == "stream":
        kinds.append(("ttft", "first_token_ns", "first"))
        if not m["first_token_ns"]: return out("no TTFT of a stream")
    for name, key, stamp in kinds:
        truth = sorted(r[stamp] - r["arrival"] for r in rq)
        if m[key]["count"] != n: return out(f"{key} has {m[key]['count']} of {n}")
        for q, x in QS:
            tr, f = truth[int(n * x)], m[key][q]
            j["figures"][f"{name}.{q}"] = dict(dyno=f, truth=tr, margin=abs(f - tr) / max(0.05 * tr, 200_000))
    j["margin"] = max(f["margin"] for f in j["figures"].values())
    if p["scenario"] != "concurrency":     # request by request: sorted by issue, they arrive in this order
        order = sorted(range(n), key=lambda k: rec["scheduled_ns"][k] + rec["issue_delay_ns"][k])
        diffs = [(rec["latency_ns"][k] - (r["last"] - r["arrival"]), r) for k, r in zip(order, rq)]
        off = sorted(((d, r["end"] - r["last"]) for d, r in diffs if abs(d) > 200_000), key=lambda x: x[0])
        j["per_request"] = {"over_200us": len(off), "median_us": off[len(off) // 2][0] // 1000 if off else 0,
                            "max_us": off[-1][0] // 1000 if off else 0, "min_us": min(d for d, _ in diffs) // 1000,
                            # of these, off by just the time from the last token to the end of the stream
                            "by_end_of_stream": sum(e > 200_000 and abs(d - e) < 150_000 for d, e in off)}
    if late > LATE_SHARE or slow > SEND_SHARE: return out("server late: %s" % j["server_late"])
    far = j["margin"] > 1
    client = any(c["cause"] == "client" and not c["undecided"] for c in t["causes"])
    v = t["verdict"]
    if v == "VALID": c = "WRONG_VALID" if far else "valid_ok"
    elif v == "INVALID" and client:
        c = "inv_right" if far else "inv_stopped" if j["stopped"] > 0.04 else "WRONG_INVALID"
    elif v == "INVALID": c = "inv_other_far" if far else "inv_other"
    elif v == "UNDECIDED":
        c = "undec_client" if any(x["cause"] == "client" for x in t["causes"]) else "undec_other"
        if far: c += "_far"
    else: return out("verdict " + v)
    j["class"] = c
    return j


# ---------------------------------------------------------------- telling it

def ms(x): return f"{x / 1e6:.3f}"


def line(p, o, j):
    fig = " ".join(f"{k} {ms(f['dyno'])}/{ms(f['truth'])}({f['dyno'] / max(1, f['truth']) - 1:+.1%})" + ("!" if f["margin"] > 1 else "")
                   for k, f in j["figures"].items())
    ds = {k: p[k] for k in ("trigger", "pin", "stop", "quota", "nice", "spin") if p.get(k) is not None}
    ob = j.get("observer") or {}
    wo = " ".join(f"{f['name']} {ms(f['without_client_ns'])}" for f in ob.get("figures") or [])
    seen = {k: ms(v) for k, v in (ob.get("lost_ns") or {}).items() if v}
    why = " || ".join(f"[{c['kind']}/{c['cause']}{'/undecided' if c['undecided'] else ''}] {c['text']}" for c in j.get("causes", []))
    return (f"{j['class']} run {p['i']} seed {p['seed']} {p['disturbance']} {p['scenario']} {p['kind']} margin {j['margin'] or 0:.2f} "
            f"n {j.get('n')} lasted {j.get('lasted_s', 0):.2f} s stopped {j.get('stopped', 0):.2%} in {j.get('stops')} "
            f"throttled {ms(o['throttled_ns'] or 0)} ms steal {o.get('steal_ms')} ms | ms dyno/truth: {fig} | verdict {j.get('verdict')}: {why or '-'} | "
            f"dyno saw lost(ms) {seen} pauses {ob.get('pauses')} brief {ob.get('brief_stops')} delayed {ob.get('delayed')} "
            f"throttled {ob.get('throttled_ns')} without client(ms): {wo or '-'} | late sends {j.get('late_sends')} per request dyno - truth {j.get('per_request')} run delay {ob.get('run_delay_ns')} server late {j.get('server_late')} | "
            f"disturbance {json.dumps(ds)} | server {json.dumps(p['server'])} | {j['notes'] or ''} why {j['why']} | {' '.join(o.get('command', []))}")


COLS = ["valid_ok", "WRONG_VALID", "inv_right", "inv_stopped", "WRONG_INVALID", "inv_other", "inv_other_far", "undec_client",
        "undec_client_far", "undec_other", "undec_other_far", "excluded"]


def table(rows):
    t = collections.defaultdict(collections.Counter)
    for d, s, c in rows:
        for k in ((d, s), (d, "all"), ("all", "all")): t[k][c] += 1
    print(f"\n{'disturbance':12}{'scenario':13}{'runs':>5} " + " ".join(f"{c:>{len(c)}}" for c in COLS))
    for k in sorted(t, key=lambda k: (k[0] == "all", k[0], k[1] == "all", k[1])):
        print(f"{k[0]:12}{k[1]:13}{sum(t[k].values()):5} " + " ".join(f"{t[k][c] or '-':>{len(c)}}" for c in COLS))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("dyno"); a.add_argument("runs", type=int); a.add_argument("seed", type=int)
    a.add_argument("--from", dest="begin", type=int, default=0); a.add_argument("--only", type=int)
    a.add_argument("--disturbance", choices=["none", "stop", "quota", "neighbor", "nice"])
    a.add_argument("--scenario", choices=["single", "poisson", "concurrency"])
    a.add_argument("--keep", action="store_true", help="keep the folders of all runs in kept/")
    x = a.parse_args()
    build()
    dyno = os.path.abspath(x.dyno)
    wrong = FOLDER + "/wrong"
    os.makedirs(wrong, exist_ok=True)
    log = open(f"{FOLDER}/results-{x.seed}.jsonl", "a")
    rows, wrongs, t0 = [], [], time.time()
    which = [x.only] if x.only is not None else range(x.begin, x.begin + x.runs)
    try:
        for i in which:
            p = plan(x.seed, i, x.disturbance, x.scenario)
            folder = f"{FOLDER}/tmp/{x.seed}-{i}-{os.getpid()}"
            shutil.rmtree(folder, ignore_errors=True); os.makedirs(folder)
            o = run(dyno, p, folder)
            try: j = judge(p, o, folder)
            except Exception as e:          # a summary that is not as documented: shown, never silent
                j = {"class": "excluded", "why": f"judge: {type(e).__name__}: {e}", "margin": None, "figures": {}, "notes": []}
            l = line(p, o, j)
            rows.append((p["disturbance"], p["scenario"], j["class"]))
            log.write(json.dumps(dict(plan=p, observed=o, judged=j)) + "\n"); log.flush()
            open(folder + "/line.txt", "w").write(l + "\n")
            json.dump(dict(plan=p, observed=o, judged=j), open(folder + "/judged.json", "w"), indent=1)
            short = f"{i:5} {p['disturbance']:9}{p['scenario']:12}{p['kind']:7}{j['class']:17}margin {j['margin'] or 0:5.2f} stopped {j.get('stopped', 0):6.2%} {j['why'] or ''}"
            print(short, flush=True)
            if j["class"].startswith("WRONG") or (j["why"] or "").startswith("judge:"):
                if j["class"].startswith("WRONG"): wrongs.append(l)
                print("   " + l, flush=True)
                to = f"{wrong}/{x.seed}-{i}-{j['class']}"
                shutil.rmtree(to, ignore_errors=True); shutil.move(folder, to)
            elif x.keep:
                os.makedirs(FOLDER + "/kept", exist_ok=True)
                to = f"{FOLDER}/kept/{x.seed}-{i}"
                shutil.rmtree(to, ignore_errors=True); shutil.move(folder, to)
            else: shutil.rmtree(folder)
    except KeyboardInterrupt: print("interrupted")
    table(rows)
    print(f"\n{len(rows)} runs in {time.time() - t0:.0f} s, {len(wrongs)} wrong")
    for l in wrongs: print(l)
    counted = [c for _, _, c in rows if c != "excluded"]
    share = lambda begin: round(100 * sum(c.startswith(begin) for c in counted) / max(len(counted), 1), 2)
    unit = f"of {len(counted)} disturbed runs, by the second witness; the peer is the limit"
    for name, value, limit in (
        ("truth.second_wrong_valid", counted.count("WRONG_VALID"), 0),
        ("truth.second_wrong_invalid_percent", share("WRONG_INVALID"), 1),
        ("truth.second_open_percent", share("undec_client"), 5),
    ):
        ratio = 1.0 if value <= limit else limit / value
        sys.stdout.write(json.dumps({"name": name, "ours": value, "peer": limit, "ratio": ratio, "unit": unit}) + "\n")


main()
