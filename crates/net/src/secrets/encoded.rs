//! Values of which single characters are encoded: as HTML entities, percent-encoded, or escaped as in JSON.

/// Decodes the beginning of a text, appends the bytes, and returns the length of what it decoded; 0 if the
/// text does not begin with an encoded character.
type Decode = fn(&str, &mut Vec<u8>) -> usize;

/// First character of each encoding, and its decoder.
const ENCODINGS: [(char, Decode); 3] = [('&', entity), ('%', percent), ('\\', escape)];

/// Replaces values of which any characters are encoded.
pub(super) fn without_encoded(text: String, values: &[&str]) -> String {
    ENCODINGS.iter().fold(text, |text, (mark, decode)| {
        if text.contains(*mark) { without_values(&text, values, *decode) } else { text }
    })
}

fn without_values(text: &str, values: &[&str], decode: Decode) -> String {
    // The place of each decoded byte in the text, and that of the end.
    let (mut decoded, mut places) = (Vec::with_capacity(text.len()), Vec::new());
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let mut length = decode(&text[at..], &mut decoded);
        if length == 0 {
            push(character, &mut decoded);
            length = character.len_utf8();
        }
        places.resize(decoded.len(), at);
        at += length;
    }
    places.push(text.len());
    let mut ranges = Vec::new();
    for value in values.iter().map(|value| value.as_bytes()) {
        let found = decoded.windows(value.len()).enumerate();
        let found = found.filter(|(_, window)| *window == value);
        ranges.extend(found.map(|(begin, _)| (places[begin], places[begin + value.len()])));
    }
    ranges.sort_unstable();
    let (mut shown, mut from) = (String::with_capacity(text.len()), 0);
    for (begin, end) in ranges {
        if begin >= from {
            shown.extend([&text[from..begin], "***"]);
        }
        from = from.max(end);
    }
    shown.push_str(&text[from..]);
    shown
}

fn push(character: char, out: &mut Vec<u8>) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Names of the punctuation of ASCII. Source: HTML Living Standard, named character references.
const ENTITIES: [(&str, char); 38] = [
    ("Hat", '^'),
    ("amp", '&'),
    ("AMP", '&'),
    ("apos", '\''),
    ("ast", '*'),
    ("bsol", '\\'),
    ("colon", ':'),
    ("comma", ','),
    ("commat", '@'),
    ("dollar", '$'),
    ("equals", '='),
    ("excl", '!'),
    ("grave", '`'),
    ("gt", '>'),
    ("GT", '>'),
    ("lbrace", '{'),
    ("lbrack", '['),
    ("lcub", '{'),
    ("lowbar", '_'),
    ("lpar", '('),
    ("lsqb", '['),
    ("lt", '<'),
    ("LT", '<'),
    ("num", '#'),
    ("percnt", '%'),
    ("period", '.'),
    ("plus", '+'),
    ("quest", '?'),
    ("quot", '"'),
    ("QUOT", '"'),
    ("rbrace", '}'),
    ("rbrack", ']'),
    ("rcub", '}'),
    ("rpar", ')'),
    ("rsqb", ']'),
    ("semi", ';'),
    ("sol", '/'),
    ("vert", '|'),
];

/// Decodes an entity of HTML by its name or number.
fn entity(text: &str, out: &mut Vec<u8>) -> usize {
    let name = text.strip_prefix('&').and_then(|rest| rest.split_once(';'));
    let Some((name, _)) = name else { return 0 };
    let character = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            code.ok().and_then(char::from_u32)
        }
        None => ENTITIES.iter().find(|(known, _)| *known == name).map(|(_, character)| *character),
    };
    let Some(character) = character else { return 0 };
    push(character, out);
    name.len() + 2
}

/// Decodes `%XX`.
fn percent(text: &str, out: &mut Vec<u8>) -> usize {
    let byte = text.strip_prefix('%').and_then(|rest| hexadecimal(rest, 2));
    let Some(byte) = byte.and_then(|byte| u8::try_from(byte).ok()) else { return 0 };
    out.push(byte);
    3
}

/// Decodes `\uXXXX`, `\xXX`, and a backslash before punctuation.
fn escape(text: &str, out: &mut Vec<u8>) -> usize {
    let Some(rest) = text.strip_prefix('\\') else { return 0 };
    let (code, length) = match rest.as_bytes().first() {
        Some(b'u') => (hexadecimal(&rest[1..], 4), 6),
        Some(b'x') => (hexadecimal(&rest[1..], 2), 4),
        Some(byte) if byte.is_ascii_punctuation() => (Some(u32::from(*byte)), 2),
        _ => return 0,
    };
    let Some(character) = code.and_then(char::from_u32) else { return 0 };
    push(character, out);
    length
}

/// Returns the number at the beginning of a text with so many hexadecimal digits.
fn hexadecimal(text: &str, digits: usize) -> Option<u32> {
    let is_number = |digits: &&str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u32::from_str_radix(text.get(..digits).filter(is_number)?, 16).ok()
}
