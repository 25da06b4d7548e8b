//! Reading a Parquet file in bounded memory.
//!
//! A small file can hold pages that unpack to gigabytes, dictionaries of a billion entries, or encodings that repeat a long
//! text for every value. So pages are unpacked here, up to [`MAX_PAGE`], and counted: the pages that the Parquet reader holds at a
//! time take no more than [`MAX_MEMORY`]. What a page declares about its own size is not believed.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Take};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use contactd_core::panics;
use parquet::basic::{Compression, Encoding, Type as PhysicalType};
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{FooterTail, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, FileReader, Length, RowGroupReader, SerializedPageReader};
use parquet::record::reader::RowIter;
use parquet::schema::types::Type as SchemaType;

use crate::FileError;

/// How much memory the pages of a row group may take at a time, in the columns that are used.
const MAX_MEMORY: u64 = 256 << 20;

/// How long a page may be, packed or unpacked.
const MAX_PAGE: u64 = 64 << 20;

/// How long the metadata at the end of the file may be. In memory it takes many times as much.
const MAX_METADATA: usize = 8 << 20;

/// How long the header of a page may be.
const MAX_HEADER: u64 = 1 << 20;

/// How long it usually is.
const HEADER: u64 = 100;

/// How many pages are read, and how many if only the first rows are. A chunk may be named in many row groups.
const MAX_PAGES: u32 = 4_000_000;
const MAX_FIRST_PAGES: u32 = 10_000;

/// How long the values of a column with a fixed length may be.
const MAX_FIXED: i32 = 1 << 10;

/// How many values of a column are decoded at a time. An encoding may repeat the longest text of a page in each of them.
pub(crate) const BATCH: usize = 16;

/// The memory of a decoded value.
const VALUE: u64 = 40;

const LONG_PAGE: &str = "a page is longer than 64 MiB";
const LARGE_GROUP: &str = "a row group would take more than 256 MiB of memory";
const UNSUPPORTED: &str =
    "its columns use an unsupported compression; write it with snappy, zstd, gzip or lz4";

pub(crate) fn damaged() -> FileError {
    FileError::unusable("this is not a complete Parquet file")
}

fn too_large(what: &str) -> String {
    format!("{what}; write the file with smaller pages and row groups")
}

/// Runs the Parquet reader; none if it fails, or panics, as it may on a damaged file. Its errors are dropped
/// because they quote from the file.
pub(crate) fn unless_it_panics<T>(read: impl FnOnce() -> Result<T>) -> Option<T> {
    panics::expected(read)?.ok()
}

/// A Parquet file that is read in bounded memory.
pub(crate) struct BoundedFile {
    metadata: ParquetMetaData,
    pages: Arc<Pages>,
}

impl BoundedFile {
    /// Reads the metadata. `is_start`: whether only the first rows will be read.
    pub(crate) fn open(file: File, is_start: bool) -> std::result::Result<Self, FileError> {
        let end = file.len().checked_sub(8).ok_or_else(damaged)?;
        let mut tail = [0; 8];
        file.read_exact_at(&mut tail, end).map_err(|_| damaged())?;
        let length = FooterTail::try_from(tail).map_err(|_| damaged())?.metadata_length();
        let start = end.checked_sub(length as u64).ok_or_else(damaged)?;
        if length > MAX_METADATA {
            return Err(FileError::unusable(too_large("its metadata is longer than 8 MiB")));
        }
        let metadata = unless_it_panics(|| {
            let mut metadata = vec![0; length];
            file.read_exact_at(&mut metadata, start)?;
            ParquetMetaDataReader::decode_metadata(&metadata)
        });
        let left = AtomicU32::new(if is_start { MAX_FIRST_PAGES } else { MAX_PAGES });
        let pages = Pages { file, is_start, left, memory: AtomicU64::new(0), refused: OnceLock::new() };
        Ok(Self { metadata: metadata.ok_or_else(damaged)?, pages: Arc::new(pages) })
    }

    /// The pages of the file.
    pub(crate) fn pages(&self) -> Arc<Pages> {
        Arc::clone(&self.pages)
    }
}

/// The pages of a file, and how many of them may still be read.
pub(crate) struct Pages {
    file: File,
    is_start: bool,
    left: AtomicU32,
    /// How much memory the pages take that are held. If only the first rows are read, all pages that were read count.
    memory: AtomicU64,
    refused: OnceLock<String>,
}

