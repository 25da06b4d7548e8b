//! Rows of details: reading them, and writing them in the binary format of COPY.

use std::collections::HashMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use contactd_core::store::merge::{Fate, HeldDetail};
use contactd_core::store::place::{NEVER_OBSERVED, kind, kind_number, label, label_number, observed};
use contactd_core::{ContactValue, Detail, Timestamp};
use futures_util::SinkExt;
use tokio_postgres::Row;

use crate::database::Work;
use crate::failure::{Failure, Tried};

/// How much of a COPY is sent at a time.
const PIECE: usize = 256 * 1024;

/// The columns that [`HeldRow::read`] reads. `former` calls one of them differently.
pub(crate) const COLUMNS: &str =
    "id, profile, kind, label, value, source, confidence, observed_at, basis, expires_at,
    import, said_by";

/// A row of the table.
pub(crate) struct HeldRow {
    pub(crate) id: i64,
    pub(crate) profile: String,
    pub(crate) held: HeldDetail,
}

impl HeldRow {
    pub(crate) fn read(row: &Row, sources: &Sources) -> Tried<Self> {
        let held = HeldDetail {
            detail: read_detail(row, sources)?,
            source: row.get::<_, i32>(5).into(),
            import: row.get(10),
            said_by: row.get(11),
        };
        Ok(Self { id: row.get(0), profile: row.get(1), held })
    }
}

/// Reads the first ten of [`COLUMNS`].
pub(crate) fn read_detail(row: &Row, sources: &Sources) -> Tried<Detail> {
    let observed_at: i64 = row.get(7);
    let expires_at: Option<i64> = row.get(9);
    Ok(Detail {
        kind: kind(row.get::<_, i16>(2).into()),
        label: label(row.get::<_, i16>(3).into()),
        value: ContactValue::from_store(row.get(4)),
        source: sources.name(row.get::<_, i32>(5).into())?.to_owned(),
        confidence: u8::try_from(row.get::<_, i16>(6)).unwrap_or(u8::MAX),
        observed_at: (observed_at != NEVER_OBSERVED).then(|| Timestamp::from_seconds(observed_at)),
        basis: row.get(8),
        expires_at: expires_at.map(Timestamp::from_seconds),
    })
}

/// All sources. There are few of them.
#[derive(Default)]
pub(crate) struct Sources {
    ids: HashMap<String, i64>,
    names: HashMap<i64, String>,
    /// Those with a maximum age.
    pub(crate) aged: Vec<i64>,
    /// Those that are not in the table yet.
    pub(crate) new: Vec<(i64, String)>,
}

impl Sources {
    pub(crate) async fn read(work: &Work) -> Tried<Self> {
        let mut sources = Self::default();
        for row in work.query("SELECT id, name, max_age IS NOT NULL FROM sources", &[]).await? {
            let (id, name): (i32, String) = (row.get(0), row.get(1));
            sources.ids.insert(name.clone(), id.into());
            sources.names.insert(id.into(), name);
            if row.get(2) {
                sources.aged.push(id.into());
            }
        }
        Ok(sources)
    }

    /// The id of a source; a new source gets the next one.
    pub(crate) fn id(&mut self, name: &str) -> i64 {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = self.names.keys().max().map_or(1, |last| last + 1);
        self.ids.insert(name.to_owned(), id);
        self.names.insert(id, name.to_owned());
        self.new.push((id, name.to_owned()));
        id
    }

    pub(crate) fn name(&self, id: i64) -> Tried<&str> {
        self.names.get(&id).map(String::as_str).ok_or_else(|| Failure::damaged("the source of a detail"))
    }
}

/// Rows in the binary format of COPY.
pub(crate) struct CopyRows {
    bytes: BytesMut,
    pub(crate) rows: usize,
}

