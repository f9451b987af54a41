//! Answers of g2p-en: the numbers that its decoder outputs, as phonemes up to the end of the word.

use dyno_sut::onnx::Answer;

/// Phonemes by their numbers in the package: four marks, then the ARPAbet with stress.
const NAMES: [&str; 74] = [
    "<pad>", "<unk>", "<s>", "</s>", "AA0", "AA1", "AA2", "AE0", "AE1", "AE2", "AH0", "AH1", "AH2",
    "AO0", "AO1", "AO2", "AW0", "AW1", "AW2", "AY0", "AY1", "AY2", "B", "CH", "D", "DH", "EH0",
    "EH1", "EH2", "ER0", "ER1", "ER2", "EY0", "EY1", "EY2", "F", "G", "HH", "IH0", "IH1", "IH2",
    "IY0", "IY1", "IY2", "JH", "K", "L", "M", "N", "NG", "OW0", "OW1", "OW2", "OY0", "OY1", "OY2",
    "P", "R", "S", "SH", "T", "TH", "UH0", "UH1", "UH2", "UW", "UW0", "UW1", "UW2", "V", "W", "Y",
    "Z", "ZH",
];

/// The number of the end of a word.
const END: i64 = 3;

/// Returns the conversion of the first output's numbers to phonemes with spaces between, up to the
/// end of the word. Each phoneme counts as a token.
pub fn answer() -> Answer {
    Answer::from_fn(|outputs, position, bytes| {
        let part = outputs.first()?.part(position)?;
        let numbers = part.elements.to_i64().ok_or("phonemes are whole numbers")?;
        write(&numbers, bytes)
    })
}

fn write(numbers: &[i64], bytes: &mut Vec<u8>) -> Result<i64, String> {
    let mut phonemes = 0;
    for number in numbers.iter().take_while(|number| **number != END) {
        let name = usize::try_from(*number).ok().and_then(|at| NAMES.get(at));
        let name = name.ok_or_else(|| format!("expected a phoneme below 74, found {number}"))?;
        if phonemes > 0 {
            bytes.push(b' ');
        }
        bytes.extend_from_slice(name.as_bytes());
        phonemes += 1;
    }
    Ok(phonemes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phonemes_end_at_the_end_of_the_word() {
        let mut bytes = b"before ".to_vec();
        assert_eq!(write(&[45, 8, 60, 3, 60, 99], &mut bytes), Ok(3));
        assert_eq!(bytes, b"before K AE1 T");
        let mut none = Vec::new();
        assert_eq!((write(&[3, 5], &mut none), none.len()), (Ok(0), 0));
        let error = write(&[74], &mut none).unwrap_err();
        assert_eq!(error, "expected a phoneme below 74, found 74");
    }
}