impl Pages {
    /// Why the file is not read further, if this is because of a limit.
    pub(crate) fn refusal(&self) -> Option<FileError> {
        self.refused.get().map(FileError::unusable)
    }

    fn refuse(&self, why: String) -> ParquetError {
        ParquetError::General(self.refused.get_or_init(|| why).clone())
    }

    /// Takes memory for a page, in place of what an earlier one took.
    fn hold(&self, memory: u64, earlier: u64) -> Result<()> {
        if !self.is_start {
            self.memory.fetch_sub(earlier, Ordering::Relaxed);
        }
        let before = self.memory.fetch_add(memory, Ordering::Relaxed);
        if before.saturating_add(memory) > MAX_MEMORY {
            Err(self.refuse(too_large(LARGE_GROUP)))
        } else {
            Ok(())
        }
    }

    fn unpack(&self, compression: Compression, packed: &[u8], ratio: u64) -> Result<Vec<u8>> {
        let left = MAX_MEMORY.saturating_sub(self.memory.load(Ordering::Relaxed));
        let limit = left.min(MAX_PAGE);
        let unpacked = unpacked(compression, packed, limit, ratio)?;
        unpacked.ok_or_else(|| {
            if self.is_start {
                self.memory.fetch_add(limit, Ordering::Relaxed);
            }
            self.refuse(too_large(if limit < MAX_PAGE { LARGE_GROUP } else { LONG_PAGE }))
        })
    }
}

/// Unpacks a page that is about `ratio` times as long then; none if it is longer than `limit`.
fn unpacked(compression: Compression, packed: &[u8], limit: u64, ratio: u64) -> Result<Option<Vec<u8>>> {
    let read = |input: &mut dyn Read| {
        // A buffer that grows takes up to three times as much. The ratio is of whole pages, with their headers.
        let expected = ratio.saturating_mul(packed.len() as u64 + HEADER).min(limit);
        let mut unpacked = Vec::with_capacity(usize::try_from(expected)?);
        (&mut *input).take(limit).read_to_end(&mut unpacked)?;
        Ok((input.read(&mut [0])? == 0).then_some(unpacked))
    };
    match compression {
        Compression::UNCOMPRESSED => Ok(Some(packed.to_vec())),
        Compression::GZIP(_) => read(&mut flate2::read::MultiGzDecoder::new(packed)),
        Compression::ZSTD(_) => {
            let mut decoder = zstd::Decoder::with_buffer(packed)?;
            decoder.window_log_max(MAX_PAGE.ilog2())?;
            read(&mut decoder)
        }
        Compression::SNAPPY if snap::raw::decompress_len(packed).map_err(other)? as u64 > limit => Ok(None),
        Compression::SNAPPY => snap::raw::Decoder::new().decompress_vec(packed).map(Some).map_err(other),
        Compression::LZ4_RAW => lz4(packed, limit),
        Compression::LZ4 => match lz4_of_hadoop(packed, limit) {
            Ok(unpacked) => Ok(unpacked),
            // Early writers left out the frames.
            Err(_) => lz4(packed, limit),
        },
        Compression::BROTLI(_) | Compression::LZO => Err(ParquetError::NYI(UNSUPPORTED.to_owned())),
    }
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// A block of LZ4, which does not say how long it is unpacked: at most 255 times as long.
fn lz4(packed: &[u8], limit: u64) -> Result<Option<Vec<u8>>> {
    let most = limit.min(256 * packed.len() as u64);
    match lz4_flex::block::decompress(packed, usize::try_from(most)?) {
        Ok(unpacked) => Ok(Some(unpacked)),
        Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) if most == limit => Ok(None),
        Err(error) => Err(other(error)),
    }
}

/// LZ4 as Hadoop writes it: before each block is how long it is, unpacked and packed.
fn lz4_of_hadoop(mut packed: &[u8], limit: u64) -> Result<Option<Vec<u8>>> {
    let cut_off = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let mut all = Vec::new();
    while let Some((&[a, b, c, d, lengths @ ..], rest)) = packed.split_first_chunk::<8>() {
        let (block, rest) =
            rest.split_at_checked(u32::from_be_bytes(lengths) as usize).ok_or_else(cut_off)?;
        let length = u64::from(u32::from_be_bytes([a, b, c, d]));
        if all.len() as u64 + length > limit {
            return Ok(None);
        }
        let unpacked = lz4(block, length)?.filter(|unpacked| unpacked.len() as u64 == length);
        all.append(&mut unpacked.ok_or_else(cut_off)?);
        packed = rest;
    }
    if packed.is_empty() { Ok(Some(all)) } else { Err(cut_off().into()) }
}

