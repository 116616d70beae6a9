//! The module tables of docs/modules.md.
//!
//! One table for each crate: the first code block below the heading ``## Modules of `sortie-plan` ``. A row is one line,
//! `module: modules that it uses; other crates that matter`. It stands for the module and its submodules, except those
//! that have a row of their own.

use std::collections::{BTreeMap, BTreeSet};

/// What one row allows.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) uses: BTreeSet<String>,
    pub(crate) crates: BTreeSet<String>,
}

/// The table of one crate.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// By module: `order`, or `backend/wgpu`.
    pub(crate) rows: BTreeMap<String, Row>,
}

impl Table {
    pub(crate) fn read(page: &str, name: &str) -> Self {
        let heading = format!("## Modules of `{name}`");
        let section = page.split(&heading).nth(1).unwrap_or_else(|| panic!("docs/modules.md has no {heading:?}"));
        let section = section.split("\n#").next().unwrap_or_default();
        let rows = section.split("```").nth(1).unwrap_or_else(|| panic!("{heading:?} has no code block"));
        let mut table = Self::default();
        // The first line names the language of the block.
        for line in rows.lines().skip(1) {
            let (module, rest) = line.split_once(':').unwrap_or_else(|| panic!("{name}: {line:?} is no row"));
            let (uses, crates) = rest.split_once(';').unwrap_or((rest, ""));
            let row = Row { uses: words(uses), crates: words(crates) };
            assert!(table.rows.insert(module.to_owned(), row).is_none(), "{name}: {module} has two rows");
        }
        table
    }

    /// The row that a module belongs to: the longest that its path begins with.
    pub(crate) fn row_of(&self, module: &[String]) -> Option<&str> {
        (1..=module.len()).rev().find_map(|length| {
            let (row, _) = self.rows.get_key_value(&module[..length].join("/"))?;
            Some(row.as_str())
        })
    }
}

fn words(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
