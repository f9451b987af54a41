//! Formats as C++ types: the header that `dyno tune emit` prints.

use std::collections::BTreeMap;
use std::fmt::Write;

use dyno_number::{Dictionary, Format, Special};
use dyno_results::units;

/// Arithmetic of the types. It is a separate header, which `number-c` installs and compares with
/// the library.
static ARITHMETIC: &str = include_str!("../../../number-c/include/dyno_number_types.hpp");

/// Names that no type may have: reserved words up to C++20, and the names that the header uses.
const RESERVED: &str = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t \
    char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr \
    constinit continue decltype default delete do double dynamic_cast dyno else enum explicit export extern \
    false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator \
    or or_eq parseConfig private protected public register reinterpret_cast requires return short signed \
    sizeof static static_assert static_cast std struct switch template this thread_local throw true try \
    typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq";

/// Returns the header with the types of a configuration's objects, and of further objects in F32.
///
/// # Errors
/// The namespace is not a C++ identifier; there are no objects; or an object's name would equal
/// another one or a reserved word.
pub fn cpp_types(
    dictionary: &Dictionary,
    objects: &[String],
    namespace: &str,
) -> Result<String, String> {
    if identifier(namespace) != namespace {
        return Err(format!(
            "--namespace: expected a word of C++ other than dyno and std, found {namespace}"
        ));
    }
    let further = objects.iter().map(|name| (name.as_str(), dictionary.format(name)));
    let further = further.filter(|(name, _)| dictionary.find(name).is_none());
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    let mut types = String::new();
    for (name, format) in dictionary.iter().chain(further) {
        let word = identifier(name);
        let Some(other) = names.insert(word.clone(), name) else {
            let shown: String = name.chars().filter(|c| !c.is_control()).collect();
            writeln!(types, "/* {}: {} */", shown.replace("*/", "* /"), told(format))
                .and_then(|()| writeln!(types, "using {word} = {};", cpp_type(format)))
                .map_err(|error| error.to_string())?;
            continue;
        };
        if other != name {
            return Err(format!(
                "{other} and {name} would both be {word} in C++: rename one of them"
            ));
        }
    }
    if types.is_empty() {
        return Err("expected at least one line with an object and its format, found none".into());
    }
    let version = env!("CARGO_PKG_VERSION");
    Ok(format!(
        "/* Made by `dyno tune emit` of dyno {version}: do not edit. Types of objects come last. */\n\
         {ARITHMETIC}\n#include <string>\n\nnamespace {namespace} {{\n\n{types}\n\
         /* Formats are those above: no file is read. */\n\
         inline void parseConfig(const std::string &path) {{\n    \
         throw std::runtime_error(path + \" is not read: formats are compiled in\");\n}}\n\n\
         }} // namespace {namespace}\n"
    ))
}

fn told(format: Format) -> String {
    let bits = format.bits();
    format!("{format}, {bits} bit{}", units::plural_ending(bits.into()))
}

/// Returns the C++ type of a format.
fn cpp_type(format: Format) -> String {
    let special = match format.special() {
        Special::Finite => "",
        Special::SignedZero => ", dyno::Special::SignedZero",
        Special::Ieee => ", dyno::Special::Ieee",
        Special::Nan => ", dyno::Special::Nan",
        Special::NanForMinusZero => ", dyno::Special::NanForMinusZero",
        Special::Powers => ", dyno::Special::Powers",
        Special::Complement => ", dyno::Special::Complement",
    };
    format!(
        "dyno::Typed<{}, {}, {}, {}{special}>",
        u8::from(format.has_sign()),
        format.exponent_bits(),
        format.fraction_bits(),
        format.bias()
    )
}

/// Converts an object's name to a C++ identifier: other characters than letters and digits become
/// `_`.
fn identifier(name: &str) -> String {
    let mut word = String::new();
    for c in name.chars() {
        let is_double = c == '_' || !c.is_ascii_alphanumeric();
        // Identifiers with two underscores are reserved.
        if !(is_double && word.ends_with('_')) {
            word.push(if c.is_ascii_alphanumeric() { c } else { '_' });
        }
    }
    if !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
        word = format!("object{}{word}", if word.starts_with('_') { "" } else { "_" });
    }
    if RESERVED.split(' ').any(|reserved| reserved == word) {
        word.push('_');
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(config: &str, objects: &[&str]) -> Result<String, String> {
        let objects: Vec<String> = objects.iter().map(ToString::to_string).collect();
        let header = cpp_types(&config.parse().unwrap(), &objects, "net")?;
        let (_, types) = header.split_once("namespace net {\n\n").unwrap();
        let (types, _) = types.split_once("\n/* Formats").unwrap();
        Ok(types.into())
    }

    #[test]
    fn objects_are_types() {
        let found = types(
            "conv1.weight FIXED 3 1\nx/y E4M3 \n".replace("E4M3", "fp8-e4m3fn").as_str(),
            &["ip1.input", "conv1.weight"],
        );
        assert_eq!(
            found.unwrap(),
            "/* conv1.weight: I3(1), 3 bits */\nusing conv1_weight = dyno::Typed<1, 0, 2, 1>;\n\
             /* x/y: fp8-e4m3fn, 8 bits */\nusing x_y = dyno::Typed<1, 4, 3, 7, dyno::Special::Nan>;\n\
             /* ip1.input: F32, 32 bits */\n\
             using ip1_input = dyno::Typed<1, 8, 23, 127, dyno::Special::Ieee>;\n"
        );
        let names = "float BIN 1\n1.a*/b EXP 2\n__x EXP 3\nstd EXP 4\ndyno EXP 4\n";
        let odd = types(names, &[]).unwrap();
        for line in [
            "/* float: BIN(0), 1 bit */\nusing float_ = dyno::Typed<1, 0, 0, 0>;",
            "/* 1.a* /b: E2(0), 2 bits */\nusing object_1_a_b =",
            "using object_x =",
            // They would hide the namespaces of the header.
            "using std_ =",
            "using dyno_ =",
        ] {
            assert!(odd.contains(line), "{odd}");
        }
    }

    #[test]
    fn names_that_meet_are_refused() {
        assert_eq!(
            types("a.b EXP 4\na_b EXP 4\n", &[]).unwrap_err(),
            "a.b and a_b would both be a_b in C++: rename one of them"
        );
        let nothing = types("# nothing\n", &[]).unwrap_err();
        assert!(nothing.starts_with("expected at least one line"), "{nothing}");
        for namespace in ["a::b", "class", "1", "", "dyno", "std", "a b"] {
            let refused = cpp_types(&"a.b EXP 4".parse().unwrap(), &[], namespace).unwrap_err();
            assert!(refused.starts_with("--namespace: expected a word of C++"), "{refused}");
        }
    }
}
