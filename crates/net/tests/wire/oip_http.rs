use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use dyno_net::oip::http::{error_words, model_path};
use dyno_net::oip::messages::ModelMetadataResponse;
use dyno_net::oip::{
    Datatype, Form, InferRequest, InferResponse, Model, ModelMetadata, Oip, RequestedOutput,
    Samples, SequenceId, SequenceStep, ServerMetadata, StringInput, Tensor, TensorMetadata,
    random_inputs,
};
use dyno_net::protocol::{Protocol, TokenCounter};
use dyno_net::trouble::Kind;
use dyno_sut::tensors::{Elements, TensorLibrary};
use proptest::prelude::*;

use crate::read;

/// The model of the examples: one input of 2 x 2, batches of any size.
fn metadata() -> ModelMetadata {
    let json = br#"{"name":"mymodel","versions":["1"],"platform":"x",
        "inputs":[{"name":"input0","datatype":"FP32","shape":[-1,2,2]}],
        "outputs":[{"name":"output0","datatype":"INT64","shape":[-1,1]},
                   {"name":"scores","datatype":"FP32","shape":[-1,2]}]}"#;
    ModelMetadata::from_json(json).unwrap()
}

/// Two samples for it.
fn library() -> Arc<TensorLibrary> {
    let tensor = dyno_sut::tensors::Tensor {
        name: "input0".into(),
        sample_shape: vec![2, 2],
        elements: Elements::F32(Cow::Owned(vec![0.0, 1.5, -2.0, 3.0, 4.0, 5.0, 6.0, 7.0])),
    };
    Arc::new(TensorLibrary::new("two", vec![tensor], None).unwrap())
}

fn protocol(form: Form, wanted: Option<&str>) -> Oip {
    let model = Model::new(&metadata(), "", library(), wanted.map(str::to_owned)).unwrap();
    Oip::new(Arc::new(model), form)
}

/// The model with its first output alone.
pub fn model() -> Arc<Model> {
    let mut metadata = metadata();
    metadata.outputs.truncate(1);
    Arc::new(Model::new(&metadata, "", library(), None).unwrap())
}

/// Places in sequences, and requests without one.
pub fn sequence() -> impl Strategy<Value = Option<SequenceStep>> {
    let id = prop_oneof![
        (1..=u64::MAX).prop_map(SequenceId::Number),
        "[a-z]{1,9}".prop_map(SequenceId::Text)
    ];
    let step = (id, any::<bool>(), any::<bool>());
    prop::option::of(step.prop_map(|(id, is_start, is_end)| SequenceStep { id, is_start, is_end }))
}

#[test]
fn the_length_of_an_answer_is_known_without_its_batch() {
    let length = |shape: &[i64]| {
        let output = TensorMetadata { shape: shape.to_vec(), ..metadata().outputs.swap_remove(0) };
        let metadata = ModelMetadata { outputs: vec![output], ..metadata() };
        Model::new(&metadata, "", library(), None).unwrap().answer_length()
    };
    assert_eq!([length(&[-1, 2, 3]), length(&[2, 3])], [Some(6); 2]);
    assert_eq!(length(&[-1, 1]), Some(1));
    // The only dimension may be the batch, or a vector of any length.
    assert_eq!([length(&[-1]), length(&[-1, -1]), length(&[i64::MAX, i64::MAX])], [None; 3]);
}

#[test]
fn a_sample_is_sent_as_json() {
    let request = protocol(Form::Json, None).request(0);
    assert_eq!(request.path, "/v2/models/mymodel/infer");
    assert_eq!(request.fields, [("content-type", "application/json".to_owned())]);
    assert_eq!(
        String::from_utf8_lossy(&request.body),
        r#"{"inputs":[{"name":"input0","datatype":"FP32","shape":[1,2,2],"data":[0.0,1.5,-2.0,3.0]}]}"#
    );
}

