//! Demands of requests on their answers: lengths, choices, results, and the model.

use serde_json::{Map, Value};

use super::client::Settings;
use super::{Api, body};
use crate::ledger::Demand;
use crate::workload::Prompt;

/// Demands of requests on their answers, by the settings.
#[derive(Debug, Clone)]
pub(super) struct Demands {
    /// Endpoint of all requests, if it is set.
    pub(super) api: Option<Api>,
    /// Default of samples without their own limit.
    most: Option<u64>,
    limit_is_least: bool,
    others: Map<String, Value>,
    without: Vec<String>,
    /// Model of requests that name no other one.
    model: String,
}

impl Demands {
    pub(super) fn new(settings: &Settings) -> Self {
        let mut others = settings.others.clone();
        // Members for sampling may come in the object of their interface.
        let own = settings.api.and_then(body::sampling).map(|(own, _)| own);
        if let Some(Value::Object(sampling)) = own.and_then(|own| settings.others.get(own)) {
            others.extend(sampling.clone());
        }
        Self {
            api: settings.api,
            most: settings.max_tokens,
            limit_is_least: settings.limit_is_least,
            others,
            without: settings.without.clone(),
            model: settings.model.clone(),
        }
    }

    /// Returns the model that the request of a prompt names; empty if it names none.
    pub(super) fn model<'a>(&'a self, prompt: &'a Prompt) -> &'a str {
        if self.without.iter().any(|without| without == "model") {
            return "";
        }
        prompt.members.get("model").and_then(Value::as_str).unwrap_or(&self.model)
    }

    /// Returns the demand of the request of a prompt.
    pub(super) fn demand(&self, prompt: &Prompt) -> Demand {
        let is_sent = |name: &str| !self.without.iter().any(|without| without == name);
        let member = |name: &str| {
            let found = prompt.members.get(name).or_else(|| self.others.get(name));
            found.filter(|_| is_sent(name))
        };
        let number = |name: &str| member(name).and_then(Value::as_u64);
        let count = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let api = self.api.unwrap_or_else(|| prompt.input.api());
        let Some(limit) = api.limit() else { return Demand { choices: 1, ..Demand::default() } };
        // A limit in the members of every request replaces that of a sample. The newer name takes
        // precedence, as in OpenAI's own service.
        let most = number("max_completion_tokens").or_else(|| number(limit));
        let own = prompt.max_tokens.or(self.most);
        let most = most.or_else(|| own.filter(|_| is_sent(limit)));
        let ignores_end = member("ignore_eos") == Some(&Value::Bool(true));
        let least = api.least().and_then(number);
        let least = if ignores_end || self.limit_is_least { most } else { least };
        let choices = number(api.choices()).and_then(|n| u16::try_from(n).ok()).unwrap_or(1).max(1);
        Demand { most: most.map(count), least: least.map(count), choices }
    }

    /// Returns the number of results that a request asks for in this member; `None` if it has none.
    pub(super) fn results(&self, prompt: &Prompt, member: &str) -> Option<usize> {
        let is_sent = !self.without.iter().any(|name| name == member);
        let member = prompt.members.get(member).or_else(|| self.others.get(member));
        usize::try_from(member.filter(|_| is_sent)?.as_u64()?).ok()
    }
}
