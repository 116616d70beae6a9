//! `sortie devices`: the devices of this machine and their limits.
//!
//! The table has at most 100 columns unless a device's name is very long: the rest is listed beneath it.

use std::{error::Error, io::Write};

use sortie::{Device, device::DeviceInfo};

use crate::{size::shown as bytes, table::table};

/// Lists all devices, the best first, and marks the one that [`Device::open`] takes.
pub(crate) fn list(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let devices = Device::list();
    // Opening is the only way to know: it also proves that the device answers.
    let opened = Device::open();
    let chosen = opened.as_ref().ok().and_then(|device| devices.iter().position(|info| same(info, device.info())));
    writeln!(out, "{}", listed(&devices, chosen))?;
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

fn listed(devices: &[DeviceInfo], chosen: Option<usize>) -> String {
    let header = ["#", "name", "backend", "kind", "buffer", "binding", "storage", "group", "shared"];
    let limits = devices.iter().enumerate().map(|(index, info)| {
        let limits = &info.limits;
        [
            format!("{index}{}", if chosen == Some(index) { "*" } else { "" }),
            info.name.clone(),
            info.backend.into(),
            info.kind.to_string(),
            bytes(limits.buffer_bytes),
            bytes(limits.binding_bytes),
            limits.storage_buffers.to_string(),
            limits.workgroup_invocations.to_string(),
            bytes(limits.workgroup_bytes.into()),
        ]
    });
    let more = devices.iter().enumerate().map(|(index, info)| {
        format!("\n{index}: {} of immediates, driver {}", bytes(info.limits.immediate_bytes.into()), info.driver)
    });
    let rows = std::iter::once(header.map(String::from)).chain(limits);
    format!("{}\n{}", table(rows, 4), more.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noop() -> sortie::Result<DeviceInfo> {
        let options = sortie::DeviceOptions::default().with_device("noop");
        Ok(Device::open_with(options)?.info().clone())
    }

    #[test]
    fn the_device_that_would_be_opened_is_marked() -> sortie::Result<()> {
        let lines = listed(&[noop()?, noop()?], Some(1));
        let lines: Vec<&str> = lines.lines().collect();
        assert!(lines[1].starts_with("0   ") && lines[2].starts_with("1*  "), "{lines:#?}");
        Ok(())
    }

    #[test]
    fn the_table_fits_100_columns() -> sortie::Result<()> {
        let mut long = noop()?;
        (long.name, long.backend) = ("llvmpipe (LLVM 15.0.6, 256 bits)".into(), "vulkan");
        let table = listed(&[long, sortie::Device::cpu()?.info().clone()], None);
        assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
        Ok(())
    }
}
