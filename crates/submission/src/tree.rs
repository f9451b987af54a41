//! The files of a submission: one walk, every entry with what it is and how large.
//!
//! Entries are in the order of their names as bytes, whatever the file system says.
//! Links are followed, as the official checkers do, but never round in a circle.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// More entries than this are not taken from behind links, which could otherwise
/// multiply: a full round has 54,000 in all.
const MOST_BEHIND_LINKS: usize = 200_000;

/// What an entry of a folder is, links followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File {
        /// Its size in bytes.
        size: u64,
    },
    /// A symbolic link to nothing.
    BrokenLink,
    /// A socket, a device, or what cannot be looked at.
    Other,
}

/// A folder that could not be listed, or not in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlisted {
    /// Relative to the root.
    pub path: PathBuf,
    /// What the system said, or why the walk stopped.
    pub why: String,
}

/// A tree of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    root: PathBuf,
    entries: Vec<Stored>,
    unlisted: Vec<Unlisted>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    name: OsString,
    parent: usize,
    kind: Kind,
    /// Where a symbolic link points, as it is written.
    link: Option<Box<Path>>,
    behind_link: bool,
    children: Range<usize>,
}

/// The root cannot be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoTree {
    /// The root.
    pub root: PathBuf,
    /// What the system said.
    pub why: String,
}

impl fmt::Display for NoTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot list the folder {}: {}", self.root.display(), self.why)
    }
}

impl std::error::Error for NoTree {}

impl Tree {
    /// Walks the folder.
    ///
    /// # Errors
    /// It cannot be listed. Folders below it that cannot are in [`Self::unlisted`].
    pub fn walk(root: &Path) -> Result<Self, NoTree> {
        let top = Stored {
            name: OsString::new(),
            parent: 0,
            kind: Kind::Folder,
            link: None,
            behind_link: false,
            children: 0..0,
        };
        let mut tree = Self { root: root.to_owned(), entries: vec![top], unlisted: Vec::new() };
        let no_tree = |error: io::Error| NoTree { root: root.to_owned(), why: error.to_string() };
        std::fs::read_dir(root).map_err(no_tree)?;
        let mut links = Links::default();
        let mut next = 0;
        while next < tree.entries.len() {
            tree.list(next, &mut links);
            next += 1;
        }
        Ok(tree)
    }

    /// Where it lies.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its root as an entry.
    #[must_use]
    pub fn top(&self) -> Node<'_> {
        Node { tree: self, at: 0 }
    }

    /// The entry of that path relative to the root.
    #[must_use]
    pub fn node(&self, path: impl AsRef<Path>) -> Option<Node<'_>> {
        self.top().below(path)
    }

    /// Folders that could not be listed in full.
    #[must_use]
    pub fn unlisted(&self) -> &[Unlisted] {
        &self.unlisted
    }

    /// How many entries there are, without the root.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() - 1
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the entries of a folder, in order.
    fn list(&mut self, at: usize, links: &mut Links) {
        if self.entries[at].kind != Kind::Folder {
            return;
        }
        let folder = Node { tree: self, at };
        let path = folder.absolute();
        let linked = self.entries[at].link.is_some();
        if linked && self.turns_back(at, &path) {
            return;
        }
        if linked && !links.follow(&path, self.entries[at].behind_link) {
            if !std::mem::replace(&mut links.is_told, true) {
                let why = "a link behind a link leads to a folder that is listed already, and \
                           is not followed; nor are more like it";
                self.unlist(at, why.to_owned());
            }
            return;
        }
        let behind_link = linked || self.entries[at].behind_link;
        if behind_link && links.is_full {
            return;
        }
        let store = |entry: io::Result<std::fs::DirEntry>| {
            let entry = entry?;
            let (kind, link) = look(&entry);
            let name = entry.file_name();
            Ok(Stored { name, parent: at, kind, link, behind_link, children: 0..0 })
        };
        let listed: io::Result<Vec<Stored>> =
            std::fs::read_dir(&path).and_then(|entries| entries.map(store).collect());
        let mut entries = match listed {
            Ok(entries) => entries,
            Err(error) => return self.unlist(at, error.to_string()),
        };
        if behind_link {
            links.entries += entries.len();
            if links.entries > MOST_BEHIND_LINKS {
                links.is_full = true;
                return self
                    .unlist(at, format!("more than {MOST_BEHIND_LINKS} files behind links"));
            }
        }
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let first = self.entries.len();
        self.entries.append(&mut entries);
        self.entries[at].children = first..self.entries.len();
    }

    fn unlist(&mut self, at: usize, why: String) {
        let path = Node { tree: self, at }.path();
        self.unlisted.push(Unlisted { path, why });
    }

    /// Whether a link leads to a folder that it lies in.
    fn turns_back(&self, at: usize, path: &Path) -> bool {
        let identity = |path: &Path| {
            std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
        };
        let target = identity(path);
        let mut above = Node { tree: self, at }.parent();
        while let Some(folder) = above {
            if identity(&folder.absolute()) == target {
                return true;
            }
            above = folder.parent();
        }
        false
    }
}

/// What was taken from behind links. Two results may well be links to one folder; links
/// that lead to each other from behind links would multiply.
#[derive(Default)]
struct Links {
    entries: usize,
    /// No more is taken: said once.
    is_full: bool,
    /// Folders that links lead to, by device and number.
    known: BTreeSet<(u64, u64)>,
    is_told: bool,
}

impl Links {
    /// Whether a link is to be followed; one behind another only to a new folder.
    fn follow(&mut self, path: &Path, behind_link: bool) -> bool {
        let Ok(metadata) = std::fs::metadata(path) else { return true };
        self.known.insert((metadata.dev(), metadata.ino())) || !behind_link
    }
}

