//! Tables of pandas: a `DataFrame` is blocks of columns of one type, with names for them.
//!
//! Source: pickles that pandas 1.5.3 and 2.2.3 write, taken apart with `pickletools`. Rows are
//! numbered by their place; their labels are ignored.

use std::sync::Arc;

use super::arrays::{Unfolder, tuple};
use super::machine::{Id, Object};
use super::{Array, PickleProblem, Value};
use crate::Element;

/// A function or class that pickles of tables name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    DataFrame,
    BlockManager,
    Block,
    Slice,
    NewIndex,
    /// A class of indices.
    Index,
}

/// A part of a table.
#[derive(Debug, Clone)]
pub(super) enum Part {
    /// Start, end and step; each may be left out.
    Slice([Option<i64>; 3]),
    /// Columns of one type, and their places in the table.
    Block { values: Id, places: Id },
    /// Blocks, and the names of columns and rows.
    Manager { blocks: Id, axes: Id },
    /// Names, or `None` for consecutive numbers.
    Index(Option<Id>),
    /// A table whose manager comes with its state.
    Frame(Option<Id>),
}

impl Name {
    pub fn from_name(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("pandas.core.frame", "DataFrame") => Self::DataFrame,
            ("pandas.core.internals.managers", "BlockManager") => Self::BlockManager,
            ("pandas._libs.internals", "_unpickle_block") => Self::Block,
            ("builtins" | "__builtin__", "slice") => Self::Slice,
            ("pandas.core.indexes.base", "_new_Index") => Self::NewIndex,
            ("pandas.core.indexes.base", "Index")
            | ("pandas.core.indexes.range", "RangeIndex")
            | ("pandas.core.indexes.numeric", "Int64Index" | "UInt64Index" | "Float64Index") => {
                Self::Index
            }
            _ => return None,
        })
    }
}

/// Returns the result of calling a function with arguments.
pub(super) fn call(
    objects: &[Object],
    name: Name,
    arguments: &[Id],
) -> Result<Part, PickleProblem> {
    Ok(match (name, arguments) {
        (Name::DataFrame, []) => Part::Frame(None),
        (Name::BlockManager, [blocks, axes]) => Part::Manager { blocks: *blocks, axes: *axes },
        (Name::Block, [values, places, ..]) => Part::Block { values: *values, places: *places },
        (Name::Slice, [from, to, step]) => {
            let whole = |id: &Id| match objects[*id] {
                Object::Int(number) => Ok(Some(number)),
                Object::None => Ok(None),
                _ => Err(PickleProblem::Expected("a whole number")),
            };
            Part::Slice([whole(from)?, whole(to)?, whole(step)?])
        }
        (Name::NewIndex, [_, state]) => Part::Index(entry(objects, *state, "data")?),
        _ => return Err(PickleProblem::Expected("other arguments of a table of pandas")),
    })
}

/// Returns a table with its manager; ignores the rest of its state.
pub(super) fn fill(objects: &[Object], part: &Part, state: Id) -> Result<Part, PickleProblem> {
    let Part::Frame(None) = part else { return Err(PickleProblem::Expected("a table of pandas")) };
    // Before pandas 1.1 it had another name.
    let manager = match entry(objects, state, "_mgr")? {
        None => entry(objects, state, "_data")?,
        found => found,
    };
    manager.ok_or(PickleProblem::Expected("the columns of a table")).map(|id| Part::Frame(Some(id)))
}

/// Returns the value under a text of a dictionary.
fn entry(objects: &[Object], id: Id, key: &str) -> Result<Option<Id>, PickleProblem> {
    let Object::Dict(entries) = &objects[id] else {
        return Err(PickleProblem::Expected("a dictionary"));
    };
    let is_key = |pair: &&[Id]| matches!(&objects[pair[0]], Object::Text(found) if **found == *key);
    Ok(entries.chunks_exact(2).find(is_key).map(|pair| pair[1]))
}

/// Returns the places in the table of the `count` columns of a block.
fn places(objects: &[Object], id: Id, count: usize) -> Result<Vec<usize>, PickleProblem> {
    let expected = PickleProblem::Expected("a place for each column of a block");
    let all: Vec<i64> = match &objects[id] {
        Object::Part(Part::Slice([from, _, step])) => {
            let (from, step) = (from.unwrap_or(0), step.unwrap_or(1));
            let place = |n: i64| n.checked_mul(step)?.checked_add(from);
            let all: Option<Vec<i64>> = (0..).take(count).map(place).collect();
            all.ok_or(expected.clone())?
        }
        Object::Array(array) if array.element == Element::I64 => {
            array.bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
        }
        _ => return Err(expected),
    };
    let all: Option<Vec<usize>> = all.into_iter().map(|n| usize::try_from(n).ok()).collect();
    all.filter(|all| all.len() == count).ok_or(expected)
}

