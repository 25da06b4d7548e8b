//! Reading a Parquet file in bounded memory.
//!
//! A small file can declare pages that unpack to gigabytes, dictionaries of a billion entries, or encodings that repeat a long
//! text for every value. So before any page is unpacked, the headers of all pages of the columns that are used are read, and the
//! file is refused if they would take more than [`MAX_MEMORY`]. The Parquet reader then gets only pages that were counted.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use contactd_core::panics;
use parquet::basic::{Compression, Encoding, Type as PhysicalType};
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, FileReader, Length, RowGroupReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::schema::types::Type as SchemaType;

use crate::FileError;

/// How much memory the pages of a row group may take at a time, in the columns that are used.
const MAX_MEMORY: u64 = 256 << 20;

/// How long a page may be when it is unpacked.
const MAX_PAGE: u64 = 64 << 20;

/// How long the metadata at the end of the file may be. In memory it takes many times as much.
const MAX_METADATA: u64 = 8 << 20;

/// How long the header of a page may be.
const MAX_HEADER: u64 = 1 << 20;

/// How many pages may be counted, and how many if only the first rows are read. Each takes memory, and a chunk may be named in
/// many row groups.
const MAX_PAGES: u32 = 4_000_000;
const MAX_FIRST_PAGES: u32 = 10_000;

/// How long the values of a column with a fixed length may be.
const MAX_FIXED: i32 = 1 << 10;

/// How many values of a column are decoded at a time. An encoding may repeat the longest text of a page in each of them.
pub(crate) const BATCH: usize = 16;

/// The memory of a decoded value.
const VALUE: u64 = 40;

/// Why a file is not read.
fn too_large(what: &str) -> FileError {
    FileError::unusable(format!("{what}; write the file with smaller pages and row groups"))
}

fn damaged() -> FileError {
    FileError::unusable("this is not a complete Parquet file")
}

/// A Parquet file whose pages are counted before they are read.
pub(crate) struct BoundedFile {
    reader: SerializedFileReader<PageFile>,
    file: File,
    known: Arc<OnceLock<KnownPages>>,
}

/// Pages that were counted, by where they begin after their header.
type KnownPages = HashMap<u64, KnownPage>;

/// A page that was counted.
struct KnownPage {
    length: usize,
    unpacked: u64,
    /// How many bytes at its start are never packed.
    levels: u64,
    compression: Compression,
}

/// What was counted so far.
struct Counted {
    pages: KnownPages,
    /// How many rows are wanted, if not all are.
    wanted: Option<u64>,
    /// How many more pages may be counted.
    left: u32,
}

impl Counted {
    fn new(first: Option<u64>) -> Self {
        // The reader decodes some rows ahead.
        let wanted = first.map(|rows| rows.saturating_add(2 * BATCH as u64));
        let left = if first.is_some() { MAX_FIRST_PAGES } else { MAX_PAGES };
        Self { pages: KnownPages::new(), wanted, left }
    }

    /// Counts a page. Fails if there are too many.
    fn take_one(&mut self) -> std::result::Result<(), FileError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| match self.wanted {
            Some(_) => too_large("its first rows are in more than 10,000 pages"),
            None => too_large("it has more than 4,000,000 pages"),
        })?;
        Ok(())
    }
}

impl BoundedFile {
    /// Reads the metadata.
    pub(crate) fn open(file: File) -> std::result::Result<Self, FileError> {
        let mut end = [0; 8];
        let length = file.len();
        length.checked_sub(8).and_then(|at| file.read_exact_at(&mut end, at).ok()).ok_or_else(damaged)?;
        let [a, b, c, d, magic @ ..] = end;
        if &magic != b"PAR1" {
            return Err(damaged());
        }
        let metadata = u64::from(u32::from_le_bytes([a, b, c, d]));
        if metadata > length.saturating_sub(8) {
            return Err(damaged());
        }
        if metadata > MAX_METADATA {
            return Err(too_large("its metadata is longer than 8 MiB"));
        }
        let known = Arc::new(OnceLock::new());
        let opened = || {
            let pages = PageFile { file: file.try_clone()?, known: Arc::clone(&known) };
            SerializedFileReader::new(pages)
        };
        let reader = unless_it_panics(opened).ok_or_else(damaged)?;
        Ok(Self { reader, file, known })
    }

