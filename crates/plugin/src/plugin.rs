//! An open plug-in.

use std::ffi::{CStr, CString, c_char};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;

use dyno_sut::tensors::Element;
use libloading::Library;
use thiserror::Error;

use crate::abi::{self, Functions};
use crate::exit::ExitWatch;

/// Error: a plug-in cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages state it")]
pub enum PluginError {
    #[error("plug-in {} cannot be loaded: {why}", .path.display())]
    Load { path: PathBuf, why: String },
    #[error("plug-in {} has no function {name}, which dyno_engine.h declares", .path.display())]
    Symbol { path: PathBuf, name: &'static str },
    #[error(
        "plug-in {} has version {found} of the interface, expected {}; compile it with this \
         version's dyno_engine.h", .path.display(), abi::VERSION
    )]
    Version { path: PathBuf, found: u32 },
    #[error("plug-in {} does not open: {why}", .path.display())]
    Open { path: PathBuf, why: String },
    #[error("plug-in {} describes itself wrongly: {why}", .path.display())]
    Description { path: PathBuf, why: String },
}

/// An input that a plug-in describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginInput {
    /// Name of the input.
    pub name: String,
    /// Type of the elements.
    pub element: Element,
    /// Dimensions of a sample; `None` is any length.
    pub shape: Vec<Option<usize>>,
}

/// A plug-in whose engine is open.
pub struct Plugin {
    path: PathBuf,
    pub(crate) functions: Functions,
    pub(crate) engine: *mut abi::Engine,
    name: String,
    version: Option<String>,
    inputs: Vec<PluginInput>,
    is_streaming: bool,
    /// Dropped after the engine was closed.
    _watch: ExitWatch,
    /// Never unloaded: threads of the plug-in may outlive its engine.
    _library: ManuallyDrop<Library>,
}

// SAFETY: the header states that Dyno calls from one thread at a time, not always from the same
// one; `PluginSystem` holds a lock during calls. The pointer is only passed to these calls.
unsafe impl Send for Plugin {}
// SAFETY: as above; through a shared reference only plain fields are read.
unsafe impl Sync for Plugin {}

/// Bytes for the message of a plug-in that does not open.
const MESSAGE: usize = 1024;

/// Maximum number of inputs and of dimensions. Larger numbers are not numbers of a description.
const MOST: usize = 64;

impl Plugin {
    /// Loads a plug-in and opens its engine with these options. If the plug-in changes the working
    /// folder meanwhile, this is undone, also if it does not open.
    ///
    /// # Errors
    /// [`PluginError`] with the problem and the path.
    pub fn open(path: &Path, options: &str) -> Result<Self, PluginError> {
        let path = path.to_path_buf();
        let load = |why: String| PluginError::Load { path: path.clone(), why };
        if cfg!(all(unix, target_feature = "crt-static")) {
            return Err(load(
                "this build of Dyno is a static program, which loads no libraries; \
                             use the program for glibc of the same release"
                    .into(),
            ));
        }
        if !path.is_file() {
            return Err(load("the file does not exist".into()));
        }
        // A name without a slash would be searched in the folders of the system.
        let whole = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let _folder = WorkingFolder(std::env::current_dir().ok());
        let watch = ExitWatch::begin(&path);
        #[cfg(unix)]
        crate::crash::report(&path);
        // SAFETY: the user names the library to be run; its initializers are the user's code.
        let library = unsafe { loaded(&whole) }.map_err(|error| load(error.to_string()))?;
        let functions = functions(&library, &path)?;
        let library = ManuallyDrop::new(library);
        let engine = open_engine(&functions, options)
            .map_err(|why| PluginError::Open { path: path.clone(), why })?;
        let mut plugin = Self {
            path,
            functions,
            engine,
            name: String::new(),
            version: None,
            inputs: Vec::new(),
            is_streaming: false,
            _watch: watch,
            _library: library,
        };
        plugin
            .describe()
            .map_err(|why| PluginError::Description { path: plugin.path.clone(), why })?;
        Ok(plugin)
    }

