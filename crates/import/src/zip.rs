//! Reading a ZIP archive, as far as workbooks need it. Nothing that the archive declares is allocated or believed: the list of members
//! has a limit, and what a member unpacks to is counted by whoever reads it.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use flate2::CrcReader;
use flate2::read::DeflateDecoder;

use crate::FileError;
use crate::error::Tried;

/// How many bytes the list of members may have. A workbook with 1,000 sheets has 150 KiB.
const MAX_LIST: u64 = 4 << 20;

/// The end record, and the longest comment after it.
const END: usize = 22;
const MAX_COMMENT: usize = 65_535;

/// An archive whose list of members is read.
pub(crate) struct Zip {
    file: Arc<File>,
    members: Vec<Member>,
}

/// A file in the archive.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Where its own header begins.
    header: u64,
    packed: u64,
    method: u16,
    crc: u32,
    is_encrypted: bool,
}

/// The archive is not whole, or its parts do not fit.
pub(crate) fn damaged() -> FileError {
    FileError::unusable("the file is damaged or truncated; download or save it again")
}

impl Zip {
    /// Reads the list of members.
    pub(crate) fn open(file: File) -> Result<Self, FileError> {
        let size = file.metadata().tried("the file cannot be read")?.len();
        let tail_at = size.saturating_sub((END + MAX_COMMENT) as u64);
        let tail = part(&file, tail_at, size - tail_at)?;
        let (at, length) = list(&file, &tail, tail_at).ok_or_else(damaged)?;
        if length > MAX_LIST {
            return Err(FileError::unusable("it is an archive of too many files, and no workbook"));
        }
        let list = part(&file, at, length)?;
        let members = members(&list).ok_or_else(damaged)?;
        Ok(Self { file: Arc::new(file), members })
    }

    /// The names of all members.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }

    /// The content of the member with this name; none if there is no such member.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Box<dyn Read>>, FileError> {
        let Some(member) = self.members.iter().find(|member| member.name.eq_ignore_ascii_case(name)) else {
            return Ok(None);
        };
        if member.is_encrypted {
            return Err(FileError::unusable("the file is encrypted; save it without a password"));
        }
        let head = part(&self.file, member.header, 30)?;
        let (name, extra) = (u16_at(&head, 26), u16_at(&head, 28));
        let (Some(name), Some(extra), true) = (name, extra, head.starts_with(b"PK\x03\x04")) else {
            return Err(damaged());
        };
        let at = member.header.saturating_add(30 + u64::from(name) + u64::from(extra));
        let packed = Slice { file: Arc::clone(&self.file), at, left: member.packed };
        let content: Box<dyn Read> = match member.method {
            0 => Box::new(packed),
            8 => Box::new(DeflateDecoder::new(packed)),
            _ => return Err(FileError::unusable("the file is packed in an unusual way; save it again")),
        };
        Ok(Some(Box::new(Checked { content: CrcReader::new(content), crc: member.crc })))
    }
}

/// A part of a file, which may be shorter than asked for if the file ends.
fn part(file: &File, at: u64, length: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    let mut slice = SliceOf { file, at, left: length };
    slice.read_to_end(&mut bytes).tried("the file cannot be read")?;
    Ok(bytes)
}

/// Where the list of members is, and how long.
fn list(file: &File, tail: &[u8], tail_at: u64) -> Option<(u64, u64)> {
    let is_end = |at: usize, end: &[u8]| {
        let comment = u16_at(end, 20).map(usize::from);
        end.starts_with(b"PK\x05\x06") && comment.is_some_and(|comment| at + END + comment == tail.len())
    };
    // A comment may contain what looks like an end record.
    let end = (0..tail.len().checked_sub(END - 1)?).rev().find(|at| is_end(*at, &tail[*at..at + END]))?;
    let record = &tail[end..];
    let (length, at) = (u32_at(record, 12)?, u32_at(record, 16)?);
    if length != u32::MAX && at != u32::MAX {
        return Some((at.into(), length.into()));
    }
    let locator = tail.get(end.checked_sub(20)?..end).filter(|locator| locator.starts_with(b"PK\x06\x07"))?;
    let record_at = u64_at(locator, 8).filter(|at| *at < tail_at + end as u64)?;
    let record = part(file, record_at, 56).ok().filter(|record| record.starts_with(b"PK\x06\x06"))?;
    Some((u64_at(&record, 48)?, u64_at(&record, 40)?))
}

/// The members of an archive. Two with the same name are damage: other programs may read the other one.
fn members(mut list: &[u8]) -> Option<Vec<Member>> {
    let (mut members, mut names) = (Vec::new(), HashSet::new());
    while !list.is_empty() {
        if !list.starts_with(b"PK\x01\x02") {
            return None;
        }
        let [name, extra, comment] = [28, 30, 32].map(|at| u16_at(list, at).map(usize::from));
        let (name, extra, comment) = (name?, extra?, comment?);
        let mut member = Member {
            // Some programs write the separators of Windows.
            name: String::from_utf8_lossy(list.get(46..46 + name)?).replace('\\', "/"),
            header: u32_at(list, 42)?.into(),
            packed: u32_at(list, 20)?.into(),
            method: u16_at(list, 10)?,
            crc: u32_at(list, 16)?,
            is_encrypted: u16_at(list, 8)? & 1 == 1,
        };
        let unpacked = u32_at(list, 24)?;
        member.read_large(unpacked, list.get(46 + name..46 + name + extra)?);
        if !names.insert(member.name.to_ascii_lowercase()) {
            return None;
        }
        members.push(member);
        list = list.get(46 + name + extra + comment..)?;
    }
    Some(members)
}

impl Member {
    /// Takes from the extra fields what does not fit into 32 bits.
    fn read_large(&mut self, unpacked: u32, mut extra: &[u8]) {
        const LARGE: u64 = 0xFFFF_FFFF;
        while let (Some(id), Some(length)) = (u16_at(extra, 0), u16_at(extra, 2)) {
            let field = extra.get(4..4 + usize::from(length)).unwrap_or_default();
            if id == 1 {
                let mut at = if unpacked == u32::MAX { 8 } else { 0 };
                for value in [&mut self.packed, &mut self.header] {
                    if *value == LARGE
                        && let Some(large) = u64_at(field, at)
                    {
                        *value = large;
                        at += 8;
                    }
                }
            }
            extra = extra.get(4 + usize::from(length)..).unwrap_or_default();
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// A part of a file.
struct SliceOf<F> {
    file: F,
    at: u64,
    left: u64,
}

type Slice = SliceOf<Arc<File>>;

impl<F: std::ops::Deref<Target = File>> Read for SliceOf<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at = self.at.saturating_add(read as u64);
        self.left -= read as u64;
        Ok(read)
    }
}

/// The content of a member. At its end the checksum is compared.
struct Checked {
    content: CrcReader<Box<dyn Read>>,
    crc: u32,
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer);
        match read {
            Ok(0) if !buffer.is_empty() && self.content.crc().sum() != self.crc => {
                Err(io::Error::other("it is damaged"))
            }
            read => read,
        }
    }
}