    /// Counts the pages of these columns, or those of their `first` rows. The file cannot be read without this, nor can other
    /// columns or rows.
    pub(crate) fn count(&self, columns: &[usize], first: Option<u64>) -> std::result::Result<(), FileError> {
        let mut counted = Counted::new(first);
        self.count_groups(columns, &mut counted)?;
        self.known.set(counted.pages).map_err(|_| FileError::fault())
    }

    /// Counts the pages of the `first` rows of each of these columns, as far as all of them together take no more memory than one
    /// row group may. Returns which of the columns can be read, one at a time.
    pub(crate) fn count_each(
        &self,
        columns: &[usize],
        first: u64,
    ) -> std::result::Result<Vec<usize>, FileError> {
        let mut counted = Counted::new(Some(first));
        let mut memory = 0_u64;
        let mut readable = Vec::new();
        for &column in columns {
            let of_column = self.count_groups(&[column], &mut counted).unwrap_or(u64::MAX);
            if memory.saturating_add(of_column) <= MAX_MEMORY {
                memory += of_column;
                readable.push(column);
            }
        }
        self.known.set(counted.pages).map_err(|_| FileError::fault())?;
        Ok(readable)
    }

    /// Counts the pages of these columns. Returns how much memory they take in all row groups.
    fn count_groups(&self, columns: &[usize], counted: &mut Counted) -> std::result::Result<u64, FileError> {
        let mut wanted = counted.wanted;
        let mut all = 0_u64;
        for group in self.reader.metadata().row_groups() {
            let mut memory = 0_u64;
            for &column in columns {
                let chunk = group.columns().get(column).ok_or_else(damaged)?;
                memory = self.count_chunk(chunk, wanted, counted)?.saturating_add(memory);
            }
            if memory > MAX_MEMORY {
                return Err(too_large("a row group would take more than 256 MiB of memory"));
            }
            all = all.saturating_add(memory);
            if let Some(wanted) = &mut wanted {
                *wanted = wanted.saturating_sub(u64::try_from(group.num_rows()).map_err(|_| damaged())?);
                if *wanted == 0 {
                    break;
                }
            }
        }
        Ok(all)
    }

    /// Counts the pages of a column chunk, or those of as many rows as are `wanted`. Returns how much memory it takes to read it.
    fn count_chunk(
        &self,
        chunk: &ColumnChunkMetaData,
        wanted: Option<u64>,
        counted: &mut Counted,
    ) -> std::result::Result<u64, FileError> {
        if chunk.column_type() == PhysicalType::FIXED_LEN_BYTE_ARRAY
            && chunk.column_descr().type_length() > MAX_FIXED
        {
            return Err(too_large("a column has values of more than 1 KiB"));
        }
        // It panics if they are negative.
        let (mut at, mut left) = unless_it_panics(|| Ok(chunk.byte_range())).ok_or_else(damaged)?;
        let (mut dictionary, mut data) = (0_u64, 0_u64);
        let mut rows = 0_u64;
        while left > 0 && wanted.is_none_or(|wanted| rows < wanted) {
            counted.take_one()?;
            let (header, length) = self.header(at, left).ok_or_else(damaged)?;
            let packed = u64::try_from(header.packed).map_err(|_| damaged())?;
            let unpacked = u64::try_from(header.unpacked).map_err(|_| damaged())?;
            let values = u64::try_from(header.values).map_err(|_| damaged())?;
            left = left.checked_sub(length).and_then(|left| left.checked_sub(packed)).ok_or_else(damaged)?;
            if unpacked.max(packed) > MAX_PAGE {
                return Err(too_large("a page is longer than 64 MiB"));
            }
            let decoded = match header.encoding {
                Some(DELTA_LENGTH_BYTE_ARRAY) => values.saturating_mul(4),
                Some(DELTA_BYTE_ARRAY) => values.saturating_mul(8).saturating_add(BATCH as u64 * unpacked),
                _ => 0,
            };
            let memory = decoded.saturating_add(unpacked + packed);
            if header.is_dictionary {
                dictionary = VALUE.saturating_mul(values).saturating_add(memory).saturating_add(dictionary);
            } else {
                data = data.max(memory);
                // A column that is read has one value in each row.
                rows = rows.saturating_add(values);
            }
            let page = KnownPage {
                length: usize::try_from(packed).map_err(|_| damaged())?,
                unpacked,
                levels: u64::try_from(header.levels).map_err(|_| damaged())?,
                compression: if header.is_packed { chunk.compression() } else { Compression::UNCOMPRESSED },
            };
            counted.pages.insert(at + length, page);
            at += length + packed;
        }
        Ok(data.saturating_add(dictionary))
    }

