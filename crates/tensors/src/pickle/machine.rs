//! The stack machine of pickles: runs instructions and returns objects that refer to each other.

use std::collections::HashMap;
use std::sync::Arc;

use super::arrays::{self, Global};
use super::frames::Part;
use super::{Array, PickleError, PickleProblem};
use crate::Element;

/// Index of an object in [`Machine::objects`].
pub(super) type Id = usize;

/// Bytes of memory that the objects of a pickle may take: a multiple of its length, and a constant.
///
/// Most instructions of one byte make an object of some eighty bytes, but a call, which is as short,
/// may copy a large object.
const OBJECTS: (usize, usize) = (32, 1 << 26);
/// Bytes of memory of an entry of a table of numbers.
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
    /// Alternating keys and values.
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
    /// A part of a table of pandas.
    Part(Part),
    /// Reference by key to numbers, of which a tensor shows a part.
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
    /// Returns the bytes of memory that it takes, without the objects that it refers to.
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

/// State of the machine.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    bytes: &'a [u8],
    /// Offset of the next byte.
    pub at: usize,
    /// Offset of the current instruction.
    pub instruction: usize,
    pub objects: Vec<Object>,
    /// The object that the pickle holds.
    pub result: Id,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
    /// Objects of integers by value. They are shared, because lists of tokens repeat a few often.
    numbers: HashMap<i64, Id>,
    /// Bytes of memory that objects may still take.
    left: usize,
}

type MachineResult<T = ()> = Result<T, PickleProblem>;

impl<'a> Machine<'a> {
    /// Runs a pickle up to its STOP.
    pub fn run(bytes: &'a [u8]) -> Result<Self, PickleError> {
        let mut machine = Self::new(bytes);
        match machine.run_to_end() {
            Ok(()) => Ok(machine),
            Err(problem) => Err(PickleError { at: machine.instruction, problem }),
        }
    }

    /// Runs the beginning of a pickle that ends within the numbers of an array, and
    /// returns the shape of that.
    pub fn shape_at_end(bytes: &'a [u8]) -> Option<Vec<usize>> {
        let mut machine = Self::new(bytes);
        machine.run_to_end().err().filter(|problem| *problem == PickleProblem::Ended)?;
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

    fn run_to_end(&mut self) -> MachineResult {
        loop {
            self.instruction = self.at;
            if self.step()? {
                return Ok(());
            }
        }
    }

    fn take(&mut self, count: u64) -> MachineResult<&'a [u8]> {
        let left = &self.bytes[self.at..];
        let count = usize::try_from(count).ok().filter(|count| *count <= left.len());
        let count = count.ok_or(PickleProblem::Ended)?;
        self.at += count;
        Ok(&left[..count])
    }

    fn unsigned(&mut self, size: usize) -> MachineResult<u64> {
        let bytes = self.take(size as u64)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn line(&mut self) -> MachineResult<&'a str> {
        let left = &self.bytes[self.at..];
        let end = left.iter().position(|byte| *byte == b'\n').ok_or(PickleProblem::Ended)?;
        self.at += end + 1;
        std::str::from_utf8(&left[..end]).map_err(|_| PickleProblem::Expected("a line of text"))
    }

    fn text(&mut self, size: usize) -> MachineResult<Arc<str>> {
        let length = self.unsigned(size)?;
        let text = std::str::from_utf8(self.take(length)?);
        Ok(text.map_err(|_| PickleProblem::Expected("text in UTF-8"))?.into())
    }

    fn blob(&mut self, size: usize) -> MachineResult<Arc<[u8]>> {
        let length = self.unsigned(size)?;
        Ok(self.take(length)?.into())
    }

    fn pay(&mut self, bytes: usize) -> MachineResult {
        self.left = self.left.checked_sub(bytes).ok_or(PickleProblem::TooLarge)?;
        Ok(())
    }

    /// Counts the memory of an object and of those that it refers to: a call may copy all of them.
    fn look(&mut self, id: Id) -> MachineResult {
        let object = &self.objects[id];
        let named = match object {
            Object::Tuple(ids) | Object::List(ids) => &ids[..],
            _ => &[],
        };
        let all = named.iter().map(|id| self.objects[*id].memory()).sum::<usize>();
        self.pay(all.saturating_add(object.memory()))
    }

    fn push(&mut self, object: Object) -> MachineResult {
        self.pay(object.memory())?;
        self.stack.push(self.objects.len());
        self.objects.push(object);
        Ok(())
    }

