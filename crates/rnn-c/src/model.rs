//! Models: open, run and free.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use dyno_c_border::{array, array_mut, exclusive, free, shared, text};
use dyno_rnn::Precision;
use dyno_rnn::engine::{Engine, EngineOptions};
use dyno_rnn::model::Model;

use crate::error::{Error, caught, dyno_rnn_result, result};

/// Precision of the matrix products.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum dyno_rnn_precision {
    /// 32-bit floating point.
    DYNO_RNN_F32 = 0,
    /// bfloat16: 16 bits with the exponent range of 32.
    DYNO_RNN_BF16 = 1,
    /// 8-bit integers.
    DYNO_RNN_INT8 = 2,
}

use dyno_rnn_precision::{DYNO_RNN_BF16, DYNO_RNN_F32, DYNO_RNN_INT8};

/// Options of a model. All zeros are the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct dyno_rnn_options {
    /// Number of threads that work on a call, including the caller; 0 means 1. Reduced to the
    /// cores that the process may use.
    pub threads: usize,
    /// A `dyno_rnn_precision`.
    pub precision: c_int,
    /// Typical number of steps of a sequence, for which plans are made; 0 means 100.
    pub steps: usize,
}

/// Sizes of a model.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct dyno_rnn_shape {
    /// Numbers in the input of one step.
    pub inputs: usize,
    /// Numbers in the output of one step.
    pub outputs: usize,
    /// Numbers in the states of one row, all layers together.
    pub states: usize,
    /// Number of layers.
    pub layers: usize,
}

/// A model with its threads.
pub struct dyno_rnn_model {
    engine: Mutex<Engine>,
}

/// Maximum threads, above the number of cores of any machine.
const MOST_THREADS: usize = 1024;

/// Loads a model. `model` names a file `.onnx` or `.safetensors`, one of its layers as `FILE#LAYER`,
/// or a layer with random weights by its shape, such as `lstm:256x256`. `options` may be NULL.
/// Returns NULL on error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_rnn_open(
    model: *const c_char,
    options: *const dyno_rnn_options,
) -> *mut dyno_rnn_model {
    caught(ptr::null_mut(), || {
        // SAFETY: C passes NULL or a string that is valid during the call.
        let model = unsafe { text(model, "model") }?;
        let options = if options.is_null() {
            dyno_rnn_options::default()
        } else {
            // SAFETY: C passes NULL or a struct that is valid during the call.
            *unsafe { shared(options, "options") }?
        };
        let wrong = |text: String| Error::new(dyno_rnn_result::DYNO_RNN_ERROR_OPTION, text);
        let known = [
            (DYNO_RNN_F32, Precision::F32),
            (DYNO_RNN_BF16, Precision::Bf16),
            (DYNO_RNN_INT8, Precision::Int8),
        ];
        let precision = known.iter().find(|(code, _)| *code as c_int == options.precision);
        let Some((_, precision)) = precision else {
            return Err(wrong(format!("`precision` is {}, expected 0, 1 or 2", options.precision)));
        };
        if options.threads > MOST_THREADS {
            let found = options.threads;
            return Err(wrong(format!("`threads` is {found}, expected {MOST_THREADS} at most")));
        }
        let default = EngineOptions::default();
        let options = EngineOptions {
            precision: *precision,
            threads: options.threads.max(1),
            steps: if options.steps == 0 { default.steps } else { options.steps },
            ..default
        };
        let model = Model::open(model)?;
        model.check_arrays()?;
        let engine = Engine::new(model, &options)?;
        Ok(Box::into_raw(Box::new(dyno_rnn_model { engine: Mutex::new(engine) })))
    })
}

/// Frees a model; NULL is allowed. No other call may be using the model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_rnn_free(model: *mut dyno_rnn_model) {
    caught((), || {
        // SAFETY: C passes NULL or what `dyno_rnn_open` returned, once.
        unsafe { free(model) };
        Ok(())
    });
}

/// Writes the sizes of a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_rnn_get_shape(
    model: *const dyno_rnn_model,
    shape: *mut dyno_rnn_shape,
) -> dyno_rnn_result {
    result(|| {
        // SAFETY: C passes NULL or a handle that is not freed yet.
        let model = unsafe { shared(model, "model") }?;
        // SAFETY: C passes NULL or a struct that nothing else uses during the call.
        let shape = unsafe { exclusive(shape, "shape") }?;
        let engine = model.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let model = engine.model();
        *shape = dyno_rnn_shape {
            inputs: model.inputs(),
            outputs: model.outputs(),
            states: engine.state_numbers(1)?,
            layers: model.layers().len(),
        };
        Ok(())
    })
}

/// A batch: arrays of the caller, each with its count.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dyno_rnn_batch {
    /// Number of rows, >= 1.
    pub rows: usize,
    /// Steps of each row, `rows` numbers; NULL if all rows have all steps of `input`.
    pub lengths: *const usize,
    /// Input, steps x rows x inputs. Numbers after a row's last step are ignored.
    pub input: *const f32,
    /// Count of `input`.
    pub input_count: usize,
    /// Output to write, steps x rows x outputs; zeros after a row's last step.
    pub output: *mut f32,
    /// Count of `output`.
    pub output_count: usize,
    /// Initial states, replaced by those after each row's last step. Per layer: hidden states,
    /// directions x rows x units, then for an LSTM cell states, directions x rows x units. NULL
    /// starts from zeros, or the constant states of the file, and returns no states.
    pub states: *mut f32,
    /// Count of `states`: `rows` times that of the shape; 0 if `states` is NULL.
    pub states_count: usize,
}

/// Runs a batch. Concurrent calls for one model wait for each other. Nothing is written after an
/// error about a pointer or a size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_rnn_run(
    model: *mut dyno_rnn_model,
    batch: *const dyno_rnn_batch,
) -> dyno_rnn_result {
    result(|| {
        // SAFETY: C passes NULL or a handle that is not freed yet.
        let model = unsafe { shared(model.cast_const(), "model") }?;
        // SAFETY: C passes NULL or a struct that is valid during the call.
        let batch = *unsafe { shared(batch, "batch") }?;
        // SAFETY: the header requires arrays with these counts that do not change during the call.
        let input = unsafe { array(batch.input, batch.input_count, "input") }?;
        // SAFETY: the header requires an array with this count that nothing else uses meanwhile.
        let output = unsafe { array_mut(batch.output, batch.output_count, "output") }?;
        let mut engine = model.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let row = engine.model().inputs();
        // Rejects row counts above the input size before lengths are allocated.
        let size = |text: String| Error::new(dyno_rnn_result::DYNO_RNN_ERROR_SIZE, text);
        if batch.rows == 0 || batch.rows > batch.input_count / row {
            let (rows, count) = (batch.rows, batch.input_count);
            return Err(size(format!(
                "a batch of {rows} rows with {count} numbers of input: expected a row at least, and \
                 {row} numbers for each row of each step"
            )));
        }
        let full;
        let lengths = if batch.lengths.is_null() {
            full = vec![batch.input_count / (batch.rows * row); batch.rows];
            &full[..]
        } else {
            // SAFETY: as for `input`.
            unsafe { array(batch.lengths, batch.rows, "lengths") }?
        };
        let states = if batch.states.is_null() && batch.states_count == 0 {
            None
        } else {
            // SAFETY: as for `output`.
            Some(unsafe { array_mut(batch.states, batch.states_count, "states") }?)
        };
        Ok(engine.run(input, lengths, states, output)?)
    })
}
