//! Shape arithmetic: integers that are computed from the sizes of values.

use dyno_onnx::{Attribute, Element, Node};

use super::axes::Count;

/// Maximum integers of a value.
const MOST: usize = 64;

/// Returns the integers that a node computes, or `None` if it computes anything else.
///
/// `shape` has the sizes of the first input's dimensions, if they are known; `value` returns the
/// integers of a value.
pub fn integers<'a>(
    node: &Node,
    shape: Option<&[Count]>,
    value: &dyn Fn(&str) -> Option<&'a [Count]>,
) -> Option<Vec<Count>> {
    if !node.domain.is_empty() {
        return None;
    }
    let input = |at: usize| value(node.inputs.get(at)?);
    // An attribute in old versions of an operator, an input in new ones.
    let numbers = |name: &str, at: usize| -> Option<Vec<i64>> {
        match node.ints(name) {
            Some(numbers) => Some(numbers.to_vec()),
            None => input(at)?.iter().map(fixed).collect(),
        }
    };
    let found = match node.op.as_str() {
        "Constant" => match node.attributes.first()? {
            (name, Attribute::Ints(numbers)) if name == "value_ints" => {
                numbers.iter().map(|number| Count::fixed(*number)).collect()
            }
            (name, Attribute::Int(number)) if name == "value_int" => vec![Count::fixed(*number)],
            _ => return None,
        },
        "Shape" => {
            let shape = shape?;
            let (start, end) = (node.int("start", 0), node.int("end", i64::MAX));
            part(shape, start, end)?.to_vec()
        }
        "Identity" | "Squeeze" => input(0)?.to_vec(),
        // Other types may not have these integers.
        "Cast" if [Element::I64, Element::I32].iter().any(|to| is_cast_to(node, *to)) => {
            input(0)?.to_vec()
        }
        // More integers would become a row, whose first element is not an integer.
        "Unsqueeze" if input(0).is_some_and(|all| all.len() == 1) => input(0)?.to_vec(),
        "Gather" if node.int("axis", 0) == 0 => {
            let all = input(0)?;
            let one = |count: &Count| {
                let at = fixed(count)?;
                let at = if at < 0 { at.checked_add(i64::try_from(all.len()).ok()?)? } else { at };
                all.get(usize::try_from(at).ok()?).cloned()
            };
            input(1)?.iter().map(one).collect::<Option<_>>()?
        }
        "Slice" => {
            let is_only = |name: &str, at: usize, expected: i64| match numbers(name, at) {
                Some(all) => all == [expected],
                None => node.inputs.get(at).is_none_or(String::is_empty),
            };
            let is_plain = is_only("axes", 3, 0) && is_only("steps", 4, 1);
            let ([start], [end]) = (&numbers("starts", 1)?[..], &numbers("ends", 2)?[..]) else {
                return None;
            };
            part(input(0)?, *start, *end).filter(|_| is_plain)?.to_vec()
        }
        "Concat" if node.int("axis", 0) == 0 => {
            let mut all = Vec::new();
            for at in 0..node.inputs.len() {
                all.extend_from_slice(input(at)?);
                if all.len() > MOST {
                    return None;
                }
            }
            all
        }
        "Mul" => products(input(0)?, input(1)?)?,
        _ => return None,
    };
    (found.len() <= MOST).then_some(found)
}

fn products(one: &[Count], other: &[Count]) -> Option<Vec<Count>> {
    let count = one.len().max(other.len());
    let fits = |counts: &[Count]| counts.len() == count || counts.len() == 1;
    if !fits(one) || !fits(other) {
        return None;
    }
    let at = |counts: &[Count], at: usize| counts[at % counts.len()].clone();
    (0..count).map(|index| at(one, index).times(&at(other, index))).collect()
}

fn is_cast_to(node: &Node, to: Element) -> bool {
    node.int("to", 0) == i64::from(dyno_onnx::code_of(to))
}

fn fixed(count: &Count) -> Option<i64> {
    count.symbols.is_empty().then_some(count.number)
}

/// Returns the counts from `start` to before `end`, which count from the end if negative.
fn part(counts: &[Count], start: i64, end: i64) -> Option<&[Count]> {
    let length = i64::try_from(counts.len()).ok()?;
    let at = |at: i64| if at < 0 { at.saturating_add(length) } else { at }.clamp(0, length);
    let (start, end) = (usize::try_from(at(start)).ok()?, usize::try_from(at(end)).ok()?);
    counts.get(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a node with inputs that are separated by commas, and the attribute `to`.
    fn node(op: &str, inputs: &str, to: Option<i64>) -> Node {
        Node {
            name: "node".into(),
            op: op.into(),
            domain: String::new(),
            inputs: inputs.split(',').map(str::to_owned).collect(),
            outputs: vec!["y".into()],
            attributes: to.into_iter().map(|to| ("to".to_owned(), Attribute::Int(to))).collect(),
        }
    }

    #[test]
    fn integers_that_depend_on_unknown_values_or_types_are_unknown() {
        let counts = |all: &[i64]| all.iter().map(|n| Count::fixed(*n)).collect::<Vec<_>>();
        let (sizes, zero, one) = (counts(&[5, 6, 7]), counts(&[0]), counts(&[1]));
        let value = |name: &str| match name {
            "sizes" => Some(&sizes[..]),
            "zero" => Some(&zero[..]),
            "one" => Some(&one[..]),
            _ => None,
        };
        for (op, inputs, to, expected) in [
            ("Slice", "sizes,zero,one", None, Some(vec![5])),
            ("Slice", "sizes,zero,one,zero,one", None, Some(vec![5])),
            ("Slice", "sizes,zero,one,,one", None, Some(vec![5])),
            ("Slice", "sizes,zero,one,computed", None, None),
            ("Slice", "sizes,zero,one,zero,computed", None, None),
            ("Cast", "sizes", Some(7), Some(vec![5, 6, 7])),
            // Booleans.
            ("Cast", "sizes", Some(9), None),
            ("Unsqueeze", "one,zero", None, Some(vec![1])),
            ("Unsqueeze", "sizes,zero", None, None),
        ] {
            let found = integers(&node(op, inputs, to), None, &value);
            let found: Option<Vec<i64>> =
                found.map(|all| all.iter().map(|count| count.number).collect());
            assert_eq!(found, expected, "{op} {inputs}");
        }
    }
}
