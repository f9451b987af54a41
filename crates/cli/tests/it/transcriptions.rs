//! Transcriptions: Python's own server, form parser and WAV reader receive what Dyno sends.

use serde_json::Value;

use crate::program::Folder;
use crate::python_server::PythonServer;

/// Answers with what the standard library of Python finds in a request: the length of the recording
/// and the model. A field `stream` gives one event for each word.
const SERVER: &str = r#"
import io, json, wave
from handler import Handler, serve

class Transcriptions(Handler):
    def do_POST(self):
        parts = dict(self.form())
        text = lambda name: parts[name].get_payload() if name in parts else None
        file = parts["file"]
        with wave.open(io.BytesIO(file.get_payload(decode=True))) as sound:
            frames, rate = sound.getnframes(), sound.getframerate()
        assert self.path == "/v1/audio/transcriptions" and text("response_format") == "json", parts
        assert file.get_content_type() == "audio/wav", file
        words = f"{file.get_filename()} {frames} {rate} {text('model')} {text('language')}"
        if text("stream") != "true":
            return self.answer_json({"text": words})
        events = [{"type": "transcript.text.delta", "delta": word + " "} for word in words.split()]
        events.append({"type": "transcript.text.done", "text": words})
        answer = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        self.answer(answer.encode(), "text/event-stream")

serve(Transcriptions)
"#;

/// A WAV file with this many samples of 16 bits at 8 kHz; the bytes look like ends of lines.
fn write_recording(folder: &Folder, name: &str, samples: u32) {
    let mut bytes = b"RIFF".to_vec();
    bytes.extend((36 + 2 * samples).to_le_bytes());
    bytes.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    bytes.extend(8_000_u32.to_le_bytes());
    bytes.extend(16_000_u32.to_le_bytes());
    bytes.extend(b"\x02\0\x10\0data");
    bytes.extend((2 * samples).to_le_bytes());
    bytes.extend(b"\r\n".repeat(samples as usize));
    folder.write(name, "");
    std::fs::write(folder.0.join(name), bytes).unwrap();
}

fn summary(folder: &Folder, out: &str) -> Value {
    serde_json::from_str(&folder.read(&format!("{out}/summary.json"))).unwrap()
}

#[test]
fn recordings_of_a_folder_arrive_whole_and_their_texts_are_judged() {
    let folder = Folder::new();
    let Some(server) = PythonServer::of_script(&folder, SERVER, "") else { return };
    write_recording(&folder, "speech/one.wav", 800);
    write_recording(&folder, "speech/two.wav", 1_201);
    folder.write("speech/one.txt", "one.wav 800 8000 m None\n");
    folder.write("speech/two.txt", "two.wav 1201 8000 m None\n");
    let system = format!("openai:http://127.0.0.1:{}/v1,api=transcriptions,model=m", server.port);
    let ran = folder.dyno(&format!(
        "run --system {system} --data speech --mode accuracy --scenario single-stream --set max_client_lag_ns=0 --out out"
    ));
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let test = &summary(&folder, "out")["tests"][0];
    assert_eq!(test["accuracy"]["value"], 1.0, "{test:#}");

    // Whole answers and streams under a load; rows name files and further fields.
    folder.write(
        "rows.jsonl",
        "{\"audio\": \"speech/one.wav\", \"language\": \"de\"}\n\
         {\"audio\": \"speech/two.wav\", \"language\": \"en\"}\n",
    );
    for (key, out) in [("stream=false", "whole"), ("stream=true", "streamed")] {
        folder
            .dyno(&format!(
                "run --system {system},{key},row-members=all --data rows.jsonl --num-prompts 20 \
                 --max-concurrency 2 --set max_client_lag_ns=0 --texts --out {out} --quiet"
            ))
            .exits(0);
        let test = &summary(&folder, out)["tests"][0];
        assert_eq!(test["metrics"]["answers"]["whole"], 20, "{test:#}");
        let texts = folder.read(&format!("{out}/texts.jsonl"));
        let has = |words: &str| texts.lines().any(|line| line.contains(words));
        assert!(has("one.wav 800 8000 m de") && has("two.wav 1201 8000 m en"), "{texts}");
        let first = &test["metrics"]["first_token_ns"];
        assert_eq!(first.is_object(), key == "stream=true", "{test:#}");
    }
}

#[test]
fn what_is_no_recording_is_rejected() {
    let folder = Folder::new();
    folder.write("text.jsonl", "{\"prompt\": \"a\"}\n");
    folder.write("wrong.jsonl", "{\"audio\": \"wrong.jsonl\"}\n");
    let system = "openai:http://127.0.0.1:1/v1,api=transcriptions,model=m";
    for (data, expected) in [
        ("", "recordings are not generated; pass --data"),
        ("--data text.jsonl", "row 1: expected the path of a recording (audio, file, path"),
        ("--data wrong.jsonl", "wrong.jsonl: expected a WAV, FLAC, Ogg or MP3 file"),
    ] {
        let ran = folder.dyno(&format!("run --system {system} {data} --dry-run"));
        assert!(ran.stderr.contains(expected), "{data}: {}", ran.stderr);
        assert!(matches!(ran.code, Some(2 | 3)), "{:?}", ran.code);
    }
}
