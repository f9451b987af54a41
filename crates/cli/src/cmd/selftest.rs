//! stub
use clap::Args;
use crate::exit::{Exit, Failure};
/// x
#[derive(Debug, Args)]
pub struct Selftest {}
impl Selftest {
    pub fn execute(self) -> Result<Exit, Failure> { Ok(Exit::Valid) }
}
