//! Results of a tuner for a terminal.

use dyno_number::network::{Direction, Network};
use dyno_number::tune::{
    Confirmation, Look, MarginVerdict, SetAccuracy, Speedup, Stop, Subset, TuneAnswer, TuneEnd,
    TuneOutcome,
};
use dyno_number::{Objective, Radix};
use dyno_results::units;

use super::Provenance;

/// Returns `opt_conf.txt`: the answer, with a description in comments.
pub fn best_file(network: &Network, answer: &TuneAnswer) -> String {
    let size = objective_text(network, answer.objective);
    let mut text = format!(
        "# dyno tune{}: {size}, accuracy {} on the {} set\n",
        if network.name.is_empty() { String::new() } else { format!(" {}", network.name) },
        answer.accuracy,
        answer.subset
    )
    .replace(", accuracy ", &format!(", {} ", network.metric.name));
    if answer.subset == Subset::Small {
        text += "# a part of the samples alone has been asked\n";
    }
    let radix = network.external.as_ref().map_or_else(Radix::default, |external| external.radix);
    let formats = answer.assignment.dictionary().to_text(radix);
    text + &formats.expect("a program was given it")
}

/// Returns the verdict about the margin in one sentence that begins with its word.
pub fn margin_verdict(network: &Network, confirmation: &Confirmation) -> String {
    let Confirmation { verdict, margin, level, proven_margin, needed, looks, answer, .. } =
        confirmation;
    let look = answer.and_then(|at| looks.get(at));
    let (word, what) = (verdict.word(), &network.metric.name);
    let (margin_text, sure) = (margin_percent(*margin), percent(1.0 - level));
    let is_error = network.metric.direction == Direction::Lower;
    let claim = |bound: &str| {
        if is_error {
            format!("the {what} rises by {bound} {margin_text} %")
        } else {
            format!("{bound} {margin_text} % of the {what} is lost")
        }
    };
    let of = |look: &Look| look_words(look, is_error);
    let proven = match proven_margin {
        proven if proven.is_finite() => {
            format!("they prove at most {} %", bound_percent(*proven, *margin))
        }
        _ => "they prove no margin".into(),
    };
    // Scores have no known limits, so that a claim holds only within those of the held-out samples.
    let has_scores = look.is_some_and(|look| look.changed.is_none());
    let assumed = |what: &'static str| if has_scores { what } else { "" };
    match verdict {
        MarginVerdict::Valid => {
            let found = look.map(of).unwrap_or_default();
            let claim = claim("at most");
            let assumed = assumed(", if no other sample is worse than the worst of these");
            format!("{word}: {claim}, with {sure} % confidence: {found}; {proven}{assumed}")
        }
        MarginVerdict::Invalid => {
            let found = look.map(of).unwrap_or_default();
            let all = match looks.len() {
                1 => String::new(),
                count => format!("; all {count} configurations that were tested lose more"),
            };
            let assumed = assumed(", if no other sample gains more than the best of these could");
            format!("{word}: {}: {found}{all}{assumed}", claim("more than"))
        }
        MarginVerdict::Undecided => {
            let (found, proven) = open_question(confirmation, look.map(of), &proven);
            let needed = needed_samples(*needed, confirmation.margin, look);
            format!("{word}: whether {}: {found}{proven}{needed}", claim("at most"))
        }
    }
}

/// Returns what a look shows.
fn look_words(look: &Look, is_error: bool) -> String {
    let seen = units::counted(look.samples, "sample", "samples");
    let (seen, loss) = (format!("{seen} that the search has not seen"), percent(look.loss));
    match look.changed {
        Some([broken, fixed]) => {
            let verb = if broken == 1 { "becomes" } else { "become" };
            format!("of {seen} {broken} {verb} wrong and {fixed} right")
        }
        None if is_error => format!("on {seen}, it changes by {loss} %"),
        None => format!("{seen} {} {loss} %", if look.samples == 1 { "loses" } else { "lose" }),
    }
}

