//! Whole files of which users give the names, read within limits.
//!
//! `std::fs::read` reads a device such as `/dev/zero` until no memory is left, and a sparse file until the
//! process is killed. These functions return an error instead.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Maximum bytes of a regular file.
pub const LONGEST: u64 = 16 << 30;

/// Maximum bytes of a pipe, which does not tell its length.
pub const LONGEST_PIPE: u64 = 1 << 30;

/// Returns the content of a file or a pipe.
///
/// ```
/// let error = dyno_tensors::files::read("/dev/zero").unwrap_err();
/// assert!(error.to_string().contains("is a device"));
/// ```
///
/// # Errors
/// Errors of the operating system, a device, or more than [`LONGEST`] or [`LONGEST_PIPE`] bytes.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    if is_device(&about) {
        let why = "it is a device, which may have no end; expected a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
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

/// Returns the text of a file or a pipe.
///
/// # Errors
/// As [`read`], and text that is not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| {
        let why = "it is no text in UTF-8";
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

#[cfg(unix)]
fn is_device(about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = about.file_type();
    kind.is_char_device() || kind.is_block_device()
}

#[cfg(not(unix))]
fn is_device(_about: &std::fs::Metadata) -> bool {
    false
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
        assert_eq!(read(format!("/proc/self/fd/{descriptor}")).unwrap(), b"piped");
    }
}
