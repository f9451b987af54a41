//! The program as its users see it: exit codes, messages, files.

mod files;
mod messages;
mod program;
mod signals;
mod tenants;