impl Length for Pages {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for Pages {
    type T = Take<BufReader<File>>;

    /// Reads the header of a page.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let one_less =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        one_less.map_err(|_| {
            self.refuse(too_large(if self.is_start {
                "its first rows are in more than 10,000 pages"
            } else {
                "it has more than 4,000,000 pages"
            }))
        })?;
        Ok(self.file.get_read(start)?.take(MAX_HEADER))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if length as u64 > MAX_PAGE {
            return Err(self.refuse(too_large(LONG_PAGE)));
        }
        self.file.get_bytes(start, length)
    }
}

impl FileReader for BoundedFile {
    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    fn num_row_groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    fn get_row_group(&self, i: usize) -> Result<Box<dyn RowGroupReader + '_>> {
        Ok(Box::new(BoundedGroup { group: self.metadata.row_group(i), pages: self.pages() }))
    }

    fn get_row_iter(&self, projection: Option<SchemaType>) -> Result<RowIter<'_>> {
        RowIter::from_file(projection, self)
    }
}

struct BoundedGroup<'a> {
    group: &'a RowGroupMetaData,
    pages: Arc<Pages>,
}

impl RowGroupReader for BoundedGroup<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.group
    }

    fn num_columns(&self) -> usize {
        self.group.num_columns()
    }

    fn get_column_page_reader(&self, i: usize) -> Result<Box<dyn PageReader>> {
        let chunk = self.group.column(i);
        let column = chunk.column_descr();
        if chunk.column_type() == PhysicalType::FIXED_LEN_BYTE_ARRAY && column.type_length() > MAX_FIXED {
            return Err(self.pages.refuse(too_large("a column has values of more than 1 KiB")));
        }
        if matches!(chunk.compression(), Compression::BROTLI(_) | Compression::LZO) {
            return Err(self.pages.refuse(UNSUPPORTED.to_owned()));
        }
        // The reader returns pages as they are in the file.
        let packed = chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        let rows = usize::try_from(self.group.num_rows())?;
        Ok(Box::new(BoundedPages {
            reader: SerializedPageReader::new(Arc::clone(&self.pages), &packed, rows, None)?,
            pages: Arc::clone(&self.pages),
            compression: chunk.compression(),
            ratio: 1 + u64::try_from(chunk.uncompressed_size() / chunk.compressed_size().max(1)).unwrap_or(0),
            has_levels: column.max_def_level() > 0,
            held: HashMap::new(),
        }))
    }

    fn get_column_bloom_filter(&self, _: usize) -> Option<&Sbbf> {
        None
    }

    fn get_row_iter(&self, projection: Option<SchemaType>) -> Result<RowIter<'_>> {
        RowIter::from_row_group(projection, self)
    }
}

/// The pages of a column.
struct BoundedPages {
    reader: SerializedPageReader<Pages>,
    pages: Arc<Pages>,
    compression: Compression,
    /// How many times as long pages are unpacked, as the file says.
    ratio: u64,
    /// Whether a page begins with which of its values are null.
    has_levels: bool,
    /// The memory of the pages that the Parquet reader holds: the dictionary, and the last page in each encoding.
    held: HashMap<Option<Encoding>, u64>,
}

impl BoundedPages {
    fn unpack(&self, page: &mut Page) -> Result<()> {
        let (bytes, levels) = match page {
            Page::DataPageV2 { is_compressed: false, .. } => return Ok(()),
            Page::DataPageV2 { buf, def_levels_byte_len: def, rep_levels_byte_len: rep, .. } => {
                (buf, *def as usize + *rep as usize)
            }
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => (buf, 0),
        };
        if self.compression == Compression::UNCOMPRESSED || bytes.len() <= levels {
            return Ok(());
        }
        let mut unpacked = self.pages.unpack(self.compression, &bytes[levels..], self.ratio)?;
        unpacked.splice(..0, bytes[..levels].iter().copied());
        unpacked.shrink_to_fit();
        *bytes = unpacked.into();
        Ok(())
    }

