//! Memory of values that are no longer read, for the values of later steps and runs.
//!
//! Allocators return large blocks to the system, which clears the pages of the next ones.

use std::cell::RefCell;

use crate::value::{Data, Number, Value, count};

/// Memory of fewer bytes is not stored: allocators reuse it.
const LEAST_BYTES: usize = 1 << 14;
/// Maximum blocks that are stored.
const MAX_BLOCKS: usize = 64;

/// Memory for the values of a session. The blocks that are stored have at most as many bytes as the
/// values had at once, and as were asked for. A block that a whole run does not use is returned to the system.
#[derive(Default)]
pub(crate) struct Buffers(RefCell<State>);

#[derive(Default)]
struct State {
    /// Stored blocks, the latest last.
    blocks: Vec<Block>,
    /// Bytes of these blocks.
    bytes: usize,
    /// Bytes of the values that steps may still read, and the maximum of all in this run and the one before.
    live: usize,
    most: usize,
    /// Bytes that only the present step uses: its last inputs, outputs and intermediate results.
    in_step: usize,
    most_before: usize,
    /// Bytes that were asked for in this run and the one before.
    asked: usize,
    asked_before: usize,
    run: u64,
}

struct Block {
    data: Data,
    /// Run in which the block was stored.
    run: u64,
}

impl Block {
    fn bytes(&self) -> usize {
        self.data.capacity() * self.data.element().size()
    }
}

fn bytes(value: &Value) -> usize {
    value.len() * value.element().size()
}

impl Buffers {
    /// Returns an empty vector with room for these dimensions.
    pub fn room<T: Number>(&self, dims: &[usize]) -> Result<Vec<T>, String> {
        let count = count(dims, size_of::<T>())?;
        let mut all = self.0.borrow_mut().take(count).unwrap_or_default();
        all.clear();
        all.reserve_exact(count);
        Ok(all)
    }

    /// Returns a vector for these dimensions, with any elements. The caller replaces all of them.
    pub fn stale<T: Number>(&self, dims: &[usize]) -> Result<Vec<T>, String> {
        let count = count(dims, size_of::<T>())?;
        match self.0.borrow_mut().take(count) {
            None => Ok(vec![T::default(); count]),
            Some(mut all) => {
                all.resize(count, T::default());
                Ok(all)
            }
        }
    }

    /// Begins a step.
    pub fn begin_step(&self) {
        self.0.borrow_mut().in_step = 0;
    }

    /// Counts a value that steps may read.
    pub fn hold(&self, value: &Value) {
        let mut state = self.0.borrow_mut();
        state.live += bytes(value);
        state.most = state.most.max(state.live);
    }

    /// Stores the memory of a value that was held, unless others share it.
    pub fn release(&self, value: Value) {
        let mut state = self.0.borrow_mut();
        state.live = state.live.saturating_sub(bytes(&value));
        state.in_step += bytes(&value);
        state.store(value.into_data());
    }

    /// Stores the memory of a value, unless others share it.
    pub fn store(&self, value: Value) {
        self.0.borrow_mut().store(value.into_data());
    }

    /// Returns the memory that the run has not used to the system.
    pub fn end_run(&self) {
        let mut state = self.0.borrow_mut();
        let run = state.run;
        state.blocks.retain(|block| block.run == run);
        state.bytes = state.blocks.iter().map(Block::bytes).sum();
        (state.most_before, state.most, state.live) = (state.most, 0, 0);
        (state.asked_before, state.asked) = (state.asked, 0);
        state.run = run + 1;
    }

    /// Returns the bytes that are stored.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.0.borrow().bytes
    }
}

impl State {
    /// Takes the smallest block with room for `count` elements, unless it is more than twice as large.
    fn take<T: Number>(&mut self, count: usize) -> Option<Vec<T>> {
        self.in_step += count * size_of::<T>();
        self.asked += count * size_of::<T>();
        self.most = self.most.max(self.live + self.in_step);
        let blocks = self.blocks.iter().enumerate();
        let sizes = blocks.filter_map(|(at, block)| {
            T::slice(&block.data)?;
            Some((block.data.capacity(), at))
        });
        let fits = sizes.filter(|(room, _)| *room >= count && *room / 2 <= count);
        let (_, at) = fits.min()?;
        let block = self.blocks.remove(at);
        self.bytes -= block.bytes();
        T::take(block.data)
    }