#[test]
fn a_sample_is_sent_as_bytes() {
    let request = protocol(Form::Binary, Some("scores")).request(1);
    let head = concat!(
        r#"{"inputs":[{"name":"input0","datatype":"FP32","shape":[1,2,2],"#,
        r#""parameters":{"binary_data_size":16}}],"outputs":[{"name":"scores"}],"#,
        r#""parameters":{"binary_data_output":true}}"#
    );
    let fields = [
        ("content-type", "application/octet-stream".to_owned()),
        ("inference-header-content-length", head.len().to_string()),
    ];
    assert_eq!(request.fields, fields);
    let (json, bytes) = request.body.split_at(head.len());
    assert_eq!(String::from_utf8_lossy(json), head);
    assert_eq!(bytes, b"\0\0\x80\x40\0\0\xa0\x40\0\0\xc0\x40\0\0\xe0\x40");
}

#[test]
fn answers_are_read_as_json_and_as_bytes() {
    let json = br#"{"model_name":"mymodel","model_version":null,"id":"7","outputs":[
        {"name":"scores","shape":[1,2],"datatype":"FP32","data":[[0.25,null]]},
        {"name":"output0","shape":[1,1],"datatype":"INT64","data":[258],"parameters":{"x":1}}]}"#;
    let expected = [2, 1, 0, 0, 0, 0, 0, 0];
    for piece in [1, 7, 1000] {
        let found = read(&protocol(Form::Json, None), 200, &[], json, None, piece).unwrap();
        assert_eq!(
            (&*found.data, found.tokens, found.counted_by),
            (&expected[..], 0, TokenCounter::Nobody)
        );
    }
    let head = concat!(
        r#"{"model_name":"mymodel","outputs":[{"name":"scores","datatype":"FP32","shape":[1,2],"#,
        r#""parameters":{"binary_data_size":8}},{"name":"output0","datatype":"INT64","#,
        r#""shape":[1,1],"data":[1]}]}"#
    );
    let body = [head.as_bytes(), b"\0\0\x80\x3e\0\0\xc0\x7f"].concat();
    let length = head.len().to_string();
    let field: &[(&'static str, &str)] = &[("inference-header-content-length", &length)];
    let protocol = protocol(Form::Binary, Some("scores"));
    for piece in [3, 1000] {
        let found = read(&protocol, 200, field, &body, None, piece).unwrap();
        assert_eq!(found.data, b"\0\0\x80\x3e\0\0\xc0\x7f");
    }
}

/// A request without `outputs` asks for all of them, as the protocol defines it.
#[test]
fn an_answer_has_each_output_that_was_requested() {
    let first = r#"{"name":"output0","datatype":"INT64","shape":[1,1],"data":[258]}"#;
    let second = |datatype: &str, shape: &str, data: &str| {
        format!(r#",{{"name":"scores","datatype":"{datatype}","shape":{shape},"data":{data}}}"#)
    };
    let answer = |wanted, rest: &str| {
        let body = format!(r#"{{"outputs":[{first}{rest}]}}"#);
        read(&protocol(Form::Json, wanted), 200, &[], body.as_bytes(), None, 1000)
    };
    let hint = "; output=output0 requests only that output";
    let whole = second("FP32", "[1,2]", "[1,2]");
    assert!(answer(None, &whole).is_ok());
    let reversed = format!(r#"{{"outputs":[{},{first}]}}"#, &whole[1..]);
    let reversed = read(&protocol(Form::Json, None), 200, &[], reversed.as_bytes(), None, 1000);
    assert_eq!(reversed.unwrap().data, 258_i64.to_le_bytes());
    for (rest, words) in [
        (String::new(), "an answer without output 'scores'"),
        (whole.repeat(2), "an answer with output 'scores' twice"),
        (second("INT32", "[1,2]", "[1,2]"), "output 'scores' is INT32 [1, 2], but the model"),
        (second("FP32", "[1,3]", "[1,2,3]"), "output 'scores' is FP32 [1, 3], but the model"),
    ] {
        let trouble = answer(None, &rest).unwrap_err();
        assert_eq!(trouble.kind, Kind::Mismatch);
        assert!(trouble.words.starts_with(words) && trouble.words.ends_with(hint), "{trouble}");
        assert!(answer(Some("output0"), &rest).is_ok(), "only the first one was requested");
    }
}

#[test]
fn binary_tensors_without_the_length_of_the_json_are_named() {
    let head = concat!(
        r#"{"model_name":"mymodel","outputs":[{"name":"scores","datatype":"FP32","shape":[1,2],"#,
        r#""parameters":{"binary_data_size":8}}]}"#
    );
    for (tail, words) in [
        (&b"\0\0\x80\x3e\0\0\xc0\x7f"[..], "the answer has 8 bytes after its JSON, but no field"),
        (&b"12345678"[..], "the answer has 8 bytes after its JSON, but no field"),
        (
            &b"        "[..],
            "tensor 'scores' of the answer has 'binary_data_size', but there is no field",
        ),
        (&b""[..], "tensor 'scores' of the answer has 'binary_data_size', but there is no field"),
    ] {
        let body = [head.as_bytes(), tail].concat();
        let protocol = protocol(Form::Binary, Some("scores"));
        let trouble = read(&protocol, 200, &[], &body, None, 7).unwrap_err();
        assert_eq!(trouble.kind, Kind::Malformed, "{trouble}");
        let words = format!("{words} inference-header-content-length");
        assert_eq!(trouble.words, words);
    }
    let length = head.len().to_string();
    let field: &[(&'static str, &str)] = &[("inference-header-content-length", &length)];
    let body = [head.as_bytes(), b"\0\0\x80"].concat();
    let cut = read(&protocol(Form::Binary, Some("scores")), 200, field, &body, None, 7);
    assert_eq!(cut.unwrap_err().kind, Kind::Cut);
}

#[test]
fn what_is_no_answer_is_told() {
    let kind = |status: u16, body: &[u8]| {
        read(&protocol(Form::Json, None), status, &[], body, None, 5).unwrap_err()
    };
    let none = kind(400, br#"{"error":"no input 'x'"}"#);
    assert_eq!((none.kind, &*none.words), (Kind::Request, "HTTP status 400: no input 'x'"));
    assert_eq!(kind(503, b"").words, "HTTP status 503");
    assert_eq!(kind(503, b"").kind, Kind::Refused);
    assert_eq!(kind(500, b"<html>oh").words, "HTTP status 500: <html>oh");
    assert_eq!(kind(301, b"").kind, Kind::Malformed);
    assert_eq!(kind(200, b"{\"outputs\":[").kind, Kind::Cut);
    assert_eq!(kind(200, b"").kind, Kind::Malformed);
    assert_eq!(kind(200, b"\xff\xfe").kind, Kind::Malformed);
    assert_eq!(kind(200, b"{}").kind, Kind::Malformed);
    for error in [
        &br#"{"error":"late"}"#[..],
        &br#"{"error":{"message":"late","code":500}}"#[..],
        &br#"{"model_name":"m","outputs":[],"error":"late"}"#[..],
    ] {
        let trouble = kind(200, error);
        assert_eq!((trouble.kind, &*trouble.words), (Kind::Server, "late"));
    }
    assert_eq!(kind(200, br#"{"detail":"late"}"#).words, "the answer has no 'outputs': late");
    for none in ["null", "false", "0", "\"\"", "{}", "[]"] {
        let body = format!(r#"{{"outputs":[],"error":{none}}}"#);
        assert_eq!(kind(200, body.as_bytes()).kind, Kind::Mismatch, "{none}");
    }
    assert_eq!(kind(200, b"{\"outputs\":[]}").kind, Kind::Mismatch);
    let output = |shape: &str, datatype: &str, data: &str| {
        let body = format!(
            r#"{{"outputs":[{{"name":"output0","shape":{shape},"datatype":"{datatype}","data":{data}}}]}}"#
        );
        kind(200, body.as_bytes()).kind
    };
    assert_eq!(output("[1,2]", "INT64", "[1,2]"), Kind::Mismatch);
    assert_eq!(output("[1,1]", "INT32", "[1]"), Kind::Mismatch);
    assert_eq!(output("[1,1]", "INT64", "[1,2]"), Kind::Malformed);
    assert_eq!(output("[1,1]", "INT64", "[1.5]"), Kind::Malformed);
    assert_eq!(output("[-1,1]", "INT64", "[1]"), Kind::Malformed);
    assert_eq!(output("[9223372036854775807,9]", "INT64", "[1]"), Kind::Malformed);
    assert_eq!(output("[1,1]", "INT9", "[1]"), Kind::Malformed);
}

#[test]
fn what_a_server_is_asked_is_read() {
    let body = br#"{"id":"a","inputs":[{"name":"x","shape":[2,2],"datatype":"UINT8",
        "data":[[1,2],[3,255]]},{"name":"s","shape":[2],"datatype":"BYTES","data":["a\u00e9",""]}],
        "outputs":[{"name":"y","parameters":{"binary_data":false}},{"name":"z"}],
        "parameters":{"binary_data_output":true,"mine":{"deep":[1]},
        "sequence_id":"a","sequence_start":true}}"#;
    let request = InferRequest::from_http("m", "3", &Bytes::from_static(body), None).unwrap();
    assert_eq!(request.path(), "/v2/models/m/versions/3/infer");
    assert_eq!(&request.inputs[0].data[..], [1, 2, 3, 255]);
    assert_eq!(&request.inputs[1].data[..], b"\x03\0\0\0a\xc3\xa9\0\0\0\0");
    let strings: Vec<_> = request.inputs[1].strings().collect();
    assert_eq!(strings, [Some(&b"a\xc3\xa9"[..]), Some(&b""[..])]);
    assert!(!request.is_binary("y") && request.is_binary("z"));
    let id = SequenceId::Text("a".into());
    assert_eq!(request.sequence, Some(SequenceStep { id, is_start: true, is_end: false }));
    let wrong = |body: &'static [u8], length| {
        InferRequest::from_http("m", "", &Bytes::from_static(body), length).unwrap_err().words
    };
    assert!(wrong(b"{}", None).contains("no 'inputs'"));
    let odd = br#"{"inputs":[],"parameters":{"sequence_id":-1}}"#;
    assert!(wrong(odd, None).contains("'sequence_id' is -1; expected a whole number from 0"));
    let alone = br#"{"inputs":[],"parameters":{"sequence_end":true}}"#;
    assert!(wrong(alone, None).contains("'sequence_end' without a sequence"));
    assert!(wrong(b"{}", Some(3)).contains("whose JSON has 3"));
    assert!(wrong(b"{\"inputs\":[]}abc", Some(13)).contains("3 bytes after"));
    let both = br#"{"inputs":[{"name":"x","shape":[1],"datatype":"INT8","data":[1],
        "parameters":{"binary_data_size":1}}]}"#;
    assert!(wrong(both, None).contains("'x' has 'data' and 'binary_data_size'"));
    let missing = br#"{"inputs":[{"name":"x","shape":[1],"datatype":"INT8"}]}"#;
    assert!(wrong(missing, None).contains("'x' has no 'data'"));
    let beyond = br#"{"inputs":[{"name":"x","shape":[1],"datatype":"INT8","data":[128]}]}"#;
    assert!(wrong(beyond, None).contains("expected -128 to 127"));
    let large = br#"{"inputs":[{"name":"x","shape":[4],"datatype":"INT8",
        "parameters":{"binary_data_size":4}}]}"#;
    assert!(wrong(large, Some(large.len())).contains("with 0 bytes left"));
}