    /// How much memory the reader takes for a page; none if an encoding declares more values than the page has.
    fn memory(&self, page: &Page) -> Option<u64> {
        let (length, values) = (page.buffer().len() as u64, u64::from(page.num_values()));
        let (lists, memory) = match page.encoding() {
            _ if page.is_dictionary_page() => (0, length + VALUE * values),
            Encoding::DELTA_LENGTH_BYTE_ARRAY => (1, length + 4 * values),
            Encoding::DELTA_BYTE_ARRAY => (2, length * (1 + BATCH as u64) + 8 * values),
            _ => (0, length),
        };
        if lists > 0 {
            let mut data = page.buffer().get(self.levels(page)?..)?;
            for _ in 0..lists {
                skip_lengths(&mut data).filter(|&count| count <= values)?;
            }
        }
        Some(memory)
    }

    /// How long the part of a page is that says which of its values are null.
    fn levels(&self, page: &Page) -> Option<usize> {
        match page {
            Page::DataPageV2 { def_levels_byte_len: def, rep_levels_byte_len: rep, .. } => {
                Some(*def as usize + *rep as usize)
            }
            Page::DataPage { buf, def_level_encoding: Encoding::RLE, .. } if self.has_levels => {
                Some(4 + u32::from_le_bytes(*buf.first_chunk()?) as usize)
            }
            // One bit for each value.
            Page::DataPage { num_values, .. } if self.has_levels => Some(num_values.div_ceil(8) as usize),
            Page::DataPage { .. } | Page::DictionaryPage { .. } => Some(0),
        }
    }
}

impl Drop for BoundedPages {
    fn drop(&mut self) {
        let _ = self.pages.hold(0, self.held.values().sum());
    }
}

/// Skips a list of lengths in the delta encoding, as far as the reader does. Returns how many it declares.
fn skip_lengths(data: &mut &[u8]) -> Option<u64> {
    let (block, parts, count) = (varint(data)?, varint(data)?, varint(data)?);
    varint(data)?;
    let in_part = block.checked_div(parts).filter(|&in_part| in_part > 0)?;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        varint(data)?;
        for width in data.split_off(..usize::try_from(parts).ok()?)? {
            if left > 0 {
                data.split_off(..usize::try_from(u64::from(*width).checked_mul(in_part)? / 8).ok()?)?;
            }
            left = left.saturating_sub(in_part);
        }
    }
    Some(count)
}

fn varint(data: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *data.split_off_first()?;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

impl Iterator for BoundedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for BoundedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(mut page) = self.reader.get_next_page()? else { return Ok(None) };
        self.unpack(&mut page)?;
        let memory = self.memory(&page);
        let memory = memory.ok_or_else(|| ParquetError::General("more lengths than values".to_owned()))?;
        let earlier = self.held.insert(page.is_data_page().then(|| page.encoding()), memory);
        self.pages.hold(memory, earlier.unwrap_or_default())?;
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.reader.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.reader.skip_next_page()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_page_is_unpacked_up_to_the_limit_whatever_it_declares() {
        let long = vec![7; 1 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&long).expect("packs");
        let block = lz4_flex::block::compress(&long);
        let lengths = [1_u32 << 20, u32::try_from(block.len()).expect("short")].map(u32::to_be_bytes);
        for (compression, packed) in [
            (Compression::GZIP(Default::default()), gzip.finish().expect("packs")),
            (Compression::ZSTD(Default::default()), zstd::encode_all(long.as_slice(), 1).expect("packs")),
            (Compression::SNAPPY, snap::raw::Encoder::new().compress_vec(&long).expect("packs")),
            (Compression::LZ4_RAW, block.clone()),
            (Compression::LZ4, block.clone()),
            (Compression::LZ4, [lengths.as_flattened(), &block].concat()),
        ] {
            let unpacked = |packed: &[u8], limit| unpacked(compression, packed, limit, 2).ok();
            assert_eq!(unpacked(&packed, 1 << 20), Some(Some(long.clone())), "{compression:?}");
            assert_eq!(unpacked(&packed, (1 << 20) - 1), Some(None), "{compression:?}");
            assert_eq!(unpacked(&packed[..packed.len() / 2], 1 << 20), None, "{compression:?}");
        }
    }
}