impl Unfolder<'_> {
    /// Converts a table to a dictionary of its columns, which are arrays of numbers or lists.
    pub(super) fn frame(&mut self, manager: Id, depth: usize) -> Result<Value, PickleProblem> {
        let objects = self.objects;
        let Object::Part(Part::Manager { blocks, axes }) = &objects[manager] else {
            return Err(PickleProblem::Expected("the columns of a table"));
        };
        let names = match tuple(objects, *axes)? {
            [columns, _] => match &objects[*columns] {
                Object::Part(Part::Index(Some(names))) => *names,
                _ => return Err(PickleProblem::Expected("a name for each column of a table")),
            },
            _ => return Err(PickleProblem::Expected("names of columns and of rows")),
        };
        let Value::List(names) = self.value(names, depth + 1)? else {
            return Err(PickleProblem::Expected("texts as names of columns"));
        };
        let mut columns: Vec<Option<Value>> = vec![None; names.len()];
        let mut rows = None;
        for block in tuple(objects, *blocks)? {
            let Object::Part(Part::Block { values, places: at }) = &objects[*block] else {
                return Err(PickleProblem::Expected("a block of columns"));
            };
            let found = self.block(*values, depth)?;
            let of_all = *rows.get_or_insert(found.rows);
            for (place, column) in
                places(objects, *at, found.columns.len())?.iter().zip(found.columns)
            {
                let free = columns.get_mut(*place).filter(|column| column.is_none());
                let free = free.ok_or(PickleProblem::Expected("each column of a table once"))?;
                *free = Some(column);
            }
            if of_all != found.rows {
                return Err(PickleProblem::Expected("as many rows in each column of a table"));
            }
        }
        let columns: Option<Vec<Value>> = columns.into_iter().collect();
        let columns =
            columns.ok_or(PickleProblem::Expected("a column for each name of a table"))?;
        Ok(Value::Dict(names.into_iter().zip(columns).collect()))
    }

    fn block(&mut self, values: Id, depth: usize) -> Result<Block, PickleProblem> {
        let objects = self.objects;
        let expected = PickleProblem::Expected("a block of columns of numbers, texts or lists");
        match &objects[values] {
            Object::Array(array) => {
                let [count, rows] = array.shape[..] else { return Err(expected) };
                self.pay(array.bytes.len())?;
                self.pay_values(count)?;
                // Without columns rows may be any number.
                let length = array.bytes.len() / count.max(1);
                let column = |at: usize| {
                    let bytes = array.bytes[at * length..][..length].to_vec();
                    let shape = vec![rows];
                    Value::Array(Arc::new(Array { shape, element: array.element, bytes }))
                };
                Ok(Block { rows, columns: (0..count).map(column).collect() })
            }
            Object::Cells { shape, ids } => {
                let [count, rows] = shape[..] else { return Err(expected) };
                let mut columns = Vec::new();
                self.pay_values(count)?;
                for at in 0..count {
                    let cells = ids[at * rows..][..rows].iter();
                    let cells = cells.map(|id| self.cell(*id, depth + 2));
                    columns.push(Value::List(cells.collect::<Result<_, _>>()?));
                }
                Ok(Block { rows, columns })
            }
            _ => Err(expected),
        }
    }

    /// Converts a value of a column.
    ///
    /// A list of integers becomes an array, which takes a fraction of the memory: lists of tokens are
    /// long.
    fn cell(&mut self, id: Id, depth: usize) -> Result<Value, PickleProblem> {
        let objects = self.objects;
        let (Object::List(ids) | Object::Tuple(ids)) = &objects[id] else {
            return self.value(id, depth);
        };
        self.pay(size_of::<Array>() + size_of::<i64>() * ids.len())?;
        let mut bytes = Vec::with_capacity(size_of::<i64>() * ids.len());
        for of in ids {
            let Object::Int(number) = objects[*of] else { return self.value(id, depth) };
            bytes.extend(number.to_le_bytes());
        }
        let shape = vec![ids.len()];
        Ok(Value::Array(Arc::new(Array { shape, element: Element::I64, bytes })))
    }
}

/// Columns of one type.
struct Block {
    rows: usize,
    columns: Vec<Value>,
}

#[cfg(test)]
mod tests {
    use super::super::{PickleError, read};
    use super::*;

