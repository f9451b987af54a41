//! Classes of characters as Python has them, which the scripts are written in.

use unicode_general_category::{GeneralCategory, get_general_category};

/// What `\w` of a regular expression and with it `\b` goes by: letters, numbers and
/// the low line, but no marks.
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

/// Whether there is no boundary of words between what is before and after, one of
/// which is a character of words.
pub fn is_in_word(text: &str, at: usize) -> bool {
    let before = text[..at].chars().next_back().is_some_and(is_word);
    before == text[at..].chars().next().is_some_and(is_word)
}

/// What `\s` of a regular expression and `split` go by: the White_Space of Unicode
/// and the four separators of ASCII.
pub fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\x1c'..='\x1f')
}

/// Words with such white space between.
pub fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// The value of a digit of any script.
pub fn digit(character: char) -> Option<u8> {
    if character.is_ascii() {
        return character.to_digit(10).map(|value| value as u8);
    }
    let is_digit = |character| get_general_category(character) == GeneralCategory::DecimalNumber;
    if !is_digit(character) {
        return None;
    }
    // Digits stand in order, ten in a row, with others or nothing between the rows.
    let before =
        (1..10).take_while(|back| char::from_u32(character as u32 - back).is_some_and(&is_digit));
    Some(before.count() as u8)
}

/// Whether a mark is drawn with the character before it and takes no room.
pub fn is_nonspacing_mark(character: char) -> bool {
    !character.is_ascii() && get_general_category(character) == GeneralCategory::NonspacingMark
}

/// Whether it is a mark of any kind, a symbol or punctuation.
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

/// Whether it is of a category of punctuation.
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

/// Whether it is of the category of spaces.
pub fn is_space_separator(character: char) -> bool {
    get_general_category(character) == GeneralCategory::SpaceSeparator
}

/// Whether it is of a category of others: control, format, unassigned.
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
        // By Python 3.11: re.match(r"\w", c), c.isspace(), int(c).
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
