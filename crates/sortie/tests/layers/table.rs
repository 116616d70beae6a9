//! The module tables of ARCHITECTURE.md.
//!
//! One table for each crate, below a heading that names it: ``### Modules of `sortie-plan` ``. A row is a module with its submodules, except those that have a row of their own; the second column
//! has the modules that it uses, the third the other crates that matter.

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
        let heading = format!("### Modules of `{name}`");
        let section = page.split(&heading).nth(1).unwrap_or_else(|| panic!("ARCHITECTURE.md has no {heading:?}"));
        let section = section.split("\n#").next().unwrap_or_default();
        let mut table = Self::default();
        for line in section.lines() {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let [_, module, uses, crates, _] = cells[..] else { continue };
            if module != "module" && !module.starts_with("---") {
                let row = Row { uses: words(uses), crates: words(crates) };
                let module = words(module).pop_first().unwrap_or_default();
                assert!(table.rows.insert(module.clone(), row).is_none(), "{name}: {module} has two rows");
            }
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

/// The names in a cell: what is not a name separates them.
fn words(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '/';
    text.split(|c| !is_name(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
