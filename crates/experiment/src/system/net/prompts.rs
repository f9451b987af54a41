//! Prompts from files, or made up.

use std::num::NonZero;
use std::path::Path;

use dyno_net::openai::{Api, Input};
use dyno_net::workload::images::MadeImages;
use dyno_net::workload::{
    LengthMix, Lengths, Prompt, Row, RowMembers, RowOptions, Shape, SyntheticPrompts, Workload,
};

use super::{SpecKeys, dataset, recordings};
use crate::failure::Failure;
use crate::options::{RandomStream, RunOptions};

/// Default number of generated prompts.
pub const MADE_UP: usize = 256;
/// Default number of tokens of a generated prompt and of its answer.
pub const INPUT: Lengths = Lengths::Fixed(128);
/// Default number of generated documents of a ranking.
const DOCUMENTS: usize = 8;

/// Keys of a specification that concern prompts.
struct PromptKeys {
    output: Option<Lengths>,
    shape: Shape,
    // Of prompts that are made up.
    input: Option<Lengths>,
    lengths: Option<LengthMix>,
    prefix: Option<u64>,
    groups: Option<NonZero<usize>>,
    images: Option<MadeImages>,
    documents: Option<NonZero<usize>>,
    // Of prompts in a file.
    members: Option<RowMembers>,
    prompt_column: Option<String>,
    split: Option<String>,
    turns: Option<NonZero<usize>>,
}

impl PromptKeys {
    fn take(given: &mut SpecKeys) -> Result<Self, Failure> {
        let ids: Option<NonZero<u64>> = given.read_as("ids")?;
        Ok(Self {
            output: given.read_as("output")?,
            shape: ids.map_or(Shape::Words, |ids| Shape::Numbers(ids.get())),
            input: given.read_as("input")?,
            lengths: given.read_as("lengths")?,
            prefix: given.read_as("prefix")?,
            groups: given.read_as("groups")?,
            images: given.read_as("image")?,
            documents: given.read_as("documents")?,
            members: given.read_as("row-members")?,
            prompt_column: given.text("prompt-column"),
            split: given.text("split"),
            turns: given.read_as("turns")?,
        })
    }

