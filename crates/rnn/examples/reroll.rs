//! Folds unrolled cells of an ONNX file into layers: `reroll FROM TO`. Prints the number of layers.

use std::path::Path;

use dyno_onnx::Model;
use dyno_rnn::import::reroll;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = &words[..] else { panic!("usage: reroll FROM TO") };
    let model = Model::read(Path::new(from)).expect("an ONNX file");
    let (rolled, count) = reroll(&model);
    rolled.write(Path::new(to)).expect("a folder to write to");
    println!("{count} layers, {} nodes of {}", rolled.nodes.len(), model.nodes.len());
}
