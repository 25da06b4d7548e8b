//! Writing a Parquet file of texts; an empty text is null.

use std::fs::File;
use std::io;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// About how many bytes of texts a row group has: they are in memory until it is complete.
const GROUP: usize = 32 << 20;

/// A file that is being written.
pub(crate) struct ParquetWriter {
    file: SerializedFileWriter<File>,
    columns: Vec<Vec<String>>,
    bytes: usize,
}

impl ParquetWriter {
    pub(crate) fn begin(file: File, names: &[String]) -> io::Result<Self> {
        let field = |name: &String| {
            let text = Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(Some(LogicalType::String));
            Ok(Arc::new(text.build()?))
        };
        let fields = names.iter().map(field).collect::<Result<_, _>>().map_err(of_parquet)?;
        let schema = Type::group_type_builder("people").with_fields(fields).build().map_err(of_parquet)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let file =
            SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(of_parquet)?;
        Ok(Self { file, columns: vec![Vec::new(); names.len()], bytes: 0 })
    }

    pub(crate) fn write(&mut self, texts: impl Iterator<Item = String>) -> io::Result<()> {
        for (column, text) in self.columns.iter_mut().zip(texts) {
            self.bytes += text.len() + size_of::<String>();
            column.push(text);
        }
        if self.bytes > GROUP { self.write_group().map_err(of_parquet) } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for texts in &mut self.columns {
            let levels: Vec<i16> = texts.iter().map(|text| i16::from(!text.is_empty())).collect();
            let values: Vec<ByteArray> = texts
                .iter()
                .filter(|text| !text.is_empty())
                .map(|text| ByteArray::from(text.as_str()))
                .collect();
            if let Some(mut column) = group.next_column()? {
                column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
                column.close()?;
            }
            texts.clear();
        }
        group.close()?;
        self.bytes = 0;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<File> {
        if self.bytes > 0 {
            self.write_group().map_err(of_parquet)?;
        }
        self.file.into_inner().map_err(of_parquet)
    }
}

fn of_parquet(error: ParquetError) -> io::Error {
    io::Error::other(format!("the Parquet file cannot be written: {error}"))
}
