//! Verdicts, and their reasons in machine-readable form.

use serde::{Deserialize, Serialize};

use super::{RequirementFinding, Run, State, Test};

dyno_loadgen::named_enum! {
    /// Verdict of a test or run. Files hold its name.
    ///
    /// ```
    /// use dyno_results::summary::Verdict;
    ///
    /// assert_eq!(Verdict::Undecided.worse(Verdict::Invalid).name(), "INVALID");
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Verdict {
        /// Every condition holds.
        Valid = "VALID",
        /// No condition is proven broken, but what was measured does not decide all of them.
        Undecided = "UNDECIDED",
        /// A condition does not hold.
        Invalid = "INVALID",
        /// Interrupted with Ctrl-C.
        Interrupted = "INTERRUPTED",
        /// The run was aborted.
        Aborted = "ABORTED",
    }
}

impl Verdict {
    /// Returns the worse of two verdicts, in the order VALID, UNDECIDED, INVALID, ABORTED,
    /// INTERRUPTED.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let weight = |verdict| match verdict {
            Self::Valid => 0,
            Self::Undecided => 1,
            Self::Invalid => 2,
            Self::Aborted => 3,
            Self::Interrupted => 4,
        };
        if weight(other) > weight(self) { other } else { self }
    }
}

/// Cause of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Dyno itself, or its machine: it issued or received too late, or did not run. The run gives no
    /// information about the system.
    Client,
    /// The system under test.
    System,
}

/// Violated condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReasonKind {
    /// The run ended before it was complete.
    Ended,
    /// The queue grew without bound.
    Saturated,
    /// Samples failed.
    Failures,
    /// Samples were never answered.
    Missing,
    /// Too many samples were over a bound of latency.
    Bound,
    /// MultiStream at a fixed interval: too many queries skipped an interval.
    Intervals,
    /// The client was late or overloaded.
    ClientLag,
    /// The run was too short.
    Duration,
    /// Too few queries were issued, or too few samples were answered.
    QueryCount,
    /// Too few queries to be certain of the percentile.
    EarlyStopping,
    /// A token figure uses inconsistent counts.
    Tokens,
    /// The server does not stream, so a bound on tokens cannot be judged.
    NoStream,
    /// The answers are not good enough.
    Accuracy,
    /// A requirement is missed, or undecided.
    Requirement,
    /// A consequence of another reason of this test.
    Consequence,
    /// The run of another tenant does not count.
    OtherTenant,
    /// Any other condition.
    #[serde(other)]
    Other,
}

/// One reason why a test is not VALID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reason {
    /// violated condition, such as `failures`, `bound` or `early_stopping`
    pub kind: ReasonKind,
    /// `client` or `system`; null if unknown
    pub cause: Option<Cause>,
    /// more queries could meet the condition, and no measurement contradicts it so far
    #[serde(default)]
    pub undecided: bool,
    /// the same text as in `reasons`
    pub text: String,
}

impl Reason {
    /// Returns a reason without a cause.
    pub fn new(kind: ReasonKind, text: impl Into<String>) -> Self {
        Self { kind, cause: None, undecided: false, text: text.into() }
    }

    /// Sets the cause.
    #[must_use]
    pub fn because_of(self, cause: Cause) -> Self {
        Self { cause: Some(cause), ..self }
    }

    /// Marks the reason as one that more queries could remove.
    #[must_use]
    pub fn undecided(self) -> Self {
        Self { undecided: true, ..self }
    }
}

impl State {
    /// Returns the verdict of a test or run in this state; `of_complete` if it is complete.
    pub fn verdict(self, of_complete: Verdict) -> Verdict {
        match self {
            Self::Complete => of_complete,
            Self::Interrupted => Verdict::Interrupted,
            Self::Aborted => Verdict::Aborted,
        }
    }
}

impl Test {
    /// Adds a reason why the test is not VALID.
    pub fn add_reason(&mut self, reason: Reason) {
        self.reasons.push(reason.text.clone());
        self.causes.push(reason);
    }

