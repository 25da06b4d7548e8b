//! The sources that were imported: their names, to notice a typo in a new one, and how the files of each were read, to offer that the
//! next time.

use std::collections::BTreeMap;

use contactd_core::Actor;
use contactd_import::ReadOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strsim::osa_distance;

use super::{ImportError, Imports};

/// How many sources are listed.
const MOST_SOURCES: usize = 100;

/// Where the store remembers how the files of a source were read.
const FACT: &str = "import_reading:";

/// A source that was imported.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KnownSource {
    /// Its name.
    pub name: String,
    /// How its files were read, if that was remembered.
    pub reading: Option<RememberedReading>,
}

/// How the files of a source are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RememberedReading {
    /// Which columns each field is.
    pub mapping: BTreeMap<String, Vec<String>>,
    /// The country of phone numbers without `+`, in two letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The format of dates that are not RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date_format: Option<String>,
    /// Whether details without a basis are rejected.
    pub require_basis: bool,
}

/// A new source that is probably a known one with a typing mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SimilarSource {
    /// The new one.
    pub source: String,
    /// The known one.
    pub known: String,
}

impl Imports {
    /// The sources that were imported, the newest first.
    pub async fn sources(&self, actor: &Actor) -> Result<Vec<KnownSource>, ImportError> {
        actor.note("imports");
        let mut sources = Vec::new();
        for name in self.names().await?.into_iter().take(MOST_SOURCES) {
            let remembered = self.parts.store.fact(&format!("{FACT}{name}")).await?;
            let reading = remembered.and_then(|text| serde_json::from_str(&text).ok());
            sources.push(KnownSource { name, reading });
        }
        Ok(sources)
    }

    /// Remembers how the files of a source are read, dates in this format.
    pub async fn remember(
        &self,
        options: &ReadOptions,
        date_format: Option<&str>,
    ) -> Result<(), ImportError> {
        let Some(source) = &options.source else { return Ok(()) };
        let mut mapping: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (field, header) in &options.mapping {
            mapping.entry(field.clone()).or_default().push(header.clone());
        }
        let reading = RememberedReading {
            mapping,
            region: options.region.clone(),
            date_format: date_format.map(str::to_owned),
            require_basis: options.needs_basis,
        };
        let text = serde_json::to_string(&reading).unwrap_or_default();
        Ok(self.parts.store.replace_fact(&format!("{FACT}{source}"), &text, None).await?)
    }

    /// The sources among these that were never imported and are nearly called like one that was.
    pub(super) async fn similar<'a>(
        &self,
        sources: impl IntoIterator<Item = &'a String>,
    ) -> Result<Vec<SimilarSource>, ImportError> {
        let known = self.names().await?;
        let similar = sources.into_iter().filter_map(|source| {
            let known = similar(source, &known)?.clone();
            Some(SimilarSource { source: source.clone(), known })
        });
        Ok(similar.collect())
    }

    /// The names of the sources that were imported, the newest first.
    async fn names(&self) -> Result<Vec<String>, ImportError> {
        let mut names: Vec<String> = Vec::new();
        let imports = self.parts.store.list_imports().await?;
        for import in imports.iter().rev().filter(|import| import.undone_at.is_none()) {
            // An import of several sources lists them with commas.
            for name in import.summary.source.split(", ").filter(|name| !name.is_empty()) {
                if !names.iter().any(|known| known == name) {
                    names.push(name.to_owned());
                }
            }
        }
        Ok(names)
    }
}

/// The known name that a new one is probably meant to be: the same letters, or nearly. Names that differ in digits alone, such as
/// `fair-2025` and `fair-2026`, are meant.
fn similar<'k>(source: &str, known: &'k [String]) -> Option<&'k String> {
    if known.iter().any(|name| name == source) {
        return None;
    }
    let plain = |name: &str, is_kept: fn(char) -> bool| -> String {
        name.chars().flat_map(char::to_lowercase).filter(|c| is_kept(*c)).collect()
    };
    let is_typo = |name: &str| {
        let [own, other] = [source, name].map(|name| plain(name, char::is_alphanumeric));
        let [own_letters, other_letters] = [source, name].map(|name| plain(name, char::is_alphabetic));
        let most = match own.chars().count().min(other.chars().count()) {
            0..3 => 0,
            3..8 => 1,
            _ => 2,
        };
        own == other || own_letters != other_letters && osa_distance(&own, &other) <= most
    };
    known.iter().find(|name| is_typo(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_mistake_is_noticed_and_another_name_is_not() {
        let known = ["crm", "partner-list", "fair-2025"].map(str::to_owned);
        for (source, meant) in [
            ("CRM", Some("crm")),
            ("crn", Some("crm")),
            ("partner list", Some("partner-list")),
            ("parnter-list", Some("partner-list")),
            ("fair2025", Some("fair-2025")),
            ("fair-2026", None),
            ("crm", None),
            ("erp", None),
            ("hand", None),
            ("", None),
        ] {
            assert_eq!(similar(source, &known).map(String::as_str), meant, "{source}");
        }
    }
}