    /// The header of the page at this place, and its length.
    fn header(&self, at: u64, left: u64) -> Option<(PageHeader, u64)> {
        let mut size = 512;
        loop {
            let wanted = usize::try_from(left.min(size)).ok()?;
            let mut bytes = vec![0; wanted];
            let read = read_at(&self.file, &mut bytes, at).ok()?;
            let mut header = Compact { bytes: &bytes[..read], at: 0 };
            if let Some(parsed) = PageHeader::parse(&mut header) {
                return Some((parsed, header.at as u64));
            }
            // It may be cut off.
            if size >= MAX_HEADER || wanted as u64 == left || read < wanted {
                return None;
            }
            size *= 8;
        }
    }
}

/// Runs the Parquet reader; none if it fails, or panics, as it may on a damaged file. Its errors are dropped
/// because they quote from the file.
pub(crate) fn unless_it_panics<T>(read: impl FnOnce() -> Result<T>) -> Option<T> {
    panics::expected(read)?.ok()
}

fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], at + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

// Numbers of encodings in the format.
const DELTA_LENGTH_BYTE_ARRAY: i64 = 6;
const DELTA_BYTE_ARRAY: i64 = 7;

/// What the header of a page declares.
#[derive(Debug, Default, PartialEq, Eq)]
struct PageHeader {
    unpacked: i64,
    packed: i64,
    /// The number of its values.
    values: i64,
    encoding: Option<i64>,
    /// In pages of the second version: the length of what is not packed at the start.
    levels: i64,
    is_packed: bool,
    is_dictionary: bool,
}

impl PageHeader {
    /// Reads a header; of a number that is given twice the largest counts. None if it is cut off or damaged.
    fn parse(bytes: &mut Compact<'_>) -> Option<Self> {
        let mut header = Self { is_packed: true, ..Self::default() };
        let (mut definitions, mut repetitions) = (0, 0);
        bytes.structure(0, &mut |outer, field, number| match (outer, field) {
            (None, 2) => header.unpacked = header.unpacked.max(number),
            (None, 3) => header.packed = header.packed.max(number),
            // The headers of data pages, dictionaries, and data pages of the second version.
            (Some(5 | 7 | 8), 1) => header.values = header.values.max(number),
            (Some(5), 2) | (Some(8), 4) => header.encoding = Some(number),
            (Some(8), 5) => definitions = number,
            (Some(8), 6) => repetitions = number,
            (Some(8), 7) => header.is_packed = number != 0,
            (Some(7), _) => header.is_dictionary = true,
            _ => {}
        })?;
        header.levels = definitions.checked_add(repetitions)?;
        header.is_dictionary |= header.encoding.is_none();
        Some(header)
    }
}

/// Bytes in Thrift's compact protocol.
struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Receives the numbers of a structure: the field it is in, if it is in one, its own field, and the number.
type Numbers<'a> = &'a mut dyn FnMut(Option<i64>, i64, i64);