/// Reads one tensor of a request, and returns its bytes or the error.
fn tensor(datatype: &str, shape: &str, data: &str) -> Result<Vec<u8>, String> {
    let body = format!(
        r#"{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":{shape},"data":{data}}}]}}"#
    );
    let request = InferRequest::from_http("m", "", &Bytes::from(body), None);
    request.map(|request| request.inputs[0].data.to_vec()).map_err(|trouble| trouble.words)
}

#[test]
fn arrays_are_flat_or_nested_as_the_shape() {
    for (shape, data, bytes) in [
        ("[2,3]", "[1,2,3,4,5,6]", &[1, 2, 3, 4, 5, 6][..]),
        ("[2,3]", "[[1,2,3],[4,5,6]]", &[1, 2, 3, 4, 5, 6][..]),
        ("[1,2,1]", "[[[1],[2]]]", &[1, 2][..]),
        ("[2,0]", "[[],[]]", &[][..]),
        ("[2,0]", "[]", &[][..]),
        ("[0,2]", "[]", &[][..]),
        ("[]", "7", &[7][..]),
        ("[]", "[7]", &[7][..]),
    ] {
        assert_eq!(tensor("UINT8", shape, data).as_deref(), Ok(bytes), "{shape} {data}");
    }
    for (shape, data) in [
        ("[2,3]", "[[1,2,3,4,5],[6]]"),
        ("[2,3]", "[[1,2],[3,4],[5,6]]"),
        ("[2,3]", "[[1,2,3],4,5,6]"),
        ("[2,3]", "[1,2,3,[4,5,6]]"),
        ("[2,3]", "[[[1],[2],[3]],[[4],[5],[6]]]"),
        ("[2,3]", "[[1,2,3],[]]"),
        ("[2,3]", "[[1,2,3],[4,[5],6]]"),
        ("[1,2,1]", "[[1,2]]"),
        ("[6]", "[[1,2,3],[4,5,6]]"),
        ("[2,3]", "[1,2,3,4,5]"),
        ("[1]", "7"),
        ("[]", "[[7]]"),
    ] {
        assert!(tensor("UINT8", shape, data).is_err(), "{shape} {data}");
    }
}