    /// Adds a reason after those about the end of the run and about failures.
    pub fn add_reason_after_failures(&mut self, reason: Reason) {
        let is_first = |reason: &&Reason| {
            matches!(
                reason.kind,
                ReasonKind::Ended
                    | ReasonKind::Saturated
                    | ReasonKind::Failures
                    | ReasonKind::Missing
            )
        };
        let at = self.causes.iter().take_while(is_first).count().min(self.reasons.len());
        self.reasons.insert(at, reason.text.clone());
        self.causes.insert(at, reason);
    }

    /// Removes the advice to change the system, the load or the length of the run from reasons about
    /// bounds and requirements, because the client's delays contributed to them.
    pub fn withdraw_advice(&mut self) {
        self.restate_requirements();
        for reason in self.causes.iter_mut().filter(|reason| reason.kind == ReasonKind::Bound) {
            let Some((finding, _)) = reason.text.split_once("; lower ") else { continue };
            let text = format!("{finding}; that includes delays of the client");
            let same = self.reasons.iter_mut().find(|same| **same == reason.text);
            same.into_iter().for_each(|same| same.clone_from(&text));
            reason.text = text;
        }
    }

    fn restate_requirements(&mut self) {
        // A time that was not measured includes no delays.
        let times = self
            .requirements
            .iter()
            .filter(|required| required.unit == "ns" && required.value.is_some());
        for required in times {
            let begin = format!("The requirement {} is ", required.requirement);
            let is_own = |reason: &&mut Reason| {
                reason.kind == ReasonKind::Requirement && reason.text.starts_with(&begin)
            };
            let Some(reason) = self.causes.iter_mut().find(is_own) else { continue };
            let (finding, measured) = (required.finding.word(), required.measured_text());
            let text = format!("{begin}{finding}: {measured}. That includes delays of the client.");
            let same = self.reasons.iter_mut().find(|same| **same == reason.text);
            same.into_iter().for_each(|same| same.clone_from(&text));
            reason.undecided = required.finding == RequirementFinding::Undecided;
            reason.text = text;
        }
    }

    /// Removes the reasons of these kinds.
    pub fn remove_reasons(&mut self, kinds: &[ReasonKind]) {
        let (gone, kept) = std::mem::take(&mut self.causes)
            .into_iter()
            .partition::<Vec<_>, _>(|reason| kinds.contains(&reason.kind));
        self.causes = kept;
        self.reasons.retain(|text| !gone.iter().any(|reason| reason.text == *text));
    }

    /// Adds a reason before all others.
    pub fn add_first_reason(&mut self, reason: Reason) {
        self.reasons.insert(0, reason.text.clone());
        self.causes.insert(0, reason);
    }

    /// Returns whether the verdict is UNDECIDED.
    pub fn is_undecided(&self) -> bool {
        self.verdict == Verdict::Undecided.name()
    }

    /// Returns the first reason of the verdict: of INVALID none that is undecided or follows from others.
    pub fn first_reason(&self) -> Option<&String> {
        let proven = self.causes.iter().find(|reason| {
            let is_proven = !reason.undecided && reason.kind != ReasonKind::Consequence;
            is_proven && self.reasons.contains(&reason.text)
        });
        proven.map(|reason| &reason.text).or(self.reasons.first())
    }

    /// Returns whether the test is VALID and stated so; a damaged summary may do only one of them.
    pub fn is_stated_valid(&self) -> bool {
        self.is_valid() && self.verdict == Verdict::Valid.name()
    }

    /// Returns how the stated verdict contradicts the state and the reasons; `None` if it does not.
    pub fn contradiction(&self) -> Option<String> {
        contradiction(&self.verdict, self.judged(), "its reasons")
    }

    /// Derives the verdict from the state and the reasons. A reason that is only in `reasons` and not
    /// in `causes` makes the test INVALID.
    pub fn judged(&self) -> Verdict {
        self.state.verdict(self.judged_if_complete())
    }