impl Compact<'_> {
    /// How deep structures may be nested.
    const MAX_DEPTH: u8 = 8;

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, count: u64) -> Option<()> {
        self.at = self.at.checked_add(usize::try_from(count).ok()?)?;
        (self.at <= self.bytes.len()).then_some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    fn structure(&mut self, depth: u8, numbers: Numbers<'_>) -> Option<()> {
        self.fields(depth, None, numbers)
    }

    fn fields(&mut self, depth: u8, outer: Option<i64>, numbers: Numbers<'_>) -> Option<()> {
        let mut field = 0_i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            field = match head >> 4 {
                0 => self.zigzag()?,
                more => field.checked_add(i64::from(more))?,
            };
            match head & 0x0F {
                // The value of a flag is its type.
                1 => numbers(outer, field, 1),
                2 => numbers(outer, field, 0),
                4..=6 => {
                    let number = self.zigzag()?;
                    numbers(outer, field, number);
                }
                12 if depth == 0 => self.nested(depth, Some(field), numbers)?,
                kind => self.value(kind, depth)?,
            }
        }
    }

    fn nested(&mut self, depth: u8, outer: Option<i64>, numbers: Numbers<'_>) -> Option<()> {
        if depth >= Self::MAX_DEPTH {
            return None;
        }
        self.fields(depth + 1, outer, numbers)
    }

    /// Skips a value.
    fn value(&mut self, kind: u8, depth: u8) -> Option<()> {
        match kind {
            1..=3 => self.skip(1),
            4..=6 => self.varint().map(|_| ()),
            7 => self.skip(8),
            8 => {
                let length = self.varint()?;
                self.skip(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.varint()?,
                    count => count.into(),
                };
                self.values(count, &[head & 0x0F], depth)
            }
            11 => match self.varint()? {
                0 => Some(()),
                count => {
                    let kinds = self.byte()?;
                    self.values(count, &[kinds >> 4, kinds & 0x0F], depth)
                }
            },
            12 => self.nested(depth, None, &mut |_, _, _| {}),
            _ => None,
        }
    }

    fn values(&mut self, count: u64, kinds: &[u8], depth: u8) -> Option<()> {
        if depth >= Self::MAX_DEPTH {
            return None;
        }
        for _ in 0..count {
            for &kind in kinds {
                self.value(kind, depth + 1)?;
            }
        }
        Some(())
    }
}

/// A file from which only pages that were counted can be read, once they are counted.
struct PageFile {
    file: File,
    known: Arc<OnceLock<KnownPages>>,
}

impl Length for PageFile {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for PageFile {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let Some(known) = self.known.get() else { return self.file.get_bytes(start, length) };
        let page = known.get(&start).filter(|page| page.length == length);
        let page = page.ok_or_else(|| refused("a page that was not counted"))?;
        let bytes = self.file.get_bytes(start, length)?;
        let is_as_declared = match page.compression {
            // The reader unpacks these without regard to the declared length.
            Compression::GZIP(_) => {
                let levels = usize::try_from(page.levels).unwrap_or(usize::MAX);
                let packed = bytes.get(levels..).filter(|_| page.levels < page.unpacked).unwrap_or_default();
                let mut unpacked = flate2::read::MultiGzDecoder::new(packed).take(page.unpacked + 1);
                packed.is_empty() || io::copy(&mut unpacked, &mut io::sink())? <= page.unpacked - page.levels
            }
            Compression::LZ4 => !is_lz4_frame(&bytes),
            _ => true,
        };
        if is_as_declared { Ok(bytes) } else { Err(refused("a page that is longer than declared")) }
    }
}

/// Whether this is in the frame format of LZ4, which a column must not use.
fn is_lz4_frame(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [0x04, 0x22, 0x4D, 0x18, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] | [0x02, 0x21, 0x4C, 0x18, ..]
    )
}

fn refused(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

impl FileReader for BoundedFile {
    fn metadata(&self) -> &ParquetMetaData {
        self.reader.metadata()
    }

    fn num_row_groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    fn get_row_group(&self, i: usize) -> Result<Box<dyn RowGroupReader + '_>> {
        Ok(Box::new(BoundedGroup(self.reader.get_row_group(i)?)))
    }

    fn get_row_iter(&self, projection: Option<SchemaType>) -> Result<RowIter<'_>> {
        RowIter::from_file(projection, self)
    }
}

struct BoundedGroup<'a>(Box<dyn RowGroupReader + 'a>);

