//! Lines of the journal that are shown while it is followed.

use contactd_core::Timestamp;
use serde::Serialize;

use super::EventView;

/// A line of a journal, and how far the journals were followed with it.
#[derive(Debug, Serialize)]
pub struct FollowedView {
    #[serde(flatten)]
    pub line: FollowedLine,
    /// Following goes on after this place.
    pub place: String,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum FollowedLine {
    Event(Box<EventView>),
    Correction(CorrectionView),
}

/// Requests of these lines that were shown as hit or miss were answered 500: nothing was disclosed.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "correction")]
pub struct CorrectionView {
    /// The number of the line.
    pub seq: u64,
    pub time: Timestamp,
    /// The first of the lines.
    pub from: u64,
    /// The last of the lines.
    pub through: u64,
    pub outcome: &'static str,
    pub reason: &'static str,
    /// The node in whose journal it is.
    pub node: String,
}

impl FollowedView {
    pub(crate) fn event(event: EventView, place: String) -> Self {
        Self { line: FollowedLine::Event(Box::new(event)), place }
    }

    pub(crate) const fn correction(correction: CorrectionView, place: String) -> Self {
        Self { line: FollowedLine::Correction(correction), place }
    }
}
