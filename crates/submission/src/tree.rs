//! Files of a submission, from one walk over its folders.
//!
//! Entries are sorted by the bytes of their names. Symbolic links are followed, as in the
//! official checkers, but cycles are not.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;

/// Maximum number of entries behind symbolic links, which could multiply without bound. A full
/// round has 54,000 entries in total.
const MOST_BEHIND_LINKS: usize = 200_000;

/// EntryKind of an entry, after following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A regular file.
    File {
        /// Its size in bytes.
        size: u64,
    },
    /// A symbolic link whose target does not exist.
    BrokenLink,
    /// A socket, a device, or an entry without readable metadata.
    Other,
}

/// A folder that could not be listed completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlistedFolder {
    /// Path relative to the root.
    pub path: PathBuf,
    /// Error of the operating system, or why the walk stopped.
    pub why: String,
}

/// A tree of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    root: PathBuf,
    entries: Vec<EntryData>,
    unlisted: Vec<UnlistedFolder>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct EntryData {
    name: OsString,
    parent: usize,
    kind: EntryKind,
    /// Target of a symbolic link, as written.
    link: Option<Box<Path>>,
    behind_link: bool,
    /// Place in the listing of its folder.
    position: usize,
    children: Range<usize>,
}

/// Error: the root cannot be listed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot list the folder {}: {why}", root.display())]
pub struct TreeError {
    /// The root.
    pub root: PathBuf,
    /// Error of the operating system.
    pub why: String,
}

impl Tree {
    /// Lists the folder and everything below it.
    ///
    /// ```no_run
    /// use std::path::Path;
    ///
    /// use dyno_submission::tree::Tree;
    ///
    /// let tree = Tree::walk(Path::new("submission")).unwrap();
    /// for file in tree.top().descendants().filter(|node| node.is_file()) {
    ///     println!("{} {}", file.size(), file.path().display());
    /// }
    /// ```
    ///
    /// # Errors
    /// Fails if the root cannot be listed. Folders below it that cannot be listed are in
    /// [`Self::unlisted`].
    pub fn walk(root: &Path) -> Result<Self, TreeError> {
        let top = EntryData {
            name: OsString::new(),
            parent: 0,
            kind: EntryKind::Folder,
            link: None,
            behind_link: false,
            position: 0,
            children: 0..0,
        };
        let mut tree = Self { root: root.to_owned(), entries: vec![top], unlisted: Vec::new() };
        let tree_error =
            |error: io::Error| TreeError { root: root.to_owned(), why: error.to_string() };
        std::fs::read_dir(root).map_err(tree_error)?;
        let mut links = Links::default();
        let mut next = 0;
        while next < tree.entries.len() {
            tree.list(next, &mut links);
            next += 1;
        }
        Ok(tree)
    }

    /// Returns the path of the root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the root as an entry.
    pub fn top(&self) -> Node<'_> {
        Node { tree: self, index: 0 }
    }

    /// Returns the entry index a path relative to the root.
    pub fn node(&self, path: impl AsRef<Path>) -> Option<Node<'_>> {
        self.top().below(path)
    }

    /// Returns the folders that could not be listed completely.
    pub fn unlisted(&self) -> &[UnlistedFolder] {
        &self.unlisted
    }

    /// Returns the number of entries, without the root.
    pub fn len(&self) -> usize {
        self.entries.len() - 1
    }

    /// Whether the root has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the entries of a folder, sorted.
    fn list(&mut self, index: usize, links: &mut Links) {
        if self.entries[index].kind != EntryKind::Folder {
            return;
        }
        let folder = Node { tree: self, index };
        let path = folder.absolute();
        let linked = self.entries[index].link.is_some();
        if linked && self.turns_back(index, &path) {
            return;
        }
        if linked && !links.follow(&path, self.entries[index].behind_link) {
            if !std::mem::replace(&mut links.is_reported, true) {
                let why = "a link behind a link points to a folder that is already listed; such \
                     links are not followed";
                self.unlist(index, why.to_owned());
            }
            return;
        }
        let behind_link = linked || self.entries[index].behind_link;
        if behind_link && links.is_full {
            return;
        }
        let store = |(position, entry): (usize, io::Result<std::fs::DirEntry>)| {
            let entry = entry?;
            let (kind, link) = look(&entry);
            let name = entry.file_name();
            let children = 0..0;
            Ok(EntryData { name, parent: index, kind, link, behind_link, position, children })
        };
        let listed: io::Result<Vec<EntryData>> =
            std::fs::read_dir(&path).and_then(|entries| entries.enumerate().map(store).collect());
        let mut entries = match listed {
            Ok(entries) => entries,
            Err(error) => return self.unlist(index, error.to_string()),
        };
        if behind_link {
            links.entries += entries.len();
            if links.entries > MOST_BEHIND_LINKS {
                links.is_full = true;
                return self
                    .unlist(index, format!("more than {MOST_BEHIND_LINKS} files behind links"));
            }
        }
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let first = self.entries.len();
        self.entries.append(&mut entries);
        self.entries[index].children = first..self.entries.len();
    }

    fn unlist(&mut self, index: usize, why: String) {
        let path = Node { tree: self, index }.path();
        self.unlisted.push(UnlistedFolder { path, why });
    }

    /// Whether a link leads to a folder that contains it.
    fn turns_back(&self, index: usize, path: &Path) -> bool {
        let identity = |path: &Path| {
            std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
        };
        let target = identity(path);
        let mut above = Node { tree: self, index }.parent();
        while let Some(folder) = above {
            if identity(&folder.absolute()) == target {
                return true;
            }
            above = folder.parent();
        }
        false
    }
}

