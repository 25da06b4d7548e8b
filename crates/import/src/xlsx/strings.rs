//! The texts that cells share.

use std::io::Read;

use crate::FileError;
use crate::xml::{Xml, too_long};

/// How many bytes all texts together may have, and how many texts there may be: a million contact records have about 100 MiB.
const MAX_BYTES: usize = 128 << 20;
const MAX_TEXTS: usize = 4 << 20;

/// How many bytes the part with the texts may have.
const MAX_PART: u64 = 1 << 30;

/// How many bytes are in a block. One text that is longer has a block of its own.
const BLOCK: usize = 1 << 20;

/// All texts, in blocks that never have to be moved to larger ones.
#[derive(Default)]
pub(crate) struct Strings {
    blocks: Vec<String>,
    /// The block of each text, and where it ends there. It begins where the one before it ends.
    places: Vec<(u32, u32)>,
    bytes: usize,
}

impl Strings {
    pub(crate) fn read(content: Option<Box<dyn Read>>) -> Result<Self, FileError> {
        let mut strings = Self::default();
        let Some(content) = content else { return Ok(strings) };
        let mut xml = Xml::read(content, MAX_PART);
        while let Some((_, is_empty)) = xml.next_of(&["si"])? {
            let text = if is_empty { String::new() } else { xml.formatted_text("si")? };
            strings.bytes += text.len();
            if strings.bytes > MAX_BYTES || strings.places.len() >= MAX_TEXTS {
                return Err(too_long());
            }
            let place = strings.push(&text).ok_or_else(too_long)?;
            strings.places.push(place);
        }
        Ok(strings)
    }

    fn push(&mut self, text: &str) -> Option<(u32, u32)> {
        if self.blocks.last().is_none_or(|block| block.len() + text.len() > BLOCK) {
            self.blocks.push(String::with_capacity(if self.blocks.is_empty() { 0 } else { BLOCK }));
        }
        let number = self.blocks.len() - 1;
        let block = self.blocks.last_mut()?;
        block.push_str(text);
        Some((u32::try_from(number).ok()?, u32::try_from(block.len()).ok()?))
    }

    pub(crate) fn get(&self, number: usize) -> Option<&str> {
        let (block, end) = *self.places.get(number)?;
        let before = number.checked_sub(1).and_then(|before| self.places.get(before));
        let start = before.filter(|(other, _)| *other == block).map_or(0, |(_, end)| *end as usize);
        self.blocks.get(block as usize)?.get(start..end as usize)
    }
}
