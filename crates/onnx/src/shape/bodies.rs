//! Shapes behind nodes that hold graphs of their own: loops, scans and branches.

use std::collections::HashMap;

use dyno_tensors::Element;

use super::{Dim, Fact, Facts, Inferred, ShapeError, input, misfit, run_of, written};
use crate::graph::{Attribute, Body, Node, Port};

/// Facts by the names of values.
pub type Scope = HashMap<String, Fact>;

/// What one run of a body is handed, and how often it runs where that is known.
pub struct Runs<'a> {
    /// The body.
    pub body: &'a Body,
    /// What its inputs are.
    pub handed: Vec<Option<Fact>>,
    /// `None` depends on data.
    pub times: Option<u64>,
}

/// How a node runs its body; `None` for nodes without one that is known here.
///
/// # Errors
/// The node does not take its inputs.
pub fn runs<'a>(node: &'a Node, inputs: &[Option<&Fact>]) -> Result<Option<Runs<'a>>, ShapeError> {
    let body = match (node.domain.as_str(), node.op.as_str(), node.attribute("body")) {
        ("", "Loop" | "Scan", Some(Attribute::Body(body))) => &**body,
        ("", "Loop" | "Scan", _) => return misfit(format!("a {} without a body", node.op)),
        _ => return Ok(None),
    };
    let given = |at: usize| inputs.get(at).copied().flatten();
    if node.op == "Loop" {
        let limit = given(0).and_then(|fact| fact.integers.as_deref());
        // A condition may end it sooner; without one it runs to its limit.
        let times = match (limit, given(1)) {
            (Some(&[limit]), None) => u64::try_from(limit).ok(),
            _ => None,
        };
        let mut handed = vec![
            Some(Fact::new(Element::I64, Vec::new())),
            Some(Fact::new(Element::Bool, Vec::new())),
        ];
        handed.extend(inputs.iter().skip(2).map(|one| one.cloned()));
        return Ok(Some(Runs { body, handed, times }));
    }
    let scanned = usize::try_from(node.int("num_scan_inputs", 0)).unwrap_or(0);
    let plain = |name: &str| node.ints(name).is_none_or(|axes| axes.iter().all(|&axis| axis == 0));
    if !plain("scan_input_axes") || !plain("scan_output_axes") {
        return misfit("a Scan along another axis than the first");
    }
    let Some(carried) = inputs.len().checked_sub(scanned) else {
        return misfit(format!("a Scan of {} inputs, {scanned} of them slices", inputs.len()));
    };
    let slice = |(at, one): (usize, &Option<&Fact>)| match one {
        Some(fact) if at >= carried && !fact.shape.is_empty() => {
            Some(fact.like(fact.shape[1..].to_vec()))
        }
        Some(_) if at >= carried => None,
        one => one.cloned(),
    };
    let handed = inputs.iter().enumerate().map(slice).collect();
    let first = given(carried).and_then(|fact| fact.shape.first()).and_then(Dim::fixed);
    Ok(Some(Runs { body, handed, times: first.map(|n| n as u64) }))
}

/// What is known inside a body when it runs.
#[must_use]
pub fn inside(body: &Body, handed: &[Option<Fact>], outer: &Scope) -> Inferred {
    let mut facts = outer.clone();
    for (port, fact) in body.inputs.iter().zip(handed) {
        match fact.clone().or_else(|| declared(port)) {
            // What is carried changes from run to run.
            Some(fact) => drop(facts.insert(port.name.clone(), Fact { integers: None, ..fact })),
            None => drop(facts.remove(&port.name)),
        }
    }
    facts.extend(body.tensors.iter().map(|tensor| (tensor.name.clone(), Fact::of(tensor))));
    let said = body.between.iter().chain(&body.outputs);
    let said: Scope = said.filter_map(|port| Some((port.name.clone(), declared(port)?))).collect();
    run_of(&body.nodes, facts, &said)
}

fn declared(port: &Port) -> Option<Fact> {
    Some(Fact::new(port.element?, port.shape.clone()?))
}

/// Outputs of a loop or scan: what is carried, then what is joined of all runs.
pub fn looped(node: &Node, inputs: &[Option<&Fact>], outer: &Scope) -> Facts {
    let Some(runs) = runs(node, inputs)? else { return Err(ShapeError::Operator(node.op.clone())) };
    let found = inside(runs.body, &runs.handed, outer);
    let is_loop = node.op == "Loop";
    let carried = if is_loop {
        inputs.len().saturating_sub(2)
    } else {
        inputs.len() - usize::try_from(node.int("num_scan_inputs", 0)).unwrap_or(0)
    };
    // A loop's body says first whether it goes on.
    let outputs = runs.body.outputs.iter().skip(usize::from(is_loop));
    let joined = runs.times.map_or_else(|| Dim::symbol("?"), |n| Dim::Fixed(n as usize));
    let one = |(at, port): (usize, &Port)| {
        let fact = found.facts.get(&port.name).ok_or(ShapeError::Unknown(at))?;
        let mut shape = fact.shape.clone();
        if at >= carried {
            shape.insert(0, joined.clone());
        } else {
            let before = input(inputs, at + if is_loop { 2 } else { 0 })?;
            if before.shape != shape {
                let shapes = (written(&before.shape), written(&shape));
                return misfit(format!(
                    "{} carried from run to run becomes {}",
                    shapes.0, shapes.1
                ));
            }
        }
        Ok(fact.like(shape))
    };
    outputs.enumerate().map(one).collect()
}

/// Outputs of a branch, where both sides agree.
pub fn branched(node: &Node, outer: &Scope) -> Facts {
    let side = |name: &str| match node.attribute(name) {
        Some(Attribute::Body(body)) => {
            let found = inside(body, &[], outer);
            let fact = |port: &Port| found.facts.get(&port.name).cloned();
            Ok(body.outputs.iter().map(fact).collect::<Vec<_>>())
        }
        _ => misfit(format!("an If without {name}")),
    };
    let (yes, no) = (side("then_branch")?, side("else_branch")?);
    let both = yes.into_iter().zip(no).enumerate();
    both.map(|(at, sides)| match sides {
        (Some(yes), Some(no)) if yes.element == no.element && yes.shape == no.shape => {
            Ok(yes.like(yes.shape.clone()))
        }
        (Some(yes), Some(no)) => {
            let shapes = (written(&yes.shape), written(&no.shape));
            misfit(format!("an If whose output is {} or {}", shapes.0, shapes.1))
        }
        _ => Err(ShapeError::Unknown(at)),
    })
    .collect()
}
