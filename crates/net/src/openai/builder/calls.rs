//! Calls of tools in the reply of a stream.

use super::is_cut_off;
use crate::openai::answer::CallPart;
use crate::protocol::ToolCall;

/// Maximum number of distinct calls of tools; further ones count as the last.
const MOST_CALLS: usize = 128;

/// State of the calls of a reply.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    /// Numbers of the calls, as the server states them.
    numbers: Vec<usize>,
    /// Id of the current part, if it is not that of its call.
    other_id: String,
}

impl OpenCalls {
    /// Adds a part of the call with this number. Empty parts are ignored.
    pub(super) fn take(
        &mut self,
        calls: &mut Vec<ToolCall>,
        number: usize,
        part: CallPart,
        text: &str,
    ) {
        if text.is_empty() {
            return;
        }
        let known = self.numbers.iter().rposition(|known| *known == number);
        let known = known.filter(|at| !self.begins_call(&calls[*at], part, text));
        if known.is_none() && part == CallPart::Extra {
            return;
        }
        if known.is_none() && calls.len() < MOST_CALLS {
            let id = std::mem::take(&mut self.other_id);
            let id = if part == CallPart::Id { String::new() } else { id };
            calls.push(ToolCall { id, ..ToolCall::default() });
            self.numbers.push(number);
        }
        let call = &mut calls[known.unwrap_or(self.numbers.len() - 1)];
        match part {
            CallPart::Id if call.id.is_empty() => call.id.push_str(text),
            // Some servers repeat the id, or the name, with each part.
            CallPart::Id => {
                self.other_id.clear();
                self.other_id.push_str(if call.id == text { "" } else { text });
            }
            CallPart::Name if call.name == text => {}
            CallPart::Name => call.name.push_str(text),
            CallPart::Arguments => {
                call.arguments.push_str(text);
                self.other_id.clear();
            }
            CallPart::Extra => text.clone_into(&mut call.extra),
        }
    }

    /// Returns whether a part is the name of a further call. Some servers give all calls one number, some
    /// give each part another id, and some send a name in pieces or again: two of these signs are enough.
    fn begins_call(&self, call: &ToolCall, part: CallPart, text: &str) -> bool {
        if part != CallPart::Name {
            return false;
        }
        let has_ended = !call.arguments.is_empty() && !is_cut_off(call.arguments.as_bytes());
        let signs = [call.name != text, has_ended, !self.other_id.is_empty()];
        signs.into_iter().filter(|sign| *sign).count() >= 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Id, name and arguments of the calls with these numbers, whose parts have ids, names and arguments.
    fn calls(parts: &[(usize, [&str; 3])]) -> Vec<[String; 3]> {
        let (mut open, mut calls) = (OpenCalls::default(), Vec::new());
        for (number, [id, name, arguments]) in parts {
            open.take(&mut calls, *number, CallPart::Id, id);
            open.take(&mut calls, *number, CallPart::Name, name);
            open.take(&mut calls, *number, CallPart::Arguments, arguments);
        }
        calls.into_iter().map(|call| [call.id, call.name, call.arguments]).collect()
    }

    #[test]
    fn parts_of_one_call_are_joined() {
        for parts in [
            // Each part repeats the id and the name, or the name with another id, or has another id, or none.
            [(0, ["c", "f", ""]), (0, ["c", "f", "{\"a\":"]), (0, ["c", "f", "1}"])],
            [(0, ["c", "f", ""]), (0, ["d", "f", "{\"a\":"]), (0, ["e", "f", "1}"])],
            [(0, ["c", "f", ""]), (0, ["d", "", "{\"a\":"]), (0, ["e", "", "1}"])],
            [(7, ["c", "f", ""]), (7, ["", "", "{\"a\":"]), (7, ["", "", "1}"])],
        ] {
            assert_eq!(calls(&parts), [["c", "f", "{\"a\":1}"]], "{parts:?}");
        }
        let name = [(0, ["c", "get_", ""]), (0, ["", "time", "{}"])];
        assert_eq!(calls(&name), [["c", "get_time", "{}"]]);
    }

    #[test]
    fn several_calls_may_have_one_number() {
        let whole = [(0, ["a", "f", "{}"]), (0, ["b", "f", "[1]"]), (0, ["c", "g", ""])];
        assert_eq!(calls(&whole), [["a", "f", "{}"], ["b", "f", "[1]"], ["c", "g", ""]]);
        let in_parts =
            [(2, ["a", "f", ""]), (2, ["", "", "{}"]), (2, ["b", "g", ""]), (2, ["", "", "[1]"])];
        assert_eq!(calls(&in_parts), [["a", "f", "{}"], ["b", "g", "[1]"]]);
        let without_ids = [(0, ["", "f", "{}"]), (0, ["", "g", "[1]"])];
        assert_eq!(calls(&without_ids), [["", "f", "{}"], ["", "g", "[1]"]]);
        let numbered = [(0, ["a", "f", "{"]), (1, ["b", "f", "["]), (0, ["", "", "}"])];
        assert_eq!(calls(&numbered), [["a", "f", "{}"], ["b", "f", "["]]);
    }
}