/// The largest and smallest values are those of IEEE 754 and of two's complement.
#[test]
fn numbers_beyond_their_type_are_rejected() {
    for (datatype, inside, beyond) in [
        ("BOOL", "1", "2"),
        ("UINT8", "255", "-1"),
        ("UINT16", "65535", "65536"),
        ("INT8", "-128", "300"),
        ("INT16", "-32768", "-32769"),
        ("INT64", "9223372036854775807", "9223372036854775808"),
        ("INT64", "-9223372036854775808", "-9223372036854775809"),
        ("UINT64", "18446744073709551615", "18446744073709551616"),
        ("FP16", "65504", "70000"),
        ("FP16", "-65504.0", "-7e4"),
        // The middle to the next number of as many bits, which rounds to it.
        ("FP16", "65519.99999999999", "65520"),
        ("BF16", "3e38", "3.4e39"),
        ("FP32", "3.4e38", "1e39"),
        ("FP64", "1e308", "1e309"),
        ("INT32", "3.0", "3.5"),
    ] {
        assert!(tensor(datatype, "[1]", &format!("[{inside}]")).is_ok(), "{datatype} {inside}");
        assert!(tensor(datatype, "[1]", &format!("[{beyond}]")).is_err(), "{datatype} {beyond}");
    }
    let error = tensor("FP32", "[1]", "[1e39]").unwrap_err();
    assert!(error.contains("1e39 is too large for FP32"), "{error}");
}

