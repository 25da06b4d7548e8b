//! Kinds and labels of details, as they are named on the wire.

use contactd_core::{Kind, Label};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KindName {
    Phone,
    Email,
}

impl From<Kind> for KindName {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Phone => Self::Phone,
            Kind::Email => Self::Email,
        }
    }
}

/// Whose detail it is. Lookups give out only personal ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LabelName {
    #[default]
    Personal,
    Work,
}

impl From<Label> for LabelName {
    fn from(label: Label) -> Self {
        match label {
            Label::Personal => Self::Personal,
            Label::Work => Self::Work,
        }
    }
}

impl From<LabelName> for Label {
    fn from(name: LabelName) -> Self {
        match name {
            LabelName::Personal => Self::Personal,
            LabelName::Work => Self::Work,
        }
    }
}
