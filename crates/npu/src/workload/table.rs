//! Networks as CSV: the columns of layer tables, and those that `dyno tune layers` adds.

use std::fmt;

use super::{LayerType, Network, NetworkLayer, SequenceGrowth};
use crate::nearest::nearest;
use crate::sheet::{Row, Sheet, TableError};

const REQUIRED: &[&str] = &[
    "name",
    "type",
    "groups",
    "m",
    "cin_g",
    "rs",
    "cout_g",
    "macs",
    "weight_bytes",
    "in_act_bytes",
    "out_act_bytes",
    "weights_scale_with_batch",
];

const OPTIONAL: &[&str] =
    &["idx", "weight_bits", "in_act_bits", "out_act_bits", "stream_bytes", "seq_len", "seq_sizes"];

/// Default bits of a number, as in the thesis.
const BITS: u64 = 16;
/// Default bits of an index into a table.
const PLACE_BITS: u64 = 64;

impl Network {
    /// Reads a layer table.
    ///
    /// Optional columns and their defaults are `idx` (ignored), `weight_bits`, `in_act_bits` and `out_act_bits` (16; 64
    /// for indices into tables), `stream_bytes` (0), `seq_len` and `seq_sizes`. The last two state the number of tokens
    /// of the table, and which of `m`, `cin_g` and `cout_g` grow with it.
    ///
    /// ```
    /// use dyno_npu::workload::Network;
    ///
    /// let text = "name,type,groups,m,cin_g,rs,cout_g,macs,weight_bytes,in_act_bytes,out_act_bytes,\
    ///             weights_scale_with_batch\n\
    ///             fc,fc,1,1,256,1,10,2560,5120,512,20,0\n";
    /// let network = Network::from_csv("tiny.csv", text)?;
    /// assert_eq!((network.macs(), network.weight_bytes()), (2_560, 5_120));
    /// # Ok::<(), dyno_npu::workload::TableError>(())
    /// ```
    ///
    /// # Errors
    /// Returns all problems with the lines and columns of `file`.
    pub fn from_csv(file: &str, text: &str) -> Result<Self, TableError> {
        let mut sheet = Sheet::parse(file, text, REQUIRED, OPTIONAL)?;
        let read = sheet.rows(|sheet, row| Some((row.line, layer(sheet, row)?)));
        let seq_len = read.first().and_then(|(_, (_, seq_len))| *seq_len);
        if let Some((line, (_, other))) = read.iter().find(|(_, (_, other))| *other != seq_len) {
            let shown = |seq_len: Option<u64>| seq_len.map_or("none".into(), |n| n.to_string());
            let problem =
                format!("is {}, but {} in the previous lines", shown(*other), shown(seq_len));
            sheet.problem(*line, "seq_len", problem);
        }
        if read.is_empty() && sheet.is_valid() {
            sheet.problem(1, "", "has no layers");
        }
        let layers: Vec<NetworkLayer> = read.into_iter().map(|(_, (layer, _))| layer).collect();
        sheet.finish(Self { name: file.to_owned(), layers, seq_len, measured: None })
    }
}

fn layer(sheet: &mut Sheet<'_>, row: Row<'_>) -> Option<(NetworkLayer, Option<u64>)> {
    let name = sheet.text(row, "name").map(str::to_owned);
    let kind = kind(sheet, row);
    // Table lookups have no channels.
    let least = u64::from(kind != Some(LayerType::Gather));
    let sizes = [("groups", 1), ("m", 1), ("cin_g", least), ("rs", 1), ("cout_g", least)];
    let sizes = sizes.map(|(column, least)| sheet.count(row, column, least));
    if let (Some(LayerType::Depthwise), Some(2..)) = (kind, sizes[2]) {
        let problem = "expected 1 for `dwconv`, which has one input channel per group; use `gconv`";
        sheet.problem(row.line, "cin_g", problem);
    }
    let bytes = ["weight_bytes", "in_act_bytes", "out_act_bytes"];
    let bytes = bytes.map(|column| sheet.count(row, column, 0));
    let scales = sheet.count(row, "weights_scale_with_batch", 0);
    if let Some(2..) = scales {
        let problem = "expected 1 if each sample of a batch fetches its own weights, otherwise 0";
        sheet.problem(row.line, "weights_scale_with_batch", problem);
    }
    let place_bits = if kind == Some(LayerType::Gather) { PLACE_BITS } else { BITS };
    let bits = [("weight_bits", BITS), ("in_act_bits", place_bits), ("out_act_bits", BITS)];
    let bits = bits.map(|(column, default)| width(sheet, row, column, default));
    let stream = sheet.optional_count(row, "stream_bytes", 0);
    let seq_len = sheet.optional_count(row, "seq_len", 1);
    let growth = growth(sheet, row);
    products(sheet, row, sizes);

    let ([groups, m, cin_g, rs, cout_g], [weights, input, output]) = (sizes, bytes);
    let layer = NetworkLayer {
        name: name?,
        kind: kind?,
        groups: groups?,
        m: m?,
        cin_g: cin_g?,
        rs: rs?,
        cout_g: cout_g?,
        weight_bytes: weights?,
        input_bytes: input?,
        output_bytes: output?,
        stream_bytes: stream?.unwrap_or(0),
        weights_scale_with_batch: scales? == 1,
        bits: [bits[0]?, bits[1]?, bits[2]?],
        growth: growth?,
    };
    Some((layer, seq_len?))
}