/// Entries reached through symbolic links. Two results may be links to one folder, but links
/// that lead to each other behind links would multiply.
#[derive(Default)]
struct Links {
    entries: usize,
    /// The limit is reached. This is reported once.
    is_full: bool,
    /// Targets of links, by device and inode.
    known: BTreeSet<(u64, u64)>,
    is_reported: bool,
}

impl Links {
    /// Whether to follow a link. A link behind another is followed only to a new folder.
    fn follow(&mut self, path: &Path, behind_link: bool) -> bool {
        let Ok(metadata) = std::fs::metadata(path) else { return true };
        self.known.insert((metadata.dev(), metadata.ino())) || !behind_link
    }
}

/// Returns the kind of an entry, and its target if it is a symbolic link.
fn look(entry: &std::fs::DirEntry) -> (EntryKind, Option<Box<Path>>) {
    let Ok(file_type) = entry.file_type() else {
        return (EntryKind::Other, None);
    };
    if file_type.is_dir() {
        return (EntryKind::Folder, None);
    }
    let mut link = None;
    // `metadata` follows a link; for a file it returns the size.
    let metadata = if file_type.is_symlink() {
        link = std::fs::read_link(entry.path()).ok().map(PathBuf::into_boxed_path);
        match std::fs::metadata(entry.path()) {
            Ok(metadata) => metadata,
            Err(_) => return (EntryKind::BrokenLink, link),
        }
    } else {
        match entry.metadata() {
            Ok(metadata) => metadata,
            Err(_) => return (EntryKind::Other, None),
        }
    };
    let kind = if metadata.is_dir() {
        EntryKind::Folder
    } else if metadata.is_file() {
        EntryKind::File { size: metadata.len() }
    } else {
        EntryKind::Other
    };
    (kind, link)
}

/// An entry of a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Node<'t> {
    tree: &'t Tree,
    index: usize,
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.path().display())
    }
}

