//! One figure: ours and a peer's, measured in turn, as a JSON line.

/// Which of two values is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Lower,
    Higher,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Figure<'a> {
    pub name: &'a str,
    pub unit: &'static str,
    pub better: Better,
}

/// What was measured in each round; neither side is empty.
#[derive(Debug, Default)]
pub struct Rounds {
    pub ours: Vec<f64>,
    pub peer: Vec<f64>,
}

impl Figure<'_> {
    /// Medians, their ratio (above 1 is better for us), and the extremes.
    pub fn line(&self, rounds: &Rounds) -> String {
        let (ours, peer) = (Spread::of(&rounds.ours), Spread::of(&rounds.peer));
        let (better, worse) = match self.better {
            Better::Lower => (peer.median, ours.median),
            Better::Higher => (ours.median, peer.median),
        };
        // Two counts of nothing are alike; something against nothing has no ratio.
        let ratio = if better == worse { 1.0 } else { better / worse };
        format!(
            "{{\"name\": \"{}\", \"ours\": {}, \"peer\": {}, \"ratio\": {}, \"unit\": \"{}\", \
             \"ours_min\": {}, \"ours_max\": {}, \"peer_min\": {}, \"peer_max\": {}}}",
            self.name,
            rounded(ours.median),
            rounded(peer.median),
            rounded(ratio),
            self.unit,
            rounded(ours.least),
            rounded(ours.most),
            rounded(peer.least),
            rounded(peer.most),
        )
    }
}

struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Spread {
            least: sorted[0],
            median: sorted[sorted.len() / 2],
            most: sorted[sorted.len() - 1],
        }
    }
}

/// Four significant digits, without an exponent; `null` for what is no number.
pub fn rounded(value: f64) -> String {
    if !value.is_finite() {
        return "null".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let after_point = 3 - value.abs().log10().floor() as i32;
    let scale = 10_f64.powi(-after_point);
    let decimals = usize::try_from(after_point).unwrap_or(0);
    let value = if decimals == 0 { (value / scale).round() * scale } else { value };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(better: Better, ours: &[f64], peer: &[f64]) -> String {
        let rounds = Rounds { ours: ours.to_vec(), peer: peer.to_vec() };
        Figure { name: "a.b", unit: "ns", better }.line(&rounds)
    }

    #[test]
    fn a_line_holds_medians_extremes_and_a_ratio_in_our_favour() {
        assert_eq!(
            line(Better::Lower, &[30.0, 10.0, 20.0], &[60.0, 41.0, 40.0]),
            "{\"name\": \"a.b\", \"ours\": 20.00, \"peer\": 41.00, \"ratio\": 2.050, \
             \"unit\": \"ns\", \"ours_min\": 10.00, \"ours_max\": 30.00, \
             \"peer_min\": 40.00, \"peer_max\": 60.00}"
        );
        let higher = line(Better::Higher, &[1.0], &[1_234_567.0]);
        assert!(higher.contains("\"peer\": 1235000, \"ratio\": 0.0000008100"), "{higher}");
    }

    #[test]
    fn counts_of_nothing_have_a_ratio_or_say_that_they_have_none() {
        assert!(line(Better::Lower, &[0.0], &[0.0]).contains("\"ratio\": 1.000"));
        assert!(line(Better::Lower, &[0.0], &[2.0]).contains("\"ratio\": null"));
        assert!(line(Better::Lower, &[2.0], &[0.0]).contains("\"ratio\": 0,"));
    }
}