    fn judged_if_complete(&self) -> Verdict {
        if self.reasons.is_empty() {
            return Verdict::Valid;
        }
        let known = |text: &String| self.causes.iter().find(|reason| reason.text == *text);
        let is_open = |text: &String| {
            known(text).is_some_and(|r| r.undecided || r.kind == ReasonKind::Consequence)
        };
        let is_undecided = self.causes.iter().any(|reason| reason.undecided);
        if is_undecided && self.reasons.iter().all(is_open) {
            Verdict::Undecided
        } else {
            Verdict::Invalid
        }
    }

    /// Sets the verdict that follows from the state and the reasons.
    pub fn settle(&mut self) {
        self.verdict = self.judged().name().into();
    }
}

impl Run {
    /// Returns whether the verdict is UNDECIDED.
    pub fn is_undecided(&self) -> bool {
        self.verdict == Verdict::Undecided.name()
    }

    /// Returns the first reason of the verdict: that of a test with the same verdict, if there is one.
    pub fn first_reason(&self) -> Option<&String> {
        let same = self.tests.iter().filter(|test| test.verdict == self.verdict);
        same.chain(&self.tests).find_map(Test::first_reason)
    }

    /// Returns whether the run is VALID, and the run and each test say so; a damaged summary may do only
    /// some of this.
    pub fn is_stated_valid(&self) -> bool {
        let is_complete = self.state == State::Complete && self.contradiction().is_none();
        is_complete && self.tests.iter().all(Test::is_stated_valid)
    }

    /// Returns how the stated verdict contradicts the tests, or that there are none; `None` if neither.
    pub fn contradiction(&self) -> Option<String> {
        if self.tests.is_empty() {
            return Some("the run has no tests".into());
        }
        contradiction(&self.verdict, self.judged(), "its tests")
    }

    /// Derives the verdict from the state and the verdicts of the tests.
    pub fn judged(&self) -> Verdict {
        let tests = self.tests.iter().map(Test::judged);
        self.state.verdict(tests.fold(Verdict::Valid, Verdict::worse))
    }

    /// Sets the verdict that follows from those of the tests.
    pub fn settle(&mut self) {
        self.verdict = self.judged().name().into();
    }
}

/// Returns how a stated verdict contradicts the derived one: only one of them is VALID, or the stated one is
/// none. Earlier versions derived the others by other rules.
fn contradiction(stated: &str, derived: Verdict, from: &str) -> Option<String> {
    let all = [
        Verdict::Valid,
        Verdict::Invalid,
        Verdict::Undecided,
        Verdict::Interrupted,
        Verdict::Aborted,
    ];
    let known = all.into_iter().find(|verdict| verdict.name() == stated);
    let is_alike = |known: Verdict| (known == Verdict::Valid) == (derived == Verdict::Valid);
    (!known.is_some_and(is_alike)).then(|| {
        let derived = derived.name();
        format!("the stated verdict is {stated}, but {from} make it {derived}; the file is damaged")
    })
}

