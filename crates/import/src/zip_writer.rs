//! Writing a ZIP archive from start to end: sizes and checksums are written after each member.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// The flag that says that sizes come after a member, and that its name is UTF-8.
const FLAGS: u16 = 1 << 3 | 1 << 11;
const DEFLATED: u16 = 8;
const VERSION: u16 = 20;
/// 1980-01-01, the first day that an archive can have: what is written depends on nothing else than the rows.
const DAY: u16 = 0x21;

/// An archive that is being written.
pub(crate) struct ZipWriter {
    out: Counted,
    /// The member that is being written.
    member: Option<OpenMember>,
    list: Vec<u8>,
    members: u16,
}

struct OpenMember {
    name: String,
    at: u64,
    content_at: u64,
    packer: DeflateEncoder<Vec<u8>>,
    crc: Crc,
    unpacked: u64,
}

/// How much is packed before it is written.
const PART: usize = 64 * 1024;

impl ZipWriter {
    pub(crate) fn new(file: File) -> Self {
        let out = Counted { out: BufWriter::new(file), written: 0 };
        Self { out, member: None, list: Vec::new(), members: 0 }
    }

    /// Begins the next member.
    pub(crate) fn begin(&mut self, name: &str) -> io::Result<()> {
        self.end_member()?;
        let at = self.out.written;
        self.out.put(b"PK\x03\x04")?;
        self.out.put(&shorts(&[VERSION, FLAGS, DEFLATED, 0, DAY]))?;
        self.out.put(&[0; 12])?;
        self.out.put(&shorts(&[short(name.len())?, 0]))?;
        self.out.put(name.as_bytes())?;
        let packer = DeflateEncoder::new(Vec::new(), Compression::default());
        let content_at = self.out.written;
        let member =
            OpenMember { name: name.to_owned(), at, content_at, packer, crc: Crc::new(), unpacked: 0 };
        self.member = Some(member);
        Ok(())
    }

    fn end_member(&mut self) -> io::Result<()> {
        let Some(member) = self.member.take() else { return Ok(()) };
        self.out.put(&member.packer.finish()?)?;
        let packed = self.out.written - member.content_at;
        let sizes = words(&[member.crc.sum(), word(packed)?, word(member.unpacked)?]);
        self.out.put(b"PK\x07\x08")?;
        self.out.put(&sizes)?;
        self.list.extend_from_slice(b"PK\x01\x02");
        self.list.extend(shorts(&[VERSION, VERSION, FLAGS, DEFLATED, 0, DAY]));
        self.list.extend(sizes);
        self.list.extend(shorts(&[short(member.name.len())?, 0, 0, 0, 0]));
        self.list.extend(words(&[0, word(member.at)?]));
        self.list.extend_from_slice(member.name.as_bytes());
        self.members += 1;
        Ok(())
    }

    /// Writes the list of members. Gives the complete file.
    pub(crate) fn finish(mut self) -> io::Result<File> {
        self.end_member()?;
        let at = word(self.out.written)?;
        self.out.put(&self.list)?;
        self.out.put(b"PK\x05\x06")?;
        self.out.put(&shorts(&[0, 0, self.members, self.members]))?;
        self.out.put(&words(&[word(self.list.len() as u64)?, at]))?;
        self.out.put(&shorts(&[0]))?;
        self.out.out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl Write for ZipWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let member = self.member.as_mut().ok_or_else(|| io::Error::other("no member has begun"))?;
        member.packer.write_all(bytes)?;
        member.crc.update(bytes);
        member.unpacked += bytes.len() as u64;
        if member.packer.get_ref().len() >= PART {
            self.out.put(member.packer.get_ref())?;
            member.packer.get_mut().clear();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Counted {
    out: BufWriter<File>,
    written: u64,
}

impl Counted {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

fn shorts(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn short(number: usize) -> io::Result<u16> {
    u16::try_from(number).map_err(io::Error::other)
}

fn word(number: u64) -> io::Result<u32> {
    u32::try_from(number)
        .map_err(|_| io::Error::other("the workbook would have more than 4 GiB; write a .csv file instead"))
}
