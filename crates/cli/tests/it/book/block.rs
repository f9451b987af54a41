//! Fenced blocks of a Markdown page, and what they claim to be.

use std::ops::Range;

/// One block.
pub struct Block {
    /// Line of its fence, from 1.
    pub line: usize,
    pub kind: Kind,
    /// Text between the fences.
    pub text: String,
    /// Offset of the text in the page, bytes.
    pub span: Range<usize>,
}

/// The kind of a block, by the words after its fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `sh`: run in the scratch folder of the page, with `dyno` on the path.
    Shell(Shell),
    /// `text,output` and `text,stderr`: what the block before it printed. In it
    /// `...` stands for anything, and a line of nothing else for any lines.
    Output(Stream),
    /// `text,like`: the figures of one machine. The block before it printed these
    /// lines, in this order, numbers and verdicts aside.
    Like,
    /// `toml`: a dyno.toml, which `dyno run --dry-run` accepts.
    Config,
    /// `file=NAME` in any language: written to the scratch folder; a .toml is
    /// a dyno.toml too, unless its language is not toml.
    File { name: String, is_config: bool },
    /// `from=PATH`: its lines stand in that file of the repository, which is
    /// tested itself.
    Quoted(String),
    /// `test=NAME`: the test of this name runs it.
    Tested(String),
    /// `sh,example`: an example of this crate, whose output is compared.
    Example,
    /// `yaml,run`: a workflow; its `run:` lines are run as shell.
    Workflow,
    /// `ignore=REASON`.
    Ignored(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shell {
    /// Tests last a fifth of a second, and may be INVALID: a page shows the
    /// command as people type it, and a test machine is busy.
    pub quick: bool,
    /// Needs what `cargo xtask peers book` installs, or minutes.
    pub peers: bool,
    /// Run in the root of the repository.
    pub repository: bool,
    /// The exit code that the page speaks of.
    pub exit: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Block {
    /// The blocks of a page in order.
    ///
    /// # Errors
    /// Lines whose blocks are of no kind.
    pub fn all(page: &str) -> Result<Vec<Self>, Vec<(usize, String)>> {
        let (mut blocks, mut unclear) = (Vec::new(), Vec::new());
        let mut open: Option<(usize, &str, &str, usize)> = None;
        let mut at = 0;
        for (line, text) in (1..).zip(page.split_inclusive('\n')) {
            let begin = at;
            at += text.len();
            let trimmed = text.trim();
            let fence = &trimmed[..trimmed.len() - trimmed.trim_start_matches('`').len()];
            match open {
                None if fence.len() >= 3 => {
                    open = Some((line, fence, trimmed[fence.len()..].trim(), at));
                }
                Some((line, opened, info, from)) if trimmed == opened => {
                    open = None;
                    // A closing fence that ends a line of text leaves its backticks here.
                    if info.contains('`') {
                        unclear.push((line, format!("backticks in `{info}`: a block on one line")));
                        continue;
                    }
                    match Kind::read(info) {
                        Ok(kind) => {
                            let span = from..begin;
                            blocks.push(Self { line, kind, text: page[span.clone()].into(), span });
                        }
                        Err(why) => unclear.push((line, why)),
                    }
                }
                _ => {}
            }
        }
        if let Some((line, ..)) = open {
            unclear.push((line, "the block does not end".into()));
        }
        if unclear.is_empty() { Ok(blocks) } else { Err(unclear) }
    }
}

const KINDS: &str = "say what it is: sh[,quick][,peers][,repository][,exit=N], sh,example, \
     text,output, text,stderr, text,like, toml, yaml,run, or any language with file=NAME, from=PATH, test=NAME or \
     ignore=REASON (see tests/it/book/block.rs)";

impl Kind {
    fn read(info: &str) -> Result<Self, String> {
        let (language, attributes) = info.split_once(',').unwrap_or((info, ""));
        // The reason is a sentence; it may have commas.
        if let Some((_, reason)) = attributes.split_once("ignore=") {
            return Ok(Self::Ignored(reason.into()));
        }
        let words: Vec<&str> = attributes.split(',').filter(|word| !word.is_empty()).collect();
        if let [one] = &words[..]
            && let Some((key, value)) = one.split_once('=')
        {
            let value = value.to_string();
            match key {
                "file" => return Ok(Self::File { name: value, is_config: language == "toml" }),
                "from" => return Ok(Self::Quoted(value)),
                "test" => return Ok(Self::Tested(value)),
                _ => {}
            }
        }
        match (language, &words[..]) {
            ("toml", []) => Ok(Self::Config),
            ("text", ["output"]) => Ok(Self::Output(Stream::Stdout)),
            ("text", ["stderr"]) => Ok(Self::Output(Stream::Stderr)),
            ("text", ["like"]) => Ok(Self::Like),
            ("yaml", ["run"]) => Ok(Self::Workflow),
            ("sh", ["example"]) => Ok(Self::Example),
            ("sh", words) => Shell::read(words).map(Self::Shell),
            _ => Err(format!("a block `{info}` is of no kind: {KINDS}")),
        }
    }
}

impl Shell {
    fn read(words: &[&str]) -> Result<Self, String> {
        let mut shell = Self::default();
        for word in words {
            match *word {
                "quick" => shell.quick = true,
                "peers" => shell.peers = true,
                "repository" => shell.repository = true,
                _ => {
                    let code = word.strip_prefix("exit=").and_then(|code| code.parse().ok());
                    shell.exit = code.ok_or_else(|| format!("`{word}` in `sh`: {KINDS}"))?;
                }
            }
        }
        Ok(shell)
    }
}

#[test]
fn blocks_have_kinds() {
    let page = "# A\n```sh,quick,exit=1\na\nb\n```\n````text,output\n```\n````\n";
    let blocks = Block::all(page).unwrap();
    let shell = Shell { quick: true, exit: 1, ..Shell::default() };
    assert_eq!(blocks[0].kind, Kind::Shell(shell));
    assert_eq!((blocks[0].line, &*blocks[0].text), (2, "a\nb\n"));
    assert_eq!(blocks[1].kind, Kind::Output(Stream::Stdout));
    assert_eq!(&page[blocks[1].span.clone()], "```\n");
    let ignored = Kind::read("sh,ignore=needs a, b").unwrap();
    assert_eq!(ignored, Kind::Ignored("needs a, b".into()));
    for unclear in ["", "rust", "text", "sh,slow", "toml,output"] {
        let found = Block::all(&format!("x\n\n```{unclear}\n```\n")).err().unwrap();
        assert_eq!(found[0].0, 3, "{unclear}");
    }
    let collapsed = Block::all("a\n\n```text,ignore=one line a b ```\n\nb\n\n```\nc\n");
    assert!(collapsed.err().unwrap()[0].1.contains("backticks"));
    assert_eq!(Block::all("```sh\n").err().unwrap()[0].1, "the block does not end");
}