/// What an entry is, and where it points if it is a link.
fn look(entry: &std::fs::DirEntry) -> (Kind, Option<Box<Path>>) {
    let Ok(file_type) = entry.file_type() else {
        return (Kind::Other, None);
    };
    if file_type.is_dir() {
        return (Kind::Folder, None);
    }
    let mut link = None;
    // A link is looked through; of a file this asks for its size.
    let metadata = if file_type.is_symlink() {
        link = std::fs::read_link(entry.path()).ok().map(PathBuf::into_boxed_path);
        match std::fs::metadata(entry.path()) {
            Ok(metadata) => metadata,
            Err(_) => return (Kind::BrokenLink, link),
        }
    } else {
        match entry.metadata() {
            Ok(metadata) => metadata,
            Err(_) => return (Kind::Other, None),
        }
    };
    let kind = if metadata.is_dir() {
        Kind::Folder
    } else if metadata.is_file() {
        Kind::File { size: metadata.len() }
    } else {
        Kind::Other
    };
    (kind, link)
}

/// An entry of a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Node<'t> {
    tree: &'t Tree,
    at: usize,
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.path().display())
    }
}

impl<'t> Node<'t> {
    fn stored(self) -> &'t Stored {
        &self.tree.entries[self.at]
    }

    /// Its name in its folder.
    #[must_use]
    pub fn name(self) -> &'t OsStr {
        &self.stored().name
    }

    /// Its name as text; a name that is no text has marks in place of bytes.
    #[must_use]
    pub fn text(self) -> std::borrow::Cow<'t, str> {
        self.name().to_string_lossy()
    }

    /// What it is.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.stored().kind
    }

    /// Whether it is a folder, links followed.
    #[must_use]
    pub fn is_folder(self) -> bool {
        self.kind() == Kind::Folder
    }

    /// Whether it is a regular file, links followed.
    #[must_use]
    pub fn is_file(self) -> bool {
        matches!(self.kind(), Kind::File { .. })
    }

    /// Size of a file, in bytes; 0 of what is none.
    #[must_use]
    pub fn size(self) -> u64 {
        match self.kind() {
            Kind::File { size } => size,
            _ => 0,
        }
    }

    /// Where it points, as it is written, if it is a symbolic link.
    #[must_use]
    pub fn link(self) -> Option<&'t Path> {
        self.stored().link.as_deref()
    }

    /// Whether one of the folders it lies in is a symbolic link.
    #[must_use]
    pub fn is_behind_link(self) -> bool {
        self.stored().behind_link
    }

    /// The folder it lies in; of the root there is none.
    #[must_use]
    pub fn parent(self) -> Option<Node<'t>> {
        (self.at != 0).then(|| Node { tree: self.tree, at: self.stored().parent })
    }

    /// Its path relative to the root.
    #[must_use]
    pub fn path(self) -> PathBuf {
        self.path_from(OsString::new()).into()
    }

    /// Where it lies on this machine.
    #[must_use]
    pub fn absolute(self) -> PathBuf {
        let root = self.tree.root.as_os_str();
        if self.at == 0 {
            return self.tree.root.join("");
        }
        self.path_from(root.to_owned()).into()
    }

    /// Reads a file, as much of it as the walk saw and at most so many bytes, into memory that may be of another
    /// file before: thousands of files are read, one after the other.
    ///
    /// # Errors
    /// It cannot be read.
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

    /// Its path, after that of a folder. Every file has its paths made a few times, so
    /// that this is done in one go.
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

    /// What is in it, in order.
    pub fn children(self) -> impl DoubleEndedIterator<Item = Node<'t>> + use<'t> {
        let tree = self.tree;
        self.stored().children.clone().map(move |at| Node { tree, at })
    }

    /// The folders in it.
    pub fn folders(self) -> impl Iterator<Item = Node<'t>> + use<'t> {
        self.children().filter(|node| node.is_folder())
    }

    /// The regular files in it.
    pub fn files(self) -> impl Iterator<Item = Node<'t>> + use<'t> {
        self.children().filter(|node| node.is_file())
    }

    /// The entry of that name in it.
    #[must_use]
    pub fn child(self, name: impl AsRef<OsStr>) -> Option<Node<'t>> {
        let range = self.stored().children.clone();
        let entries = &self.tree.entries[range.clone()];
        let found = entries.binary_search_by(|stored| stored.name.as_os_str().cmp(name.as_ref()));
        found.ok().map(|at| Node { tree: self.tree, at: range.start + at })
    }

    /// The entry of that path in it.
    #[must_use]
    pub fn below(self, path: impl AsRef<Path>) -> Option<Node<'t>> {
        path.as_ref().components().try_fold(self, |node, part| match part {
            Component::Normal(name) => node.child(name),
            Component::CurDir => Some(node),
            _ => None,
        })
    }

    /// The folder of that path in it.
    #[must_use]
    pub fn folder(self, path: impl AsRef<Path>) -> Option<Node<'t>> {
        self.below(path).filter(|node| node.is_folder())
    }

    /// The regular file of that path in it.
    #[must_use]
    pub fn file(self, path: impl AsRef<Path>) -> Option<Node<'t>> {
        self.below(path).filter(|node| node.is_file())
    }

    /// Everything below it, folders before what is in them.
    pub fn descendants(self) -> impl Iterator<Item = Node<'t>> + use<'t> {
        let mut waiting: Vec<Node<'t>> = self.children().rev().collect();
        std::iter::from_fn(move || {
            let next = waiting.pop()?;
            waiting.extend(next.children().rev());
            Some(next)
        })
    }
}