/// Returns why a verdict is undecided, and what the held-out samples prove, as parts of a sentence.
fn open_question(
    confirmation: &Confirmation,
    found: Option<String>,
    proven: &str,
) -> (String, String) {
    let Confirmation { held_out, margin, proven_margin, problem, .. } = confirmation;
    match (found, *held_out) {
        // The samples prove nothing if the formats had no effect.
        (Some(_), _) if !problem.is_empty() => (problem.clone(), String::new()),
        // There was no look because FLOAT 32 itself is doubtful on them.
        (None, _) if !problem.is_empty() && proven_margin.is_infinite() => {
            (problem.clone(), String::new())
        }
        (Some(found), _) => (found, format!("; {proven}")),
        (None, 0) => (problem.clone(), String::new()),
        (None, count) => {
            let why = if problem.is_empty() { String::new() } else { format!(" ({problem})") };
            let verb = match count {
                _ if confirmation.looks.is_empty() => "would be",
                1 => "is",
                _ => "are",
            };
            let found = format!("{} {verb} too few{why}", held_out_samples(count));
            let at_best = match proven_margin {
                proven if proven.is_finite() => {
                    let they = if count == 1 { "it" } else { "they" };
                    let most = bound_percent(*proven, *margin);
                    format!("; {they} could prove at most {most} % if no answer changed")
                }
                _ => String::new(),
            };
            (found, at_best)
        }
    }
}

/// Returns a number of held-out samples with its noun.
fn held_out_samples(count: u64) -> String {
    units::counted(count, "held-out sample", "held-out samples")
}

/// Returns how many held-out samples a margin needs, as the end of a sentence.
fn needed_samples(needed: Option<u64>, margin: f64, look: Option<&Look>) -> String {
    match (needed, look) {
        (Some(count), _) => {
            let about = if look.is_some() { "about" } else { "at least" };
            format!("; {} % needs {about} {}", margin_percent(margin), held_out_samples(count))
        }
        (None, _) if margin <= 0.0 => {
            "; no number of samples proves that nothing is lost, so allow a margin".into()
        }
        (None, Some(look)) if look.loss >= margin && look.loss.is_finite() => {
            let loss = percent(look.loss);
            format!("; they lose {loss} %, so that more samples may not prove it either")
        }
        (None, _) => String::new(),
    }
}