#[test]
fn words_of_errors_are_found_wherever_servers_put_them() {
    assert_eq!(error_words(b"{\"detail\":\"x\"}"), "x");
    assert_eq!(error_words(b"{\"error\":{\"message\":\"y\",\"code\":1}}"), "y");
    assert_eq!(error_words(b"{\"detail\":[1]}"), "[1]");
    assert_eq!(error_words(b"plain\ntext\x07"), "plain");
    assert_eq!(error_words(&[b'x'; 300]).len(), 203);
    for (body, words) in [
        ("[{\n \"error\": {\n \"code\": 400, \"message\": \"no key\"}}\n]\n", "no key"),
        ("event: error\ndata: {\"error\": {\"message\": \"late\"}}\n\n", "late"),
        ("{\"success\":false,\"errors\":[{\"code\":1,\"message\":\"over quota\"}]}", "over quota"),
        ("{\"error\":true,\"message\":\"busy\"}", "busy"),
        ("{\"error\":null,\"detail\":\"\",\"msg\":\"not found\"}", "not found"),
        ("{\"error\":{\"message\":null,\"code\":7}}", "{\"message\":null,\"code\":7}"),
        (
            "<html>\r\n<head><TITLE>503 Service\n Unavailable</TITLE></head></html>",
            "503 Service Unavailable",
        ),
        ("<?xml version=\"1.0\"?>\n<Error><Message>denied</Message></Error>", "denied"),
        ("<html>\n<body>down</body>", "<html>"),
        ("<title>", "<title>"),
        ("{\"a\": 1}", "{\"a\": 1}"),
        ("[]", "[]"),
    ] {
        assert_eq!(error_words(body.as_bytes()), words, "{body}");
    }
    assert_eq!(model_path("a b/c", "1"), "/v2/models/a%20b%2Fc/versions/1");
}

