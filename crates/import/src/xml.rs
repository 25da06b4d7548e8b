//! Reading the XML of a workbook piece by piece. What one piece may take, how deep pieces are nested, and how long all of it is have limits.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::FileError;
use crate::rows::MAX_ROW_BYTES;
use crate::zip::damaged;

/// How deep elements of a workbook are nested at most, and more.
const MAX_DEPTH: usize = 64;

/// An XML file that is being read.
pub(crate) struct Xml {
    reader: Reader<BufReader<Bounded>>,
    /// How many more bytes may be read for the current piece.
    left: Rc<Cell<u64>>,
    /// Whether there was more to read than allowed.
    is_too_long: Rc<Cell<bool>>,
    depth: usize,
    buffer: Vec<u8>,
}

/// A piece of XML.
pub(crate) enum Piece {
    /// The start of an element, and whether it ends at once.
    Start(Element, bool),
    End(String),
    Text(String),
}

/// An element without its content.
pub(crate) struct Element(BytesStart<'static>);

impl Element {
    /// Its name without a prefix.
    pub(crate) fn name(&self) -> &str {
        local(self.0.name().0)
    }

    /// The value of an attribute, named without a prefix.
    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        let mut attributes = self.0.attributes();
        let mut attributes = attributes.with_checks(false).flatten();
        let attribute = attributes.find(|attribute| local(attribute.key.0) == name)?;
        attribute.normalized_value(XmlVersion::Implicit1_0).ok().map(std::borrow::Cow::into_owned)
    }
}

fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, name)| name)
}

impl Xml {
    /// Reads this. It is an error if it has more than `most` bytes.
    pub(crate) fn read(content: Box<dyn Read>, most: u64) -> Self {
        let left = Rc::new(Cell::new(MAX_ROW_BYTES));
        let is_too_long = Rc::new(Cell::new(false));
        let bounded =
            Bounded { content, all: most, left: Rc::clone(&left), is_too_long: Rc::clone(&is_too_long) };
        let mut reader = Reader::from_reader(BufReader::new(bounded));
        reader.config_mut().check_end_names = true;
        Self { reader, left, is_too_long, depth: 0, buffer: Vec::new() }
    }

    /// The next piece; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>, FileError> {
        self.left.set(MAX_ROW_BYTES);
        loop {
            self.buffer.clear();
            let event = match self.reader.read_event_into(&mut self.buffer) {
                Ok(event) => event,
                Err(_) if self.is_too_long.get() => return Err(too_long()),
                Err(_) => return Err(damaged()),
            };
            let piece = match event {
                Event::Start(start) => {
                    self.depth += 1;
                    Piece::Start(Element(start.into_owned()), false)
                }
                Event::Empty(start) => Piece::Start(Element(start.into_owned()), true),
                Event::End(end) => {
                    self.depth = self.depth.saturating_sub(1);
                    Piece::End(local(end.name().0).to_owned())
                }
                Event::Text(text) => Piece::Text(text.xml10_content().into_owned()),
                Event::CData(text) => Piece::Text(text.xml10_content().into_owned()),
                Event::GeneralRef(name) => {
                    let c = name.resolve_char_ref().ok().flatten().map(String::from);
                    let named = || resolve_predefined_entity(&name.xml10_content()).map(str::to_owned);
                    Piece::Text(c.or_else(named).ok_or_else(damaged)?)
                }
                // No workbook has one, and what it defines could be of any size.
                Event::DocType(_) => return Err(damaged()),
                Event::Eof if self.depth == 0 => return Ok(None),
                Event::Eof => return Err(damaged()),
                Event::Comment(_) | Event::PI(_) | Event::Decl(_) => continue,
            };
            if self.depth > MAX_DEPTH {
                return Err(damaged());
            }
            return Ok(Some(piece));
        }
    }

    /// The next element with one of these names, and whether it ends at once; none at the end.
    pub(crate) fn next_of(&mut self, names: &[&str]) -> Result<Option<(Element, bool)>, FileError> {
        loop {
            match self.next()? {
                Some(Piece::Start(element, is_empty)) if names.contains(&element.name()) => {
                    return Ok(Some((element, is_empty)));
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// The text of an element that has just begun, to its end.
    pub(crate) fn text(&mut self, element: &str) -> Result<String, FileError> {
        let mut text = String::new();
        loop {
            match self.next()?.ok_or_else(damaged)? {
                Piece::Text(part) => add(&mut text, &part)?,
                Piece::End(name) if name == element => return Ok(text),
                Piece::Start(..) | Piece::End(_) => {}
            }
        }
    }

    /// The text of the parts of a formatted text that has just begun, to its end. How it is pronounced is left out.
    pub(crate) fn formatted_text(&mut self, element: &str) -> Result<String, FileError> {
        let (mut text, mut is_spoken) = (String::new(), false);
        loop {
            match self.next()?.ok_or_else(damaged)? {
                Piece::Start(inner, false) => match inner.name() {
                    "t" if !is_spoken => add(&mut text, &self.text("t")?)?,
                    "rPh" => is_spoken = true,
                    _ => {}
                },
                Piece::End(name) if name == "rPh" => is_spoken = false,
                Piece::End(name) if name == element => return Ok(text),
                Piece::Start(..) | Piece::Text(_) | Piece::End(_) => {}
            }
        }
    }
}

fn add(text: &mut String, part: &str) -> Result<(), FileError> {
    text.push_str(part);
    if text.len() as u64 > MAX_ROW_BYTES { Err(too_long()) } else { Ok(()) }
}

/// It unpacks to far more than a file of contact records.
pub(crate) fn too_long() -> FileError {
    FileError::unusable(
        "it unpacks to far more than a workbook of contact records; save the sheet as CSV if it really is one",
    )
}

/// An input that limits what is read for one piece, and in all.
struct Bounded {
    content: Box<dyn Read>,
    all: u64,
    left: Rc<Cell<u64>>,
    is_too_long: Rc<Cell<bool>>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        let all = self.all.checked_sub(read as u64);
        let (Some(all), Some(left)) = (all, self.left.get().checked_sub(read as u64)) else {
            self.is_too_long.set(true);
            return Err(io::Error::other("it is too long"));
        };
        self.all = all;
        self.left.set(left);
        Ok(read)
    }
}
