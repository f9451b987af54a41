//! Token streams, tenants and conversations in virtual time, and whether their oracle can fail.

use dyno_hardening::oracle::Finding;
use dyno_hardening::streams::answer::Form;
use dyno_hardening::streams::case::Case;
use dyno_hardening::streams::check_many;
use dyno_hardening::streams::oracle::{Arrivals, Ending, Report, Request, Settings, judge};
use dyno_hardening::streams::play::{StreamedRun, play, report, report_of};
use dyno_loadgen::record::Record;
use dyno_loadgen::run::Event;

#[test]
fn a_thousand_runs_of_text_servers_are_reported_as_documented() {
    let tally = check_many(20_261_129, 0..1_000, 2);
    let commands = tally.failures.iter().map(|(index, findings)| {
        format!("dyno-hardening streams --seed 20261129 --only {index}: {findings:?}")
    });
    assert_eq!(commands.collect::<Vec<_>>(), Vec::<String>::new());
    assert!(tally.runs > 950, "only {} settings are accepted", tally.runs);
    assert!(tally.conversations > 300 && tally.valid > 100, "{tally:?}");
    for (form, count) in Form::ALL.iter().zip(tally.injected) {
        assert!(count > 100, "{count} answers of the form {}", form.name());
    }
}

/// What the oracle judges: of one tenant.
struct Judged {
    settings: Settings,
    requests: Vec<Request>,
    report: Report,
}

impl Judged {
    fn new(run: &StreamedRun, tenant: usize) -> Self {
        Self {
            settings: run.settings[tenant].clone(),
            requests: run.observed[tenant].requests.clone(),
            report: report(run, tenant).expect("each tenant has a result"),
        }
    }

    fn findings(&self) -> Vec<Finding> {
        judge(&self.settings, &self.requests, &self.report)
    }

    fn is_lost(&self) -> bool {
        self.requests.iter().any(|request| request.ending == Ending::Lost)
    }

    /// Whether the documents state the length of the run.
    fn has_length(&self) -> bool {
        self.settings.conversations.is_none() || !self.is_lost()
    }
}

/// Returns what is judged after `alter`; `None` if there is nothing to alter.
fn after_record(
    run: &StreamedRun,
    tenant: usize,
    alter: impl Fn(&mut Record) -> Option<()>,
) -> Option<Judged> {
    let mut log = run.logs[tenant].clone();
    let record = log.events.iter_mut().find_map(|event| match event {
        Event::Run(run) => Some(&mut run.record),
        _ => None,
    });
    alter(record?)?;
    let mut judged = Judged::new(run, tenant);
    judged.report = report_of(&log, &judged.settings, &run.observed[tenant])?;
    Some(judged)
}

fn after(
    run: &StreamedRun,
    tenant: usize,
    alter: impl Fn(&mut Judged) -> Option<()>,
) -> Option<Judged> {
    let mut judged = Judged::new(run, tenant);
    alter(&mut judged)?;
    Some(judged)
}

/// Returns the first answered sample for which `wanted` holds.
fn answered(record: &Record, wanted: impl Fn(usize) -> bool) -> Option<usize> {
    let failed = |at: usize| record.failed.iter().any(|(id, _)| *id == at as u64);
    (0..record.completed_at.len())
        .find(|&at| record.completed_at[at] != 0 && !failed(at) && wanted(at))
}