    fn describe(&mut self) -> Result<(), String> {
        let mut description = abi::Description {
            name: ptr::null(),
            version: ptr::null(),
            inputs: ptr::null(),
            input_count: 0,
            flags: 0,
        };
        // SAFETY: the engine is open, and the description is ours for the duration of the call.
        let code = unsafe { (self.functions.describe)(self.engine, &raw mut description) };
        if code != 0 {
            return Err(format!("dyno_engine_describe returned {code}"));
        }
        // SAFETY: the header requires texts that end with NUL and live until the engine is closed.
        let (name, version) = unsafe { (text(description.name), text(description.version)) };
        self.name = name.ok_or("its name is NULL")?;
        self.version = version;
        let flags = description.flags;
        if flags & !abi::STREAMING != 0 {
            return Err(format!("it has the unknown flags {:#x}", flags & !abi::STREAMING));
        }
        self.is_streaming = flags == abi::STREAMING;
        let count = description.input_count;
        if count > MOST || (count > 0 && description.inputs.is_null()) {
            return Err(format!("it has {count} inputs at {:p}", description.inputs));
        }
        if count == 0 {
            return Ok(());
        }
        // SAFETY: not NULL, and the header requires an array of this length until the engine is closed.
        let inputs = unsafe { slice::from_raw_parts(description.inputs, count) };
        self.inputs = inputs.iter().enumerate().map(input).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Returns the path of the library.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the engine.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version of the engine, if it has one.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Returns the inputs; empty if samples are only numbers.
    pub fn inputs(&self) -> &[PluginInput] {
        &self.inputs
    }

    /// Returns whether the engine reports first tokens and counts tokens.
    pub fn is_streaming(&self) -> bool {
        self.is_streaming
    }
}

/// The working folder, which is restored on drop.
struct WorkingFolder(Option<PathBuf>);

impl Drop for WorkingFolder {
    fn drop(&mut self) {
        // An error means that the folder is gone, which the results then report.
        let _ = self.0.take().map(std::env::set_current_dir);
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        // SAFETY: the engine is open and is not used after this call.
        unsafe { (self.functions.close)(self.engine) };
    }
}

/// Loads a library with all its symbols, so that a missing one is an error now.
///
/// # Safety
/// The library's initializers are run.
unsafe fn loaded(path: &Path) -> Result<Library, libloading::Error> {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        // SAFETY: as the caller states.
        unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
    }
    #[cfg(not(unix))]
    // SAFETY: as the caller states.
    unsafe {
        Library::new(path)
    }
}

/// Finds the functions, after the version was compared.
fn functions(library: &Library, path: &Path) -> Result<Functions, PluginError> {
    let missing = |name| PluginError::Symbol { path: path.to_path_buf(), name };
    macro_rules! find {
        ($name:literal) => {
            // SAFETY: the header declares the function of this name with this type, and the library
            // is never unloaded.
            *unsafe { library.get($name) }.map_err(|_| missing($name))?
        };
    }
    let abi: unsafe extern "C" fn() -> u32 = find!("dyno_engine_abi");
    // SAFETY: it has no arguments.
    let found = unsafe { abi() };
    if found != abi::VERSION {
        return Err(PluginError::Version { path: path.to_path_buf(), found });
    }
    Ok(Functions {
        open: find!("dyno_engine_open"),
        describe: find!("dyno_engine_describe"),
        issue: find!("dyno_engine_issue"),
        flush: find!("dyno_engine_flush"),
        close: find!("dyno_engine_close"),
    })
}

fn open_engine(functions: &Functions, options: &str) -> Result<*mut abi::Engine, String> {
    let options = CString::new(options).map_err(|_| "its options contain a NUL byte")?;
    let mut engine = ptr::null_mut();
    let mut message = [0_u8; MESSAGE];
    // SAFETY: the options end with NUL; the place and the message are ours for the duration of the
    // call, and their size is given.
    let code = unsafe {
        let place = message.as_mut_ptr().cast::<c_char>();
        (functions.open)(options.as_ptr(), &raw mut engine, place, MESSAGE)
    };
    let message = CStr::from_bytes_until_nul(&message).unwrap_or_default().to_string_lossy();
    match code {
        0 if engine.is_null() => Err("dyno_engine_open returned 0, but no engine".into()),
        0 => Ok(engine),
        code if message.is_empty() => Err(format!("dyno_engine_open returned {code}")),
        _ => Err(message.into_owned()),
    }
}

/// Returns the text at a pointer; `None` for NULL.
///
/// # Safety
/// The pointer is NULL or leads to a text that ends with NUL.
unsafe fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: not NULL, and as the caller states.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

fn input((number, input): (usize, &abi::Input)) -> Result<PluginInput, String> {
    // SAFETY: the header requires a text that ends with NUL.
    let name = unsafe { text(input.name) }.ok_or(format!("input {number} has no name"))?;
    let element = abi::element(input.element)
        .ok_or(format!("input `{name}` has the unknown type {} of elements", input.element))?;
    let rank = input.rank as usize;
    if rank > MOST || (rank > 0 && input.shape.is_null()) {
        return Err(format!("input `{name}` has {rank} dimensions at {:p}", input.shape));
    }
    let lengths = if rank == 0 {
        &[]
    } else {
        // SAFETY: not NULL, and the header requires as many numbers as the rank.
        unsafe { slice::from_raw_parts(input.shape, rank) }
    };
    let length = |length: &u64| usize::try_from(*length).ok().filter(|length| *length > 0);
    Ok(PluginInput { name, element, shape: lengths.iter().map(length).collect() })
}
