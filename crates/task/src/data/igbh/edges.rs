//! Converts edge lists to adjacency lists.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use dyno_tensors::Element;
use dyno_tensors::npy::{Header, NpyError};

use crate::data::FileError;
use crate::subgraph::{EdgeCounter, IncomingEdges, KINDS, Relation};

/// Upper bound of the length of a NumPy header, in bytes.
const LONGEST_HEAD: u64 = 1 << 12;
/// Edges that are read per chunk.
const CHUNK: usize = 1 << 16;

/// A file with an array of pairs.
struct EdgeFile<'a> {
    path: &'a Path,
    file: File,
    start: u64,
    count: usize,
    element: Element,
}

/// Returns the adjacency of a file's edges in both directions. Citations have one adjacency for
/// both, with a loop at each paper.
pub(super) fn adjacency(
    path: &Path,
    relation: &Relation,
    counts: &[usize],
) -> Result<(IncomingEdges, Option<IncomingEdges>), FileError> {
    let mut pairs = EdgeFile::open(path)?;
    let from = counts[relation.from];
    let to = counts[relation.to];
    let check = |edge: usize, [source, target]: [i64; 2]| {
        for (end, count, kind) in [(source, from, relation.from), (target, to, relation.to)] {
            if !usize::try_from(end).is_ok_and(|end| end < count) {
                let expected = format!("{count} nodes of the kind {}", KINDS[kind]);
                let found = format!("node {end} in row {edge}");
                return Err(FileError::new(path, expected, found));
            }
        }
        Ok([source as u32, target as u32])
    };
    if relation.from == relation.to {
        let mut counter = EdgeCounter::new(to);
        let loops = || 0..to as u32;
        pairs.each(|edge, ends| {
            let [source, target] = check(edge, ends)?;
            if source != target {
                counter.count(target);
                counter.count(source);
            }
            Ok(())
        })?;
        loops().for_each(|paper| counter.count(paper));
        let mut builder = counter.builder();
        pairs.each(|edge, ends| {
            let [source, target] = check(edge, ends)?;
            if source != target {
                builder.add(source, target);
                builder.add(target, source);
            }
            Ok(())
        })?;
        loops().for_each(|paper| builder.add(paper, paper));
        return Ok((builder.build(), None));
    }
    let mut there = EdgeCounter::new(to);
    let mut back = EdgeCounter::new(from);
    pairs.each(|edge, ends| {
        let [source, target] = check(edge, ends)?;
        there.count(target);
        back.count(source);
        Ok(())
    })?;
    let mut there = there.builder();
    let mut back = back.builder();
    pairs.each(|edge, ends| {
        let [source, target] = check(edge, ends)?;
        there.add(source, target);
        back.add(target, source);
        Ok(())
    })?;
    Ok((there.build(), Some(back.build())))
}

impl<'a> EdgeFile<'a> {
    fn open(path: &'a Path) -> Result<Self, FileError> {
        let mut file = dyno_tensors::files::open(path).map_err(FileError::unreadable(path))?;
        let length = file.metadata().map_err(FileError::unreadable(path))?.len();
        let mut head = Vec::new();
        let read = file.by_ref().take(LONGEST_HEAD).read_to_end(&mut head);
        read.map_err(FileError::unreadable(path))?;
        let wrong = |why: NpyError| FileError::new(path, "an array of edges", why);
        let head = Header::parse(&head).map_err(wrong)?;
        let element = head.row_major_element().map_err(wrong)?;
        let Header { shape, start, .. } = head;
        let (&[count, 2], Element::I64 | Element::I32) = (&shape[..], element) else {
            let expected = "rows of int64 or int32 with the two ends of an edge";
            return Err(FileError::new(path, expected, format!("{element} {shape:?}")));
        };
        let start = start as u64;
        let end = (count as u64).saturating_mul(2 * element.size() as u64).saturating_add(start);
        if end != length {
            return Err(FileError::new(path, format!("{end} bytes"), length));
        }
        Ok(Self { path, file, start, count, element })
    }

    /// Calls `take` with the row and the ends of each edge.
    fn each(
        &mut self,
        mut take: impl FnMut(usize, [i64; 2]) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let size = self.element.size();
        self.file.seek(SeekFrom::Start(self.start)).map_err(FileError::unreadable(self.path))?;
        let mut chunk = vec![0; CHUNK.min(self.count) * 2 * size];
        let mut row = 0;
        while row < self.count {
            let chunk = &mut chunk[..CHUNK.min(self.count - row) * 2 * size];
            self.file.read_exact(chunk).map_err(FileError::unreadable(self.path))?;
            for edge in chunk.chunks_exact(2 * size) {
                let end = |bytes: &[u8]| match bytes {
                    &[a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
                    bytes => i64::from_le_bytes(bytes.try_into().expect("ends have 4 or 8 bytes")),
                };
                take(row, [end(&edge[..size]), end(&edge[size..])])?;
                row += 1;
            }
        }
        Ok(())
    }
}