type Mutation = (&'static str, fn(&StreamedRun, usize) -> Option<Judged>);

const OF_RECORDS: [Mutation; 9] = [
    ("one latency is longer", |run, tenant| {
        after_record(run, tenant, |record| {
            let at = answered(record, |_| true)?;
            record.completed_at[at] += record.completed_at.len() as u64;
            Some(())
        })
    }),
    ("a first token is later", |run, tenant| {
        after_record(run, tenant, |record| {
            let later = record.first_token_at.len() as u64;
            let has_room = |at: usize| {
                let first = record.first_token_at.get(at).copied().unwrap_or(0);
                first != 0 && first + later < record.completed_at[at]
            };
            let at = answered(record, has_room)?;
            record.first_token_at[at] += later;
            Some(())
        })
    }),
    ("an answer has one token more", |run, tenant| {
        after_record(run, tenant, |record| {
            let at = answered(record, |at| at < record.tokens.len())?;
            record.tokens[at] += 1;
            Some(())
        })
    }),
    ("a failure counts as an answer", |run, tenant| {
        after_record(run, tenant, |record| record.failed.pop().map(|_| ()))
    }),
    ("a lost request counts as answered", |run, tenant| {
        after_record(run, tenant, |record| {
            let lost = record.completed_at.iter().position(|&at| at == 0)?;
            record.completed_at[lost] = record.issued_at[lost / record.samples_per_query] + 1;
            Some(())
        })
    }),
    ("a request of the ramp is not counted", |run, tenant| {
        after_record(run, tenant, |record| {
            let excluded = record.excluded.as_mut()?;
            excluded.ramp = excluded.ramp.checked_sub(1)?;
            Some(())
        })
    }),
    ("a cancelled request is not counted", |run, tenant| {
        after_record(run, tenant, |record| {
            let excluded = record.excluded.as_mut()?;
            excluded.cancelled = excluded.cancelled.checked_sub(1)?;
            Some(())
        })
    }),
    ("latency counts from the issue", |run, tenant| {
        after_record(run, tenant, |record| {
            let noticeable = record.issued_at.len() as u64;
            let is_late = |at: usize| {
                let due = record.scheduled_at.get(at).copied().unwrap_or(u64::MAX);
                record.issued_at.get(at).is_some_and(|at| at.saturating_sub(due) > noticeable)
            };
            answered(record, is_late)?;
            record.scheduled_at.clone_from(&record.issued_at);
            Some(())
        })
    }),
    ("a held session is not counted", |run, tenant| {
        let is_decided = matches!(run.settings[tenant].arrivals, Arrivals::Recorded(_));
        if !is_decided || Judged::new(run, tenant).is_lost() {
            return None;
        }
        after_record(run, tenant, |record| {
            let played = record.sessions.as_mut()?;
            played.held = played.held.checked_sub(1)?;
            Some(())
        })
    }),
];

const OF_REPORTS: [Mutation; 9] = [
    ("the verdict is reversed", |run, tenant| {
        after(run, tenant, |judged| {
            judged.report.is_valid = !judged.report.is_valid;
            Some(())
        })
    }),
    ("a percentile is the next higher one", |run, tenant| {
        after(run, tenant, |judged| {
            let percentiles = &mut judged.report.first_token.as_mut()?.percentiles[..6];
            let lower = percentiles.windows(2).position(|two| two[0] != two[1])?;
            percentiles[lower] = percentiles[lower + 1];
            Some(())
        })
    }),
    ("one token has a time per output token", |run, tenant| {
        after(run, tenant, |judged| {
            judged.report.per_token.as_mut()?.count += 1;
            Some(())
        })
    }),
    ("goodput counts a late answer", |run, tenant| {
        after(run, tenant, |judged| {
            let is_judged = judged.has_length();
            judged.report.goodput.as_mut().filter(|_| is_judged)?.samples += 1;
            Some(())
        })
    }),
    ("the completed rate includes the fill and the drain", |run, tenant| {
        after(run, tenant, |judged| {
            let (lasted, is_judged) = (judged.report.lasted_ns, judged.has_length());
            let counted = judged.report.counted_over_ns.filter(|_| is_judged)?;
            if lasted.abs_diff(counted) <= 1 {
                return None;
            }
            judged.report.counted_over_ns = Some(lasted);
            for (_, rate) in &mut judged.report.rates {
                *rate *= counted as f64 / lasted as f64;
            }
            Some(())
        })
    }),
    ("goodput is above the completed rate", |run, tenant| {
        after(run, tenant, |judged| {
            let is_judged = judged.has_length();
            let mut rates = judged.report.rates.iter_mut().filter(|_| is_judged);
            let (_, rate) = rates.find(|(name, _)| *name == "goodput_samples_per_s")?;
            *rate *= 1.0 + 1e-6;
            (*rate > 0.0).then_some(())
        })
    }),
    ("the inter-token latency is 4 % too high", |run, tenant| {
        after(run, tenant, |judged| {
            let is_judged = judged.settings.ramp_ns == 0;
            let (_, percentiles) = judged.report.inter_token.as_mut().filter(|_| is_judged)?;
            let high = percentiles.iter_mut().find(|(_, value)| *value > 0.0)?;
            high.1 *= 1.04;
            Some(())
        })
    }),
    ("a session that is cut off counts as completed", |run, tenant| {
        after(run, tenant, |judged| {
            let sessions = judged.report.sessions.as_mut()?;
            sessions.cut_off = sessions.cut_off.checked_sub(1)?;
            sessions.completed += 1;
            Some(())
        })
    }),
    ("the figures are those of another tenant", |run, tenant| {
        let other = report(run, (tenant + 1) % run.logs.len())?;
        after(run, tenant, |judged| {
            let differs = judged.report.latency != other.latency;
            differs.then(|| judged.report.latency = other.latency)
        })
    }),
];

const OF_ISSUING: [Mutation; 3] = [
    ("a turn comes before its think time is over", |run, tenant| {
        after(run, tenant, |judged| {
            let conversations = judged.settings.conversations.as_mut()?;
            if conversations.every_ns > 0 {
                return None;
            }
            let sample_of = |(first, thinks): &(u32, Vec<u64>)| {
                (*first + 1..*first + thinks.len() as u32)
                    .find(|sample| judged.requests.iter().any(|request| request.sample == *sample))
            };
            let (chain, sample) = conversations
                .chains
                .iter()
                .enumerate()
                .find_map(|(at, chain)| Some((at, sample_of(chain)?)))?;
            let (first, thinks) = &mut conversations.chains[chain];
            thinks[(sample - *first) as usize] += 1;
            Some(())
        })
    }),
    ("more requests are in flight than allowed", |run, tenant| {
        after(run, tenant, |judged| {
            let settings = &mut judged.settings;
            let Arrivals::InFlight(most) = &mut settings.arrivals else { return None };
            let is_seen = judged.requests.len() >= *most as usize && *most > 1;
            if !is_seen || settings.ramp_ns > 0 || settings.conversations.is_some() {
                return None;
            }
            *most -= 1;
            Some(())
        })
    }),
    ("a recorded time is missed", |run, tenant| {
        after(run, tenant, |judged| {
            let Arrivals::Recorded(times) = &mut judged.settings.arrivals else { return None };
            if judged.settings.conversations.is_some() {
                return None;
            }
            times[judged.requests.len() / 2] += 1;
            Some(())
        })
    }),
];

#[test]
fn every_altered_outcome_of_a_text_server_is_noticed() {
    const CASES: u64 = 1_500;
    let mutations: Vec<Mutation> = [&OF_RECORDS[..], &OF_REPORTS[..], &OF_ISSUING[..]].concat();
    let (mut applied, mut missed) = (vec![0; mutations.len()], Vec::new());
    for index in 0..CASES {
        let Some(run) = play(&Case::draw(78, index)) else { continue };
        for tenant in 0..run.logs.len() {
            assert_eq!(Judged::new(&run, tenant).findings(), [], "run {index}, tenant {tenant}");
            for (number, (name, mutation)) in mutations.iter().enumerate() {
                let Some(judged) = mutation(&run, tenant) else { continue };
                applied[number] += 1;
                if judged.findings().is_empty() {
                    missed.push(format!("{index}, tenant {tenant}: {name}"));
                }
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new());
    for ((name, _), applied) in mutations.iter().zip(applied) {
        assert!(applied >= 20, "{name}: applied {applied} times");
    }
}
