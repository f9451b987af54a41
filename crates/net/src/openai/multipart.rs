//! Forms with files, as bodies of requests (RFC 7578).

use serde_json::{Map, Value};

/// A file of a form.
pub(super) struct FormFile<'a> {
    /// Name of its field.
    pub field: &'static str,
    /// Name that it is sent with.
    pub name: String,
    /// Media type of its bytes.
    pub media_type: &'a str,
    /// Content.
    pub bytes: &'a [u8],
}

/// Returns the content type and the body of a form with these members and files.
pub(super) fn form(members: &Map<String, Value>, files: &[FormFile<'_>]) -> (String, Vec<u8>) {
    let mut fields = Vec::new();
    for (name, value) in members {
        match value {
            Value::String(text) => fields.push((name, text.clone())),
            // Several fields of one name are a list.
            Value::Array(all) => {
                fields.extend(all.iter().map(|one| {
                    (name, one.as_str().map_or_else(|| one.to_string(), str::to_owned))
                }));
            }
            other => fields.push((name, other.to_string())),
        }
    }
    let boundary = boundary(files, &fields);
    let length: usize = files.iter().map(|file| file.bytes.len()).sum();
    let mut body = Vec::with_capacity(length + 1024);
    for (name, value) in &fields {
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n{value}\r\n",
            escaped(name)
        );
        body.extend_from_slice(head.as_bytes());
    }
    for file in files {
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"; filename=\"{}\"\r\n\
             Content-Type: {}\r\n\r\n",
            file.field,
            escaped(&file.name),
            file.media_type
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(file.bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    (format!("multipart/form-data; boundary={boundary}"), body)
}

/// Returns a line that occurs in no part.
fn boundary(files: &[FormFile<'_>], fields: &[(&String, String)]) -> String {
    let mut boundary = String::from("dyno-form");
    let occurs = |line: &str| {
        let is_in = |bytes: &[u8]| memchr::memmem::find(bytes, line.as_bytes()).is_some();
        files.iter().any(|file| is_in(file.bytes))
            || fields.iter().any(|(_, value)| is_in(value.as_bytes()))
    };
    while occurs(&boundary) {
        boundary.push('-');
    }
    boundary
}

/// Returns a name without the characters that would end it, as browsers write them.
fn escaped(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}
