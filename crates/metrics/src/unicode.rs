//! Character classes of Python, in which the accuracy scripts are written.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Returns whether `\w` of Python's regular expressions matches: letters, numbers and the
/// underscore, but no marks. It also defines `\b`.
pub fn is_word(character: char) -> bool {
    use GeneralCategory as C;
    if character.is_ascii() {
        return character.is_ascii_alphanumeric() || character == '_';
    }
    matches!(
        get_general_category(character),
        C::UppercaseLetter
            | C::LowercaseLetter
            | C::TitlecaseLetter
            | C::ModifierLetter
            | C::OtherLetter
            | C::DecimalNumber
            | C::LetterNumber
            | C::OtherNumber
    )
}

/// Returns whether the position is not a word boundary. One of the characters around it must be a
/// word character.
pub fn is_in_word(text: &str, at: usize) -> bool {
    let before = text[..at].chars().next_back().is_some_and(is_word);
    before == text[at..].chars().next().is_some_and(is_word)
}

/// Returns whether Python's `\s` and `split` treat the character as white space: White_Space of
/// Unicode and the four ASCII separators.
pub fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\x1c'..='\x1f')
}

/// Splits a text at white space of Python.
pub fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Returns the value of a decimal digit of any script.
pub fn digit(character: char) -> Option<u8> {
    if character.is_ascii() {
        return character.to_digit(10).map(|value| value as u8);
    }
    let is_digit = |character| get_general_category(character) == GeneralCategory::DecimalNumber;
    if !is_digit(character) {
        return None;
    }
    // The ten digits of a script are consecutive and in order, so that the digits before one count
    // its value.
    let before =
        (1..10).take_while(|back| char::from_u32(character as u32 - back).is_some_and(&is_digit));
    Some(before.count() as u8)
}

/// Returns whether a mark takes no room of its own (category Mn).
pub fn is_nonspacing_mark(character: char) -> bool {
    !character.is_ascii() && get_general_category(character) == GeneralCategory::NonspacingMark
}

/// Returns whether the character is a mark, a symbol or punctuation.
pub fn is_mark_or_symbol(character: char) -> bool {
    use GeneralCategory as C;
    is_punctuation(character)
        || matches!(
            get_general_category(character),
            C::NonspacingMark
                | C::SpacingMark
                | C::EnclosingMark
                | C::MathSymbol
                | C::CurrencySymbol
                | C::ModifierSymbol
                | C::OtherSymbol
        )
}

/// Returns whether the character is punctuation.
pub fn is_punctuation(character: char) -> bool {
    use GeneralCategory as C;
    matches!(
        get_general_category(character),
        C::ConnectorPunctuation
            | C::DashPunctuation
            | C::OpenPunctuation
            | C::ClosePunctuation
            | C::InitialPunctuation
            | C::FinalPunctuation
            | C::OtherPunctuation
    )
}

/// Returns whether the character is a space (category Zs).
pub fn is_space_separator(character: char) -> bool {
    get_general_category(character) == GeneralCategory::SpaceSeparator
}

/// Returns whether the category is control, format, surrogate, private use or unassigned.
pub fn is_other(character: char) -> bool {
    use GeneralCategory as C;
    matches!(
        get_general_category(character),
        C::Control | C::Format | C::Surrogate | C::PrivateUse | C::Unassigned
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_python() {
        // Python 3.11 gives these values: re.match(r"\w", c), c.isspace(), int(c).
        for (character, expected) in [('a', true), ('²', true), ('_', true), ('\u{301}', false)] {
            assert_eq!(is_word(character), expected, "{character:?}");
        }
        for (character, expected) in [('\x1c', true), ('\u{85}', true), ('\u{200b}', false)] {
            assert_eq!(is_space(character), expected, "{character:?}");
        }
        let digits = ['7', '\u{663}', '\u{96f}', '\u{ff19}', '²'].map(digit);
        assert_eq!(digits, [Some(7), Some(3), Some(9), Some(9), None]);
    }
}