impl RowGroupReader for BoundedGroup<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.0.metadata()
    }

    fn num_columns(&self) -> usize {
        self.0.num_columns()
    }

    fn get_column_page_reader(&self, i: usize) -> Result<Box<dyn PageReader>> {
        let has_levels = self.metadata().schema_descr().column(i).max_def_level() > 0;
        Ok(Box::new(BoundedPages { pages: self.0.get_column_page_reader(i)?, has_levels }))
    }

    fn get_column_bloom_filter(&self, _: usize) -> Option<&Sbbf> {
        None
    }

    fn get_row_iter(&self, projection: Option<SchemaType>) -> Result<RowIter<'_>> {
        RowIter::from_row_group(projection, self)
    }
}

/// Pages in which no encoding declares more values than the page has.
struct BoundedPages {
    pages: Box<dyn PageReader>,
    /// Whether a page begins with which of its values are null.
    has_levels: bool,
}

impl BoundedPages {
    fn is_bounded(&self, page: &Page) -> bool {
        let (encoding, values, data) = match page {
            Page::DictionaryPage { .. } => return true,
            Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
                let levels = match (self.has_levels, def_level_encoding) {
                    (false, _) => Some(0),
                    (true, Encoding::RLE) => buf
                        .first_chunk()
                        .and_then(|length| usize::try_from(u32::from_le_bytes(*length)).ok()?.checked_add(4)),
                    // One bit for each value.
                    (true, _) => usize::try_from(num_values.div_ceil(8)).ok(),
                };
                (encoding, num_values, levels.and_then(|levels| buf.get(levels..)))
            }
            Page::DataPageV2 {
                buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, ..
            } => {
                let levels = def_levels_byte_len.checked_add(*rep_levels_byte_len);
                let levels = levels.and_then(|levels| usize::try_from(levels).ok());
                (encoding, num_values, levels.and_then(|levels| buf.get(levels..)))
            }
        };
        let lists = match encoding {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
            Encoding::DELTA_BYTE_ARRAY => 2,
            _ => return true,
        };
        let mut data = data.map(|bytes| Compact { bytes, at: 0 });
        (0..lists).all(|_| {
            let count = data.as_mut().and_then(skip_lengths);
            count.is_some_and(|count| count <= u64::from(*values))
        })
    }
}

/// Skips a list of lengths in the delta encoding, as far as the reader does. Returns how many it declares.
fn skip_lengths(data: &mut Compact<'_>) -> Option<u64> {
    let (block, parts, count) = (data.varint()?, data.varint()?, data.varint()?);
    data.varint()?;
    let in_part = block.checked_div(parts).filter(|&in_part| in_part > 0)?;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        data.varint()?;
        let mut widths = Vec::new();
        for _ in 0..parts {
            widths.push(data.byte()?);
        }
        for width in widths {
            if left > 0 {
                data.skip(u64::from(width).checked_mul(in_part)? / 8)?;
            }
            left = left.saturating_sub(in_part);
        }
    }
    Some(count)
}

impl Iterator for BoundedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for BoundedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        match self.pages.get_next_page()? {
            Some(page) if !self.is_bounded(&page) => Err(refused("a page with more lengths than values")),
            page => Ok(page),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_a_page_is_read_with_everything_that_is_skipped_in_it() {
        // A data page: sizes 100 and 50, a checksum; 7 values in encoding 8, with statistics; a list and a map that nobody knows.
        let bytes = [
            0x15, 0x00, 0x15, 0xC8, 0x01, 0x15, 0x64, 0x15, 0x02, 0x1C, 0x15, 0x0E, 0x15, 0x10, 0x15, 0x06,
            0x15, 0x06, 0x1C, 0x18, 0x02, b'a', b'b', 0x00, 0x00, 0x49, 0x25, 0x02, 0x04, 0x1B, 0x01, 0x58,
            0x02, 0x01, b'x', 0x00, 0xFF,
        ];
        let mut compact = Compact { bytes: &bytes, at: 0 };
        let header = PageHeader {
            unpacked: 100,
            packed: 50,
            values: 7,
            encoding: Some(8),
            levels: 0,
            is_packed: true,
            is_dictionary: false,
        };
        assert_eq!(PageHeader::parse(&mut compact), Some(header));
        assert_eq!(compact.at, bytes.len() - 1);
        for cut in 0..bytes.len() - 1 {
            assert_eq!(PageHeader::parse(&mut Compact { bytes: &bytes[..cut], at: 0 }), None, "cut at {cut}");
        }
    }
}
