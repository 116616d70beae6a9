//! The table at the end of a campaign.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

use crate::part::Outcome;

/// All outcomes, to be printed.
#[derive(Debug)]
pub struct Summary<'a>(pub &'a [Outcome]);

impl Summary<'_> {
    /// Whether nothing failed.
    pub fn is_clean(&self) -> bool {
        self.0.iter().all(|outcome| outcome.failed == 0)
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in self.0.iter().flat_map(|outcome| &outcome.failures) {
            writeln!(f, "FAILED {failure}")?;
        }
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["part", "device", "runs", "operations", "failed", "figures (largest)"]);
        for outcome in self.0 {
            let figures: Vec<_> = outcome.figures.iter().map(|(name, value)| format!("{name} {value:.1}")).collect();
            table.add_row([
                outcome.part.to_owned(),
                outcome.device.clone(),
                outcome.runs.to_string(),
                outcome.operations.to_string(),
                outcome.failed.to_string(),
                figures.join(", "),
            ]);
        }
        for column in 2..5 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        writeln!(f, "{table}")?;
        for outcome in self.0 {
            outcome.notes.iter().try_for_each(|note| writeln!(f, "{} on {}: {note}", outcome.part, outcome.device))?;
        }
        Ok(())
    }
}