    /// pandas 1.5.3, protocol 4: `pd.DataFrame({"set": ["GSM8K", "MBXP"], "tok": [[1, 5, 300],
    /// [1, 70000]], "n": [3, 2], "text": ["a é", "b"]}).to_pickle(..)`.
    const PANDAS_1: &[u8] =
        b"\x80\x04\x955\x03\0\0\0\0\0\0\x8c\x11pandas.core.frame\x94\x8c\x09DataFrame\x94\x93\x94)\
        \x81\x94}\x94(\x8c\x04_mgr\x94\x8c\x1epandas.core.internals.managers\x94\x8c\x0cBlockMan\
        ager\x94\x93\x94\x8c\x16pandas._libs.internals\x94\x8c\x0f_unpickle_block\x94\x93\x94\
        \x8c\x15numpy.core.multiarray\x94\x8c\x0c_reconstruct\x94\x93\x94\x8c\x05numpy\x94\x8c\
        \x07ndarray\x94\x93\x94K\0\x85\x94C\x01b\x94\x87\x94R\x94(K\x01K\x01K\x02\x86\x94h\x0f\
        \x8c\x05dtype\x94\x93\x94\x8c\x02i8\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01<\x94NNNJ\xff\
        \xff\xff\xffJ\xff\xff\xff\xffK\0t\x94b\x89C\x10\x03\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x94t\
        \x94b\x8c\x08builtins\x94\x8c\x05slice\x94\x93\x94K\x02K\x03K\x01\x87\x94R\x94K\x02\x87\
        \x94R\x94h\x0bh\x0eh\x11K\0\x85\x94h\x13\x87\x94R\x94(K\x01K\x03K\x02\x86\x94h\x18\x8c\
        \x02O8\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01|\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\
        ?t\x94b\x89]\x94(\x8c\x05GSM8K\x94\x8c\x04MBXP\x94]\x94(K\x01K\x05M,\x01e]\x94(K\x01Jp\
        \x11\x01\0e\x8c\x04a \xc3\xa9\x94\x8c\x01b\x94et\x94bh\x0eh\x11K\0\x85\x94h\x13\x87\x94R\
        \x94(K\x01K\x03\x85\x94h\x1b\x89C\x18\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\
        \0\x94t\x94bK\x02\x87\x94R\x94\x86\x94]\x94(\x8c\x18pandas.core.indexes.base\x94\x8c\x0a\
        _new_Index\x94\x93\x94hB\x8c\x05Index\x94\x93\x94}\x94(\x8c\x04data\x94h\x0eh\x11K\0\x85\
        \x94h\x13\x87\x94R\x94(K\x01K\x04\x85\x94h-\x89]\x94(\x8c\x03set\x94\x8c\x03tok\x94\x8c\
        \x01n\x94\x8c\x04text\x94et\x94b\x8c\x04name\x94Nu\x86\x94R\x94hD\x8c\x19pandas.core.ind\
        exes.range\x94\x8c\x0aRangeIndex\x94\x93\x94}\x94(hSN\x8c\x05start\x94K\0\x8c\x04stop\
        \x94K\x02\x8c\x04step\x94K\x01u\x86\x94R\x94e\x86\x94R\x94\x8c\x04_typ\x94\x8c\x09datafr\
        ame\x94\x8c\x09_metadata\x94]\x94\x8c\x05attrs\x94}\x94\x8c\x06_flags\x94}\x94\x8c\x17al\
        lows_duplicate_labels\x94\x88sub.";

    /// pandas 2.2.3 with NumPy 2, protocol 5: the same sorted by `n`, `tok` as arrays of int32.
    const PANDAS_2: &[u8] =
        b"\x80\x05\x95\x8a\x03\0\0\0\0\0\0\x8c\x11pandas.core.frame\x94\x8c\x09DataFrame\x94\x93\
        \x94)\x81\x94}\x94(\x8c\x04_mgr\x94\x8c\x1epandas.core.internals.managers\x94\x8c\x0cBlo\
        ckManager\x94\x93\x94\x8c\x16pandas._libs.internals\x94\x8c\x0f_unpickle_block\x94\x93\
        \x94\x8c\x13numpy._core.numeric\x94\x8c\x0b_frombuffer\x94\x93\x94(\x96\x10\0\0\0\0\0\0\
        \0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x94\x8c\x05numpy\x94\x8c\x05dtype\x94\x93\x94\x8c\
        \x02i8\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01<\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\
        \0t\x94bK\x01K\x02\x86\x94\x8c\x01C\x94t\x94R\x94\x8c\x08builtins\x94\x8c\x05slice\x94\
        \x93\x94K\x02K\x03K\x01\x87\x94R\x94K\x02\x87\x94R\x94h\x0b\x8c\x16numpy._core.multiarra\
        y\x94\x8c\x0c_reconstruct\x94\x93\x94h\x10\x8c\x07ndarray\x94\x93\x94K\0\x85\x94C\x01b\
        \x94\x87\x94R\x94(K\x01K\x03K\x02\x86\x94h\x12\x8c\x02O8\x94\x89\x88\x87\x94R\x94(K\x03\
        \x8c\x01|\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?t\x94b\x89]\x94(\x8c\x04MBXP\x94\x8c\
        \x05GSM8K\x94h\x0e(\x96\x08\0\0\0\0\0\0\0\x01\0\0\0p\x11\x01\0\x94h\x12\x8c\x02i4\x94\
        \x89\x88\x87\x94R\x94(K\x03h\x16NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0t\x94bK\x02\x85\
        \x94h\x19t\x94R\x94h\x0e(\x96\x0c\0\0\0\0\0\0\0\x01\0\0\0\x05\0\0\0,\x01\0\0\x94h8K\x03\
        \x85\x94h\x19t\x94R\x94\x8c\x01b\x94\x8c\x04a \xc3\xa9\x94et\x94bh\x0e(\x96\x18\0\0\0\0\
        \0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x94h\x15K\x03\x85\x94h\x19t\
        \x94R\x94K\x02\x87\x94R\x94\x86\x94]\x94(\x8c\x18pandas.core.indexes.base\x94\x8c\x0a_ne\
        w_Index\x94\x93\x94hL\x8c\x05Index\x94\x93\x94}\x94(\x8c\x04data\x94h%h'K\0\x85\x94h)\
        \x87\x94R\x94(K\x01K\x04\x85\x94h/\x89]\x94(\x8c\x03set\x94\x8c\x03tok\x94\x8c\x01n\x94\
        \x8c\x04text\x94et\x94b\x8c\x04name\x94Nu\x86\x94R\x94hNhP}\x94(hRh\x0e(\x96\x10\0\0\0\0\
        \0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x94h\x15K\x02\x85\x94h\x19t\x94R\x94h]Nu\x86\
        \x94R\x94e\x86\x94R\x94\x8c\x04_typ\x94\x8c\x09dataframe\x94\x8c\x09_metadata\x94]\x94\
        \x8c\x05attrs\x94}\x94\x8c\x06_flags\x94}\x94\x8c\x17allows_duplicate_labels\x94\x88sub.";

