//! Nodes as the readers of operators see them.

use std::cell::RefCell;
use std::collections::BTreeSet;

use dyno_onnx::{Attribute, Element, Node};

use crate::session::Frame;
use crate::value::{Value, axis};

/// A node that is ready to run: computes the node's outputs.
///
/// The reason of an error does not name the node; the session adds its name.
pub(crate) type Operation = Box<dyn Fn(&mut Frame<'_>) -> Result<Vec<Value>, String> + Send + Sync>;

/// Type of an input's elements, and the number of its dimensions.
#[derive(Clone, Copy)]
pub(crate) struct InputType {
    pub element: Element,
    pub rank: usize,
}

/// A node with its version and the constants among its inputs.
pub(crate) struct NodeReader<'a> {
    pub node: &'a Node,
    /// Version of the operator set.
    pub version: i64,
    /// Number of the node, unique in its graph.
    pub id: usize,
    constants: Vec<Option<Value>>,
    /// Types of the inputs, as far as they are known before the model runs. Empty in a branch, which
    /// may fail if it never runs.
    pub types: Vec<Option<InputType>>,
    /// Inputs whose constants the operation holds itself.
    consumed: RefCell<BTreeSet<usize>>,
    /// Attributes that were read. Others are not implemented.
    read: RefCell<BTreeSet<&'static str>>,
}

impl<'a> NodeReader<'a> {
    pub fn new(node: &'a Node, version: i64, id: usize, constants: Vec<Option<Value>>) -> Self {
        let (consumed, read) = Default::default();
        Self { node, version, id, constants, types: Vec::new(), consumed, read }
    }

    /// Returns the number of dimensions of an input, if it is known before the model runs.
    pub fn rank(&self, input: usize) -> Option<usize> {
        self.types.get(input)?.map(|known| known.rank)
    }

    /// Returns the type of an input's elements, if it is known before the model runs.
    pub fn element(&self, input: usize) -> Option<Element> {
        self.types.get(input)?.map(|known| known.element)
    }

    /// Checks that an input has `rank` dimensions, if their number is known.
    pub fn expect_rank(&self, input: usize, rank: usize) -> Result<(), String> {
        match self.rank(input) {
            Some(found) if found != rank => {
                Err(format!("expected input {input} with {rank} dimensions, found {found}"))
            }
            _ => Ok(()),
        }
    }

    /// Returns an axis of the first input, or `default` if the attribute is absent. It counts from the
    /// end if it is negative.
    pub fn axis(&self, name: &'static str, default: i64) -> Result<i64, String> {
        let along = self.int(name, default)?;
        self.check_axes(&[along], 0)?;
        Ok(along)
    }

    /// Returns an axis of the first input, which the attribute must state.
    pub fn required_axis(&self, name: &'static str) -> Result<i64, String> {
        match self.attribute(name) {
            None => Err(format!("expected attribute '{name}'")),
            Some(_) => self.axis(name, 0),
        }
    }

    /// Checks axes of a value that has `more` dimensions than the first input, if its rank is known.
    pub fn check_axes(&self, axes: &[i64], more: usize) -> Result<(), String> {
        // Operators accept different axes of a scalar, which has none.
        let Some(rank) = self.rank(0).filter(|rank| *rank > 0) else { return Ok(()) };
        axes.iter().try_for_each(|along| axis(*along, rank + more).map(drop))
    }

    /// Returns integers of a constant input, else of an attribute; none if they are not known yet.
    pub fn known(&self, input: usize, attribute: Option<&[i64]>) -> Result<Vec<i64>, String> {
        match self.constant(input) {
            Some(value) => Ok(value.integers()?.into_owned()),
            None => Ok(attribute.unwrap_or_default().to_vec()),
        }
    }

    /// Returns an input that is known before the model runs.
    pub fn constant(&self, input: usize) -> Option<&Value> {
        self.constants.get(input)?.as_ref()
    }

    /// States that the operation does not need this input when it runs.
    pub fn consume(&self, input: usize) {
        self.consumed.borrow_mut().insert(input);
    }

    /// Returns whether the operation holds this input itself.
    pub fn is_consumed(&self, input: usize) -> bool {
        self.consumed.borrow().contains(&input)
    }

    pub fn attribute(&self, name: &'static str) -> Option<&'a Attribute> {
        self.read.borrow_mut().insert(name);
        self.node.attribute(name)
    }

    /// Returns an integer, or `default` if the attribute is absent.
    pub fn int(&self, name: &'static str, default: i64) -> Result<i64, String> {
        match self.attribute(name) {
            None => Ok(default),
            Some(Attribute::Int(value)) => Ok(*value),
            Some(_) => Err(format!("expected attribute '{name}' to be an integer")),
        }
    }

    pub fn flag(&self, name: &'static str) -> Result<bool, String> {
        Ok(self.int(name, 0)? != 0)
    }

    pub fn float(&self, name: &'static str, default: f32) -> Result<f32, String> {
        match self.attribute(name) {
            None => Ok(default),
            Some(Attribute::Float(value)) => Ok(*value),
            Some(_) => Err(format!("expected attribute '{name}' to be a float")),
        }
    }

    pub fn ints(&self, name: &'static str) -> Result<Option<Vec<i64>>, String> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values.clone())),
            Some(_) => Err(format!("expected attribute '{name}' to be integers")),
        }
    }

    pub fn floats(&self, name: &'static str) -> Result<Option<&'a [f32]>, String> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Floats(values)) => Ok(Some(values)),
            Some(_) => Err(format!("expected attribute '{name}' to be floats")),
        }
    }

    pub fn texts(&self, name: &'static str) -> Result<Option<&'a [String]>, String> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Texts(values)) => Ok(Some(values)),
            Some(_) => Err(format!("expected attribute '{name}' to be strings")),
        }
    }

    /// Returns sizes, none of which is negative.
    pub fn sizes(&self, name: &'static str) -> Result<Option<Vec<usize>>, String> {
        let size =
            |n: i64| usize::try_from(n).map_err(|_| format!("attribute '{name}' has the size {n}"));
        self.ints(name)?.map(|all| all.into_iter().map(size).collect()).transpose()
    }

    pub fn text(&self, name: &'static str, default: &'static str) -> Result<&'a str, String> {
        match self.attribute(name) {
            None => Ok(default),
            Some(Attribute::Text(text)) => Ok(text),
            Some(_) => Err(format!("expected attribute '{name}' to be a string")),
        }
    }

    /// Accepts an attribute that does not change the results.
    pub fn ignore(&self, name: &'static str) {
        self.read.borrow_mut().insert(name);
    }

    /// Returns an error that names the first attribute that no one has read.
    pub fn expect_all_read(&self) -> Result<(), String> {
        let read = self.read.borrow();
        let unread = self.node.attributes.iter().find(|(name, _)| !read.contains(name.as_str()));
        match unread {
            Some((name, _)) => Err(format!("attribute '{name}' is not supported")),
            None => Ok(()),
        }
    }
}
