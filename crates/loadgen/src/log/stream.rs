//! Output stream for large files: few writes, done by a second thread while the first one formats.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Bytes buffered before a write.
const BUFFER_BYTES: usize = 2 << 20;

/// Buffer that formatters append to directly and that is written to the file between entries.
pub struct Stream<'a> {
    /// Bytes that are not written yet.
    pub buffer: Vec<u8>,
    sink: Sink<'a>,
}

enum Sink<'a> {
    /// Written by the thread that formats.
    Direct(&'a mut dyn Write),
    /// Written by the thread that formats, until the file becomes large.
    Small(File),
    /// Written by a separate thread.
    Large(Writer),
}

/// Thread that writes buffers and returns them.
struct Writer {
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
}

impl Writer {
    /// Starts the thread; `None` if the operating system starts none.
    fn start(mut file: File) -> Option<Self> {
        let (full, to_write) = sync_channel::<Vec<u8>>(1);
        let (hand_back, empty) = channel();
        let thread = std::thread::Builder::new().spawn(move || {
            for mut buffer in to_write {
                file.write_all(&buffer)?;
                buffer.clear();
                // Fails after the last entry, when the receiver is gone.
                let _ = hand_back.send(buffer);
            }
            Ok(())
        });
        Some(Self { full, empty, thread: thread.ok()? })
    }

    /// Waits until all buffers are written.
    fn finish(self) -> io::Result<()> {
        drop(self.full);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn empty_buffer() -> Vec<u8> {
    Vec::with_capacity(BUFFER_BYTES + (BUFFER_BYTES >> 4))
}

impl<'a> Stream<'a> {
    /// Returns a stream into any writer.
    pub fn new(file: &'a mut dyn Write) -> Self {
        Self { buffer: empty_buffer(), sink: Sink::Direct(file) }
    }

    /// Writes the buffer if it is full; must be called after each entry.
    #[inline]
    pub fn entry_done(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BUFFER_BYTES { self.write() } else { Ok(()) }
    }

    /// Returns the number of bytes that fit before a write is due.
    pub fn room(&self) -> usize {
        BUFFER_BYTES.saturating_sub(self.buffer.len())
    }

    /// Writes the buffer, or passes it to the writing thread.
    pub fn write(&mut self) -> io::Result<()> {
        if let Sink::Small(file) = &self.sink
            && let Some(writer) = Writer::start(file.try_clone()?)
        {
            self.sink = Sink::Large(writer);
        }
        match &mut self.sink {
            Sink::Direct(file) => file.write_all(&self.buffer)?,
            Sink::Small(file) => file.write_all(&self.buffer)?,
            Sink::Large(writer) => {
                let empty = writer.empty.try_recv().unwrap_or_else(|_| empty_buffer());
                let full = std::mem::replace(&mut self.buffer, empty);
                // Fails if the thread has failed; `finish` returns its error.
                return writer.full.send(full).map_err(|_| io::ErrorKind::BrokenPipe.into());
            }
        }
        self.buffer.clear();
        Ok(())
    }

    /// Writes the rest of the buffer if `formatted` is `Ok`, and returns the first error.
    pub fn finish(mut self, formatted: io::Result<()>) -> io::Result<()> {
        let written = formatted.and_then(|()| match &mut self.sink {
            Sink::Small(file) => file.write_all(&self.buffer),
            _ => self.write(),
        });
        match self.sink {
            // The error of the thread is the cause of the one here.
            Sink::Large(writer) => writer.finish().and(written),
            _ => written,
        }
    }
}

impl Stream<'static> {
    /// Returns a stream into a file that is written by a second thread if it becomes large.
    pub fn overlapped(file: &File) -> io::Result<Self> {
        Ok(Self { buffer: empty_buffer(), sink: Sink::Small(file.try_clone()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(stream: &mut Stream<'_>, count: u32) -> io::Result<()> {
        for entry in 0..count {
            stream.buffer.extend_from_slice(&entry.to_le_bytes());
            stream.entry_done()?;
        }
        Ok(())
    }

    #[test]
    fn large_and_small_files_come_out_whole_and_in_order() {
        let folder = std::env::temp_dir().join(format!("dyno-stream-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for count in [0, 10, 3_000_000] {
            let path = folder.join(count.to_string());
            let mut stream = Stream::overlapped(&File::create(&path).unwrap()).unwrap();
            let formatted = entries(&mut stream, count);
            stream.finish(formatted).unwrap();
            let written = std::fs::read(&path).unwrap();
            assert_eq!(written.len(), 4 * count as usize);
            let (words, _) = written.as_chunks::<4>();
            assert!(words.iter().zip(0..).all(|(word, entry)| u32::from_le_bytes(*word) == entry));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_error_of_the_writing_thread_is_told() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut stream = Stream::overlapped(&full).unwrap();
        let formatted = entries(&mut stream, 3_000_000);
        let error = stream.finish(formatted).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