    /// Returns the name of a key that only prompts of the other source use.
    fn foreign(&self, is_made_up: bool) -> Option<&'static str> {
        let of_files = [
            ("row-members", self.members.is_some()),
            ("prompt-column", self.prompt_column.is_some()),
            ("split", self.split.is_some()),
            ("turns", self.turns.is_some()),
        ];
        let of_made_up = [
            ("input", self.input.is_some()),
            ("lengths", self.lengths.is_some()),
            ("prefix", self.prefix.is_some()),
            ("groups", self.groups.is_some()),
            ("image", self.images.is_some()),
            ("documents", self.documents.is_some()),
        ];
        let keys = if is_made_up { &of_files[..] } else { &of_made_up[..] };
        keys.iter().find(|(_, is_set)| *is_set).map(|(name, _)| *name)
    }

    /// Returns prompts that are made up.
    fn made_up(
        self,
        given: &SpecKeys,
        run: &RunOptions,
        api: Option<Api>,
    ) -> Result<Workload, Failure> {
        if self.turns.is_some() {
            let why = "has no effect without --data FILE; remove it, or add sessions=live for \
                       conversations that are generated";
            return Err(given.wrong("turns", why));
        }
        if let Some(key) = self.foreign(true) {
            return Err(given.wrong(key, "has no effect without --data FILE; remove it"));
        }
        if api == Some(Api::Transcriptions) {
            let why = "recordings are not generated; pass --data with a WAV or FLAC file, a folder of \
                       them, or rows with their paths";
            return Err(given.wrong("api", why));
        }
        let is_ranking = api == Some(Api::Rerank);
        let has_ids = matches!(self.shape, Shape::Numbers(_));
        if self.documents.is_some() && !is_ranking {
            return Err(given.wrong("documents", "only a ranking has documents; add api=rerank"));
        }
        if has_ids && (self.images.is_some() || is_ranking) {
            return Err(given.wrong("ids", "images and rankings need words; remove it"));
        }
        if self.lengths.is_some() && (self.input.is_some() || self.output.is_some()) {
            return Err(given.wrong("lengths", "includes input and output; remove the other two"));
        }
        let is_text = api.is_none_or(Api::is_text);
        if is_text && self.lengths.as_ref().is_some_and(LengthMix::lacks_output) {
            let why = "expected INPUT/OUTPUT for each pair, such as 512/128; input=N has no limit of the \
                       answers";
            return Err(given.wrong("lengths", why));
        }
        let single = || LengthMix::of_one(self.input.unwrap_or(INPUT), self.output);
        let made = SyntheticPrompts {
            count: run.samples_or_of_round(MADE_UP),
            lengths: self.lengths.clone().unwrap_or_else(single),
            prefix: self.prefix.unwrap_or(0),
            groups: self.groups.map_or(1, NonZero::get),
            images: self.images,
            documents: if is_ranking { self.documents.map_or(DOCUMENTS, NonZero::get) } else { 0 },
            shape: self.shape,
            seed: run.seed_of(RandomStream::Prompts),
        };
        made.workload().map_err(|why| Failure::usage(why).hint("see --samples, input= and output="))
    }

    /// Returns the prompts of a file or a folder.
    fn of_file(
        self,
        given: &SpecKeys,
        run: &RunOptions,
        (api, path): (Option<Api>, &Path),
    ) -> Result<Workload, Failure> {
        if let Some(key) = self.foreign(false) {
            let problem = format!("{key}= generates prompts, but --data reads them from a file");
            return Err(Failure::usage(problem).hint("remove one of the two"));
        }
        let options = RowOptions {
            api,
            prompt_column: self.prompt_column,
            members: self.members.unwrap_or_default(),
            most: run.samples.map(NonZero::get),
            turns: self.turns.map(NonZero::get),
            shape: self.shape,
            seed: run.seed_of(RandomStream::Prompts),
        };
        let split = self.split.as_deref();
        let rows = if api == Some(Api::Transcriptions) {
            recordings::rows(path, split)?
        } else {
            dataset::prompts(path, split)?
        };
        let mut workload = Workload::of_rows(rows, &options)
            .map_err(|error| Failure::set_up(format!("{}: {error}", path.display())))?;
        if let Some(Lengths::Fixed(most)) = self.output {
            workload.prompts.iter_mut().for_each(|prompt| prompt.max_tokens = Some(most));
        } else if self.output.is_some() {
            return Err(given.wrong("output", "for prompts from a file use one number"));
        }
        let is_token_list = |prompt: &Prompt| matches!(prompt.input, Input::Tokens(_));
        let has_ids = matches!(self.shape, Shape::Numbers(_));
        if has_ids && !workload.prompts.iter().any(is_token_list) {
            let why = "has no effect: every prompt of --data has its own text; remove it";
            return Err(given.wrong("ids", why));
        }
        Ok(workload)
    }
}

/// Returns the workload from the keys of a specification and `--data`.
pub fn workload(
    given: &mut SpecKeys,
    run: &RunOptions,
    api: Option<Api>,
) -> Result<Workload, Failure> {
    let keys = PromptKeys::take(given)?;
    match run.data.as_slice() {
        [] => keys.made_up(given, run, api),
        [(None, path)] => keys.of_file(given, run, (api, path)),
        [(Some(name), rest)] if let Some(keys) = described_lengths(name, rest) => {
            let problem = "--data takes a file; keys of the URL describe random prompts";
            Err(Failure::usage(problem)
                .hint(format!("remove it, and use dyno run http://HOST:PORT,{keys}")))
        }
        [(Some(name), _)] => Err(Failure::usage(format!(
            "--data {name}=FILE is for a model input, but prompts have \
                 none"
        ))
        .hint("use --data FILE")),
        _ => Err(Failure::usage("expected one file of prompts, found several --data")),
    }
}

/// Returns the keys for a description of prompts as guidellm takes it, such as
/// `prompt_tokens=256,output_tokens=128`, of which `name` is the first key; `None` if it has no lengths.
fn described_lengths(name: &str, rest: &Path) -> Option<String> {
    let text = format!("{name}={}", rest.display());
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let keys: Vec<String> = pairs
        .filter_map(|(key, value)| match key.trim() {
            "prompt_tokens" => Some(format!("input={value}")),
            "output_tokens" => Some(format!("output={value}")),
            _ => None,
        })
        .collect();
    (!keys.is_empty()).then(|| keys.join(","))
}

/// Returns the rows of `--data FILE`.
pub fn rows_of(run: &RunOptions) -> Result<Option<Vec<Row>>, Failure> {
    match run.data.as_slice() {
        [] => Ok(None),
        [(None, path)] => dataset::rows_at_most(path, run.samples.map(NonZero::get)).map(Some),
        _ => Err(Failure::usage("pass one file of samples with --data FILE")),
    }
}
