//! Kinds and labels of details, as they are named on the wire.

use contactd_core::Label;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KindName {
    Phone,
    Email,
}

/// Whose detail it is. Lookups give out only personal ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LabelName {
    #[default]
    Personal,
    Work,
}

impl From<LabelName> for Label {
    fn from(name: LabelName) -> Self {
        match name {
            LabelName::Personal => Self::Personal,
            LabelName::Work => Self::Work,
        }
    }
}