/// Formats a value of a metric with at most five decimals, unless it is too small for them.
pub fn metric_text(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.001 {
        return value.to_string();
    }
    format!("{value:.5}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a share in percent with at most two decimals.
fn percent(share: f64) -> String {
    trimmed(&format!("{:.2}", 100.0 * share))
}

/// Formats a margin in percent with all of its decimals: a rounded one would be another claim.
pub fn margin_percent(share: f64) -> String {
    trimmed(&format!("{:.8}", 100.0 * share))
}

/// Formats an upper bound in percent with at most two decimals, rounded up: less is not proven. If the bound
/// proves the margin, the text does not exceed that of the margin.
pub fn bound_percent(share: f64, margin: f64) -> String {
    // A bound such as 0.07 has a tail of rounding.
    let rounded = (1e4 * share - 1e-6).max(0.0).ceil() / 1e4;
    if share <= margin && rounded > margin { margin_percent(margin) } else { percent(rounded) }
}

/// Returns a number without zeros at the end of its decimals.
fn trimmed(number: &str) -> String {
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns how many configurations were evaluated, as a sentence.
pub fn evaluated(outcome: &TuneOutcome) -> String {
    let [small, full, _] = outcome.evaluations;
    let recalled = match outcome.recalled {
        0 => String::new(),
        some => format!("; {some} of them were in the journal"),
    };
    let evaluated = match small + full {
        1 => "1 configuration was".to_owned(),
        count => format!("{count} configurations were"),
    };
    format!("{evaluated} evaluated: {small} on the small set, {full} on the full one{recalled}")
}

/// Returns remarks on the result.
pub fn remarks(
    network: &Network,
    outcome: &TuneOutcome,
    provenance: Option<&Provenance>,
) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some([worst, best]) = outcome.noise.filter(|[worst, best]| worst != best) {
        let difference = (worst - best).abs();
        let allowed = worst.abs() * network.error_margin;
        let weight =
            if difference > allowed / 2.0 { "; hardly any decision can be trusted" } else { "" };
        lines.push(format!(
            "not reproducible: FLOAT 32 had accuracies from {worst} to {best}; decisions by less than \
             {difference:.5} are chance{weight}"
        ));
    }
    lines.extend(remark_on_size(network, outcome));
    lines.extend(remark_on_range(network, outcome));
    lines.extend(remarks_on_margin(network, outcome));
    if let Some(provenance) = provenance {
        let of = |at: usize| provenance.sets[at].samples.len();
        lines.push(format!(
            "chosen by calibration data alone: {} samples, then {} others; confirmed once, on {}",
            of(0),
            of(1),
            of(2)
        ));
    }
    lines.extend(match outcome.skipped {
        0 => None,
        1 => Some("1 line of the journal is unreadable; its evaluation was made again".to_owned()),
        count => Some(format!(
            "{count} lines of the journal are unreadable; their evaluations were made again"
        )),
    });
    let ended = match &outcome.end {
        TuneEnd::Complete => None,
        TuneEnd::Stopped(Stop::Interrupted) => Some("interrupted"),
        TuneEnd::Stopped(Stop::Limit) => Some("ended by --max-evaluations"),
        TuneEnd::Stopped(Stop::Failed(_)) => Some("ended by a failure"),
    };
    let best = if outcome.answer.is_some() { ": this is the best result so far" } else { "" };
    lines.extend(ended.map(|ended| format!("{ended}{best}; --resume continues")));
    lines
}

/// Returns what the comparison of latencies shows, or why an answer is no smaller than FLOAT 32.
fn remark_on_size(network: &Network, outcome: &TuneOutcome) -> Option<String> {
    let answer = outcome.answer.as_ref()?;
    if network.objective == Objective::Latency {
        return outcome.speedup.map(Speedup::sentence);
    }
    let is_other = answer.assignment != network.base();
    (is_other && answer.objective >= outcome.base_objective)
        .then(|| "the answer is no smaller than FLOAT 32".to_owned())
}

/// Names of metrics that are shares of samples.
const SHARES: [&str; 4] = ["accuracy", "acc", "top1", "top-1"];

/// Returns a remark on results that are no shares although the metric is one.
fn remark_on_range(network: &Network, outcome: &TuneOutcome) -> Option<String> {
    let name = network.metric.name.to_lowercase();
    let values = || outcome.points.iter().map(|point| point.accuracy);
    let other = values().find(|value| !(0.0..=1.0).contains(value))?;
    if !SHARES.contains(&name.as_str()) {
        return None;
    }
    let is_percent = values().all(|value| (0.0..=100.0).contains(&value));
    let which = if is_percent {
        "is it a percentage? The margin is a share of it either way"
    } else {
        "it is neither a share from 0 to 1 nor a percentage; check what `get_result_regex` matches"
    };
    Some(format!("a configuration has the {name} {other}: {which}"))
}

/// Returns remarks on restarts and on the confirmation.
fn remarks_on_margin(network: &Network, outcome: &TuneOutcome) -> Vec<String> {
    let mut lines = Vec::new();
    let ends = || outcome.restarts.iter().copied();
    if outcome.restarts.len() > 1 {
        let (least, most) = (ends().fold(f64::INFINITY, f64::min), ends().fold(0.0, f64::max));
        lines.push(format!(
            "the search and its restarts end {} times, with {} to {}",
            outcome.restarts.len(),
            plain_text(network, least),
            objective_text(network, most),
        ));
    }
    lines.extend(remark_on_held_out(network, outcome));
    if let Some(confirmation) = &outcome.confirmation {
        let held_out = held_out_samples(confirmation.held_out);
        match confirmation.looks.len() {
            0 => {}
            1 => lines.push(format!(
                "one configuration was compared with FLOAT 32 on {held_out}"
            )),
            count => lines.push(format!(
                "{count} configurations, the widest first, were compared with FLOAT 32 on {held_out}; \
                 together they err with a probability of at most {} %",
                percent(confirmation.level)
            )),
        }
    } else if outcome.confirmed.is_none() && outcome.answer.is_some() {
        lines.push(format!(
            "the margin is not confirmed: the {} was measured on the samples that selected the answer, \
             so other samples may lose more",
            network.metric.name
        ));
    }
    lines
}

/// Returns the metric of FLOAT 32 on the held-out samples beside that on the samples of the search.
fn remark_on_held_out(network: &Network, outcome: &TuneOutcome) -> Option<String> {
    let of = |subset: Subset| {
        let share = outcome.baselines[subset as usize]?.accuracy;
        Some(SetAccuracy { share, samples: outcome.samples[subset as usize].unwrap_or(0) })
    };
    let held_out = of(Subset::Confirmation)?;
    let searched = of(Subset::Full).or_else(|| of(Subset::Small))?;
    let samples_of = |set: SetAccuracy, kind: &str| match set.samples {
        0 => format!("{kind}samples"),
        count => format!("{} {kind}sample{}", units::count(count), units::plural_ending(count)),
    };
    let is_share = network.metric.direction == Direction::Higher;
    let doubt = if is_share && held_out.is_below(searched) {
        "; the held-out samples are harder, or their labels belong to other samples"
    } else {
        ""
    };
    Some(format!(
        "FLOAT 32 has {} {} on the {}, and {} on the {} of the search{doubt}",
        network.metric.name,
        metric_text(held_out.share),
        samples_of(held_out, "held-out "),
        metric_text(searched.share),
        samples_of(searched, "")
    ))
}

/// Returns a value of the network's objective with its unit.
pub fn objective_text(network: &Network, value: f64) -> String {
    let unit = network.objective.unit();
    network
        .objective
        .text(value)
        .unwrap_or_else(|| format!("{} {unit}", units::count(rounded(value))))
}

/// Returns a value of the network's objective; a count has no unit.
fn plain_text(network: &Network, value: f64) -> String {
    network.objective.text(value).unwrap_or_else(|| units::count(rounded(value)))
}

fn rounded(value: f64) -> u64 {
    value.max(0.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Network {
        let text = "layer_name = [\"a\"]\nwgt_size = [5]\nact_size = [7]\nwgt_max_abs = [1.0]\n\
                    act_max_abs = [1.0]\n";
        Network::from_descriptor(text, None).unwrap()
    }

    fn look(network: &Network, changed: Option<[u64; 2]>) -> Look {
        Look {
            level: 0.05,
            samples: 60,
            objective: 80.0,
            assignment: network.base(),
            loss: 0.5,
            changed,
            is_confirmed: false,
        }
    }

    /// Scores such as errors of sentences have no known limits, unlike answers that are right or wrong.
    #[test]
    fn a_verdict_by_scores_names_its_assumption() {
        let network = network();
        let sentence = |verdict: MarginVerdict, changed: Option<[u64; 2]>| {
            let confirmation = Confirmation {
                verdict,
                margin: 0.01,
                level: 0.05,
                held_out: 60,
                proven_margin: 0.01,
                needed: None,
                looks: vec![look(&network, changed)],
                answer: Some(0),
                problem: String::new(),
            };
            margin_verdict(&network, &confirmation)
        };
        let invalid = sentence(MarginVerdict::Invalid, None);
        assert!(invalid.starts_with("INVALID: more than 1 % of the accuracy is lost"), "{invalid}");
        assert!(invalid.ends_with(", if no other sample gains more than the best of these could"));
        let valid = sentence(MarginVerdict::Valid, None);
        assert!(
            valid.ends_with(", if no other sample is worse than the worst of these"),
            "{valid}"
        );
        for verdict in [MarginVerdict::Invalid, MarginVerdict::Valid] {
            assert!(!sentence(verdict, Some([30, 0])).contains(", if "));
        }
    }

    /// A rounded bound would be smaller than what is proven, and a rounded margin another one.
    #[test]
    fn claims_are_not_rounded_down() {
        for (share, margin, bound) in [
            (0.0, "0", "0"),
            (0.03, "3", "3"),
            (0.07, "7", "7"),
            (0.01234, "1.234", "1.24"),
            (0.026_841, "2.6841", "2.69"),
            (0.000_01, "0.001", "0.01"),
        ] {
            assert_eq!((&*margin_percent(share), &*bound_percent(share, 0.0)), (margin, bound));
        }
        // "at most 1.234 % is lost: they prove at most 1.24 %" would contradict itself.
        for proven in [0.01234, 0.01233] {
            assert_eq!(bound_percent(proven, 0.01234), "1.234");
        }
        assert_eq!(bound_percent(0.01235, 0.01234), "1.24");
    }

    #[test]
    fn one_sample_is_no_plural() {
        let network = network();
        let one = dyno_number::tune::too_few(0.01, 1);
        let sentence = margin_verdict(&network, &one);
        assert!(sentence.contains("1 held-out sample would be too few"), "{sentence}");
        assert!(sentence.contains("; it could prove at most "), "{sentence}");
        let changed = Look { samples: 1, ..look(&network, Some([1, 0])) };
        let compared = Confirmation { looks: vec![changed], answer: Some(0), ..one };
        let sentence = margin_verdict(&network, &compared);
        let expected = "of 1 sample that the search has not seen 1 becomes wrong and 0 right";
        assert!(sentence.contains(expected), "{sentence}");
    }

    /// Samples that were compared are too few; a part that was not held out would be.
    #[test]
    fn few_samples_that_were_compared_are_too_few() {
        let network = network();
        let few = dyno_number::tune::too_few(0.01, 60);
        assert!(margin_verdict(&network, &few).contains("60 held-out samples would be too few"));
        let compared = Confirmation { looks: vec![look(&network, Some([0, 0]))], ..few };
        let sentence = margin_verdict(&network, &compared);
        assert!(sentence.contains("60 held-out samples are too few"), "{sentence}");
    }
}
