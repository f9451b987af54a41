//! Reads the files of a measurement once and checks their recorded checksums.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use memchr::memchr;
use memchr::memmem::Finder;
use sha1::{Digest, Sha1};

use super::run::TESTING_LOG;
use super::session::Session;
use super::{FILES, PowerFinding, Report, RunLog};

/// Maximum size of `client.json` and `server.json` in bytes; the rest is ignored.
const LONGEST_TEXT: usize = 16 << 20;
/// Longer lines are truncated. Lines whose content is used are far shorter.
const LONGEST_LINE: usize = 1 << 16;
/// Files up to this size, in bytes, are read.
const LONGEST_FILE: u64 = 512 << 20;

/// Content of one file.
#[derive(Default)]
struct RecordedFile {
    sha1: String,
    /// Text of `client.json` and `server.json`; empty for other files.
    text: Vec<u8>,
    /// Relevant lines, with their numbers from 1.
    lines: Vec<(usize, String)>,
}

/// Existing files of a measurement, by name.
pub(super) struct Files(BTreeMap<&'static str, RecordedFile>);

impl Files {
    /// Reads each file once. A missing file is reported as a finding.
    pub(super) fn read(folder: &Path, log: Option<&RunLog>, report: &mut Report) -> Self {
        let mut read = BTreeMap::new();
        if let Some(log) = log {
            read.insert(
                TESTING_LOG,
                RecordedFile { sha1: log.sha1.clone(), ..RecordedFile::default() },
            );
        }
        for file in FILES {
            if read.contains_key(file) {
                continue;
            }
            match read_file(&folder.join(file), file) {
                Ok(one) => {
                    read.insert(file, one);
                }
                Err(error) => {
                    let message = format!("cannot be read: {error}");
                    let mend = "submit every file that the power client and server wrote";
                    report.add(PowerFinding::error("power.files", file, message, mend));
                }
            }
        }
        Self(read)
    }

    /// Returns the text of `client.json` or `server.json`, if the file exists.
    pub(super) fn text(&self, file: &str) -> Option<&[u8]> {
        Some(self.0.get(file)?.text.as_slice())
    }

    /// Returns the relevant lines of a log, with their numbers.
    pub(super) fn lines(&self, file: &str) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.0.get(file).map_or(&[][..], |read| read.lines.as_slice());
        lines.iter().map(|(number, line)| (*number, line.as_str()))
    }

    /// Whether the file exists.
    pub(super) fn has(&self, file: &str) -> bool {
        self.0.contains_key(file)
    }
}

/// Returns texts that mark the relevant lines of a file.
fn line_markers(file: &str) -> &'static [&'static str] {
    match file.rsplit('/').next() {
        Some("mlperf_log_detail.txt") => &[
            "\"power_begin\"",
            "\"power_end\"",
            "\"result_query_count\"",
            "\"result_qps_with_loadgen_overhead\"",
            "\"generated_query_count\"",
            "\"generated_samples_per_query\"",
            "\"effective_scenario\"",
        ],
        Some("spl.txt") => &[""],
        Some("ptd_logs.txt") => {
            &["Go with mark", "Completed test", "Uncertainty checking", "ERROR:", "WARNING:"]
        }
        _ => &[],
    }
}

fn read_file(path: &Path, file: &'static str) -> std::io::Result<RecordedFile> {
    // Opening a pipe blocks until a writer opens it, and a device may never end.
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    if about.len() > LONGEST_FILE {
        let why = format!("it has {} bytes, expected at most {LONGEST_FILE}", about.len());
        return Err(std::io::Error::other(why));
    }
    let mut source = BufReader::with_capacity(1 << 16, File::open(path)?);
    let markers: Vec<Finder<'_>> = line_markers(file).iter().map(Finder::new).collect();
    let keep = file.ends_with(".json");
    let (mut sum, mut read, mut line, mut number) =
        (Sha1::new(), RecordedFile::default(), Vec::new(), 1);
    loop {
        let part = source.fill_buf()?;
        if part.is_empty() {
            break;
        }
        sum.update(part);
        if keep && read.text.len() < LONGEST_TEXT {
            read.text.extend_from_slice(part);
        }
        let mut left = part;
        while let Some(end) = memchr(b'\n', left).filter(|_| !markers.is_empty()) {
            let (whole, after) = left.split_at(end + 1);
            left = after;
            if line.is_empty() {
                keep_line(
                    &mut read.lines,
                    &markers,
                    number,
                    &whole[..whole.len().min(LONGEST_LINE)],
                );
            } else {
                extend(&mut line, whole);
                keep_line(&mut read.lines, &markers, number, &line);
                line.clear();
            }
            number += 1;
        }
        extend(&mut line, left);
        let taken = part.len();
        source.consume(taken);
    }
    if !line.is_empty() {
        keep_line(&mut read.lines, &markers, number, &line);
    }
    read.sha1 = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(read)
}

fn extend(line: &mut Vec<u8>, part: &[u8]) {
    let room = LONGEST_LINE.saturating_sub(line.len()).min(part.len());
    line.extend_from_slice(&part[..room]);
}

fn keep_line(lines: &mut Vec<(usize, String)>, markers: &[Finder<'_>], number: usize, line: &[u8]) {
    if markers.iter().any(|part| part.find(line).is_some()) {
        let text = String::from_utf8_lossy(line);
        lines.push((number, text.trim_end().to_owned()));
    }
}

/// Checks that the files have the SHA-1 that client and server recorded for them.
pub(super) fn check(client: &Session, server: &Session, files: &Files, report: &mut Report) {
    const MEND: &str = "submit the files unchanged, including their line endings";
    for file in FILES.into_iter().filter(|file| !file.ends_with(".json")) {
        let checksum =
            |session: &Session| session.text(&["results", file]).map(str::to_ascii_lowercase);
        let ours = checksum(client);
        let theirs = checksum(server);
        if let (Some(ours), Some(theirs)) = (&ours, &theirs)
            && ours != theirs
        {
            let message = format!("client.json records {ours}, but server.json records {theirs}");
            report.add(PowerFinding::error("power.checksums", file, message, MEND));
            continue;
        }
        let Some(recorded) = theirs.or(ours) else {
            let message = "neither client.json nor server.json records its checksum".to_owned();
            report.add(PowerFinding::error("power.checksums", file, message, MEND));
            continue;
        };
        // A missing file has been reported already.
        let Some(read) = files.0.get(file) else { continue };
        if read.sha1 != recorded {
            let message = format!("was changed after the measurement: its SHA-1 is {}", read.sha1);
            report.add(
                PowerFinding::error("power.checksums", file, message, MEND).expected(recorded),
            );
        }
    }
}