fn kind(sheet: &mut Sheet<'_>, row: Row<'_>) -> Option<LayerType> {
    let text = sheet.text(row, "type")?;
    let found = LayerType::ALL.into_iter().find(|kind| kind.name() == text);
    if found.is_none() {
        let near = nearest(text, LayerType::ALL.into_iter().map(LayerType::name));
        sheet.problem(row.line, "type", format_args!("unknown type `{text}`{near}"));
    }
    found
}

fn width(sheet: &mut Sheet<'_>, row: Row<'_>, column: &str, default: u64) -> Option<u32> {
    let bits = sheet.optional_count(row, column, 1)?.unwrap_or(default);
    let found = u32::try_from(bits).ok().filter(|bits| *bits <= 64);
    if found.is_none() {
        sheet.problem(row.line, column, format_args!("expected 1 to 64 bits, found {bits}"));
    }
    found
}

fn growth(sheet: &mut Sheet<'_>, row: Row<'_>) -> Option<SequenceGrowth> {
    let mut growth = SequenceGrowth::default();
    for word in sheet.optional_text(row, "seq_sizes").unwrap_or("").split_whitespace() {
        match word {
            "m" => growth.m = true,
            "cin_g" => growth.cin_g = true,
            "cout_g" => growth.cout_g = true,
            _ => {
                let near = nearest(word, ["m", "cin_g", "cout_g"].into_iter());
                sheet.problem(row.line, "seq_sizes", format_args!("unknown size `{word}`{near}"));
                return None;
            }
        }
    }
    Some(growth)
}

/// Checks the column `macs` against the sizes: a table with exchanged columns would simulate without an error.
fn products(sheet: &mut Sheet<'_>, row: Row<'_>, sizes: [Option<u64>; 5]) {
    let stated = sheet.count(row, "macs", 0);
    let sizes: Option<Vec<u64>> = sizes.into_iter().collect();
    let (Some(stated), Some(sizes)) = (stated, sizes) else { return };
    match sizes.iter().try_fold(1_u64, |all, size| all.checked_mul(*size)) {
        Some(expected) if expected == stated => {}
        Some(expected) => {
            let problem = format!(
                "expected groups x m x cin_g x rs x cout_g, which is {expected}, found {stated}"
            );
            sheet.problem(row.line, "macs", problem);
        }
        None => {
            let problem = "groups x m x cin_g x rs x cout_g exceeds 64 bits";
            sheet.problem(row.line, "macs", problem);
        }
    }
}

/// Writes CSV with all columns. Cells without a value are empty.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "idx,{}", REQUIRED.join(","))?;
        writeln!(f, ",{}", OPTIONAL[1..].join(","))?;
        for (index, layer) in self.layers.iter().enumerate() {
            let NetworkLayer {
                name,
                groups,
                m,
                cin_g,
                rs,
                cout_g,
                bits: [weight, input, output],
                ..
            } = layer;
            let growth = [("m", layer.growth.m), ("cin_g", layer.growth.cin_g)];
            let growth = growth.into_iter().chain([("cout_g", layer.growth.cout_g)]);
            let growth: Vec<&str> =
                growth.filter_map(|(name, growth)| growth.then_some(name)).collect();
            let seq_len = self.seq_len.map_or(String::new(), |seq_len| seq_len.to_string());
            writeln!(
                f,
                "{index},{},{},{groups},{m},{cin_g},{rs},{cout_g},{},{},{},{},{},\
                 {weight},{input},{output},{},{seq_len},{}",
                // A name with a comma, a quote or a line break could not be read back.
                name.replace([',', '"', '\n'], "_"),
                layer.kind.name(),
                layer.macs(),
                layer.weight_bytes,
                layer.input_bytes,
                layer.output_bytes,
                u8::from(layer.weights_scale_with_batch),
                layer.stream_bytes,
                growth.join(" "),
            )?;
        }
        Ok(())
    }
}
