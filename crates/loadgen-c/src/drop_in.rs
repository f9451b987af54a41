//! Stands in for `dyno_loadgen::drop_in` until that is there.

use std::fmt;
use std::ops::DerefMut;
use std::path::Path;
use std::sync::Arc;

use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::log::{LogError, LogSettings};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::settings::TestSettings;
use dyno_loadgen::sut::{QuerySample, ResponseId};

pub trait AsResponse {
    fn id(&self) -> ResponseId;
    fn data(&self) -> &[u8];
    fn tokens(&self) -> i64;
}
pub trait SystemUnderTest: Send + Sync {
    fn name(&self) -> &str;
    fn issue(&self, samples: &[QuerySample], responder: &Responder);
    fn flush(&self);
    fn sample_memory(&self, samples: usize) -> Box<dyn DerefMut<Target = [QuerySample]> + Send>;
}
pub struct LoadGen;
#[derive(Debug)]
pub enum StartError {
    AlreadyRunning,
    Log(LogError),
    Settings(String),
}
pub struct NoRun;
impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stub {self:?}")
    }
}
impl fmt::Display for NoRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stub")
    }
}
impl LoadGen {
    pub const fn new() -> Self {
        Self
    }
    pub fn start_test(
        &'static self,
        system: Arc<dyn SystemUnderTest>,
        library: &dyn SampleLibrary,
        _: &TestSettings,
        _: &LogSettings,
        _: &Path,
    ) -> Result<(), StartError> {
        system.name();
        system.flush();
        system.sample_memory(library.total_sample_count());
        Err(StartError::Settings("stub".into()))
    }
    pub fn abort(&self) -> Result<(), NoRun> {
        Err(NoRun)
    }
    pub fn register_issue_thread(&self) {}
    pub fn complete<R: AsResponse>(&self, responses: &[R]) -> Result<(), NoRun> {
        responses.iter().for_each(|r| _ = (r.id(), r.data(), r.tokens()));
        Err(NoRun)
    }
    pub fn complete_fetching<R: AsResponse>(
        &self,
        responses: &mut [R],
        fetch: &mut dyn FnMut(&mut R),
    ) -> Result<(), NoRun> {
        responses.iter_mut().for_each(fetch);
        Err(NoRun)
    }
    pub fn first_token<R: AsResponse>(&self, _: &[R]) -> Result<(), NoRun> {
        Err(NoRun)
    }
    pub fn from_config(&self, _: &mut TestSettings, _: &Path, _: &str, _: &str, _: i32) -> i32 {
        -2
    }
}
