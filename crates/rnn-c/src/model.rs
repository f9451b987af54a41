//! Models: loaded, run, freed.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use dyno_c_border::{array, array_mut, exclusive, free, shared, text};
use dyno_rnn::Precision;
use dyno_rnn::engine::{Engine, EngineOptions};
use dyno_rnn::model::Model;

use crate::error::{Error, caught, dyno_rnn_result, result};

/// How numbers of products are held.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum dyno_rnn_precision {
    /// 32 bits.
    DYNO_RNN_F32 = 0,
    /// 16 bits, with the exponents of 32.
    DYNO_RNN_BF16 = 1,
    /// 8 bits.
    DYNO_RNN_INT8 = 2,
}

use dyno_rnn_precision::{DYNO_RNN_BF16, DYNO_RNN_F32, DYNO_RNN_INT8};

/// How a model is run. All zeros are the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct dyno_rnn_options {
    /// Threads that work on a call, the caller's among them; 0 is 1.
    pub threads: usize,
    /// One of `dyno_rnn_precision`.
    pub precision: c_int,
    /// Steps of the sequences that matter, which plans are made for; 0 is 100.
    pub steps: usize,
}

/// Sizes of a model.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct dyno_rnn_shape {
    /// Numbers of a step's input.
    pub inputs: usize,
    /// Numbers of a step's output.
    pub outputs: usize,
    /// Numbers of the states of a row of a batch, all layers together.
    pub states: usize,
    /// Layers.
    pub layers: usize,
}

/// A model with its threads.
pub struct dyno_rnn_model {
    engine: Mutex<Engine>,
}

/// More threads than any machine has cores.
const MOST_THREADS: usize = 1024;

/// Loads a model: `model` names a file `.onnx` or `.safetensors`, one of its layers as `FILE#LAYER`,
/// or a layer of made-up weights by its shape, such as `lstm:256x256`. `options` may be NULL. NULL
/// after an error.
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
        let engine = Engine::new(Model::open(model)?, &options)?;
        Ok(Box::into_raw(Box::new(dyno_rnn_model { engine: Mutex::new(engine) })))
    })
}

/// Frees a model; NULL is allowed. No call that uses it may be under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_rnn_free(model: *mut dyno_rnn_model) {
    caught((), || {
        // SAFETY: C passes NULL or what `dyno_rnn_open` returned, once.
        unsafe { free(model) };
        Ok(())
    });
}

/// The sizes of a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_rnn_get_shape(
    model: *const dyno_rnn_model,
    shape: *mut dyno_rnn_shape,
) -> dyno_rnn_result {
    result(|| {
        // SAFETY: C passes NULL or a handle that is not freed yet.
        let model = unsafe { shared(model, "model") }?;
        // SAFETY: C passes NULL or a struct that nobody else uses during the call.
        let shape = unsafe { exclusive(shape, "shape") }?;
        let engine = model.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let of = engine.model();
        *shape = dyno_rnn_shape {
            inputs: of.inputs(),
            outputs: of.outputs(),
            states: engine.state_numbers(1)?,
            layers: of.layers().len(),
        };
        Ok(())
    })
}

/// A batch: arrays of the caller's, each with its count.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dyno_rnn_batch {
    /// Rows (>= 1).
    pub rows: usize,
    /// Steps of each row, `rows` numbers; NULL if all have as many as `input` has.
    pub lengths: *const usize,
    /// Steps x rows x inputs. What lies behind a row's last step is not looked at.
    pub input: *const f32,
    /// Numbers of `input`.
    pub input_count: usize,
    /// Steps x rows x outputs, to be written; zeros behind a row's last step.
    pub output: *mut f32,
    /// Numbers of `output`.
    pub output_count: usize,
    /// States to begin with, and then those after each row's last step: layer after layer its hidden states,
    /// directions x rows x units, and of an LSTM its cells likewise. NULL begins at zeros and
    /// returns none.
    pub states: *mut f32,
    /// Numbers of `states`: `rows` times those of the shape; 0 if it is NULL.
    pub states_count: usize,
}

/// Runs a batch. Calls for one model from several threads wait for each other. Nothing is written after
/// an error of a pointer or a size.
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
        // SAFETY: the header demands arrays of these counts that nobody changes during the call.
        let input = unsafe { array(batch.input, batch.input_count, "input") }?;
        // SAFETY: as above, and that nobody else uses.
        let output = unsafe { array_mut(batch.output, batch.output_count, "output") }?;
        let mut engine = model.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let row = engine.model().inputs();
        // Lengths that would be more than the numbers are never made.
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
            // SAFETY: as for the input.
            unsafe { array(batch.lengths, batch.rows, "lengths") }?
        };
        let states = if batch.states.is_null() && batch.states_count == 0 {
            None
        } else {
            // SAFETY: as for the output.
            Some(unsafe { array_mut(batch.states, batch.states_count, "states") }?)
        };
        Ok(engine.run(input, lengths, states, output)?)
    })
}