impl CopyRows {
    pub(crate) fn new() -> Self {
        let mut bytes = BytesMut::new();
        bytes.put_slice(b"PGCOPY\n\xff\r\n\0");
        bytes.put_i32(0);
        bytes.put_i32(0);
        Self { bytes, rows: 0 }
    }

    /// A row of `details`, with the columns of [`copy_details`].
    pub(crate) fn detail(&mut self, id: i64, number: i64, profile: &str, held: &HeldDetail) {
        let HeldDetail { detail, source, import, said_by } = held;
        self.begin(13);
        self.bigint(id);
        self.bigint(number);
        self.bigint(observed(detail));
        self.optional(detail.expires_at.map(Timestamp::seconds));
        self.bigint(*import);
        self.optional(*said_by);
        self.qualities(*source, detail);
        self.text(profile);
        self.text(detail.value.expose());
        self.optional_text(detail.basis.as_deref());
    }

    /// A row of `former`, with the columns of [`COPY_FORMER`].
    pub(crate) fn former(&mut self, import: i64, place: i64, profile: &str, held: &HeldDetail, fate: Fate) {
        let HeldDetail { detail, source, import: added_by, said_by } = held;
        self.begin(14);
        self.bigint(import);
        self.bigint(place);
        self.bytes.put_i32(1);
        self.bytes.put_u8(u8::from(fate == Fate::Withdrawn));
        self.bigint(observed(detail));
        self.optional(detail.expires_at.map(Timestamp::seconds));
        self.bigint(*added_by);
        self.optional(*said_by);
        self.qualities(*source, detail);
        self.text(profile);
        self.text(detail.value.expose());
        self.optional_text(detail.basis.as_deref());
    }

    fn begin(&mut self, fields: i16) {
        self.rows += 1;
        self.bytes.put_i16(fields);
    }

    fn qualities(&mut self, source: i64, detail: &Detail) {
        self.bytes.put_i32(4);
        // Ids of sources are given one by one: there are not so many.
        self.bytes.put_i32(i32::try_from(source).unwrap_or(i32::MAX));
        for number in [kind_number(detail.kind), label_number(detail.label), i64::from(detail.confidence)] {
            self.bytes.put_i32(2);
            self.bytes.put_i16(i16::try_from(number).unwrap_or(i16::MAX));
        }
    }

    fn bigint(&mut self, number: i64) {
        self.bytes.put_i32(8);
        self.bytes.put_i64(number);
    }

    fn optional(&mut self, number: Option<i64>) {
        match number {
            Some(number) => self.bigint(number),
            None => self.bytes.put_i32(-1),
        }
    }

    fn text(&mut self, text: &str) {
        self.bytes.put_i32(i32::try_from(text.len()).unwrap_or(i32::MAX));
        self.bytes.put_slice(text.as_bytes());
    }

    fn optional_text(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.bytes.put_i32(-1),
        }
    }

    /// Sends them.
    pub(crate) async fn copy(mut self, work: &Work, copy: &str) -> Tried<()> {
        if self.rows == 0 {
            return Ok(());
        }
        self.bytes.put_i16(-1);
        let sink = work.copy_in::<_, Bytes>(copy).await?;
        let mut sink = std::pin::pin!(sink);
        let mut bytes = self.bytes.freeze();
        while bytes.has_remaining() {
            let piece = bytes.split_to(bytes.len().min(PIECE));
            sink.send(piece).await?;
        }
        sink.as_mut().finish().await?;
        Ok(())
    }
}

/// A COPY of the rows of [`CopyRows::detail`] into a table.
pub(crate) fn copy_details(table: &str) -> String {
    format!(
        "COPY {table} (id, number, observed_at, expires_at, import, said_by, source, kind, label,
        confidence, profile, value, basis) FROM STDIN (FORMAT binary)"
    )
}

pub(crate) const COPY_FORMER: &str =
    "COPY former (import, place, is_withdrawn, observed_at, expires_at, added_by, said_by,
    source, kind, label, confidence, profile, value, basis) FROM STDIN (FORMAT binary)";