impl<'t> Node<'t> {
    fn data(self) -> &'t EntryData {
        &self.tree.entries[self.index]
    }

    /// Returns the name within its folder.
    pub fn name(self) -> &'t OsStr {
        &self.data().name
    }

    /// Returns the name as text. Bytes that are not UTF-8 become replacement characters.
    pub fn text(self) -> std::borrow::Cow<'t, str> {
        self.name().to_string_lossy()
    }

    /// Returns the kind.
    pub fn kind(self) -> EntryKind {
        self.data().kind
    }

    /// Whether it is a folder, after following links.
    pub fn is_folder(self) -> bool {
        self.kind() == EntryKind::Folder
    }

    /// Whether it is a regular file, after following links.
    pub fn is_file(self) -> bool {
        matches!(self.kind(), EntryKind::File { .. })
    }

    /// Returns the size of a file in bytes, or 0 for other entries.
    pub fn size(self) -> u64 {
        match self.kind() {
            EntryKind::File { size } => size,
            _ => 0,
        }
    }

    /// Returns the target as written, if it is a symbolic link.
    pub fn link(self) -> Option<&'t Path> {
        self.data().link.as_deref()
    }

    /// Whether one of the folders that contain it is a symbolic link.
    pub fn is_behind_link(self) -> bool {
        self.data().behind_link
    }

    /// Whether a link lies between a folder above it and this entry.
    pub(crate) fn is_behind_link_in(self, folder: Node<'t>) -> bool {
        let above = std::iter::successors(self.parent(), |node| node.parent());
        above.take_while(|node| node.index != folder.index).any(|node| node.link().is_some())
    }

    /// Returns its place in its folder, from 0, as the operating system lists the entries. The
    /// official checkers visit them in this order.
    pub fn position(self) -> usize {
        self.data().position
    }

    /// Returns the folder that contains it; `None` for the root.
    pub fn parent(self) -> Option<Node<'t>> {
        (self.index != 0).then(|| Node { tree: self.tree, index: self.data().parent })
    }

    /// Returns the path relative to the root.
    pub fn path(self) -> PathBuf {
        self.path_from(OsString::new()).into()
    }

    /// Returns the path on this machine.
    pub fn absolute(self) -> PathBuf {
        let root = self.tree.root.as_os_str();
        if self.index == 0 {
            return self.tree.root.join("");
        }
        self.path_from(root.to_owned()).into()
    }

    /// Reads a file into a buffer: index most `most` bytes and index most the size index the time of the
    /// walk. Reusing one buffer avoids allocations for thousands of files.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or read.
    pub fn read(self, most: u64, buffer: &mut Vec<u8>) -> io::Result<&[u8]> {
        let wanted = self.size().min(most) as usize;
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        let mut file = File::open(self.absolute())?;
        let mut count = 0;
        while count < wanted {
            match file.read(&mut buffer[count..wanted]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&buffer[..count])
    }

    /// Returns the path below a folder. Paths are built several times per file, so this
    /// allocates once.
    fn path_from(self, folder: OsString) -> OsString {
        let (mut names, mut length) = (Vec::with_capacity(16), 0);
        let mut node = self;
        while let Some(parent) = node.parent() {
            names.push(node.name());
            length += node.name().len() + 1;
            node = parent;
        }
        let mut path = folder;
        path.reserve_exact(length);
        for name in names.into_iter().rev() {
            if !path.is_empty() && !path.as_encoded_bytes().ends_with(b"/") {
                path.push("/");
            }
            path.push(name);
        }
        path
    }

    /// Returns its entries, sorted by name.
    pub fn children(self) -> impl DoubleEndedIterator<Item = Node<'t>> + use<'t> {
        let tree = self.tree;
        self.data().children.clone().map(move |index| Node { tree, index })
    }

    /// Returns the folders in it.
    pub fn folders(self) -> impl Iterator<Item = Node<'t>> + use<'t> {
        self.children().filter(|node| node.is_folder())
    }

    /// Returns the regular files in it.
    pub fn files(self) -> impl Iterator<Item = Node<'t>> + use<'t> {
        self.children().filter(|node| node.is_file())
    }

    /// Returns the entry with this name in it.
    pub fn child(self, name: impl AsRef<OsStr>) -> Option<Node<'t>> {
        let range = self.data().children.clone();
        let entries = &self.tree.entries[range.clone()];
        let found = entries.binary_search_by(|data| data.name.as_os_str().cmp(name.as_ref()));
        found.ok().map(|index| Node { tree: self.tree, index: range.start + index })
    }

    /// Returns the entry index this path below it.
    pub fn below(self, path: impl AsRef<Path>) -> Option<Node<'t>> {
        path.as_ref().components().try_fold(self, |node, part| match part {
            Component::Normal(name) => node.child(name),
            Component::CurDir => Some(node),
            _ => None,
        })
    }

    /// The folder of that path in it.
    pub fn folder(self, path: impl AsRef<Path>) -> Option<Node<'t>> {
        self.below(path).filter(|node| node.is_folder())
    }

    /// The regular file of that path in it.
    pub fn file(self, path: impl AsRef<Path>) -> Option<Node<'t>> {
        self.below(path).filter(|node| node.is_file())
    }

    /// Returns everything below it. A folder precedes its content.
    pub fn descendants(self) -> impl Iterator<Item = Node<'t>> + use<'t> {
        let mut waiting: Vec<Node<'t>> = self.children().rev().collect();
        std::iter::from_fn(move || {
            let next = waiting.pop()?;
            waiting.extend(next.children().rev());
            Some(next)
        })
    }
}