    fn texts(all: [&str; 2]) -> Value {
        Value::List(all.map(|text| Value::Text(text.into())).into())
    }

    fn numbers(element: Element, all: &[i64]) -> Value {
        let bytes = all.iter().flat_map(|n| n.to_le_bytes()[..element.size()].to_vec()).collect();
        Value::Array(Arc::new(Array { shape: vec![all.len()], element, bytes }))
    }

    #[test]
    fn tables_are_dictionaries_of_their_columns() {
        let table = read(PANDAS_1).unwrap();
        let Value::Dict(columns) = &table else { panic!("a dictionary") };
        let names: Vec<&Value> = columns.iter().map(|(name, _)| name).collect();
        let expected = ["set", "tok", "n", "text"].map(|name| Value::Text(name.into()));
        assert_eq!(names, expected.iter().collect::<Vec<_>>());
        assert_eq!(table.get("set"), Some(&texts(["GSM8K", "MBXP"])));
        assert_eq!(table.get("text"), Some(&texts(["a é", "b"])));
        assert_eq!(table.get("n"), Some(&numbers(Element::I64, &[3, 2])));
        let tokens: [&[i64]; 2] = [&[1, 5, 300], &[1, 70000]];
        let lists = tokens.map(|all| numbers(Element::I64, all));
        assert_eq!(table.get("tok"), Some(&Value::List(lists.into())));
    }

    #[test]
    fn rows_keep_their_order_and_arrays_their_type() {
        let table = read(PANDAS_2).unwrap();
        assert_eq!(table.get("text"), Some(&texts(["b", "a é"])));
        assert_eq!(table.get("n"), Some(&numbers(Element::I64, &[2, 3])));
        let tokens: [&[i64]; 2] = [&[1, 70000], &[1, 5, 300]];
        let arrays = tokens.map(|all| numbers(Element::I32, all));
        assert_eq!(table.get("tok"), Some(&Value::List(arrays.into())));
    }

    #[test]
    fn malformed_tables_are_errors() {
        for whole in [PANDAS_1, PANDAS_2] {
            for end in 0..whole.len() {
                assert_eq!(read(&whole[..end]).unwrap_err().problem, PickleProblem::Ended, "{end}");
            }
            // No byte of it panics, whatever it becomes.
            for at in 0..whole.len() {
                for other in [0, 1, b'N', b')', whole[at] ^ 1] {
                    let mut changed = whole.to_vec();
                    changed[at] = other;
                    let _: Result<Value, PickleError> = read(&changed);
                }
            }
        }
        let error = |from: &[u8], to: &[u8]| {
            let at = PANDAS_1.windows(from.len()).position(|found| found == from).unwrap();
            read(&[&PANDAS_1[..at], to, &PANDAS_1[at + from.len()..]].concat()).unwrap_err()
        };
        let found = error(b"\x8c\x09DataFrame\x94", b"\x8c\x09DataFrime\x94");
        assert_eq!(found.problem, PickleProblem::Global("pandas.core.frame.DataFrime".into()));
    }
}