/// Makes tenants UNDECIDED whose only reason is another tenant, if the worst verdict of the other
/// tenants is UNDECIDED.
pub fn settle_tenants<'a>(tests: impl Iterator<Item = &'a mut Test>) {
    let mut tests: Vec<&mut Test> = tests.collect();
    let follows = |test: &Test| {
        !test.causes.is_empty() && test.causes.iter().all(|r| r.kind == ReasonKind::OtherTenant)
    };
    let own = tests.iter().filter(|test| !follows(test)).map(|test| test.judged());
    if own.fold(Verdict::Valid, Verdict::worse) != Verdict::Undecided {
        return;
    }
    for test in tests.iter_mut().filter(|test| follows(test)) {
        test.causes.iter_mut().for_each(|reason| reason.undecided = true);
        test.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Requirement;

    fn test(reasons: Vec<Reason>) -> Test {
        let mut test = Test::new("Server", "performance");
        reasons.into_iter().for_each(|reason| test.add_reason(reason));
        test
    }

    fn too_few() -> Reason {
        Reason::new(ReasonKind::EarlyStopping, "62 more queries are needed").undecided()
    }

    #[test]
    fn a_test_is_undecided_only_if_every_reason_is_too_few_queries() {
        let bound = || Reason::new(ReasonKind::Bound, "over the bound");
        let follows = || Reason::new(ReasonKind::Consequence, "no lower load was tried");
        for (reasons, expected) in [
            (vec![], Verdict::Valid),
            (vec![too_few()], Verdict::Undecided),
            (vec![too_few(), follows()], Verdict::Undecided),
            (vec![follows()], Verdict::Invalid),
            (vec![bound()], Verdict::Invalid),
            (vec![bound(), too_few()], Verdict::Invalid),
        ] {
            assert_eq!(test(reasons.clone()).judged(), expected, "{reasons:?}");
        }
    }

    #[test]
    fn a_reason_that_is_only_text_makes_a_test_invalid() {
        let mut mixed = test(vec![too_few()]);
        mixed.reasons.push("of a later part of the program".into());
        assert_eq!(mixed.judged(), Verdict::Invalid);
    }

    #[test]
    fn a_tenant_that_depends_on_an_undecided_one_is_undecided() {
        let other = || Reason::new(ReasonKind::OtherTenant, "see tenant a");
        for (first, expected) in
            [(too_few(), "UNDECIDED"), (Reason::new(ReasonKind::Bound, "over"), "INVALID")]
        {
            let mut both = [test(vec![first]), test(vec![other()])];
            both.iter_mut().for_each(Test::settle);
            settle_tenants(both.iter_mut());
            assert_eq!(both[1].verdict, expected);
        }
    }

    #[test]
    fn no_more_speed_is_advised_where_the_client_was_late() {
        let bound = "17 samples are over the bound; lower server_target_qps or make it faster";
        let mut late = test(vec![Reason::new(ReasonKind::Bound, bound), too_few()]);
        late.withdraw_advice();
        let expected = "17 samples are over the bound; that includes delays of the client";
        assert_eq!((&late.reasons[0][..], &late.causes[0].text[..]), (expected, expected));
        assert_eq!(late.reasons[1], too_few().text);
    }

    #[test]
    fn a_requirement_is_not_the_systems_where_the_client_was_late() {
        let text = "The requirement latency p99.9 <= 15.0 ms is missed: 24.8 ms. Lower the load.";
        let mut late = test(vec![Reason::new(ReasonKind::Requirement, text)]);
        late.requirements.push(Requirement {
            requirement: "latency p99.9 <= 15.0 ms".into(),
            metric: "latency.p99.9".into(),
            unit: "ns".into(),
            finding: RequirementFinding::Undecided,
            value: Some(24.8e6),
            ..Requirement::default()
        });
        assert_eq!(late.requirements[0].percentile("latency"), Some(0.999));
        assert_eq!(late.requirements[0].percentile("ttft"), None);
        late.withdraw_advice();
        let found = &late.causes[0].text;
        assert!(found.contains("is undecided: 24.8 ms") && !found.contains("Lower"), "{found}");
        assert!(found.ends_with("That includes delays of the client."), "{found}");
        assert_eq!((&late.reasons[0], late.judged()), (found, Verdict::Undecided));
    }

    #[test]
    fn a_time_that_was_not_measured_includes_no_delays_of_the_client() {
        let text = "The requirement TPOT p50 <= 50.0 ms is undecided: not measured. Remove it.";
        let mut late = test(vec![Reason::new(ReasonKind::Requirement, text).undecided()]);
        late.requirements.push(Requirement {
            requirement: "TPOT p50 <= 50.0 ms".into(),
            metric: "tpot.p50".into(),
            unit: "ns".into(),
            ..Requirement::default()
        });
        late.withdraw_advice();
        assert_eq!(late.reasons, [text]);
    }

    #[test]
    fn an_interrupt_wins_over_what_was_measured() {
        let cut = Test { state: State::Interrupted, ..test(vec![too_few()]) };
        assert_eq!(cut.judged(), Verdict::Interrupted);
    }
}