#[test]
fn metadata_comes_back_and_may_lack_what_servers_leave_out() {
    let model = metadata();
    assert_eq!(ModelMetadata::from_json(&model.to_json()).unwrap(), model);
    // The protocol's `inputs` are those that a model requires.
    let mut optional = model.clone();
    let (name, datatype) = ("w".to_owned(), "FP32".to_owned());
    optional.inputs.push(TensorMetadata { name, datatype, shape: vec![2], is_optional: true });
    let json: serde_json::Value = serde_json::from_slice(&optional.to_json()).unwrap();
    assert_eq!(json["inputs"].as_array().unwrap().len(), 1);
    assert_eq!(json["optional_inputs"][0]["name"], "w");
    assert_eq!(ModelMetadata::from_json(&optional.to_json()).unwrap(), optional);
    let message = ModelMetadataResponse::from(optional);
    assert_eq!(message.inputs.len(), 1);
    let bare = ModelMetadata::from_json(b"{\"name\":\"iris\",\"inputs\":[],\"versions\":null}");
    assert_eq!(bare.unwrap(), ModelMetadata { name: "iris".into(), ..ModelMetadata::default() });
    let server = ServerMetadata {
        name: "dyno".into(),
        version: "1".into(),
        extensions: vec!["binary_tensor_data".into()],
    };
    assert_eq!(ServerMetadata::from_json(&server.to_json()).unwrap(), server);
}

/// As Python's `json` writes them, and as strings.
#[test]
fn numbers_that_are_not_finite_are_read_bare_and_quoted() {
    let body = br#"{"model_name":"NaN","outputs":[{"name":"y","datatype":"FP32","shape":[5],
        "data":[NaN,-Infinity,Infinity,"NaN",1.0]}]}"#;
    let answer = InferResponse::from_http(&Bytes::from_static(body), None).unwrap();
    let read: Vec<f32> = answer.outputs[0]
        .data
        .chunks(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    assert!(read[0].is_nan() && read[3].is_nan());
    assert_eq!((read[1], read[2], read[4]), (f32::NEG_INFINITY, f32::INFINITY, 1.0));
    assert_eq!(answer.model_name, "NaN");
    let wrong = br#"{"outputs":[{"name":"y","datatype":"INT32","shape":[1],"data":[NaN]}]}"#;
    assert!(InferResponse::from_http(&Bytes::from_static(wrong), None).is_err());
}

#[test]
fn dimensions_may_be_strings() {
    let json = br#"{"name":"m","inputs":[{"name":"x","datatype":"FP32","shape":["-1","4"]}]}"#;
    assert_eq!(ModelMetadata::from_json(json).unwrap().inputs[0].shape, [-1, 4]);
    let wrong = br#"{"name":"m","inputs":[{"name":"x","datatype":"FP32","shape":["n"]}]}"#;
    assert!(ModelMetadata::from_json(wrong).unwrap_err().to_string().contains("dimension"));
}