    fn store(&mut self, data: Data) {
        let block = Block { data, run: self.run };
        if block.bytes() < LEAST_BYTES || !block.data.is_unshared() {
            return;
        }
        self.bytes += block.bytes();
        self.blocks.push(block);
        let asked = self.asked.max(self.asked_before);
        let limit = self.most.max(self.most_before).min(asked);
        while self.bytes > limit || self.blocks.len() > MAX_BLOCKS {
            self.bytes -= self.blocks.remove(0).bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dyno_onnx::{Attribute, Builder, Element, Fill, Model, Weights};

    use super::*;
    use crate::{Graph, Session, SessionOptions};

    const COUNT: usize = 1 << 14;

    fn value(count: usize) -> Value {
        Value::new(vec![count], vec![1.0_f32; count]).expect("as many")
    }

    /// Returns the place of a value's elements.
    fn place(value: &Value) -> *const f32 {
        value.as_slice::<f32>().expect("numbers").as_ptr()
    }

    #[test]
    fn a_vector_takes_the_memory_of_a_released_value() {
        let buffers = Buffers::default();
        drop(buffers.room::<f32>(&[8 * COUNT]).expect("memory"));
        let (value, shared, other) = (value(COUNT), value(COUNT), value(4 * COUNT));
        let (own, far) = (place(&value), place(&other));
        let copy = shared.clone();
        let held = [value, shared, other];
        held.iter().for_each(|value| buffers.hold(value));
        held.into_iter().for_each(|value| buffers.release(value));
        let stale = buffers.stale::<f32>(&[COUNT - 1]).expect("memory");
        assert_eq!((stale.as_ptr(), stale.len()), (own, COUNT - 1));
        // The memory that is left is shared, or too large.
        let next = buffers.stale::<f32>(&[COUNT]).expect("memory");
        assert!(next.as_ptr() != far && next == vec![0.0; COUNT] && copy == self::value(COUNT));
        let wide = buffers.room::<f64>(&[2 * COUNT]).expect("memory");
        assert_ne!(wide.as_ptr().cast(), far);
        let room = buffers.room::<f32>(&[3 * COUNT]).expect("memory");
        assert_eq!((room.as_ptr(), room.len(), buffers.bytes()), (far, 0, 0));
    }

    #[test]
    fn memory_is_bounded_by_the_values_at_once() {
        let buffers = Buffers::default();
        let hold = |count: usize| {
            let value = value(count);
            buffers.hold(&value);
            buffers.release(value);
        };
        hold(COUNT);
        assert_eq!(buffers.bytes(), 0, "no step asked for memory");
        drop(buffers.room::<f32>(&[COUNT]).expect("memory"));
        for count in COUNT..COUNT + 100 {
            hold(count);
            assert!(buffers.bytes() <= 4 * count);
        }
        // Values that were not held.
        for _ in 0..10 {
            buffers.store(value(COUNT));
        }
        assert!(buffers.bytes() <= 4 * (COUNT + 99));
        buffers.end_run();
        assert!(buffers.bytes() > 0);
        // No value of this run uses it.
        buffers.end_run();
        assert_eq!(buffers.bytes(), 0);
    }

    /// Returns convolutions with plain, packed and depthwise filters, a product, and images of any height.
    fn model() -> Model {
        let mut net = Builder::new("net", Weights::seeded(1));
        let shape = [2.into(), 130.into(), 30.into(), 50.into()];
        let x = net.input("x", Element::F32, &shape);
        let mut last = x.clone();
        for (outputs, groups) in [(8, 1), (8, 8), (130, 1), (3, 1)] {
            let channels = net.shape(&last)[1].fixed().expect("a number") / groups;
            let name = format!("w_{outputs}_{groups}");
            let weights = net.weight(&name, &[outputs, channels, 3, 3], Fill::Uniform(0.5));
            let attributes =
                [("group", Attribute::Int(groups as i64)), ("pads", Attribute::Ints(vec![1; 4]))];
            last =
                net.node("Conv", &[&last, &weights.expect("names")], &attributes).expect("a node");
        }
        let weights = net.weight("m", &[50, 40], Fill::Uniform(0.5)).expect("a name");
        let y = net.node("MatMul", &[&last, &weights], &[]).expect("a node");
        net.output("y", &y).expect("an output");
        let mut model = net.finish();
        // Shape inference does not know windows over axes of any size.
        (model.inputs[0].shape, model.outputs[0].shape) = (None, None);
        model
    }

    #[test]
    fn runs_of_any_shapes_do_not_depend_on_those_before() {
        let graph = Arc::new(Graph::new(&model()).expect("a graph"));
        let new = || Session::new(Arc::clone(&graph), &SessionOptions::default());
        let mut session = new();
        let mut all = Vec::new();
        for (run, height) in [9_usize, 30, 9, 9, 1, 30, 30].into_iter().enumerate() {
            let numbers = (0..2 * 130 * height * 50).map(|at| ((at * 7 + run) % 13) as f32 - 6.0);
            let x = Value::new(vec![2, 130, height, 50], numbers.collect()).expect("an image");
            let found = session.run(std::slice::from_ref(&x)).expect("a run");
            all.push((found, new().run(&[x]).expect("a run")));
            // At most the values of 130 channels, which are an input and an output at once.
            let bytes = session.workspace.buffers.bytes();
            assert!(bytes > 0 && bytes < 4 * 2 * 130 * 30 * 50 * 3, "{bytes}");
        }
        // Later runs do not change the outputs of those before.
        for (run, (found, expected)) in all.iter().enumerate() {
            assert_eq!(found, expected, "run {run}");
        }
    }
}
