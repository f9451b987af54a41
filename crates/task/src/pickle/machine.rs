//! The stack machine of pickles, up to objects that refer to each other.

use std::collections::HashMap;
use std::sync::Arc;

use dyno_metrics::payload::Element;

use super::arrays::{self, Global};
use super::frames::Part;
use super::{Array, PickleError, Problem};

/// Place of an object in [`Machine::objects`].
pub(super) type Id = usize;

/// Bytes of memory that the objects of a pickle may take: as a multiple of its length, and
/// besides. An instruction of one byte makes an object of some eighty, but one that is called
/// with a large one, and makes a copy of it, is as short.
const OBJECTS: (usize, usize) = (32, 1 << 26);
/// That an entry of a table of numbers takes.
const ENTRY: usize = 32;

/// An object while the pickle is read; containers may still grow.
#[derive(Debug, Clone)]
pub(super) enum Object {
    None,
    Bool(bool),
    Int(i64),
    Long(Arc<[u8]>),
    Float(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    /// Keys and values in turn.
    Dict(Vec<Id>),
    Global(Global),
    /// A NumPy type of elements, and whether its bytes are swapped.
    Type {
        element: Element,
        is_big_endian: bool,
    },
    /// A NumPy type whose elements are objects.
    TypeOfObjects,
    /// An array whose contents are still to come.
    Unfilled,
    Array(Arc<Array>),
    /// An array of objects, row by row.
    Cells {
        shape: Vec<usize>,
        ids: Vec<Id>,
    },
    /// Of a table of pandas.
    Part(Part),
    /// Numbers that a tensor shows a part of, by key.
    Storage {
        key: Arc<str>,
        element: Element,
    },
    Tensor {
        storage: Id,
        offset: usize,
        shape: Vec<usize>,
        stride: Vec<usize>,
    },
}

impl Object {
    /// Bytes that it takes, without the objects that it names.
    fn memory(&self) -> usize {
        let own = match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) | Self::Long(bytes) => bytes.len(),
            Self::List(ids) | Self::Tuple(ids) | Self::Dict(ids) => size_of_val(&ids[..]),
            Self::Cells { shape, ids } => size_of_val(&shape[..]) + size_of_val(&ids[..]),
            Self::Array(array) => size_of_val(&array.shape[..]) + array.bytes.len(),
            Self::Tensor { shape, stride, .. } => {
                size_of_val(&shape[..]) + size_of_val(&stride[..])
            }
            _ => 0,
        };
        size_of::<Self>() + own
    }
}

/// What a pickle leaves behind.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    bytes: &'a [u8],
    /// The next byte.
    pub at: usize,
    /// Byte of the instruction that is on.
    pub instruction: usize,
    pub objects: Vec<Object>,
    /// The object that the pickle is.
    pub result: Id,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
    /// Whole numbers that there are already, by value: lists of tokens name few of them often.
    numbers: HashMap<i64, Id>,
    /// Bytes of memory that objects may still take.
    left: usize,
}

type Done<T = ()> = Result<T, Problem>;

impl<'a> Machine<'a> {
    /// Runs it up to its STOP.
    pub fn run(bytes: &'a [u8]) -> Result<Self, PickleError> {
        let mut machine = Self::new(bytes);
        match machine.go_on() {
            Ok(()) => Ok(machine),
            Err(problem) => Err(PickleError { at: machine.instruction, problem }),
        }
    }