#[test]
fn strings_are_sent_as_json_and_as_bytes() {
    let json = br#"{"name":"m","inputs":[{"name":"t","datatype":"BYTES","shape":[-1,1]},
        {"name":"input0","datatype":"FP32","shape":[-1,2,2]}]}"#;
    let metadata = ModelMetadata::from_json(json).unwrap();
    let strings = vec![StringInput::from_lines("t", b"one\ntwo\n")];
    let samples = Samples { tensors: Some(library()), strings: strings.clone() };
    let model = Arc::new(Model::new(&metadata, "", samples, None).unwrap());
    let body = Oip::new(model.clone(), Form::Json).request(1).body;
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let sent = &body["inputs"][1];
    assert_eq!((&sent["name"], &sent["datatype"]), (&"t".into(), &"BYTES".into()));
    assert_eq!(
        (sent["shape"].to_string(), sent["data"].to_string()),
        ("[1,1]".into(), "[\"two\"]".into())
    );
    let body = Oip::new(model, Form::Binary).request(0).body;
    assert!(body.ends_with(b"\x03\0\0\0one"));
    let refused = |samples: Samples| Model::new(&metadata, "", samples, None).unwrap_err().words;
    let more = vec![StringInput::from_lines("t", b"one\ntwo\nthree")];
    let words = refused(Samples { tensors: Some(library()), strings: more });
    assert!(words.contains("one input has 2 samples, but another has 3"), "{words}");
    let words = refused(Samples { tensors: None, strings });
    assert!(words.contains("'input0' without samples"), "{words}");
}

#[test]
fn samples_that_are_not_the_models_are_refused_with_both_shapes() {
    let refused = |change: &dyn Fn(&mut ModelMetadata)| {
        let mut metadata = metadata();
        change(&mut metadata);
        let trouble = Model::new(&metadata, "", library(), Some("scores".into())).unwrap_err();
        assert_eq!(trouble.kind, Kind::Mismatch);
        trouble.words
    };
    let words = refused(&|model| model.inputs[0].shape = vec![-1, 3, 2]);
    assert!(words.contains("[2, 2]") && words.contains("[-1, 3, 2]"), "{words}");
    let words = refused(&|model| model.inputs[0].datatype = "FP16".into());
    assert!(words.contains("FP32") && words.contains("FP16"), "{words}");
    let words = refused(&|model| model.inputs[0].name = "x".into());
    assert!(words.contains("no input 'input0'; it has x"), "{words}");
    let more = |is_optional| {
        let (name, datatype) = ("b".into(), "BOOL".into());
        TensorMetadata { name, datatype, shape: vec![1], is_optional }
    };
    let words = refused(&|model| model.inputs.push(more(false)));
    assert!(words.contains("an input 'b' without samples"), "{words}");
    let mut optional = metadata();
    optional.inputs.push(more(true));
    assert!(Model::new(&optional, "", library(), None).is_ok());
    assert_eq!(random_inputs(&optional).unwrap().len(), 1);
    let words = refused(&|model| model.outputs.truncate(1));
    assert!(words.contains("no output 'scores'; it has output0"), "{words}");
    // A model without a batch is sent none, and one that says nothing one of 1.
    let mut alone = metadata();
    alone.inputs[0].shape = vec![2, 2];
    let alone = Oip::new(Arc::new(Model::new(&alone, "", library(), None).unwrap()), Form::Json);
    assert!(String::from_utf8_lossy(&alone.request(0).body).contains("\"shape\":[2,2]"));
    assert_eq!(random_inputs(&metadata()).unwrap()[0].shape, [None, Some(2), Some(2)]);
    assert!(
        random_inputs(&ModelMetadata::default())
            .unwrap_err()
            .words
            .contains("does not list the inputs")
    );
}

