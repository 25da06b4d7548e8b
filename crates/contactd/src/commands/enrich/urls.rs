//! The distinct URLs of a file.

use std::collections::HashMap;
use std::sync::Arc;

/// Every URL once, in the order of the file. Each has a number, its place in that order.
#[derive(Default)]
pub(crate) struct Urls {
    in_order: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Urls {
    /// Adds a URL, unless it is there. Returns `None` if there are too many.
    pub(crate) fn add(&mut self, url: &str) -> Option<()> {
        if !self.numbers.contains_key(url) {
            let number = u32::try_from(self.in_order.len()).ok()?;
            let url: Arc<str> = url.into();
            self.in_order.push(Arc::clone(&url));
            self.numbers.insert(url, number);
        }
        Some(())
    }

    pub(crate) fn len(&self) -> usize {
        self.in_order.len()
    }

    /// All numbers, in the order of the file.
    pub(crate) fn numbers(&self) -> std::ops::Range<u32> {
        // `add` has counted them.
        0..u32::try_from(self.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn number(&self, url: &str) -> Option<u32> {
        self.numbers.get(url).copied()
    }

    pub(crate) fn url(&self, number: u32) -> &str {
        &self.in_order[number as usize]
    }
}
