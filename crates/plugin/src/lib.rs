//! Engines that users write in C against `include/dyno_engine.h`, loaded as shared libraries.
//!
//! A [`Plugin`] is an open library. A [`PluginSystem`] issues the samples of a library to it. It
//! checks what a plug-in reports: an unknown id, a second completion, or no completion ends the run
//! with an error that names the plug-in. A call that does not return ends the process.
//!
//! No pointer that Dyno gives a plug-in is freed while the plug-in may use it, whatever the plug-in
//! does with ids. What a plug-in does with its own memory is beyond our reach, as with every library.
#![expect(unsafe_code, reason = "functions and pointers of libraries that users write in C")]

mod abi;
#[cfg(unix)]
mod crash;
mod exit;
mod pending;
mod plugin;
mod system;
mod watch;

pub use exit::{permit_exit, set_last_action};
pub use plugin::{Plugin, PluginError, PluginInput};
pub use system::PluginSystem;