pub fn tensors() -> impl Strategy<Value = Vec<Tensor>> {
    let datatype = prop::sample::select(Datatype::ALL.to_vec());
    let shape = prop::collection::vec(0_usize..4, 0..4);
    let one = ("[a-z\"\\\\é]{1,5}", datatype, shape).prop_flat_map(|(name, datatype, shape)| {
        let count = shape.iter().product::<usize>();
        let data = match datatype {
            Datatype::Bytes => prop::collection::vec("\\PC{0,4}", count)
                .prop_map(|strings| {
                    let length = |text: &String| (text.len() as u32).to_le_bytes().to_vec();
                    let one = |text: &String| [length(text), text.clone().into_bytes()].concat();
                    strings.iter().flat_map(one).collect()
                })
                .boxed(),
            // All bits of a number that is finite, so that JSON can say it.
            Datatype::Fp32 => prop::collection::vec(prop::num::f32::NORMAL, count)
                .prop_map(|all| all.iter().flat_map(|x| x.to_le_bytes()).collect())
                .boxed(),
            Datatype::Fp64 => prop::collection::vec(prop::num::f64::NORMAL, count)
                .prop_map(|all| all.iter().flat_map(|x| x.to_le_bytes()).collect())
                .boxed(),
            Datatype::Fp16 | Datatype::Bf16 => prop::collection::vec(0_u16..0x7c00, count)
                .prop_map(|all| all.iter().flat_map(|x| x.to_le_bytes()).collect())
                .boxed(),
            Datatype::Bool => prop::collection::vec(0_u8..2, count).boxed(),
            other => prop::collection::vec(any::<u8>(), count * other.size().unwrap_or(1)).boxed(),
        };
        data.prop_map(move |data: Vec<u8>| {
            Tensor::new(name.clone(), datatype, shape.clone(), data.into()).unwrap()
        })
    });
    prop::collection::vec(one, 0..4)
}

proptest! {
    #[test]
    fn requests_come_back(
        tensors in tensors(), is_binary: bool, asked: bool, id in "[a-z]{0,3}",
        sequence in sequence(),
    ) {
        let output = RequestedOutput { name: "y".into(), is_binary: Some(asked) };
        let request = InferRequest {
            model_name: "m".into(),
            model_version: String::new(),
            id,
            inputs: tensors,
            outputs: if asked { vec![output] } else { vec![] },
            wants_binary: is_binary,
            sequence,
        };
        let body = request.to_http(is_binary);
        let found = InferRequest::from_http("m", "", &body.bytes, body.head_length).unwrap();
        prop_assert_eq!(found, request);
    }

    #[test]
    fn answers_come_back(tensors in tensors(), is_binary: bool) {
        let response = InferResponse {
            model_name: "m".into(),
            model_version: "1".into(),
            id: "x".into(),
            outputs: tensors,
        };
        let body = response.to_http(|_| is_binary);
        let found = InferResponse::from_http(&body.bytes, body.head_length).unwrap();
        prop_assert_eq!(found, response);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), cut in 0_usize..90) {
        let bytes = Bytes::from(bytes);
        let both = (
            InferRequest::from_http("m", "", &bytes, Some(cut)).is_ok(),
            InferResponse::from_http(&bytes, None).is_ok(),
        );
        prop_assert!(!both.0 || cut <= bytes.len());
    }
}

#[test]
fn an_answer_that_names_another_model_is_noticed() {
    let answered = |name: &str| {
        let body = format!(
            r#"{{{name}"outputs":[{{"name":"output0","datatype":"INT64","shape":[1,1],"data":[1]}}]}}"#
        );
        let mut reader = protocol(Form::Json, Some("output0")).reader();
        reader.begin(200, &crate::fields(&[])).unwrap();
        reader.data(body.as_bytes()).unwrap();
        reader.end(None).unwrap().other_model.map(|models| models.answered.to_owned())
    };
    assert_eq!(answered(r#""model_name":"other","#).as_deref(), Some("other"));
    assert_eq!(answered(r#""model_name":"mymodel","#), None);
    assert_eq!(answered(""), None);
}
