//! Executes the steps of a graph, for the evaluator and for packed models.

use super::read::Steps;
use super::step::StepError;
use super::target::Context;
use super::tensor::Tensor;

/// Index of the failed step, and the reason.
pub(super) type StepFailure = (usize, StepError);

impl Steps {
    /// Returns the values that exist before any step: inputs, in the order of the model, and
    /// constants.
    pub fn begin(&self, inputs: impl IntoIterator<Item = Tensor>) -> Vec<Option<Tensor>> {
        let mut values = vec![None; self.values];
        for (value, input) in self.inputs.iter().zip(inputs) {
            values[*value] = Some(input);
        }
        for (value, tensor) in &self.constants {
            values[*value] = Some(tensor.clone());
        }
        values
    }

    /// Returns which steps are necessary for the answer, given the values that exist.
    pub fn needed(&self, values: &[Option<Tensor>]) -> Vec<bool> {
        let mut is_asked = vec![false; values.len()];
        is_asked[self.output] = values[self.output].is_none();
        let mut is_needed = vec![false; self.steps.len()];
        for (at, step) in self.steps.iter().enumerate().rev() {
            if step.outputs.iter().flatten().any(|value| is_asked[*value]) {
                is_needed[at] = true;
                for value in step.inputs.iter().flatten() {
                    is_asked[*value] = values[*value].is_none();
                }
            }
        }
        is_needed
    }

    /// Computes the answer from existing values, and calls `made` with each value that a step
    /// produces. A value is dropped after its last use.
    ///
    /// # Errors
    /// The step that failed, and the reason.
    pub fn answer(
        &self,
        mut values: Vec<Option<Tensor>>,
        context: &mut Context<'_>,
        made: &mut dyn FnMut(usize, &Tensor),
    ) -> Result<Tensor, StepFailure> {
        let is_needed = self.needed(&values);
        // Number of remaining uses of each value.
        let mut uses = vec![0; values.len()];
        uses[self.output] = 1;
        let needed = || self.steps.iter().enumerate().filter(|(at, _)| is_needed[*at]);
        needed().flat_map(|(_, step)| step.inputs.iter().flatten()).for_each(|at| uses[*at] += 1);
        for (at, step) in needed() {
            let mut take = |value: usize| {
                uses[value] -= 1;
                if uses[value] == 0 { values[value].take() } else { values[value].clone() }
            };
            let inputs = step.inputs.iter().map(|value| value.and_then(&mut take)).collect();
            let found = step.op.run(inputs, context).map_err(|why| (at, why))?;
            for (value, tensor) in step.outputs.iter().zip(found) {
                let Some(value) = *value else { continue };
                if let Some((low, high)) = self.whole.get(&value) {
                    let is_outside = |x: &&f32| !(*low..=*high).contains(*x);
                    if let Some(found) = tensor.values.iter().find(is_outside) {
                        let why = format!(
                            "computes the whole number {found}, but this engine computes whole \
                             numbers in float32, exactly from {low} to {high}"
                        );
                        return Err((at, StepError::Mismatch(why)));
                    }
                }
                made(value, &tensor);
                if uses[value] > 0 {
                    values[value] = Some(tensor);
                }
            }
        }
        Ok(values[self.output].take().expect("the output is needed"))
    }
}