    fn pop(&mut self) -> MachineResult<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(PickleProblem::Expected("an object on the stack"));
        }
        Ok(self.stack.pop().expect("it is longer than its floor"))
    }

    fn top(&self) -> MachineResult<Id> {
        self.stack.last().copied().ok_or(PickleProblem::Expected("an object on the stack"))
    }

    fn above_mark(&mut self) -> MachineResult<Vec<Id>> {
        let mark = self.marks.pop().ok_or(PickleProblem::Expected("a mark"))?;
        Ok(self.stack.split_off(mark))
    }

    fn last(&mut self, count: usize) -> MachineResult<Vec<Id>> {
        let mut ids = (0..count).map(|_| self.pop()).collect::<MachineResult<Vec<Id>>>()?;
        ids.reverse();
        Ok(ids)
    }

    fn remember(&mut self, key: u64) -> MachineResult {
        let id = self.top()?;
        if self.memo.insert(key, id).is_none() {
            self.pay(ENTRY)?;
        }
        Ok(())
    }

    fn recall(&mut self, key: u64) -> MachineResult {
        let id = self.memo.get(&key).ok_or(PickleProblem::Expected("an object of the memo"))?;
        self.stack.push(*id);
        Ok(())
    }

    /// Adds to the list or dictionary on top.
    fn extend(&mut self, ids: Vec<Id>) -> MachineResult {
        self.pay(size_of_val(&ids[..]))?;
        let top = self.top()?;
        match &mut self.objects[top] {
            Object::List(values) => values.extend(ids),
            Object::Dict(values) if ids.len().is_multiple_of(2) => values.extend(ids),
            _ => {
                return Err(PickleProblem::Expected(
                    "a list, or a dictionary with keys and values",
                ));
            }
        }
        Ok(())
    }

    /// Runs an instruction, and returns whether it was the last.
    fn step(&mut self) -> MachineResult<bool> {
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
                let key = self.line()?.parse().map_err(|_| PickleProblem::Expected("a number"))?;
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

    /// Pushes an integer, whose object is shared.
    fn number(&mut self, number: i64) -> MachineResult {
        if let Some(known) = self.numbers.get(&number) {
            self.stack.push(*known);
            return Ok(());
        }
        self.pay(ENTRY)?;
        self.numbers.insert(number, self.objects.len());
        self.push(Object::Int(number))
    }

    /// Returns the object of an instruction that contains it.
    fn literal(&mut self, code: u8) -> MachineResult<Object> {
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
                Object::Float(number.map_err(|_| PickleProblem::Expected("a number"))?)
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
                    return Err(PickleProblem::Expected("keys and values"));
                }
                Object::Dict(ids)
            }
            b')' => Object::Tuple(Vec::new()),
            b't' => Object::Tuple(self.above_mark()?),
            0x85 => Object::Tuple(self.last(1)?),
            0x86 => Object::Tuple(self.last(2)?),
            0x87 => Object::Tuple(self.last(3)?),
            other => return Err(PickleProblem::Opcode(other)),
        })
    }

    fn decimal(&mut self) -> MachineResult<Object> {
        let line = self.line()?;
        Ok(match line {
            "00" => Object::Bool(false),
            "01" => Object::Bool(true),
            number => {
                let number = number.strip_suffix('L').unwrap_or(number).parse();
                Object::Int(number.map_err(|_| PickleProblem::Expected("a number of 64 bits"))?)
            }
        })
    }

    fn global(&mut self, code: u8) -> MachineResult {
        let (module, name): (Arc<str>, Arc<str>) = if code == b'c' {
            let module = self.line()?;
            (module.into(), self.line()?.into())
        } else {
            let ids = self.last(2)?;
            let (Object::Text(module), Object::Text(name)) =
                (&self.objects[ids[0]], &self.objects[ids[1]])
            else {
                return Err(PickleProblem::Expected("two names"));
            };
            (module.clone(), name.clone())
        };
        let global = Global::from_name(&module, &name)?;
        self.push(Object::Global(global))
    }
}

/// Returns an integer of any length, little-endian, in two's complement.
fn long(bytes: &[u8]) -> Object {
    if bytes.len() > 8 {
        return Object::Long(bytes.into());
    }
    let fill = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
    let mut all = [fill; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    Object::Int(i64::from_le_bytes(all))
}

/// Returns a string of Python 2: text if it is UTF-8, bytes otherwise.
fn string(bytes: &[u8]) -> Object {
    match std::str::from_utf8(bytes) {
        Ok(text) => Object::Text(text.into()),
        Err(_) => Object::Bytes(bytes.into()),
    }
}
