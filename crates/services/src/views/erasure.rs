//! Who was erased or opted out, and who has something in common with them.

use contactd_core::Kind;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Erased;

/// Who was erased, or would be.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErasedView {
    pub profiles: Vec<ErasedProfileView>,
    /// Other profiles that have a number or an address in common with these. They are not erased.
    pub shared_with: Vec<SharedView>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ErasedShown")]
pub struct ErasedProfileView {
    pub profile_url: String,
    /// How many details.
    pub details: u64,
}

/// A profile that has a number or an address in common with others.
#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SharedShown")]
pub struct SharedView {
    pub profile_url: String,
    /// What they have in common.
    pub kind: Kind,
}

/// A profile that holds a number or an address that was opted out.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HolderShown")]
pub struct HolderView {
    pub profile_url: String,
    /// How many of its details are still given out.
    pub still_disclosed: u64,
}

impl From<Erased> for ErasedView {
    fn from(erased: Erased) -> Self {
        let held = erased.profiles.into_iter().filter(|erased| erased.details > 0);
        Self { profiles: held.collect(), shared_with: erased.shared }
    }
}
