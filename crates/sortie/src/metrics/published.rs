//! The figures of a device on the `metrics` facade.
//!
//! Only differences from the last publication are published, gauges included. So threads may publish in any order, and
//! devices of the same name add up.

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};
use parking_lot::Mutex;

use super::{COUNT, Changes, FIGURES, MetricInfo};

#[derive(derive_more::Debug)]
#[debug("Published {{ .. }}")]
pub(super) struct Published {
    /// Indexed by figure.
    handles: Vec<Handle>,
    /// The values published so far. Recorders are foreign code, so they are called without the lock.
    told: Mutex<[u64; COUNT]>,
}

enum Handle {
    Counter(Counter),
    Gauge(Gauge),
}

impl Published {
    /// Registers with the currently installed recorder, if any.
    pub(super) fn new(device: &str) -> Self {
        let handles = FIGURES.iter().map(|figure| Handle::new(figure, device)).collect();
        Self { handles, told: Mutex::new([0; COUNT]) }
    }

    /// Publishes the changes. The figures are read under the lock, so a later thread sees later values.
    pub(super) fn tell(&self, look: impl FnOnce(&mut [u64; COUNT], &mut Changes)) {
        let mut changes = Changes::new();
        look(&mut self.told.lock(), &mut changes);
        changes.iter().for_each(|(figure, before, now)| self.handles[*figure].change(*before, *now));
    }

    /// Subtracts the gauges of a closed device.
    pub(super) fn withdraw(&self) {
        let told = *self.told.lock();
        let gauges = self.handles.iter().zip(told).filter(|(handle, _)| matches!(handle, Handle::Gauge(_)));
        gauges.for_each(|(handle, told)| handle.change(told, 0));
    }
}

impl Handle {
    fn new(figure: &MetricInfo, device: &str) -> Self {
        let (name, about, device) = (figure.published, figure.about.trim(), device.to_owned());
        if figure.gauge {
            describe_gauge!(name, about);
            Self::Gauge(gauge!(name, "device" => device))
        } else {
            describe_counter!(name, about);
            Self::Counter(counter!(name, "device" => device))
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "exact up to 8 PiB")]
    fn change(&self, before: u64, now: u64) {
        match self {
            Self::Counter(counter) => counter.increment(now.wrapping_sub(before)),
            Self::Gauge(gauge) if now > before => gauge.increment((now - before) as f64),
            Self::Gauge(gauge) => gauge.decrement((before - now) as f64),
        }
    }
}
