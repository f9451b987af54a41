//! A plug-in as a system under test.

use std::sync::{Arc, Mutex, PoisonError};

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::{QuerySample, ResponseId, SystemUnderTest};
use dyno_sut::engine::{EngineInfo, Port};
use dyno_sut::tensors::{SampleTensor, TensorLibrary, each_type};

use crate::abi;
use crate::pending::{self, Pending, PendingSample};
use crate::plugin::{Plugin, PluginInput};
use crate::watch::{CLOSE, Watch};

/// A system that passes samples to a plug-in.
///
/// The plug-in queues and batches by itself. Samples of a query come in one call, at most 1024.
pub struct PluginSystem {
    plugin: Mutex<Plugin>,
    /// Dropped after the plug-in, so that it also watches the end of the engine.
    _watch: Watch,
    name: String,
    info: EngineInfo,
    is_streaming: bool,
    library: Arc<TensorLibrary>,
    /// Position of each input of the plug-in in the library.
    positions: Vec<usize>,
    /// Never freed: the plug-in has its address.
    pending: &'static Pending,
}

/// Maximum number of samples per call.
const SAMPLES_AT_ONCE: usize = 1024;

/// Default time without any completion after which a plug-in is silent.
const TIMEOUT: Nanos = 60_000_000_000;

/// Inputs of a sample as the plug-in sees them.
pub(crate) struct Inputs {
    tensors: Box<[abi::Tensor]>,
    /// Shapes that the tensors point to.
    _shapes: Box<[u64]>,
    /// Data that the tensors point to, unless they are of the library, which lives longer.
    _sample: Option<Arc<[SampleTensor]>>,
}

// SAFETY: the pointers lead to memory that the struct or the library owns and no code changes.
unsafe impl Send for Inputs {}

impl PluginSystem {
    /// Returns a system that takes its samples from this library, which has the plug-in's inputs by
    /// name, or any one input if the plug-in has one.
    ///
    /// # Errors
    /// A sentence on an input that is missing, or that has other elements or dimensions.
    pub fn new(
        plugin: Plugin,
        library: &Arc<TensorLibrary>,
        timeout: Option<Nanos>,
    ) -> Result<Self, String> {
        let positions = positions(&plugin, library)?;
        let pending = Pending::new(plugin.path().to_path_buf(), plugin.is_streaming());
        let pending: &'static Pending = Box::leak(Box::new(pending));
        let watch = Watch::begin(pending, timeout.unwrap_or(TIMEOUT))?;
        Ok(Self {
            name: plugin.name().to_owned(),
            info: info(&plugin),
            is_streaming: plugin.is_streaming(),
            plugin: Mutex::new(plugin),
            _watch: watch,
            library: Arc::clone(library),
            positions,
            pending,
        })
    }

    /// Returns the description of the engine.
    pub fn info(&self) -> &EngineInfo {
        &self.info
    }

    /// Returns whether the engine reports first tokens and counts tokens.
    pub fn is_streaming(&self) -> bool {
        self.is_streaming
    }

    /// Returns what the plug-in did against the interface, which makes every figure worthless.
    pub fn breach(&self) -> Option<&str> {
        self.pending.breach()
    }

    /// Returns the message for the first failed sample, if there is one.
    pub fn failure_reason(&self) -> Option<&str> {
        self.pending.reason()
    }

    fn inputs(&self, sample: &QuerySample) -> Result<Inputs, String> {
        let view = self.library.view(sample.index)?;
        let mut shapes = Vec::new();
        for &at in &self.positions {
            let (shape, _) = view.input(at).ok_or("an input is missing")?;
            shapes.extend(shape.iter().map(|length| *length as u64));
        }
        let shapes = shapes.into_boxed_slice();
        let (mut tensors, mut first) = (Vec::new(), 0);
        for &at in &self.positions {
            let (shape, elements) = view.input(at).ok_or("an input is missing")?;
            let element = elements.element();
            tensors.push(abi::Tensor {
                data: each_type!(&elements, all => all.as_ptr().cast()),
                size: elements.len() * element.size(),
                element: abi::number(element),
                rank: shape.len() as u32,
                shape: shapes[first..].as_ptr(),
            });
            first += shape.len();
        }
        let (tensors, _shapes) = (tensors.into_boxed_slice(), shapes);
        Ok(Inputs { tensors, _shapes, _sample: view.into_owner() })
    }

