//! The files of a measurement, read once, and the checksums recorded for them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use memchr::memchr;
use memchr::memmem::Finder;
use sha1::{Digest, Sha1};

use super::run::TESTING_LOG;
use super::session::Session;
use super::{FILES, Found, Report, RunLog};

/// A description of a session that is longer is none.
const LONGEST_TEXT: usize = 16 << 20;
/// Longer lines are cut; those that are read for their content are far shorter.
const LONGEST_LINE: usize = 1 << 16;

/// What was read of one file.
#[derive(Default)]
struct Read {
    sha1: String,
    /// The text, of the two descriptions only.
    text: Vec<u8>,
    /// Lines that matter, with their numbers from 1.
    lines: Vec<(usize, String)>,
}

/// The files that are there.
pub(super) struct Files(BTreeMap<&'static str, Read>);

impl Files {
    /// Reads all of them, each once; what is missing is a finding.
    pub(super) fn read(folder: &Path, log: Option<&RunLog>, report: &mut Report) -> Self {
        let mut read = BTreeMap::new();
        if let Some(log) = log {
            read.insert(TESTING_LOG, Read { sha1: log.sha1.clone(), ..Read::default() });
        }
        for file in FILES {
            if read.contains_key(file) {
                continue;
            }
            match read_one(&folder.join(file), file) {
                Ok(one) => {
                    read.insert(file, one);
                }
                Err(error) => {
                    let message = format!("cannot be read: {error}");
                    let mend = "submit all files that the power client and server wrote";
                    report.say(Found::error("power.files", file, message, mend));
                }
            }
        }
        Self(read)
    }

    /// The content of a description, if the file is there.
    pub(super) fn text(&self, file: &str) -> Option<&[u8]> {
        Some(self.0.get(file)?.text.as_slice())
    }

    /// The lines that matter of a log, with their numbers.
    pub(super) fn lines(&self, file: &str) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.0.get(file).map_or(&[][..], |read| read.lines.as_slice());
        lines.iter().map(|(number, line)| (*number, line.as_str()))
    }

    /// Whether the file is there.
    pub(super) fn has(&self, file: &str) -> bool {
        self.0.contains_key(file)
    }
}

/// Parts of lines that are looked at later.
fn wanted(file: &str) -> &'static [&'static str] {
    match file.rsplit('/').next() {
        Some("mlperf_log_detail.txt") => &[
            "\"power_begin\"",
            "\"power_end\"",
            "\"result_query_count\"",
            "\"effective_scenario\"",
        ],
        Some("spl.txt") => &["Time"],
        Some("ptd_logs.txt") => {
            &["Go with mark", "Completed test", "Uncertainty checking", "ERROR:", "WARNING:"]
        }
        _ => &[],
    }
}

fn read_one(path: &Path, file: &'static str) -> std::io::Result<Read> {
    // To open a pipe is to wait for who writes to it; a device may never end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut source = BufReader::with_capacity(1 << 16, File::open(path)?);
    let wanted: Vec<Finder<'_>> = wanted(file).iter().map(Finder::new).collect();
    let keep = file.ends_with(".json");
    let (mut sum, mut read, mut line, mut number) = (Sha1::new(), Read::default(), Vec::new(), 1);
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
        while let Some(end) = memchr(b'\n', left).filter(|_| !wanted.is_empty()) {
            let (whole, after) = left.split_at(end + 1);
            left = after;
            if line.is_empty() {
                keep_line(
                    &mut read.lines,
                    &wanted,
                    number,
                    &whole[..whole.len().min(LONGEST_LINE)],
                );
            } else {
                extend(&mut line, whole);
                keep_line(&mut read.lines, &wanted, number, &line);
                line.clear();
            }
            number += 1;
        }
        extend(&mut line, left);
        let taken = part.len();
        source.consume(taken);
    }
    keep_line(&mut read.lines, &wanted, number, &line);
    read.sha1 = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(read)
}

fn extend(line: &mut Vec<u8>, part: &[u8]) {
    let room = LONGEST_LINE.saturating_sub(line.len()).min(part.len());
    line.extend_from_slice(&part[..room]);
}

fn keep_line(lines: &mut Vec<(usize, String)>, wanted: &[Finder<'_>], number: usize, line: &[u8]) {
    if wanted.iter().any(|part| part.find(line).is_some()) {
        let text = String::from_utf8_lossy(line);
        lines.push((number, text.trim_end().to_owned()));
    }
}

/// Both sides recorded the SHA-1 of what they wrote; the files must still be the same,
/// to the byte.
pub(super) fn check(client: &Session, server: &Session, files: &Files, report: &mut Report) {
    const MEND: &str = "submit the files as they were written: no edit, no other line ends";
    for file in FILES.into_iter().filter(|file| !file.ends_with(".json")) {
        let of = |session: &Session| session.text(&["results", file]).map(str::to_ascii_lowercase);
        let (ours, theirs) = (of(client), of(server));
        if let (Some(ours), Some(theirs)) = (&ours, &theirs)
            && ours != theirs
        {
            let message = format!("client.json records {ours}, server.json {theirs}");
            report.say(Found::error("power.checksums", file, message, MEND));
            continue;
        }
        let Some(recorded) = theirs.or(ours) else {
            let message = "neither client.json nor server.json records its checksum".to_owned();
            report.say(Found::error("power.checksums", file, message, MEND));
            continue;
        };
        // That the file is missing is said already.
        let Some(read) = files.0.get(file) else { continue };
        if read.sha1 != recorded {
            let message = format!("was changed after the measurement: its SHA-1 is {}", read.sha1);
            report.say(Found::error("power.checksums", file, message, MEND).expected(recorded));
        }
    }
}
