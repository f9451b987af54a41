//! Every test asserts something, and none is switched off.

use super::Finding;
use super::source::{Source, is_word};

/// Prefixes of assertions: every `#[test]` calls a macro or function such as `assert_eq!`, `expect!` or
/// a `check_*` function of its file.
const ASSERTIONS: &[&str] = &["assert", "prop_assert", "check", "expect!", "expect_file!"];

pub fn every_test_asserts(source: &Source) -> Vec<Finding> {
    let tests = source
        .code
        .match_indices("#[test]")
        .filter_map(|(offset, _)| source.functions().find(|function| function.span.start > offset));
    tests
        .filter(|test| !asserts(&source.code[test.span.clone()]))
        .map(|test| source.finding(test.span.start, format!("test {} asserts nothing", test.name)))
        .collect()
}

fn asserts(code: &str) -> bool {
    // The name of the test itself may have such a prefix, too.
    let body = code.find('{').map_or("", |offset| &code[offset..]);
    ASSERTIONS.iter().any(|name| {
        body.match_indices(name)
            .any(|(offset, _)| !body[..offset].ends_with(is_word) && is_call(&body[offset..]))
    })
}

/// Returns whether `code` begins with a call of a function or macro.
fn is_call(code: &str) -> bool {
    let rest = code.trim_start_matches(is_word);
    let rest = rest.strip_prefix('!').unwrap_or(rest);
    rest.starts_with(['(', '[', '{'])
}

/// Stricter than clippy, which allows ignored tests that state a reason.
pub fn no_test_is_switched_off(source: &Source) -> Vec<Finding> {
    let attributes = ["#[ignore", "#[should_panic"];
    let found = attributes.iter().flat_map(|attribute| source.code.match_indices(attribute));
    found
        .map(|(offset, attribute)| {
            let message = match attribute {
                "#[ignore" => "no ignored tests: a test that cannot run here says so and returns",
                _ => "no should_panic: it passes for any panic; assert what is expected",
            };
            source.finding(offset, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::{every_test_asserts, no_test_is_switched_off};

    fn asserts_nothing(body: &str) -> bool {
        let text =
            format!("#[test]\nfn check_name() {{ {body}\n }}\nfn other() {{ assert!(true) }}");
        !every_test_asserts(&Source::new("a.rs", &text)).is_empty()
    }

    #[test]
    fn a_test_without_assertion_is_found() {
        for bad in
            ["", "run();", "let check = 1;", "f(\"assert!(x)\");", "recheck(1);", "// assert!(x)"]
        {
            assert!(asserts_nothing(bad), "{bad}");
        }
        for good in [
            "assert!(x);",
            "assert_eq!(a, b);",
            "prop_assert!(x);",
            "check(1);",
            "check_all([1]);",
            "f(expect![[]]);",
            "testkit::assert_close(a, b);",
        ] {
            assert!(!asserts_nothing(good), "{good}");
        }
    }

    #[test]
    fn ignored_and_should_panic_are_found() {
        let found = |text| no_test_is_switched_off(&Source::new("a.rs", text)).len();
        assert_eq!(found("#[test]\n#[ignore = \"slow\"]\nfn a() {}"), 1);
        assert_eq!(found("#[should_panic]\nfn a() {}"), 1);
        assert_eq!(found("// #[ignore]\nlet a = \"#[ignore]\";"), 0);
    }
}