    /// Runs the beginning of a pickle that ends within the numbers of an array, and
    /// returns the shape of that.
    pub fn shape_at_end(bytes: &'a [u8]) -> Option<Vec<usize>> {
        let mut machine = Self::new(bytes);
        machine.go_on().err().filter(|problem| *problem == Problem::Ended)?;
        // What an array is filled with begins with a version and its shape.
        let state = machine.stack.get(*machine.marks.last()?..)?;
        let Object::Tuple(ids) = machine.objects.get(*state.get(1)?)? else { return None };
        let length = |id: &Id| match machine.objects[*id] {
            Object::Int(length) => usize::try_from(length).ok(),
            _ => None,
        };
        ids.iter().map(length).collect()
    }

    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            instruction: 0,
            objects: Vec::new(),
            result: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            numbers: HashMap::new(),
            left: bytes.len().saturating_mul(OBJECTS.0).saturating_add(OBJECTS.1),
        }
    }

    fn go_on(&mut self) -> Done {
        loop {
            self.instruction = self.at;
            if self.step()? {
                return Ok(());
            }
        }
    }

    fn take(&mut self, count: u64) -> Done<&'a [u8]> {
        let left = &self.bytes[self.at..];
        let count = usize::try_from(count).ok().filter(|count| *count <= left.len());
        let count = count.ok_or(Problem::Ended)?;
        self.at += count;
        Ok(&left[..count])
    }

    fn unsigned(&mut self, size: usize) -> Done<u64> {
        let bytes = self.take(size as u64)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn line(&mut self) -> Done<&'a str> {
        let left = &self.bytes[self.at..];
        let end = left.iter().position(|byte| *byte == b'\n').ok_or(Problem::Ended)?;
        self.at += end + 1;
        std::str::from_utf8(&left[..end]).map_err(|_| Problem::Expected("a line of text"))
    }

    fn text(&mut self, size: usize) -> Done<Arc<str>> {
        let length = self.unsigned(size)?;
        let text = std::str::from_utf8(self.take(length)?);
        Ok(text.map_err(|_| Problem::Expected("text in UTF-8"))?.into())
    }

    fn blob(&mut self, size: usize) -> Done<Arc<[u8]>> {
        let length = self.unsigned(size)?;
        Ok(self.take(length)?.into())
    }

    fn pay(&mut self, bytes: usize) -> Done {
        self.left = self.left.checked_sub(bytes).ok_or(Problem::TooLarge)?;
        Ok(())
    }

    /// Pays for a look at an object and at those that it names, as each call takes one.
    fn look(&mut self, id: Id) -> Done {
        let object = &self.objects[id];
        let named = match object {
            Object::Tuple(ids) | Object::List(ids) => &ids[..],
            _ => &[],
        };
        let all = named.iter().map(|id| self.objects[*id].memory()).sum::<usize>();
        self.pay(all.saturating_add(object.memory()))
    }

    fn push(&mut self, object: Object) -> Done {
        self.pay(object.memory())?;
        self.stack.push(self.objects.len());
        self.objects.push(object);
        Ok(())
    }

    fn pop(&mut self) -> Done<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(Problem::Expected("an object on the stack"));
        }
        Ok(self.stack.pop().expect("it is longer than its floor"))
    }

    fn top(&self) -> Done<Id> {
        self.stack.last().copied().ok_or(Problem::Expected("an object on the stack"))
    }

    fn above_mark(&mut self) -> Done<Vec<Id>> {
        let mark = self.marks.pop().ok_or(Problem::Expected("a mark"))?;
        Ok(self.stack.split_off(mark))
    }

    fn last(&mut self, count: usize) -> Done<Vec<Id>> {
        let mut ids = (0..count).map(|_| self.pop()).collect::<Done<Vec<Id>>>()?;
        ids.reverse();
        Ok(ids)
    }

    fn remember(&mut self, key: u64) -> Done {
        let id = self.top()?;
        if self.memo.insert(key, id).is_none() {
            self.pay(ENTRY)?;
        }
        Ok(())
    }

    fn recall(&mut self, key: u64) -> Done {
        let id = self.memo.get(&key).ok_or(Problem::Expected("an object of the memo"))?;
        self.stack.push(*id);
        Ok(())
    }

    /// Adds to the list or dictionary on top.
    fn extend(&mut self, ids: Vec<Id>) -> Done {
        self.pay(size_of_val(&ids[..]))?;
        let top = self.top()?;
        match &mut self.objects[top] {
            Object::List(values) => values.extend(ids),
            Object::Dict(values) if ids.len().is_multiple_of(2) => values.extend(ids),
            _ => return Err(Problem::Expected("a list, or a dictionary with keys and values")),
        }
        Ok(())
    }

    /// Runs an instruction; whether it was the last.
    fn step(&mut self) -> Done<bool> {
        let code = self.take(1)?[0];
        match code {
            b'.' => {
                self.result = self.pop()?;
                return Ok(true);
            }
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.above_mark()?),
            b'2' => self.stack.push(self.top()?),
            b'q' => self.unsigned(1).and_then(|key| self.remember(key))?,
            b'r' => self.unsigned(4).and_then(|key| self.remember(key))?,
            0x94 => self.remember(self.memo.len() as u64)?,
            b'h' => self.unsigned(1).and_then(|key| self.recall(key))?,
            b'j' => self.unsigned(4).and_then(|key| self.recall(key))?,
            b'p' | b'g' => {
                let key = self.line()?.parse().map_err(|_| Problem::Expected("a number"))?;
                if code == b'p' { self.remember(key)? } else { self.recall(key)? }
            }
            b'a' => self.last(1).and_then(|ids| self.extend(ids))?,
            b's' => self.last(2).and_then(|ids| self.extend(ids))?,
            b'e' | b'u' | 0x90 => self.above_mark().and_then(|ids| self.extend(ids))?,
            b'c' | 0x93 => self.global(code)?,
            b'R' | 0x81 => {
                let arguments = self.pop()?;
                let function = self.pop()?;
                self.look(arguments)?;
                let made = arrays::call(&self.objects, function, arguments)?;
                self.push(made)?;
            }
            b'b' => {
                let state = self.pop()?;
                let top = self.top()?;
                self.look(state)?;
                if let Some(filled) = arrays::filled(&self.objects, top, state)? {
                    self.pay(filled.memory())?;
                    self.objects[top] = filled;
                }
            }
            b'Q' => {
                let id = self.pop()?;
                let made = arrays::storage(&self.objects, id)?;
                self.push(made)?;
            }
            _ => match self.literal(code)? {
                Object::Int(number) => self.number(number)?,
                object => self.push(object)?,
            },
        }
        Ok(false)
    }

    /// Pushes a whole number, of which there is one object.
    fn number(&mut self, number: i64) -> Done {
        if let Some(known) = self.numbers.get(&number) {
            self.stack.push(*known);
            return Ok(());
        }
        self.pay(ENTRY)?;
        self.numbers.insert(number, self.objects.len());
        self.push(Object::Int(number))
    }

    /// An object that an instruction spells out.
    fn literal(&mut self, code: u8) -> Done<Object> {
        Ok(match code {
            b'N' => Object::None,
            0x88 => Object::Bool(true),
            0x89 => Object::Bool(false),
            b'K' => Object::Int(self.unsigned(1)?.cast_signed()),
            b'M' => Object::Int(self.unsigned(2)?.cast_signed()),
            b'J' => Object::Int(i64::from((self.unsigned(4)? as u32).cast_signed())),
            0x8a => long(&self.blob(1)?),
            0x8b => long(&self.blob(4)?),
            b'I' | b'L' => self.decimal()?,
            b'F' => {
                let number = self.line()?.parse();
                Object::Float(number.map_err(|_| Problem::Expected("a number"))?)
            }
            b'G' => {
                let bits = self.unsigned(8)?.swap_bytes();
                Object::Float(f64::from_bits(bits))
            }
            b'X' => Object::Text(self.text(4)?),
            0x8c => Object::Text(self.text(1)?),
            0x8d => Object::Text(self.text(8)?),
            b'U' => string(&self.blob(1)?),
            b'T' => string(&self.blob(4)?),
            b'C' => Object::Bytes(self.blob(1)?),
            b'B' => Object::Bytes(self.blob(4)?),
            0x8e | 0x96 => Object::Bytes(self.blob(8)?),
            b']' | 0x8f => Object::List(Vec::new()),
            b'l' | 0x91 => Object::List(self.above_mark()?),
            b'}' => Object::Dict(Vec::new()),
            b'd' => {
                let ids = self.above_mark()?;
                if !ids.len().is_multiple_of(2) {
                    return Err(Problem::Expected("keys and values"));
                }
                Object::Dict(ids)
            }
            b')' => Object::Tuple(Vec::new()),
            b't' => Object::Tuple(self.above_mark()?),
            0x85 => Object::Tuple(self.last(1)?),
            0x86 => Object::Tuple(self.last(2)?),
            0x87 => Object::Tuple(self.last(3)?),
            other => return Err(Problem::Opcode(other)),
        })
    }

    fn decimal(&mut self) -> Done<Object> {
        let line = self.line()?;
        Ok(match line {
            "00" => Object::Bool(false),
            "01" => Object::Bool(true),
            number => {
                let number = number.strip_suffix('L').unwrap_or(number).parse();
                Object::Int(number.map_err(|_| Problem::Expected("a number of 64 bits"))?)
            }
        })
    }

    fn global(&mut self, code: u8) -> Done {
        let (module, name): (Arc<str>, Arc<str>) = if code == b'c' {
            let module = self.line()?;
            (module.into(), self.line()?.into())
        } else {
            let ids = self.last(2)?;
            let (Object::Text(module), Object::Text(name)) =
                (&self.objects[ids[0]], &self.objects[ids[1]])
            else {
                return Err(Problem::Expected("two names"));
            };
            (module.clone(), name.clone())
        };
        let global = Global::of(&module, &name)?;
        self.push(Object::Global(global))
    }
}

/// A whole number of any length, little-endian, two's complement.
fn long(bytes: &[u8]) -> Object {
    if bytes.len() > 8 {
        return Object::Long(bytes.into());
    }
    let fill = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
    let mut all = [fill; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    Object::Int(i64::from_le_bytes(all))
}

/// A string of Python 2, which is text where it can be.
fn string(bytes: &[u8]) -> Object {
    match std::str::from_utf8(bytes) {
        Ok(text) => Object::Text(text.into()),
        Err(_) => Object::Bytes(bytes.into()),
    }
}
