//! A user-defined function that selects the tables of an iterator.

use std::sync::Arc;

use cairn_format::table::Properties;

use crate::text::{NULL, Refusal, Text};

/// A function that returns true if an iterator must read the entries of the table with these properties.
pub type ChooseTable = dyn Fn(&Properties) -> bool + Send + Sync;

/// Selects the tables whose entries an iterator reads; without a function, all of them. Range tombstones of the others still
/// apply.
#[derive(Clone, Default)]
pub struct TableFilter(Option<Arc<ChooseTable>>);

impl TableFilter {
    /// Selects the tables for which `choose` returns true.
    #[must_use]
    pub fn new(choose: impl Fn(&Properties) -> bool + Send + Sync + 'static) -> TableFilter {
        TableFilter(Some(Arc::new(choose)))
    }

    /// True if there is a function.
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// True if the table with these properties is selected.
    #[must_use]
    pub fn chooses(&self, properties: &Properties) -> bool {
        self.0.as_ref().is_none_or(|choose| choose(properties))
    }
}

impl Text for TableFilter {
    fn parse(text: &str) -> Result<TableFilter, Refusal> {
        match text == NULL {
            true => Ok(TableFilter::default()),
            false => Err("a table filter can only be set in code".into()),
        }
    }

    fn print(&self) -> String {
        match self.0 {
            Some(_) => "function".to_owned(),
            None => NULL.to_owned(),
        }
    }
}
