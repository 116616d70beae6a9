//! `sortie devices`: what there is to run on.

use std::{error::Error, io::Write};

use sortie::{Device, DeviceInfo};

use crate::size::shown as bytes;

const HEADINGS: [&str; 11] = [
    "#",
    "name",
    "backend",
    "kind",
    "buffer",
    "binding",
    "storage buffers",
    "group size",
    "group memory",
    "immediates",
    "driver",
];

/// Lists all devices, the best first, and marks the one that [`Device::open`] takes.
pub(crate) fn list(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let devices = Device::list();
    // Opening is the only way to know: it also proves that the device answers.
    let opened = Device::open();
    let chosen = opened.as_ref().ok().and_then(|device| devices.iter().position(|info| same(info, device.info())));
    for line in table(&devices, chosen) {
        writeln!(out, "{line}")?;
    }
    if let (Ok(device), None) = (&opened, chosen) {
        writeln!(out, "* {}, which is not in the list", device.info())?;
    }
    opened?;
    Ok(())
}

/// Limits may differ: the list has the adapter's, an open device those it was opened with.
fn same(a: &DeviceInfo, b: &DeviceInfo) -> bool {
    (&a.name, a.backend, &a.driver) == (&b.name, b.backend, &b.driver)
}

fn table(devices: &[DeviceInfo], chosen: Option<usize>) -> Vec<String> {
    let rows = devices.iter().enumerate().map(|(index, info)| row(index, info, chosen == Some(index)));
    align(&std::iter::once(HEADINGS.map(String::from)).chain(rows).collect::<Vec<_>>())
}

fn row(index: usize, info: &DeviceInfo, chosen: bool) -> [String; HEADINGS.len()] {
    let limits = &info.limits;
    [
        format!("{index}{}", if chosen { "*" } else { "" }),
        info.name.clone(),
        info.backend.into(),
        info.kind.to_string(),
        bytes(limits.buffer_bytes),
        bytes(limits.binding_bytes),
        limits.storage_buffers.to_string(),
        limits.workgroup_invocations.to_string(),
        bytes(limits.workgroup_bytes.into()),
        bytes(limits.immediate_bytes.into()),
        info.driver.clone(),
    ]
}

/// Pads every column but the last to its widest cell.
fn align<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_without_blanks() {
        let rows = [["#", "name", ""], ["0*", "é", "x"]].map(|row| row.map(String::from));
        assert_eq!(align(&rows), ["#   name", "0*  é     x"]);
    }

    #[test]
    fn the_device_that_would_be_opened_is_marked() -> Result<(), sortie::Error> {
        let options = sortie::DeviceOptions { device: Some("noop".into()), ..Default::default() };
        let info = Device::open_with(options)?.info().clone();
        let lines = table(&[info.clone(), info], Some(1));
        assert!(lines[1].starts_with("0   ") && lines[2].starts_with("1*  "), "{lines:#?}");
        Ok(())
    }
}
