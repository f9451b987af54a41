//! Files of which users give the names, read within limits.
//!
//! `std::fs::read` reads a device such as `/dev/zero` until no memory is left, and a sparse file until the
//! process is killed. It waits for a writer of a named pipe. These functions return an error instead.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Maximum bytes of a regular file.
pub const LONGEST: u64 = 16 << 30;

/// Maximum bytes of a pipe, which does not tell its length.
pub const LONGEST_PIPE: u64 = 1 << 30;

/// Returns the kind of a path that must not be read like a file: a device, a socket or a named pipe. A pipe
/// of the process, such as `/dev/stdin` or `/dev/fd/63`, can be read once, and has a writer already.
///
/// ```
/// use std::path::Path;
///
/// assert_eq!(dyno_tensors::files::special_kind(Path::new("/dev/zero")), Some("device"));
/// ```
pub fn special_kind(path: &Path) -> Option<&'static str> {
    let kind = kind_of(&std::fs::metadata(path).ok()?)?;
    if kind == PIPE && is_descriptor(path) { None } else { Some(kind) }
}

/// Returns whether the path is a pipe of the process, which can be read only once.
pub fn is_open_pipe(path: &Path) -> bool {
    is_descriptor(path) && std::fs::metadata(path).is_ok_and(|about| kind_of(&about) == Some(PIPE))
}

/// Opens a file, or a pipe of the process.
///
/// # Errors
/// Errors of the operating system, or a path of a [`special_kind`].
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    // Before the file is opened, since opening a named pipe waits for a writer.
    if let Some(kind) = special_kind(path.as_ref()) {
        let why = format!("it is a {kind}; expected a file");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    File::open(path)
}

/// Returns the content of a file, or of a pipe of the process.
///
/// ```
/// let error = dyno_tensors::files::read("/dev/zero").unwrap_err();
/// assert!(error.to_string().contains("is a device"));
/// ```
///
/// # Errors
/// Errors of [`open`], or more than [`LONGEST`] or [`LONGEST_PIPE`] bytes.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let about = file.metadata()?;
    let most = if about.is_file() { LONGEST } else { LONGEST_PIPE };
    let too_long = || {
        let why = format!("it has more than {most} bytes, the most that is read at once");
        io::Error::new(io::ErrorKind::FileTooLarge, why)
    };
    if about.len() > most {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    let length = usize::try_from(about.len()).map_err(|_| too_long())?;
    bytes.try_reserve_exact(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_long()) } else { Ok(bytes) }
}

/// Returns the text of a file, or of a pipe of the process.
///
/// # Errors
/// As [`read`], and text that is not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| {
        let why = "it is no text in UTF-8";
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// Kind of pipes, with and without names.
const PIPE: &str = "named pipe";

#[cfg(unix)]
fn kind_of(about: &std::fs::Metadata) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = about.file_type();
    if kind.is_fifo() {
        Some(PIPE)
    } else if kind.is_socket() {
        Some("socket")
    } else if kind.is_char_device() || kind.is_block_device() {
        Some("device")
    } else {
        None
    }
}

#[cfg(not(unix))]
fn kind_of(_about: &std::fs::Metadata) -> Option<&'static str> {
    None
}

/// Returns whether the path names an open file of the process.
fn is_descriptor(path: &Path) -> bool {
    ["/dev/stdin", "/dev/fd", "/proc/self/fd"].iter().any(|open| path.starts_with(open))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_and_sparse_ones_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(read(&path).unwrap(), b"text");
        assert_eq!(read_to_string(&path).unwrap(), "text");
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_to_string(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        File::options().write(true).open(&path).unwrap().set_len(LONGEST + 1).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read(folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_are_refused_and_pipes_are_read() {
        for device in ["/dev/zero", "/dev/full", "/dev/urandom"] {
            let error = read(device).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{device}");
        }
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"piped").unwrap();
        drop(writer);
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&reader);
        let path = format!("/proc/self/fd/{descriptor}");
        assert!(is_open_pipe(Path::new(&path)));
        assert_eq!(read(path).unwrap(), b"piped");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn named_pipes_and_sockets_are_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        for (path, kind) in [(&pipe, "named pipe"), (&link, "named pipe"), (&socket, "socket")] {
            assert_eq!(special_kind(path), Some(kind));
            let error = read(path).unwrap_err();
            assert_eq!(error.to_string(), format!("it is a {kind}; expected a file"));
        }
        assert_eq!(special_kind(folder.path()), None);
        assert!(!is_open_pipe(&pipe));
    }
}