    fn issue_part(&self, samples: &[QuerySample], responder: &Responder) {
        let mut issued = Vec::with_capacity(samples.len());
        let mut added = Vec::with_capacity(samples.len());
        for sample in samples {
            match self.inputs(sample) {
                Ok(inputs) => {
                    let (id, index) = (sample.id.0, sample.index);
                    issued.push(abi::Sample { id, index, inputs: inputs.tensors.as_ptr() });
                    added.push((sample.id, PendingSample { responder: responder.clone(), inputs }));
                }
                Err(why) => {
                    let inputs = Inputs { tensors: [].into(), _shapes: [].into(), _sample: None };
                    let pending = PendingSample { responder: responder.clone(), inputs };
                    self.pending.add(std::iter::once((sample.id, pending)));
                    self.pending.refuse(std::iter::once(sample.id), why);
                }
            }
        }
        self.pending.add(added.into_iter());
        if issued.is_empty() {
            return;
        }
        let context = std::ptr::from_ref(self.pending).cast_mut().cast();
        let plugin = self.plugin.lock().unwrap_or_else(PoisonError::into_inner);
        self.pending.begin_call("dyno_engine_issue");
        // SAFETY: the engine is open, and the lock keeps other calls out. The samples live during
        // the call. Their inputs live in `pending` until the plug-in completes them, data of the
        // library as long as `self`, which closes the engine first. The context is never freed.
        let code = unsafe {
            let complete = pending::complete;
            (plugin.functions.issue)(
                plugin.engine,
                issued.as_ptr(),
                issued.len(),
                complete,
                context,
            )
        };
        self.pending.end_call();
        drop(plugin);
        if code != 0 {
            // Not those whose inputs could not be read: they have failed already.
            let ids = issued.iter().map(|sample| ResponseId(sample.id));
            self.pending.refuse(ids, format_args!("dyno_engine_issue returned {code}"));
        }
    }
}

impl SystemUnderTest for PluginSystem {
    fn name(&self) -> &str {
        &self.name
    }

    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        for part in samples.chunks(SAMPLES_AT_ONCE) {
            if responder.is_over() {
                break;
            }
            if self.breach().is_some() {
                let ids: Vec<_> = part.iter().map(|sample| sample.id).collect();
                responder.fail(&ids, dyno_loadgen::record::Failure::Internal);
                continue;
            }
            self.issue_part(part, responder);
        }
    }

    fn flush(&self) {
        let plugin = self.plugin.lock().unwrap_or_else(PoisonError::into_inner);
        self.pending.begin_call("dyno_engine_flush");
        // SAFETY: the engine is open, and the lock keeps other calls out.
        unsafe { (plugin.functions.flush)(plugin.engine) };
        self.pending.end_call();
    }
}

impl Drop for PluginSystem {
    fn drop(&mut self) {
        // The fields are dropped in their order: the engine is closed before its samples go.
        self.pending.begin_call(CLOSE);
    }
}

fn info(plugin: &Plugin) -> EngineInfo {
    let version = plugin.version().map(|version| format!(" {version}"));
    let port = |input: &PluginInput| Port {
        name: input.name.clone(),
        element: input.element.to_string(),
        shape: std::iter::once(None).chain(input.shape.iter().copied()).collect(),
    };
    EngineInfo {
        runtime: Some(format!("{}{}", plugin.name(), version.unwrap_or_default())),
        library: Some(plugin.path().to_path_buf()),
        inputs: plugin.inputs().iter().map(port).collect(),
        ..EngineInfo::default()
    }
}

/// Matches the inputs of a plug-in with those of a library.
fn positions(plugin: &Plugin, library: &TensorLibrary) -> Result<Vec<usize>, String> {
    let first = library.sample(0)?;
    let mut positions = Vec::new();
    for input in plugin.inputs() {
        let named = first.iter().position(|(name, _)| *name == input.name);
        let only = (plugin.inputs().len() == 1 && first.len() == 1).then_some(0);
        let name = &input.name;
        let at = named.or(only).ok_or_else(|| {
            let names: Vec<&str> = first.iter().map(|(name, _)| *name).collect();
            format!("the samples have no input `{name}`, only {}", names.join(", "))
        })?;
        let tensor = &first[at].1;
        let found = tensor.elements.element();
        if found != input.element {
            let expected = input.element;
            return Err(format!("input `{name}` expects {expected}, the samples have {found}"));
        }
        let fits = tensor.shape.len() == input.shape.len()
            && tensor.shape.iter().zip(&input.shape).all(|(n, of)| of.is_none_or(|of| of == *n));
        if !fits {
            let length = |of: &Option<usize>| of.map_or("?".into(), |of| of.to_string());
            let expected: Vec<String> = input.shape.iter().map(length).collect();
            let (expected, found) = (expected.join(", "), &tensor.shape);
            return Err(format!("input `{name}` expects samples [{expected}], found {found:?}"));
        }
        positions.push(at);
    }
    Ok(positions)
}
